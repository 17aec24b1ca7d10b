"""InitProducerId: the id and epoch under which a producer writes (KIP-98, KIP-360).

Without a transactional id the given producer id and time-out mean nothing to Kafka: every call gets a new id with
epoch 0. With one, the transaction coordinator answers.
"""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.handlers.transaction_replies import asker, older_code
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kbroker.replies import Reply, then

_NO_PRODUCER_ID = -1
_NO_PRODUCER_EPOCH = -1
_FENCED_SINCE = 4
"""The version from which a client knows PRODUCER_FENCED."""


def handle(context: RequestContext, request: InitProducerIdRequest) -> Reply[InitProducerIdResponse]:
    """Answer at once while the block at hand lasts, else when the controller has given the next."""
    if (request.producer_id == _NO_PRODUCER_ID) != (request.producer_epoch == _NO_PRODUCER_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST, "A producer id and its epoch come together or not at all.")
    if request.transactional_id is not None:
        return context.node.transactions.initialise(request, asker(context))
    return then(context.node.producer_ids.take(), lambda producer_id: _answer(context, producer_id))


def error_response(context: RequestContext, _request: InitProducerIdRequest, error: ApiError) -> InitProducerIdResponse:
    """The code and no id."""
    return InitProducerIdResponse(
        throttle_time_ms=context.throttle_time_ms,
        error_code=older_code(context, error.code, _FENCED_SINCE),
        producer_id=_NO_PRODUCER_ID,
        producer_epoch=_NO_PRODUCER_EPOCH,
    )


def _answer(context: RequestContext, producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time_ms=context.throttle_time_ms, producer_id=producer_id, producer_epoch=0)
