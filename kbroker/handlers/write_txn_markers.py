"""WriteTxnMarkers: a transaction coordinator ends transactions in the partitions that this node leads (KIP-98).

Asked by other brokers, and by an administrator who aborts a transaction that hangs.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterator

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kbroker.replies import Reply
from kbroker.types import TopicPartition

logger = logging.getLogger(__name__)

_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
_TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
_Slot = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult
_Answers = dict[int, dict[str, dict[int, _Slot]]]
"""The slot of each producer id, topic and partition: who is named twice is answered once, as Kafka does."""


def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> Reply[WriteTxnMarkersResponse]:
    """Each marker into each of its partitions; the answer comes when they are committed."""
    if any(_cannot_be_written(context, marker) for marker in request.markers):
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "A marker's producer id, epoch and version are 0 or more.")
    waiting: list[tuple[_Slot, Awaitable[None]]] = []
    answers: _Answers = {}
    for marker, topic, slot in _slots(request, answers):
        _write(context, marker, topic, slot, waiting)
    response = _response(answers)
    return _later(response, waiting) if waiting else response


def error_response(
    _context: RequestContext, request: WriteTxnMarkersRequest, error: ApiError
) -> WriteTxnMarkersResponse:
    """The code at every partition."""
    answers: _Answers = {marker.producer_id: {} for marker in request.markers}
    for _marker, _topic, slot in _slots(request, answers):
        slot.error_code = error.code
    return _response(answers)


def _cannot_be_written(context: RequestContext, marker: _Marker) -> bool:
    """What no record can say fails the whole request, before anything of it is written, if there is a place for it."""
    if marker.producer_id >= 0 and marker.producer_epoch >= 0 and marker.transaction_version >= 0:
        return False
    is_known = context.node.replicas.is_known
    return any(is_known(topic.name, index) for topic in marker.topics for index in topic.partition_indexes)


def _slots(request: WriteTxnMarkersRequest, answers: _Answers) -> Iterator[tuple[_Marker, str, _Slot]]:
    """Every partition of every marker with its slot, which is put into the answers."""
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                slot = _Slot(partition_index=index)
                answers.setdefault(marker.producer_id, {}).setdefault(topic.name, {})[index] = slot
                yield marker, topic.name, slot


def _write(
    context: RequestContext, marker: _Marker, topic: str, slot: _Slot, waiting: list[tuple[_Slot, Awaitable[None]]]
) -> None:
    try:
        committed = context.node.transactions.markers.write(
            TopicPartition(topic, slot.partition_index),
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            is_commit=marker.transaction_result,
            transaction_version=marker.transaction_version,
        )
    except ApiError as error:
        slot.error_code = error.code
    except Exception:
        logger.exception(
            "The marker of producer id %d for %s-%d failed", marker.producer_id, topic, slot.partition_index
        )
        slot.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        if committed is not None:
            waiting.append((slot, committed))


def _response(answers: _Answers) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            _Result(
                producer_id=producer_id,
                topics=[_TopicResult(name=name, partitions=list(slots.values())) for name, slots in topics.items()],
            )
            for producer_id, topics in answers.items()
        ]
    )


async def _later(
    response: WriteTxnMarkersResponse, waiting: list[tuple[_Slot, Awaitable[None]]]
) -> WriteTxnMarkersResponse:
    for slot, committed in waiting:
        try:
            await committed
        except ApiError as error:
            slot.error_code = error.code
    return response
