"""Compaction of one log: of every key the last record stays. Follows Kafka's ``Cleaner`` (KIP-58, KIP-354, KIP-534).

Two passes: the first reads the dirty part and notes the last offset of each key (``offset_map``), the second copies
what stays of everything up to there into new segments, several small ones into one. Tombstones and the markers of
transactions whose records are gone get a delete horizon when they are first copied, and go once it has passed. Aborted
records go at once. A batch whose records are all gone stays empty where it holds a producer's last sequence, or is the
last one of all.

A function of files: ``clean`` reads what its job names and writes ``.cleaned`` files beside it; it runs in another
process, or in a thread. It is a generator that reports every few MiB, so that its owner may slow it down or stop it.
What becomes of the new segments is decided and done on the loop (``swapping``), so that appends and fetches never see a
log half changed, and nothing needs a lock.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing, suppress
from itertools import islice
from operator import itemgetter

from kbroker.host import Disk, File
from kbroker.log.cleaned_segment import CleanedSegment
from kbroker.log.cleaned_transactions import CleanedTransactions
from kbroker.log.cleaning_job import CleaningJob, Progress, SourceSegment
from kbroker.log.errors import CorruptFileError
from kbroker.log.indexes import RELATIVE_OFFSET_MAX
from kbroker.log.offset_map import KEY_SIZE_MAX, OffsetMap, name_of
from kbroker.log.paths import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, offset_name
from kbroker.log.scan import scan_batches
from kbroker.log.txn_index import AbortedTxn, TxnIndex
from kbroker.protocol.errors import ApiError
from kbroker.protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_BITS,
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_is_right,
)
from kbroker.protocol.records.sieve import Span, batch_of, empty_batch, records_of, spans
from kbroker.protocol.records.validation import WALK_LIMIT

REPORT_COST = 4 * 1024 * 1024
"""Between two reports: the bytes read, ``_RECORD_COST`` for each record, ``_BATCH_COST`` for each batch: some 50 ms."""
_RECORD_COST = 100
_BATCH_COST = 250
_CHUNK = 512
"""Records of one batch that are looked at without asking whether it is time to report."""
_TRANSACTION_BITS = TRANSACTIONAL_BIT | CONTROL_BIT
_HAS_VALUE = itemgetter(3)
"""Of a span."""


def clean(disk: Disk, job: CleaningJob, report_cost: int = REPORT_COST) -> Generator[Progress, None, None]:
    """One round. Raises ``CorruptFileError`` (records that cannot be read too) and ``OSError``.

    What was not handed over in a report is removed when it ends early.
    """
    return _Cleaner(disk, job, report_cost).steps()


class _Cleaner:
    """One round over one log."""

    def __init__(self, disk: Disk, job: CleaningJob, report_cost: int) -> None:
        self._disk = disk
        self._job = job
        self._map = OffsetMap(job.keys_max)
        self._txn_indexes: list[tuple[int, TxnIndex]] = []
        self._report_cost = report_cost
        self._cost = 0
        self._end_offset = -1
        self._bytes_mapped = 0
        self._bytes_read = 0
        self._bytes_written = 0
        self._records_read = 0
        self._records_kept = 0
        self._records_without_key = 0

    def steps(self) -> Generator[Progress, None, None]:
        self._txn_indexes = self._read_txn_indexes()
        yield from self._map_offsets()
        self._end_offset = self._map.latest + 1
        transactions = CleanedTransactions()
        for group in self._groups():
            yield from self._clean_group(group, transactions)

    # --- first pass

    def _map_offsets(self) -> Generator[Progress, None, None]:
        start, end = self._job.first_dirty, self._job.first_uncleanable
        transactions = CleanedTransactions()
        transactions.add(self._aborted_transactions(start, end))
        self._map.latest = start - 1
        for source in self._sources(start, end):
            position = self._job.first_position if source.base_offset < start else 0
            with closing(self._open(source)) as file:
                for at, header, batch in scan_batches(file, position, source.size):
                    dropped = header.attributes & _TRANSACTION_BITS and transactions.may_drop(header, batch)
                    if not dropped and not header.attributes & CONTROL_BIT:
                        if not self._map.has_room_for(header.record_count):
                            return
                        if not crc_is_right(batch):
                            raise _wrong_crc(file, at, header)
                        data = self._records(file, at, header, batch)
                        found = _spans(file, at, data, header.record_count)
                        for _ in range(0, header.record_count, _CHUNK):
                            self._note(header.base_offset, islice(found, _CHUNK), start)
                            if self._spend(min(header.record_count, _CHUNK) * _RECORD_COST):
                                yield self._progress()
                    if header.last_offset >= start:
                        self._map.latest = header.last_offset
                    self._bytes_mapped += header.size
                    if self._spend(header.size + _BATCH_COST):
                        yield self._progress()
            self._map.latest = min(source.end_offset, end) - 1

    def _note(self, base_offset: int, found: Iterable[Span], start: int) -> None:
        offsets = self._map.offsets
        for span in found:
            key = span[2]
            offset = base_offset + span[0]
            if key is not None and offset >= start:
                offsets[key if len(key) <= KEY_SIZE_MAX else name_of(key)] = offset

    # --- second pass

    def _groups(self) -> list[list[SourceSegment]]:
        """Neighbours that fit into one segment, by size, index sizes and offsets."""
        rules = self._job.rules
        found = self._sources(0, self._end_offset)
        groups: list[list[SourceSegment]] = []
        size = offsets = times = 0
        for number, source in enumerate(found):
            index_size, time_index_size = self._size(source, INDEX_SUFFIX), self._size(source, TIME_INDEX_SUFFIX)
            last = (found[number + 1].base_offset if number + 1 < len(found) else self._job.first_uncleanable) - 1
            fits = (
                bool(groups)
                and size + source.size <= rules.segment_bytes
                and offsets + index_size <= rules.segment_index_bytes
                and times + time_index_size <= rules.segment_index_bytes
                and (source.size == 0 or last - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
            )
            if not fits:
                groups.append([])
                size = offsets = times = 0
            groups[-1].append(source)
            size, offsets, times = size + source.size, offsets + index_size, times + time_index_size
        return groups

    def _clean_group(
        self, group: list[SourceSegment], transactions: CleanedTransactions
    ) -> Generator[Progress, None, None]:
        cleaned = CleanedSegment(self._disk, self._job.directory, group[0].base_offset, self._job.rules)
        is_whole = False
        try:
            transactions.retain_with(cleaned.append_aborted)
            for source in group:
                transactions.add(self._aborted_transactions(source.base_offset, source.end_offset))
                with closing(self._open(source)) as file:
                    yield from self._copy(file, source.size, cleaned, transactions)
            cleaned.finish()
            cleaned.sync()
            self._bytes_written += cleaned.size
            is_whole = True
        finally:
            cleaned.close()
            if not is_whole:
                with suppress(OSError):  # the next attempt writes over it, the next start removes it
                    cleaned.remove()
        yield self._progress(tuple(source.base_offset for source in group))

    def _copy(
        self, file: File, size: int, cleaned: CleanedSegment, transactions: CleanedTransactions
    ) -> Generator[Progress, None, None]:
        for at, header, batch in scan_batches(file, 0, size):
            count = header.record_count
            attributes = header.attributes
            self._bytes_read += header.size
            self._records_read += count
            droppable = bool(attributes & _TRANSACTION_BITS) and transactions.may_drop(header, batch)
            dropped = droppable
            if attributes & CONTROL_BIT:
                horizon = header.delete_horizon
                dropped = droppable and horizon is not None and horizon <= self._job.now_ms
            kept: list[Span] = []
            data = b""
            if not dropped:
                data = self._records(file, at, header, batch)
                found = _spans(file, at, data, count)
                if attributes & CONTROL_BIT:
                    kept = list(found)
                else:
                    for _ in range(0, count, _CHUNK):
                        self._sift(header, islice(found, _CHUNK), kept)
                        if self._spend(min(count, _CHUNK) * _RECORD_COST):
                            yield self._progress()
            if len(kept) < count and not crc_is_right(batch):
                raise _wrong_crc(file, at, header)
            self._write(cleaned, header, batch, data, kept, droppable)
            if self._spend(header.size + _BATCH_COST):
                yield self._progress()

    def _sift(self, header: BatchHeader, found: Iterable[Span], kept: list[Span]) -> None:
        """Put into ``kept`` the records that are the last of their key, and no tombstone past its horizon."""
        latest, base_offset = self._map.latest, header.base_offset
        find = self._map.offsets.get
        horizon = header.delete_horizon
        tombstones_stay = horizon is None or self._job.now_ms < horizon
        for span in found:
            offset = base_offset + span[0]
            key = span[2]
            if offset > latest:
                kept.append(span)
            elif key is None:
                self._records_without_key += 1
            elif find(key if len(key) <= KEY_SIZE_MAX else name_of(key), -1) <= offset and (span[3] or tombstones_stay):
                kept.append(span)

    def _write(
        self,
        cleaned: CleanedSegment,
        header: BatchHeader,
        batch: memoryview,
        data: bytes,
        kept: list[Span],
        droppable: bool,
    ) -> None:
        self._records_kept += len(kept)
        if not kept:
            if self._stays_empty(header):
                cleaned.append(empty_batch(header), header, header.max_timestamp)
            return
        horizon = None
        needs_horizon = droppable or not all(map(_HAS_VALUE, kept))
        if needs_horizon and header.delete_horizon is None:
            horizon = self._job.now_ms + self._job.delete_retention_ms
        if horizon is None and len(kept) == header.record_count:
            # The chunk that was read is large, the batch may be small and wait for others to be written.
            cleaned.append(bytes(batch), header, header.max_timestamp)
            return
        rebuilt = batch_of(header, data, kept, horizon)
        max_timestamp = int.from_bytes(rebuilt[35:43], "big", signed=True)
        cleaned.append(rebuilt, header, max_timestamp)

    def _stays_empty(self, header: BatchHeader) -> bool:
        """Whether the batch holds a producer's last sequence or epoch, or the end of all that is committed."""
        producer = self._job.producers.get(header.producer_id) if header.has_producer_id else None
        if producer is not None:
            last_offset, epoch = producer
            if last_offset >= 0:
                if header.last_offset == last_offset:
                    return True
            elif header.is_control and header.producer_epoch == epoch:
                return True
        return header.next_offset == self._job.high_watermark

    # --- both

    def _sources(self, start: int, end: int) -> list[SourceSegment]:
        """The segments that hold offsets of the range."""
        return [source for source in self._job.segments if source.end_offset > start and source.base_offset < end]

    def _read_txn_indexes(self) -> list[tuple[int, TxnIndex]]:
        """Those that have entries, with where their segments end."""
        indexes = []
        for source in self._job.segments:
            index = TxnIndex(self._disk, self._path(source, TXN_INDEX_SUFFIX), source.base_offset)
            if index.entries():
                indexes.append((source.end_offset, index))
        return indexes

    def _aborted_transactions(self, start: int, end: int) -> list[AbortedTxn]:
        found: list[AbortedTxn] = []
        for segment_end, index in self._txn_indexes:
            if segment_end > start:
                listed, is_complete = index.collect(start, end)
                found += listed
                if is_complete:
                    return found
        return found + [aborted for aborted in self._job.aborted_later if aborted.first_offset < end]

    def _path(self, source: SourceSegment, suffix: str) -> str:
        return f"{self._job.directory}/{offset_name(source.base_offset)}{suffix}"

    def _open(self, source: SourceSegment) -> File:
        return self._disk.open(self._path(source, LOG_SUFFIX))

    def _size(self, source: SourceSegment, suffix: str) -> int:
        try:
            with closing(self._disk.open(self._path(source, suffix))) as file:
                return file.size()
        except FileNotFoundError:
            return 0

    def _records(self, file: File, at: int, header: BatchHeader, batch: memoryview) -> bytes:
        if not header.attributes & CODEC_BITS:
            return bytes(batch[BATCH_OVERHEAD:])
        if not header.record_count:
            return b""
        try:
            return records_of(header, batch, WALK_LIMIT)
        except ApiError as error:
            raise CorruptFileError(file.path, at, str(error)) from error

    def _spend(self, cost: int) -> bool:
        """Whether it is time to report."""
        self._cost += cost
        if self._cost < self._report_cost:
            return False
        self._cost = 0
        return True

    def _progress(self, group: tuple[int, ...] = ()) -> Progress:
        return Progress(
            self._end_offset,
            self._bytes_mapped,
            self._bytes_read,
            self._bytes_written,
            self._records_read,
            self._records_kept,
            self._records_without_key,
            len(self._map.offsets),
            group,
        )


def _spans(file: File, at: int, data: bytes, count: int) -> Generator[Span, None, None]:
    try:
        yield from spans(data, count)
    except ApiError as error:
        raise CorruptFileError(file.path, at, str(error)) from error


def _wrong_crc(file: File, at: int, header: BatchHeader) -> CorruptFileError:
    return CorruptFileError(file.path, at, f"the CRC of the batch at offset {header.base_offset} is wrong")
