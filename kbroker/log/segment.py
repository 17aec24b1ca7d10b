"""One segment: a ``.log`` file, its indexes, and the rules for when it is full. Follows Kafka's ``LogSegment``.

Indexes are read when they are first asked for and rebuilt from the batches when they are missing or cannot be right,
so that opening ten thousand segments reads none of them. Invariant: ``size`` is the end of the last whole batch; what
an append that failed left behind it is never read and is overwritten by the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from kbroker.host import Buffer, Disk, File
from kbroker.log.errors import CorruptFileError, OffsetOverflowError
from kbroker.log.indexes import NO_TIMESTAMP, RELATIVE_OFFSET_MAX, OffsetIndex, TimeIndex
from kbroker.log.paths import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from kbroker.log.scan import SEARCH_CHUNK, FoundBatch, find_batch, scan_headers
from kbroker.log.txn_index import TxnIndex
from kbroker.protocol.records.batch import BATCH_OVERHEAD, BatchHeader, read_header

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RESERVE_FROM = 1024 * 1024
_RESERVE_STEP = 16 * 1024 * 1024
_INDEX_ENTRIES_HELD = 64
"""Index entries kept in memory before they are written: one ``pwrite`` for at least 256 KiB of records."""


@dataclass(frozen=True, slots=True)
class RollRules:
    """The topic settings that decide when a segment is full."""

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    preallocate: bool = False


class Segment:
    """The batches from ``base_offset`` up to the next segment's. Owned by its ``Log``."""

    __slots__ = (
        "_bytes_since_index",
        "_disk",
        "_first_timestamp",
        "_index_interval",
        "_index_size_max",
        "_indexes_full",
        "_indexes_made",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_reserved",
        "_time_index",
        "base_offset",
        "created_ms",
        "directory",
        "durable",
        "file",
        "roll_jitter_ms",
        "rules",
        "size",
        "suffix",
        "txn_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        rules: RollRules,
        now_ms: int,
        *,
        create: bool,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        """Raises ``FileNotFoundError`` unless ``create``; a file that is there already is taken as it is.

        ``suffix`` stands behind the names of a cleaned segment's files until they take the place of others.
        """
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.rules = rules
        # As in Kafka, a segment's indexes stay as they were begun when the topic's settings change.
        self._index_interval = rules.index_interval_bytes
        self._index_size_max = rules.segment_index_bytes
        self.roll_jitter_ms = jitter_ms
        self.created_ms = now_ms
        self.file: File = disk.open(self.path, create=create)
        self.size = self.file.size()
        self.txn_index = TxnIndex(disk, self._name(TXN_INDEX_SUFFIX), base_offset)
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._first_timestamp: int | None = None
        self._max_timestamp: int | None = None
        self._max_timestamp_offset = base_offset
        self._bytes_since_index = 0
        self._indexes_made = False
        """Whether it was tried to make them from the batches: it is no use again."""
        self._indexes_full: bool | None = None
        """None: to be asked of the indexes again, because they changed."""
        self._reserved = 0
        self.durable = False
        """Whether all of it, indexes included, was synced since the last append."""
        if create and self.size == 0:
            self.reset_indexes()

    @property
    def prefix(self) -> str:
        return f"{self.directory}/{offset_name(self.base_offset)}"

    @property
    def path(self) -> str:
        return self._name(LOG_SUFFIX)

    def _name(self, kind: str) -> str:
        return f"{self.prefix}{kind}{self.suffix}"

    # --- indexes

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._load_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    def _load_indexes(self) -> None:
        offsets = OffsetIndex(self._disk, self._name(INDEX_SUFFIX), self.base_offset)
        times = TimeIndex(self._disk, self._name(TIME_INDEX_SUFFIX), self.base_offset)
        try:
            offsets.load(self.size)
            times.load()
            if self.size and not times:
                raise CorruptFileError(times.path, 0, "no entry, and a segment has one when it is finished")
        except CorruptFileError as error:
            logger.warning("%s: the indexes of %s are rebuilt", error, self.path)
            self.rebuild_indexes()
        else:
            self._offset_index, self._time_index = offsets, times

    def reset_indexes(self) -> None:
        """Begin both indexes anew, whatever their files hold until they are written."""
        self._offset_index = OffsetIndex(self._disk, self._name(INDEX_SUFFIX), self.base_offset)
        self._time_index = TimeIndex(self._disk, self._name(TIME_INDEX_SUFFIX), self.base_offset)
        self._indexes_made = True
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._bytes_since_index = 0
        self._indexes_full = None

    def rebuild_indexes(self) -> None:
        """Make both indexes from the batches' headers.

        Raises ``CorruptFileError`` when the log itself is no better: those that were read are kept.
        """
        read = self._offset_index, self._time_index, self._max_timestamp, self._max_timestamp_offset
        self.reset_indexes()
        try:
            for position, header in scan_headers(self.file, 0, self.size):
                self.index_batch(position, header.size, header.last_offset, header.max_timestamp)
        except CorruptFileError:
            if read[0] is not None:
                self._offset_index, self._time_index, self._max_timestamp, self._max_timestamp_offset = read
            raise
        self.close_indexes()

    def index_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Take a batch at ``position`` into the indexes: an entry every ``index.interval.bytes``.

        Raises ``OffsetOverflowError``: only a start may meet such a segment.
        """
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            raise OffsetOverflowError(self.base_offset)
        largest = self._max_timestamp
        if max_timestamp > (self.max_timestamp if largest is None else largest):
            self._max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
        if self._bytes_since_index > self._index_interval:
            self._index(last_offset, position)
        self._bytes_since_index += size

    def close_indexes(self) -> None:
        """Give the time index its last entry and write both, as at a roll. Raises ``OSError``."""
        if self._max_timestamp is not None and self._time_index is not None:
            self._time_index.append(self._max_timestamp, self._max_timestamp_offset)
        self.write_indexes()

    def write_indexes(self) -> None:
        if self._offset_index is not None and self._time_index is not None:
            self._offset_index.write()
            self._time_index.write()
        self.txn_index.write()

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, -1 when it has none."""
        if self._max_timestamp is None:
            self._max_timestamp, self._max_timestamp_offset = self.time_index.last()
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """How new the segment is: its largest timestamp, or when it was made where no record has one."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.created_ms

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch that has the largest timestamp."""
        return self._max_timestamp_offset if self.max_timestamp >= 0 else self.base_offset

    # --- writing

    def should_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether a batch of ``size`` bytes must go to a new segment (Kafka's ``LogSegment.shouldRoll``).

        Time is that between the timestamps of the first batch and of the one to come; without a first, that since the
        segment was made.
        """
        rules = self.rules
        if self.size > rules.segment_bytes - size or last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        if waited_ms > rules.segment_ms - self.roll_jitter_ms and self.size > 0:
            return True
        full = self._indexes_full
        return self._check_indexes_full() if full is None else full

    def _check_indexes_full(self) -> bool:
        size_max = self._index_size_max
        self._indexes_full = self.offset_index.is_full(size_max) or self.time_index.is_full(size_max)
        return self._indexes_full

    def find(self, offset: int) -> FoundBatch | None:
        """The first batch whose last offset is not below ``offset``; None when the segment ends before.

        Raises ``CorruptFileError`` and ``OSError``.
        """
        start, following = self.offset_index.around(offset)
        if following is not None and following - start > SEARCH_CHUNK:
            # Entries far apart are neighbours, for large batches are all in the index, by their last offsets.
            with suppress(CorruptFileError):  # if the index led there, the walk below finds out
                found = find_batch(self.file, following, self.size, offset)
                if found is not None and found.base_offset <= offset:
                    return found
        return self.walk_from(offset, lambda start: find_batch(self.file, start, self.size, offset))

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 when there is none."""
        if self._first_timestamp is None:
            if self.size < BATCH_OVERHEAD:
                return NO_TIMESTAMP
            self._first_timestamp = read_header(self.file.pread(BATCH_OVERHEAD, 0)).max_timestamp
        return self._first_timestamp

    def append(self, data: Buffer, last_offset: int, max_timestamp: int) -> int:
        """Write one batch at the end; its position. Raises ``OSError`` with nothing changed but the file's tail."""
        position = self.size
        size = len(data)
        end = position + size
        if end > self._reserved:
            self._reserve_for(end)
        self.file.pwrite(data, position)
        self.durable = False
        if position == 0:
            self._first_timestamp = max_timestamp
        self.size = end
        # The common path of index_batch, without the calls.
        largest = self._max_timestamp
        if largest is None:
            largest = self.max_timestamp
        if max_timestamp > largest:
            self._max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
        if self._bytes_since_index > self._index_interval:
            self._index(last_offset, position)
        self._bytes_since_index += size
        return position

    def append_batches(self, data: Buffer, headers: list[BatchHeader]) -> int:
        """Write several whole batches at the end in one go; the position of the first. Raises ``OSError``."""
        position = start = self.size
        end = position + len(data)
        self._reserve_for(end)
        self.file.pwrite(data, position)
        self.durable = False
        if position == 0:
            self._first_timestamp = headers[0].max_timestamp
        self.size = end
        for header in headers:
            self.index_batch(position, header.size, header.last_offset, header.max_timestamp)
            position += header.size
        return start

    def _reserve_for(self, end: int) -> None:
        """Ask for room: for all of the segment (``preallocate``), or in large steps once it is more than few records.

        The file's size stays that of its batches: a tail of zeros, as Kafka's ``preallocate`` leaves it while the
        segment is active, stops ``kafka-dump-log``.
        """
        if end <= self._reserved:
            return
        if self.rules.preallocate:
            self._reserve(max(self.rules.segment_bytes, end))
        elif end > _RESERVE_FROM:
            self._reserve(min(end + _RESERVE_STEP, max(self.rules.segment_bytes, end)))

    def _reserve(self, end: int) -> None:
        self._reserved = end
        self.file.reserve(end)

    def _index(self, last_offset: int, position: int) -> None:
        index = self.offset_index
        index.append(last_offset, position)
        self.time_index.append(self.max_timestamp, self._max_timestamp_offset)
        self._bytes_since_index = 0
        self._indexes_full = None
        if index.unwritten >= _INDEX_ENTRIES_HELD:
            try:
                self.write_indexes()
            except OSError as error:
                logger.warning("%s: index entries stay in memory until they can be written: %s", self.path, error)

    def finish(self) -> None:
        """The segment takes no more batches: complete its indexes and give back reserved room. Raises ``OSError``."""
        self.close_indexes()
        if self._reserved > self.size:
            self.file.truncate(self.size)
            self._reserved = 0

    def truncate_to(self, position: int, offset: int, now_ms: int) -> None:
        """Cut the batches from ``position`` on, which begin at ``offset``."""
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.file.truncate(position)
        self.size = position
        self.durable = False
        self._reserved = 0
        self._bytes_since_index = 0
        self._indexes_full = None
        if position == 0:
            self._first_timestamp = None
            self.created_ms = now_ms
        self._max_timestamp, self._max_timestamp_offset = self.time_index.last()
        start = self.offset_index.lookup(self._max_timestamp_offset)
        for _, header in scan_headers(self.file, start, self.size):
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._max_timestamp_offset = header.max_timestamp, header.last_offset

    def end_offset(self) -> int:
        """The offset after the last batch, found by walking from the last index entry. Raises ``CorruptFileError``."""

        def last(start: int) -> int:
            end = self.base_offset
            for _, header in scan_headers(self.file, start, self.size):
                end = header.next_offset
            return end

        return self.walk_from(RELATIVE_OFFSET_MAX + self.base_offset, last)

    def walk_from(self, offset: int, walk: Callable[[int], T]) -> T:
        """Walk from the position that the index gives for an offset; if that leads to no batch, make it anew first.

        Raises ``CorruptFileError`` when the log itself is no better.
        """
        start = self.offset_index.lookup(offset)
        try:
            return walk(start)
        except CorruptFileError as error:
            if start == 0 or self._indexes_made:
                raise
            logger.warning("%s: the indexes of %s are made anew, they may have led there", error, self.path)
            self.rebuild_indexes()
            return walk(self.offset_index.lookup(offset))

    # --- life

    def sync(self) -> None:
        """Make the batches durable. Called from a worker."""
        self.file.sync()

    def sync_indexes(self) -> None:
        """Make the indexes of a finished segment durable. Called from a worker."""
        if self._offset_index is not None and self._time_index is not None:
            self._offset_index.sync()
            self._time_index.sync()
        self.txn_index.sync()

    def close(self) -> None:
        """Complete the indexes and let go of the files. Raises ``OSError``."""
        self.finish()
        self.release()

    def release(self) -> None:
        """Let go of the files as they are."""
        for index in (self._offset_index, self._time_index, self.txn_index):
            if index is not None:
                index.close()
        self.file.close()

    def move_to(self, directory: str) -> None:
        """The directory got another name; files that are open follow by themselves."""
        self.directory = directory
        self._name_indexes()

    def take_final_names(self) -> None:
        """The files lose their suffix, the log first. Raises ``OSError``."""
        for kind in SEGMENT_SUFFIXES:
            with suppress(FileNotFoundError):
                self._disk.rename(self._name(kind), self.prefix + kind)
        self.suffix = ""
        self._name_indexes()

    def _name_indexes(self) -> None:
        self.txn_index.path = self._name(TXN_INDEX_SUFFIX)
        if self._offset_index is not None and self._time_index is not None:
            self._offset_index.path = self._name(INDEX_SUFFIX)
            self._time_index.path = self._name(TIME_INDEX_SUFFIX)

    def names(self) -> list[str]:
        """The paths of the segment's files."""
        return [self._name(kind) for kind in SEGMENT_SUFFIXES]

    def remove(self) -> None:
        """Remove the files now."""
        self.release()
        for path in self.names():
            self._disk.remove(path)
