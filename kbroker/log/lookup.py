"""Finding offsets by time, for ListOffsets, and where offsets lie. Follows Kafka's ``UnifiedLog``.

The indexes lead to one batch, and only that one is decoded. The topic's ``max.decompressed.message.bytes`` holds here,
too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kbroker.log.rules import LogConfig
from kbroker.log.scan import scan_headers
from kbroker.log.segment import Segment
from kbroker.protocol.records.batch import BatchHeader, Record, read_records
from kbroker.protocol.records.validation import WALK_LIMIT

LATEST = -1
EARLIEST = -2
"""What stands for the ends of a log where a time is asked for."""


class TimestampOffset(NamedTuple):
    """A record that a lookup found; ``leader_epoch`` is None when its batch carries none."""

    offset: int
    timestamp: int
    leader_epoch: int | None


def offset_for_timestamp(
    segments: list[Segment], timestamp: int, start_offset: int, config: LogConfig
) -> TimestampOffset | None:
    """The first record from ``start_offset`` on, in the order of offsets, that is not older than ``timestamp``.

    None when there is none in the first segment that is young enough: Kafka looks no further, not even while all of
    that segment lies below ``start_offset`` and waits to be deleted, or has no timestamps at all and counts as being as
    young as its file. Raises ``CorruptFileError``, ``OSError``, and ``ApiError`` when its batch is unreadable.
    """
    for segment in segments:
        if segment.largest_timestamp >= timestamp and segment.size:
            return _first_not_older(segment, timestamp, start_offset, config)
    return None


def _first_not_older(segment: Segment, timestamp: int, start_offset: int, config: LogConfig) -> TimestampOffset | None:
    def walk(start: int) -> TimestampOffset | None:
        for position, header in scan_headers(segment.file, start, segment.size):
            if header.max_timestamp < timestamp:
                continue
            for record in _records(segment, position, header, config):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return _found(record, header)
        return None

    return segment.walk_from(max(segment.time_index.lookup(timestamp), start_offset), walk)


def offset_for_max_timestamp(segments: list[Segment], config: LogConfig) -> TimestampOffset | None:
    """The first record that has the largest timestamp of all; None in an empty log. Raises as above."""
    filled = [segment for segment in segments if segment.size]
    if not filled:
        return None
    segment = max(filled, key=lambda segment: segment.max_timestamp)
    largest = segment.max_timestamp

    def walk(start: int) -> TimestampOffset | None:
        for position, header in scan_headers(segment.file, start, segment.size):
            if header.max_timestamp == largest:
                records = _records(segment, position, header, config)
                return next((_found(record, header) for record in records if record.timestamp == largest), None)
        return None

    return segment.walk_from(segment.max_timestamp_offset, walk)


def offsets_before(
    segments: list[Segment], log_start_offset: int, log_end_offset: int, timestamp_ms: int, now_ms: int
) -> list[int]:
    """Where segments begin, and the log's end, newest first: those not younger than ``timestamp_ms``.

    The answer of ListOffsets 0 (Kafka's ``legacyFetchOffsetsBefore``). A segment is as old as its newest record: Kafka
    looks at the time of its file, which does not survive a copy.
    """
    places = [(max(segment.base_offset, log_start_offset), segment.largest_timestamp) for segment in segments]
    if not segments:
        places = [(log_end_offset, now_ms)]
    elif segments[-1].size:
        places.append((log_end_offset, now_ms))
    if timestamp_ms == EARLIEST:
        return [places[0][0]]
    if timestamp_ms != LATEST:
        while places and places[-1][1] > timestamp_ms:
            places.pop()
    return sorted((offset for offset, _ in places), reverse=True)


def lies_in_older_segment(segments: list[Segment], offset: int, end_offset: int) -> bool:
    """Whether ``offset`` is in an older segment than ``end_offset``: nothing is added to what can be read there."""
    newest = next((segment for segment in reversed(segments) if segment.base_offset <= end_offset), None)
    return newest is not None and offset < newest.base_offset


def _records(segment: Segment, position: int, header: BatchHeader, config: LogConfig) -> Iterator[Record]:
    """Record by record: one that is too large is an error only for who gets as far as that."""
    batch = segment.file.pread(header.size, position)
    limit = config.max_decompressed_message_bytes
    return read_records(batch, max_decompressed=WALK_LIMIT, max_record=limit)


def _found(record: Record, header: BatchHeader) -> TimestampOffset:
    epoch = header.partition_leader_epoch
    return TimestampOffset(record.offset, record.timestamp, epoch if epoch >= 0 else None)
