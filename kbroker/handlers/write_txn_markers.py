"""WriteTxnMarkers: a transaction coordinator ends transactions in the partitions that this node leads (KIP-98).

Asked by other brokers, and by an administrator who aborts a transaction that hangs.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kbroker.types import TopicPartition

logger = logging.getLogger(__name__)

_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Result = WriteTxnMarkersResponse.WritableTxnMarkerResult
_TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
_Slot = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult


def handle(
    context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Each marker into each of its partitions; the answer comes when they are committed."""
    waiting: list[tuple[_Slot, Awaitable[None]]] = []
    response = WriteTxnMarkersResponse(markers=[_written(context, marker, waiting) for marker in request.markers])
    return _later(response, waiting) if waiting else response


def error_response(
    _context: RequestContext, request: WriteTxnMarkersRequest, error: ApiError
) -> WriteTxnMarkersResponse:
    """The code at every partition."""
    return WriteTxnMarkersResponse(
        markers=[
            _Result(
                producer_id=marker.producer_id,
                topics=[
                    _TopicResult(
                        name=topic.name,
                        partitions=[
                            _Slot(partition_index=index, error_code=error.code) for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _written(context: RequestContext, marker: _Marker, waiting: list[tuple[_Slot, Awaitable[None]]]) -> _Result:
    result = _Result(producer_id=marker.producer_id)
    for topic in marker.topics:
        slots: list[_Slot] = []
        result.topics.append(_TopicResult(name=topic.name, partitions=slots))
        for index in topic.partition_indexes:
            slot = _Slot(partition_index=index)
            slots.append(slot)
            try:
                committed = context.node.transactions.markers.write(
                    TopicPartition(topic.name, index),
                    marker.producer_id,
                    marker.producer_epoch,
                    marker.coordinator_epoch,
                    is_commit=marker.transaction_result,
                    transaction_version=marker.transaction_version,
                )
            except ApiError as error:
                slot.error_code = error.code
            except Exception:
                logger.exception("The marker of producer id %d for %s-%d failed", marker.producer_id, topic.name, index)
                slot.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            else:
                if committed is not None:
                    waiting.append((slot, committed))
    return result


async def _later(
    response: WriteTxnMarkersResponse, waiting: list[tuple[_Slot, Awaitable[None]]]
) -> WriteTxnMarkersResponse:
    for slot, committed in waiting:
        try:
            await committed
        except ApiError as error:
            slot.error_code = error.code
    return response
