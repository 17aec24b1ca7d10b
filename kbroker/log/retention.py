"""Which of a log's oldest segments have had their time: ``retention.ms``, ``retention.bytes``, a moved log start.

Follows Kafka's ``UnifiedLog.deleteOldSegments``: nothing at or above the high watermark goes, the active segment may,
and time is that of the records, not of the files.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.log.log import Log
from kbroker.log.rules import LogConfig
from kbroker.log.segment import Segment
from kbroker.log.segments import Discarded


def delete_old_segments(log: Log, now_ms: int, high_watermark: int, count_max: int | None = None) -> Discarded | None:
    """Delete the segments that are due, or the first ``count_max``; None when none is. Raises ``LogOfflineError``."""
    if log.offline_error is not None or not log.segments:
        return None
    count = deletable_count(
        log.segments,
        log.config,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=high_watermark,
        now_ms=now_ms,
        count_max=count_max,
    )
    return log.delete_first(count, now_ms) if count else None


def deletable_count(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
    count_max: int | None = None,
) -> int:
    """How many segments, counted from the first, are to be deleted: all that are due, or the first ``count_max``."""
    last = len(segments) - 1
    limit = len(segments) if count_max is None else min(count_max, len(segments))

    def end_of(number: int) -> int:
        return segments[number + 1].base_offset if number < last else log_end_offset

    def may_go(number: int) -> bool:
        return (
            number < limit and high_watermark >= end_of(number) and not (number == last and not segments[number].size)
        )

    count = 0
    while count < last and may_go(count) and end_of(count) <= log_start_offset:
        count += 1
    if config.delete and config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - config.retention_bytes
        while may_go(count) and excess >= segments[count].size:
            excess -= segments[count].size
            count += 1
    if config.delete and config.retention_ms >= 0:
        while may_go(count) and now_ms - segments[count].largest_timestamp > config.retention_ms:
            count += 1
    return count
