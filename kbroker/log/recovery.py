"""From a directory to a log that can be served: what a clean stop, a kill or a crash of the machine left behind.

After a clean stop nothing is scanned, unless the last segment ends with what is no batch. Otherwise every batch from
the segment of the recovery point on is held against its CRC, and that segment's indexes, transaction index, leader
epochs and producer state are made anew. What is found wrong is judged by where it stands:

========================================  =====================================================================
below the recovery point                  the disk lost what it had confirmed: ``CorruptFileError``, log offline; after
                                          a clean stop too
past it, nothing valid behind             a torn tail: cut there, one log line
past it, the file ends inside a batch     a write that a crash of the machine lost: cut there, one log line
past it, zeros up to a sector's edge      the same
past it, a next segment that does not fit the same; gaps count unless compaction makes them
past it, anything else, valid behind      corrupt in the middle: ``CorruptFileError``, log offline
========================================  =====================================================================

A segment that holds offsets too far from its first one is split before (``overflow``).

Kafka keeps the gap and cuts in all other cases, and so drops good records behind a bad one without asking. Here a
person decides: restore the file, or remove the log and let it be replicated again. Follows Kafka's ``LogLoader`` and
``LogSegment.recover`` otherwise.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from kbroker.host import Disk
from kbroker.log.epochs import LeaderEpochs
from kbroker.log.errors import CorruptFileError, CutBatchError, OffsetOverflowError
from kbroker.log.indexes import RELATIVE_OFFSET_MAX
from kbroker.log.overflow import check_offsets, split_segment
from kbroker.log.paths import (
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)
from kbroker.log.producer_state import ProducerStates
from kbroker.log.replay import rebuild_producers, replay_batch, replay_segment
from kbroker.log.scan import scan_batches, scan_headers
from kbroker.log.segment import RollRules, Segment
from kbroker.log.unfinished_swaps import settle_swaps
from kbroker.protocol.records.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    MAGIC,
    BatchHeader,
    crc_is_right,
    read_header,
)
from kbroker.protocol.records.checksum import crc32c
from kbroker.types import TopicPartition

logger = logging.getLogger(__name__)

_LEFTOVERS = (DELETED_SUFFIX, ".tmp")
_QUORUM_SNAPSHOT_DELETED = ".checkpoint" + DELETED_SUFFIX
_SECTOR = 512
_HOLE_MIN = 4
"""How many zeros at a sector's edge make a hole: fewer are the first bytes of any base offset."""
_SEARCH_MAX = 16 * 1024 * 1024
"""How far behind a bad place a valid batch is looked for."""
_ADVICE = "restore the file, or remove the log's directory to have it replicated again"
_MAGIC_BYTE = bytes([MAGIC])
_MAGIC_OFFSET = 16


