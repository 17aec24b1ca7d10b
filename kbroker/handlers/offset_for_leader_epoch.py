"""OffsetForLeaderEpoch: where a leader epoch ends in this log (KIP-101, KIP-320).

Followers and consumers ask it to find out where their log, or what they have read, parts from the leader's.
"""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

_Wanted = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
_Answer = OffsetForLeaderEpochResponse.EpochEndOffset


def handle(context: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """One answer for each partition, in the order of the request."""
    return OffsetForLeaderEpochResponse(
        throttle_time_ms=context.throttle_time_ms,
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_answer(context, topic.topic, wanted) for wanted in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def error_response(
    context: RequestContext, request: OffsetForLeaderEpochRequest, error: ApiError
) -> OffsetForLeaderEpochResponse:
    """Every partition gets the error."""
    return OffsetForLeaderEpochResponse(
        throttle_time_ms=context.throttle_time_ms,
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_Answer(partition=wanted.partition, error_code=error.code) for wanted in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _answer(context: RequestContext, topic: str, wanted: _Wanted) -> _Answer:
    try:
        partition = context.node.replicas.partition(topic, wanted.partition)
        partition.check_leader(wanted.current_leader_epoch)
    except ApiError as error:
        return _Answer(partition=wanted.partition, error_code=error.code)
    epoch, end_offset = partition.offset_for_leader_epoch(wanted.leader_epoch)
    return _Answer(partition=wanted.partition, error_code=ErrorCode.NONE, leader_epoch=epoch, end_offset=end_offset)
