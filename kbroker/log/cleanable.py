"""Which part of a compacted log may be cleaned now, how much it asks for it, and the job of doing so.

Follows Kafka's ``LogCleanerManager``.

From ``first_dirty`` on nothing has been cleaned yet. Never cleaned is what a reader of committed records cannot see,
the active segment, and what is younger than ``min.compaction.lag.ms``. A log asks when the dirty share of its bytes is
above ``min.cleanable.dirty.ratio``, or at once when dirty records are older than ``max.compaction.lag.ms``.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.log.cleaning_job import CleaningJob, SourceSegment
from kbroker.log.log import Log
from kbroker.log.rules import roll_rules
from kbroker.log.segment import Segment
from kbroker.log.txn_index import AbortedTxn


class Cleanable(NamedTuple):
    """A log's part ``first_dirty <= offset < first_uncleanable``; the latter is the start of a segment."""

    log: Log
    first_dirty: int
    first_uncleanable: int
    high_watermark: int
    clean_size: int
    dirty_size: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        total = self.clean_size + self.dirty_size
        return self.dirty_size / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if self.is_overdue and self.dirty_size:
            return True
        return self.ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable_part(log: Log, last_stable_offset: int, high_watermark: int, now_ms: int) -> Cleanable | None:
    """What of ``log`` may be cleaned; None when it holds nothing. Raises ``CorruptFileError`` and ``OSError``."""
    segments = log.segments
    if not segments:
        return None
    first_dirty = log.log_start_offset if log.clean_end_offset is None else log.clean_end_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    closed = segments[:-1]
    dirty = [segment for number, segment in enumerate(closed) if segments[number + 1].base_offset > first_dirty]
    bound = min(last_stable_offset, segments[-1].base_offset, _too_young(log, dirty, now_ms))
    bound = max(bound, first_dirty)
    first_uncleanable = next(
        (segment.base_offset for number, segment in enumerate(closed) if segments[number + 1].base_offset > bound),
        segments[-1].base_offset,
    )
    clean_size = sum(segment.size for segment in _between(segments, -1, first_dirty))
    dirty_size = sum(segment.size for segment in _between(segments, first_dirty, first_uncleanable))
    overdue = _is_overdue(log, dirty, now_ms)
    return Cleanable(log, first_dirty, first_uncleanable, high_watermark, clean_size, dirty_size, overdue)


def _too_young(log: Log, dirty: list[Segment], now_ms: int) -> int:
    """The first segment that ``min.compaction.lag.ms`` protects, or beyond everything."""
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in dirty:
            if segment.largest_timestamp > now_ms - lag_ms:
                return segment.base_offset
    return log.log_end_offset


def _is_overdue(log: Log, dirty: list[Segment], now_ms: int) -> bool:
    latest_ms = now_ms - log.config.max_compaction_lag_ms
    if latest_ms <= 0:
        return False
    return any(0 < segment.first_timestamp < latest_ms for segment in dirty)


def _between(segments: list[Segment], start: int, end: int) -> list[Segment]:
    """The segments that hold offsets of ``start <= offset < end``."""
    ends = [segment.base_offset for segment in segments[1:]] + [end]
    return [segment for segment, after in zip(segments, ends, strict=True) if segment.base_offset < end > start < after]


def cleaning_job(part: Cleanable, now_ms: int, keys_max: int) -> CleaningJob:
    """The round that cleans ``part``, as of now. Raises ``CorruptFileError``, ``OSError``, ``LogOfflineError``."""
    log = part.log
    segments = log.segments
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    first_position = 0
    sources = []
    for segment, end_offset in zip(segments, ends, strict=True):
        if segment.base_offset >= part.first_uncleanable:
            break
        if segment.base_offset < part.first_dirty < end_offset:
            first_position = segment.offset_index.lookup(part.first_dirty)
        sources.append(SourceSegment(segment.base_offset, end_offset, segment.size))
    return CleaningJob(
        log.directory,
        tuple(sources),
        part.first_dirty,
        part.first_uncleanable,
        part.high_watermark,
        first_position,
        _aborted_later(log, part.first_uncleanable),
        roll_rules(log.config),
        log.config.delete_retention_ms,
        now_ms,
        keys_max,
        _last_records(log),
    )


def _aborted_later(log: Log, offset: int) -> tuple[AbortedTxn, ...]:
    found = log.aborted_transactions(offset, log.log_end_offset)
    return tuple(aborted for aborted in found if aborted.first_offset < offset)


def _last_records(log: Log) -> dict[int, tuple[int, int]]:
    return {
        producer_id: (state.batches[-1].last_offset if state.batches else -1, state.epoch)
        for producer_id, state in log.active_producers().items()
    }