@dataclass(slots=True)
class Loaded:
    """What ``load`` found: the state a ``Log`` begins with."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerStates


@dataclass(slots=True)
class Loader:
    """One loading of one directory. Raises ``CorruptFileError`` and ``OSError``; both take only this log offline."""

    disk: Disk
    directory: str
    partition: TopicPartition
    rules: RollRules
    recovery_point: int
    log_start_offset: int
    clean: bool
    now_ms: int
    producer_expiry_ms: int
    contiguous: bool = True
    """Whether offsets count up without gaps: all but compacted logs."""
    segments: list[Segment] = field(default_factory=list)
    _txn_indexes: set[int] = field(default_factory=set)
    """The segments that have one."""

    def load(self) -> Loaded:
        while True:
            try:
                return self._load()
            except OffsetOverflowError as error:
                for segment in self.segments:
                    segment.release()
                self.segments = []
                split_segment(self.disk, self.directory, error.base_offset, self.rules)

    def _load(self) -> Loaded:
        producers = ProducerStates(self.disk, self.directory, self.partition)
        epochs = LeaderEpochs(self.disk, self.directory)
        is_on_disk = self.disk.is_dir(self.directory)
        epochs_are_whole = is_on_disk and epochs.load()
        producers.snapshots = self._open_files() if is_on_disk else []
        check_offsets(self.segments)
        if self.segments:
            self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        end = self._end_after_clean_stop()
        start = self._first_to_recover() if end is None else len(self.segments)
        for segment in self.segments[:start]:
            segment.durable = True
        if not epochs_are_whole:
            self._rebuild_epochs(epochs, start)
        self._check_txn_indexes(producers.snapshots, start)
        if end is None:
            epochs.truncate_from_end(self.segments[start].base_offset)  # the batches know better
            self._load_producers(producers, self.segments[start].base_offset)
            end = self._recover(start, producers, epochs)
        else:
            producers.remove_stray_snapshots([segment.base_offset for segment in self.segments])
            self._load_producers(producers, end)
        if end < self.log_start_offset:
            end = self._start_over(end, producers, epochs)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(self.log_start_offset)
        point = end if self.clean else min(self.recovery_point, end)
        return Loaded(self.segments, self.log_start_offset, end, max(point, 0), epochs, producers)

    def _end_after_clean_stop(self) -> int | None:
        """The offset after the last batch; None when recovery has to find it."""
        if not self.segments:
            return self.log_start_offset
        if not self.clean:
            return None
        last = self.segments[-1]
        try:
            end = last.end_offset()
        except CorruptFileError as error:
            logger.warning("%s: the log is recovered, although it was closed", error)
            self.clean = False
            return None
        if end < self.recovery_point:
            reason = (
                f"the log ends at offset {end}, and {self.recovery_point} was its end when it was closed: {_ADVICE}"
            )
            raise CorruptFileError(last.path, last.size, reason)
        check_offsets(self.segments[-1:], end)
        return end

    def _open_files(self) -> list[int]:
        """Open the segments, tidy what a delayed removal or a cleaner left; the offsets of the producer snapshots."""
        names = settle_swaps(self.disk, self.directory, self.disk.list_dir(self.directory))
        bases = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
        snapshots = []
        for name in names:
            offset = offset_of(name)
            path = f"{self.directory}/{name}"
            if offset is None:
                continue
            if name.endswith(_LEFTOVERS) and not name.endswith(_QUORUM_SNAPSHOT_DELETED):
                self.disk.remove(path)
            elif name.endswith(LOG_SUFFIX):
                self.segments.append(self._segment(offset))
            elif name.endswith(INDEX_SUFFIXES) and name.partition(".")[0] not in bases:
                logger.warning("%s is removed: it has no log file", path)
                self.disk.remove(path)
            elif name.endswith(TXN_INDEX_SUFFIX):
                self._txn_indexes.add(offset)
            elif name.endswith(SNAPSHOT_SUFFIX):
                snapshots.append(offset)
        self.segments.sort(key=lambda segment: segment.base_offset)
        return sorted(snapshots)

    def _segment(self, base_offset: int, *, create: bool = False) -> Segment:
        return Segment(self.disk, self.directory, base_offset, self.rules, self.now_ms, create=create)

    def _first_to_recover(self) -> int:
        """The segment before the recovery point.

        When the point is where a segment begins, that is the one before: everything in it was synced, perhaps before
        its indexes got their last entries.
        """
        return max(sum(segment.base_offset < self.recovery_point for segment in self.segments) - 1, 0)

    def _rebuild_epochs(self, epochs: LeaderEpochs, until: int) -> None:
        """From the batches of the segments that are not recovered; recovery takes its own."""
        for segment in self.segments[:until]:
            for _, header in scan_headers(segment.file, 0, segment.size):
                epochs.replay(header.partition_leader_epoch, header.base_offset)

    def _check_txn_indexes(self, snapshots: list[int], until: int) -> None:
        """Of the segments that are not recovered: one that is corrupt is made anew."""
        for segment in self.segments[:until]:
            if segment.base_offset in self._txn_indexes:
                try:
                    segment.txn_index.check()
                except CorruptFileError as error:
                    logger.warning("%s: it is made anew", error)
                    self._rebuild_txn_index(segment, snapshots)

    def _rebuild_txn_index(self, segment: Segment, snapshots: list[int]) -> None:
        producers = ProducerStates(self.disk, self.directory, self.partition)
        producers.snapshots = snapshots.copy()
        base_offset = segment.base_offset
        rebuild_producers(
            producers, self.segments, self.log_start_offset, base_offset, 0, expiry_ms=self.producer_expiry_ms
        )
        segment.txn_index.clear()
        replay_segment(segment, producers, base_offset, base_offset + RELATIVE_OFFSET_MAX + 1, are_indexed=True)
        segment.txn_index.close()

    # --- producer state

    def _load_producers(self, producers: ProducerStates, until: int) -> None:
        """Producer state as of ``until``: the newest snapshot, then the batches behind it."""
        if self.clean and not producers.snapshots:
            producers.clear(until)
            return
        rebuild_producers(
            producers, self.segments, self.log_start_offset, until, self.now_ms, expiry_ms=self.producer_expiry_ms
        )

    # --- recovery

    def _recover(self, start: int, producers: ProducerStates, epochs: LeaderEpochs) -> int:
        """Read the segments from ``start`` on; the offset after the last whole batch."""
        end = self.segments[start].base_offset
        number = start
        while number < len(self.segments):
            segment = self.segments[number]
            if segment.base_offset < end:
                raise CorruptFileError(segment.path, 0, f"the segment before it ends at offset {end}")
            producers.map_end_offset = segment.base_offset
            producers.take_snapshot()
            end, bad = self._recover_segment(segment, producers, epochs)
            if bad is not None:
                self._judge(number, bad, end)
            elif self._misfit_behind(number, end):
                following = self.segments[number + 1].base_offset
                bad = CorruptFileError(segment.path, segment.size, f"the next segment begins at offset {following}")
            if bad is not None:
                self._cut(number, bad, end)
            segment.close_indexes()
            number += 1
        producers.map_end_offset = end
        producers.remove_expired(self.now_ms, self.producer_expiry_ms)  # a snapshot would not have them either
        return end

    def _recover_segment(
        self, segment: Segment, producers: ProducerStates, epochs: LeaderEpochs
    ) -> tuple[int, CorruptFileError | None]:
        segment.reset_indexes()
        segment.txn_index.clear()
        next_offset = segment.base_offset
        try:
            for position, header, batch in scan_batches(segment.file, 0, segment.size):
                check_batch(segment, position, header, batch, next_offset)
                last_offset = header.base_offset + header.last_offset_delta
                segment.index_batch(position, len(batch), last_offset, header.max_timestamp)
                if header.partition_leader_epoch > epochs.latest:
                    epochs.replay(header.partition_leader_epoch, header.base_offset)
                if header.producer_id >= 0:
                    replay_batch(header, batch, producers, segment)
                next_offset = last_offset + 1
        except CorruptFileError as error:
            return next_offset, error
        return next_offset, None

    def _misfit_behind(self, number: int, end: int) -> bool:
        """Whether the next segment does not begin where this one ends: one of them came back, or lost its end."""
        rest = self.segments[number + 1 :]
        if not rest or end < self.recovery_point:
            return False
        following = rest[0].base_offset
        return following < end or (self.contiguous and following > end)

    def _judge(self, number: int, bad: CorruptFileError, end: int) -> None:
        """Return when the bad place is a torn write. Raises ``CorruptFileError`` when it is anything worse."""
        segment = self.segments[number]
        if end < self.recovery_point:
            reason = f"{bad.reason}; offset {end} lies below the recovery point {self.recovery_point}: {_ADVICE}"
            raise CorruptFileError(bad.path, bad.position, reason)
        data = segment.file.pread(min(_SEARCH_MAX, segment.size - bad.position), bad.position)
        behind = find_valid_batch(data, end)
        later = any(segment.size for segment in self.segments[number + 1 :])
        if behind is None and (not later or isinstance(bad, CutBatchError)):
            return
        if has_hole(data[:behind], bad.position):
            return
        reason = f"{bad.reason}; whole batches stand behind it, so it is no torn tail: {_ADVICE}"
        raise CorruptFileError(bad.path, bad.position, reason)

    def _cut(self, number: int, bad: CorruptFileError, end: int) -> None:
        segment = self.segments[number]
        rest = self.segments[number + 1 :]
        size = segment.size - bad.position + sum(later.size for later in rest)
        logger.warning(
            "%s: cut at byte %d, offset %d: %d bytes behind it, in %d files, are a torn tail (%s)",
            *(segment.path, bad.position, end, size, 1 + len(rest), bad.reason),
        )
        segment.file.truncate(bad.position)
        segment.size = bad.position
        # New records will follow. When the power fails, what was cut must neither be mixed with them nor come back
        # behind them.
        segment.file.sync()
        for later in rest:
            later.remove()
        del self.segments[number + 1 :]
        self.disk.sync_dir(self.directory)

    def _start_over(self, end: int, producers: ProducerStates, epochs: LeaderEpochs) -> int:
        """Records below the log start are all that is left: an empty log there, as in Kafka."""
        logger.warning(
            "%s ends at offset %d, below its start %d: it begins anew there", self.directory, end, self.log_start_offset
        )
        for segment in self.segments:
            segment.remove()
        self.segments = [self._segment(self.log_start_offset, create=True)]
        producers.remove_snapshots_outside(0, -1)
        producers.clear(self.log_start_offset)
        epochs.clear()
        return self.log_start_offset


def check_batch(segment: Segment, position: int, header: BatchHeader, batch: memoryview, next_offset: int) -> None:
    """Raises ``CorruptFileError`` when the batch may not stand there."""
    if crc32c(batch[ATTRIBUTES_OFFSET:]) != header.crc:
        raise CorruptFileError(segment.path, position, f"the CRC of the batch at offset {header.base_offset} is wrong")
    if header.base_offset < next_offset:
        reason = f"a batch at offset {header.base_offset}, {next_offset} is the least"
        raise CorruptFileError(segment.path, position, reason)


def has_hole(data: bytes, position: int) -> bool:
    """Whether a sector's share of ``data``, which stands at ``position`` in its file, is all zeros."""
    start = 0
    while start < len(data):
        end = min(start + _SECTOR - (position + start) % _SECTOR, len(data))
        if end - start >= _HOLE_MIN and not any(data[start:end]):
            return True
        start = end
    return False


def find_valid_batch(data: bytes, next_offset: int) -> int | None:
    """Where in ``data``, past its start, the first batch stands whose CRC is right and whose offset may follow."""
    at = data.find(_MAGIC_BYTE, _MAGIC_OFFSET + 1)
    while at >= 0:
        start = at - _MAGIC_OFFSET
        if len(data) - start < BATCH_OVERHEAD:
            return None
        header = read_header(data, start)
        fits = BATCH_OVERHEAD <= header.size <= len(data) - start
        follows = next_offset <= header.base_offset < next_offset + RELATIVE_OFFSET_MAX
        if fits and follows and crc_is_right(memoryview(data)[start : start + header.size]):
            return start
        at = data.find(_MAGIC_BYTE, at + 1)
    return None
