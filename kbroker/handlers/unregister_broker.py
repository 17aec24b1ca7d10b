"""UnregisterBroker (KIP-631): forget a broker that will not come back."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.brokers import unregister_broker
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kbroker.replies import Reply, then


def handle(context: RequestContext, request: UnregisterBrokerRequest) -> Reply[UnregisterBrokerResponse]:
    """Unregister one broker."""
    gone = context.node.quorum.decide(lambda image, config: unregister_broker(image, request.broker_id, config))
    return then(gone, lambda _: UnregisterBrokerResponse(throttle_time_ms=context.throttle_time_ms))


def error_response(
    context: RequestContext, _request: UnregisterBrokerRequest, error: ApiError
) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=error.code, error_message=error.message
    )
