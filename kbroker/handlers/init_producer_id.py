"""InitProducerId: a fresh producer id for an idempotent producer (KIP-98, KIP-360).

Without a transactional id the given producer id and time-out mean nothing to Kafka: every call gets a new id with
epoch 0. With one, the transaction coordinator would answer; there is none yet, and COORDINATOR_NOT_AVAILABLE is what
Kafka says while it has none.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NO_PRODUCER_ID = -1
_NO_PRODUCER_EPOCH = -1


def handle(
    context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    """Answer at once while the block at hand lasts, else when the controller has given the next."""
    if (request.producer_id == _NO_PRODUCER_ID) != (request.producer_epoch == _NO_PRODUCER_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST, "A producer id and its epoch come together or not at all.")
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The transactional id is empty: name one, or send none.")
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "This broker has no transaction coordinator.")
    producer_id = context.node.producer_ids.take()
    if isinstance(producer_id, int):
        return _answer(context, producer_id)
    return _later(context, producer_id)


def error_response(context: RequestContext, _request: InitProducerIdRequest, error: ApiError) -> InitProducerIdResponse:
    """The code and no id."""
    return InitProducerIdResponse(
        throttle_time_ms=context.throttle_time_ms,
        error_code=error.code,
        producer_id=_NO_PRODUCER_ID,
        producer_epoch=_NO_PRODUCER_EPOCH,
    )


async def _later(context: RequestContext, producer_id: Awaitable[int]) -> InitProducerIdResponse:
    return _answer(context, await producer_id)


def _answer(context: RequestContext, producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time_ms=context.throttle_time_ms, producer_id=producer_id, producer_epoch=0)
