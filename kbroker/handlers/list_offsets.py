"""ListOffsets: the offset at a time, or at one of the special places in a log (KIP-79, 207, 405, 734, 1005, 1023).

Consumers see offsets below the high watermark (or the last stable offset), followers and the debugging replica id see
all. A time for which there is no such record is answered with -1, without an error. Version 0 has another answer: a
list of offsets where segments begin.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kbroker.config.java_maps import grouped_by_topic
from kbroker.handlers.context import RequestContext
from kbroker.log.lookup import EARLIEST, LATEST
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from kbroker.replication.partition import Partition

CONSUMER = -1
DEBUGGING_REPLICA = -2
"""The replica id that may read from a follower too."""

MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_SINCE = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The version from which each special timestamp is understood."""

_Wanted = ListOffsetsRequest.ListOffsetsPartition
_Answer = ListOffsetsResponse.ListOffsetsPartitionResponse


def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """One answer for each partition; one named twice is refused."""
    if not 0 <= request.isolation_level <= 1:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"There is no isolation level {request.isolation_level}: use 0 or 1."
        )
    named = Counter((topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions)
    answers: dict[tuple[str, int], _Answer] = {}
    as_asked: dict[str, list[int]] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            index = wanted.partition_index
            name = topic.name, index
            if name not in answers:
                as_asked.setdefault(topic.name, []).append(index)
            try:
                if named[name] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST, f"{topic.name}-{index} is asked for more than once.")
                answers[name] = _answer(context, request, topic.name, wanted)
            except ApiError as error:
                answers[name] = _Answer(partition_index=index, error_code=_known_code(context, error))
    return ListOffsetsResponse(
        throttle_time_ms=context.throttle_time_ms,
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic, partitions=[answers[topic, index] for index in indexes]
            )
            for topic, indexes in (grouped_by_topic(answers) if context.api_version > 0 else as_asked.items())
        ],
    )


def error_response(context: RequestContext, request: ListOffsetsRequest, error: ApiError) -> ListOffsetsResponse:
    """Every partition gets the error."""
    return ListOffsetsResponse(
        throttle_time_ms=context.throttle_time_ms,
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _Answer(partition_index=wanted.partition_index, error_code=error.code)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _known_code(context: RequestContext, error: ApiError) -> ErrorCode:
    if error.code == ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < 5:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error.code


def _answer(context: RequestContext, request: ListOffsetsRequest, topic: str, wanted: _Wanted) -> _Answer:
    timestamp = wanted.timestamp
    if context.api_version == 0:
        return _old_style(context, request, topic, wanted)
    if timestamp < 0 and context.api_version < _SINCE.get(timestamp, 1 << 16):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    partition = _readable(context, request, topic, wanted)
    is_consumer = request.replica_id == CONSUMER
    found = _find(partition, timestamp, request.isolation_level if is_consumer else None)
    if found is None:
        return _Answer(partition_index=wanted.partition_index)
    offset, at, leader_epoch = found
    if context.api_version < 4:
        leader_epoch = -1
    return _Answer(partition_index=wanted.partition_index, timestamp=at, offset=offset, leader_epoch=leader_epoch)


def _readable(context: RequestContext, request: ListOffsetsRequest, topic: str, wanted: _Wanted) -> Partition:
    """The partition, if it may be asked here. Raises ``ApiError``."""
    partition = context.node.replicas.partition(topic, wanted.partition_index)
    if request.replica_id == DEBUGGING_REPLICA:
        partition.check_log()
        partition.check_epoch(wanted.current_leader_epoch)
    else:
        partition.check_leader(wanted.current_leader_epoch)
    return partition


def _old_style(context: RequestContext, request: ListOffsetsRequest, topic: str, wanted: _Wanted) -> _Answer:
    """The newest offsets before a time, at most as many as asked for; consumers see none past the high watermark."""
    if wanted.timestamp < EARLIEST:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    partition = _readable(context, request, topic, wanted)
    count = wanted.max_num_offsets
    if count < 0:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{count} offsets cannot be listed.")
    now_ms = context.node.host.clock.wall_ms()
    log = partition.log
    if log is not None:
        offsets = log.offsets_before(wanted.timestamp, now_ms)[:count]
    else:
        offsets = [0][:count] if wanted.timestamp < 0 or wanted.timestamp >= now_ms else []
    high_watermark = partition.high_watermark
    if request.replica_id == CONSUMER and any(offset > high_watermark for offset in offsets):
        offsets = [high_watermark, *(offset for offset in offsets if offset <= high_watermark)]
    return _Answer(partition_index=wanted.partition_index, old_style_offsets=offsets)


def _find(partition: Partition, timestamp: int, isolation_level: int | None) -> tuple[int, int, int] | None:
    """Offset, timestamp and leader epoch; None when no such record may be seen. Isolation None: everything may.

    Raises OFFSET_NOT_AVAILABLE while a new leader's high watermark has not reached its epoch (KIP-207).
    """
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.log_start_offset, -1, partition.epoch_of_start()
    if isolation_level is None:
        end_offset = partition.log_end_offset
    else:
        end_offset = partition.last_stable_offset if isolation_level == 1 else partition.high_watermark
    lags = isolation_level is not None and partition.leader_epoch_start_offset > partition.high_watermark
    if timestamp == LATEST:
        if lags:
            raise _not_available(partition)
        return end_offset, -1, partition.leader_epoch
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1  # there is no remote storage
    log = partition.log
    found = None
    if log is not None:
        found = log.offset_for_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end_offset:
        if lags:
            raise _not_available(partition)
        return None
    return found.offset, found.timestamp, -1 if found.leader_epoch is None else found.leader_epoch


def _not_available(partition: Partition) -> ApiError:
    return ApiError(
        ErrorCode.OFFSET_NOT_AVAILABLE,
        f"The high watermark of {partition.name} is still below the start of leader epoch {partition.leader_epoch}.",
    )
