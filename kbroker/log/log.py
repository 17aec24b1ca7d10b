"""One partition on disk: appends, reads, rolls, truncation. Follows Kafka's ``UnifiedLog`` and ``LocalLog``.

A log makes its directory and files at its first record. It is owned by the broker's loop; only ``sync`` runs in a
worker. Lookups by time are in ``lookup``, retention in ``retention``, loading in ``recovery``. High watermarks and
who may read what belong to ``replication``: a log knows only what is written, and which transactions are open.

Invariants: ``log_start_offset <= recovery_point <= log_end_offset`` after loading (the recovery point may lie below a
moved start); segments are in order and only the last takes appends; a batch that was refused or whose write failed is
nowhere to be seen. A log that failed (``LogOfflineError``) serves nobody until it is opened anew.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from typing import Literal, NoReturn

from kbroker.host import Buffer, Disk
from kbroker.log import lookup, partition_metadata
from kbroker.log.append_info import AppendInfo
from kbroker.log.durability import Durability, SyncPoint
from kbroker.log.errors import CorruptFileError, LogOfflineError
from kbroker.log.file_records import FileRecords
from kbroker.log.health import Health
from kbroker.log.lookup import TimestampOffset
from kbroker.log.markers import read_marker
from kbroker.log.paths import LOG_SUFFIX, offset_name
from kbroker.log.producer_state import EndMarker, FirstWrite, ProducerState
from kbroker.log.received import received_batches
from kbroker.log.recovery import Loader
from kbroker.log.replay import complete_transaction, rebuild_producers, replay_batches
from kbroker.log.rules import LogConfig, internal_rules, roll_rules, validation_rules
from kbroker.log.segment import Segment
from kbroker.log.segments import Discarded, Segments
from kbroker.log.txn_index import AbortedTxn
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.validation import AppendOrigin, validate
from kbroker.types import TopicPartition, Uuid

logger = logging.getLogger(__name__)

_PATCH = struct.Struct(">qii")
"""Base offset, length, leader epoch: what a leader writes into a batch, all before the CRC's range."""

DEFAULT_PRODUCER_EXPIRY_MS = 24 * 3600 * 1000


class Log:
    """One partition's log. Made by ``open``."""

    __slots__ = (
        "_client_rules",
        "_config",
        "_health",
        "_jitter",
        "_roll_rules",
        "_segments",
        "_validation",
        "clean_end_offset",
        "directory",
        "disk",
        "durability",
        "epochs",
        "last_flush_ms",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "producer_expiry_ms",
        "producers",
        "recovery_point",
        "topic_id",
        "truncations",
    )

    def __init__(
        self, topic_id: Uuid, config: LogConfig, loader: Loader, validation: Literal["header", "full"], health: Health
    ) -> None:
        loaded = loader.load()
        self.disk = loader.disk
        self.directory = loader.directory
        self.partition = loader.partition
        self.topic_id = topic_id
        self._segments = Segments(self.disk, self.directory, loaded.segments)
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.last_flush_ms = loader.now_ms
        self.producer_expiry_ms = loader.producer_expiry_ms
        self._jitter: Callable[[int], int] = lambda bound: 0  # noqa: ARG005 - the signature of randrange
        self._health = health
        self.clean_end_offset: int | None = None
        """Below it the log has been compacted; None when it never was."""
        self.truncations = 0
        """Grows when segments are cut or the directory moves: who works on them meanwhile must begin anew."""
        parts = (self.segments, self.producers, self.epochs, health)
        self.durability = Durability(self.disk, self.directory, *parts)
        self.durability.is_new = bool(self.segments) and not loader.clean
        self._validation = validation
        self._config = config
        self._roll_rules = loader.rules
        self._client_rules = validation_rules(config, full=validation == "full")

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        clean: bool = False,
        now_ms: int = 0,
        producer_expiry_ms: int = DEFAULT_PRODUCER_EXPIRY_MS,
        validation: Literal["header", "full"] = "header",
        jitter: Callable[[int], int] | None = None,
        on_io_error: Callable[[Exception], None] | None = None,
    ) -> Log:
        """Load and, unless ``clean``, recover. Raises ``CorruptFileError`` and ``OSError``.

        ``jitter(n)`` gives a random number below ``n`` (``segment.jitter.ms``); none means no jitter. ``on_io_error``
        is told when, later, an operation has failed (``log.health``).
        """
        loader = Loader(
            disk,
            directory,
            partition,
            roll_rules(config),
            recovery_point,
            log_start_offset,
            clean,
            now_ms,
            producer_expiry_ms,
            contiguous=not config.compact,
        )
        log = cls(topic_id, config, loader, validation, Health(partition, on_io_error))
        if jitter is not None:
            log._jitter = jitter
        return log

    # --- settings and figures

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._roll_rules = roll_rules(config)
        for segment in self.segments:
            segment.rules = self._roll_rules
        self._client_rules = validation_rules(config, full=self._validation == "full")

    @property
    def validation(self) -> Literal["header", "full"]:
        """How deep producers' batches are looked into (``kbroker.record.validation``)."""
        return self._validation

    @validation.setter
    def validation(self, depth: Literal["header", "full"]) -> None:
        self._validation = depth
        self._client_rules = validation_rules(self._config, full=depth == "full")

    @property
    def segments(self) -> list[Segment]:
        """The segments in order; the last takes appends. To be read only."""
        return self._segments.all

    @property
    def size(self) -> int:
        """Bytes of all segments' batches."""
        return sum(segment.size for segment in self.segments)

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last batch, or of the leadership that began since; -1 when there is none."""
        return self.epochs.latest

    @property
    def needs_sync(self) -> bool:
        """Whether a segment was rolled since the last sync: Kafka flushes those in the background."""
        return bool(self.segments) and self.recovery_point < self.segments[-1].base_offset

    @property
    def offline_error(self) -> LogOfflineError | None:
        return self._health.offline

    def take_offline(self, error: Exception) -> None:
        """Its data directory has failed: serve nobody from now on."""
        self._health.take_offline(error)

    def fail(self, error: Exception) -> NoReturn:
        """Take the log offline, say so once. Raises ``LogOfflineError``."""
        self._health.fail(error)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest transaction begins that is open, or over but not below the high watermark; else None."""
        first = self.producers.first_unstable_offset
        return first if first is None else max(first, self.log_start_offset)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Finished transactions below it no longer hold the last stable offset."""
        if self.producers.unreplicated:
            self.producers.forget_replicated(high_watermark)

    def active_producers(self) -> dict[int, ProducerState]:
        return self.producers.producers

    def remove_expired_producers(self, now_ms: int) -> None:
        self.producers.remove_expired(now_ms, self.producer_expiry_ms)

    def begin_epoch(self, epoch: int) -> None:
        """A leadership begins here at the log's end (Kafka's ``maybeAssignEpochStartOffset``)."""
        if epoch != self.epochs.latest:
            self._health.guarded(lambda: self.epochs.assign(epoch, self.log_end_offset))

    # --- appending

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
        first_write: FirstWrite | None = None,
    ) -> AppendInfo:
        """Append one batch at the end. ``records`` is patched in place when it is writable, else copied.

        ``transaction_version`` is the protocol of the transaction that a marker ends: from 2 on it has a newer epoch.
        ``first_write`` says what is known of a transaction's first batch.

        Raises ``ApiError`` with Kafka's code, ``RecordValidationError`` for single records, ``LogOfflineError``.
        """
        if self._health.offline is not None:
            raise self._health.offline
        rules = self._client_rules
        if origin is not AppendOrigin.CLIENT:
            rules = internal_rules(self._config, limited=origin is not AppendOrigin.RAFT_LEADER)
        header, buffer, append_time_ms = validate(records, rules, now_ms, self.partition, origin)
        offset = self.log_end_offset
        size = len(buffer)
        last_offset = offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        if size > self._roll_rules.segment_bytes:
            raise ApiError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"Message batch size is {size} bytes in append to partition {self.partition}, which exceeds the "
                f"maximum configured segment size of {self._roll_rules.segment_bytes}.",
            )
        segment = self._segments.active
        try:
            if segment is not None and segment.should_roll(size, last_offset, max_timestamp, now_ms):
                # As in Kafka before the producer is looked at: what is refused then may begin a segment, too.
                segment = self.roll(now_ms)
        except OSError as error:
            self._append_failed(error)
        marker: EndMarker | None = None
        if header.producer_id >= 0:
            if header.is_control:
                marker = read_marker(buffer)
            kept = self.producers.check(header, offset, origin, marker, transaction_version, first_write)
            if kept is not None:
                time_ms = kept.max_timestamp
                return AppendInfo(kept.first_offset, kept.last_offset, time_ms, time_ms, self.log_start_offset, True)
        _PATCH.pack_into(buffer, 0, offset, header.batch_length, leader_epoch)
        try:
            if segment is None:
                segment = self._make_directory(now_ms)
            if leader_epoch != self.epochs.latest:
                self.epochs.assign(leader_epoch, offset)
            position = segment.append(buffer, last_offset, max_timestamp)
        except OSError as error:
            self._append_failed(error)
        self.log_end_offset = last_offset + 1
        self._segments.remember(offset, position)
        completed = self.producers.replay(header, offset, marker)
        if completed is not None:
            self._health.guarded(lambda: complete_transaction(completed, self.producers, segment))
        return AppendInfo(offset, last_offset, max_timestamp, append_time_ms, self.log_start_offset)

    def append_as_follower(self, records: Buffer, now_ms: int) -> AppendInfo | None:
        """Append whole batches as the leader numbered them; a cut one at the end is left out. None when none is whole.

        Raises ``UnexpectedOffsetError`` when they do not continue this log, ``ApiError`` for bytes that are no
        batches.
        """
        if self._health.offline is not None:
            raise self._health.offline
        found = received_batches(records, self.log_end_offset, self.partition)
        if not found:
            return None
        headers = [header for header, _ in found]
        first, last = headers[0], headers[-1]
        max_timestamp = max(header.max_timestamp for header in headers)
        whole = memoryview(records)[: sum(header.size for header in headers)]
        try:
            segment = self._segments.active or self._make_directory(now_ms)
            if segment.should_roll(len(whole), last.last_offset, max_timestamp, now_ms):
                segment = self.roll(now_ms, first.base_offset)
            for header in headers:
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            position = segment.append_batches(whole, headers)
        except OSError as error:
            self._append_failed(error)
        self.log_end_offset = last.next_offset
        self._segments.remember(first.base_offset, position)
        self._health.guarded(lambda: replay_batches(found, self.producers, segment))
        return AppendInfo(first.base_offset, last.last_offset, max_timestamp, -1, self.log_start_offset)

    def _append_failed(self, error: OSError) -> NoReturn:
        """Nothing of the batch stays. A full disk refuses the append; anything else takes the log offline."""
        try:
            if self.segments:
                self.segments[-1].file.truncate(self.segments[-1].size)
        except OSError as second:
            self.fail(second)
        self._health.refuse(error)

    def ensure_directory(self, now_ms: int) -> None:
        """Have the files even without a record, as the future of a log that has them. Raises ``ApiError``."""
        if not self.segments:
            self._health.attempt(lambda: self._make_directory(now_ms))

    def _make_directory(self, now_ms: int) -> Segment:
        """The first record comes: directory, ``partition.metadata`` and the first segment. Raises ``OSError``."""
        partition_metadata.check_free(self.disk, self.directory, self.topic_id)
        self.disk.make_dirs(self.directory)
        partition_metadata.write(self.disk, self.directory, self.topic_id)
        return self._add_segment(self.log_end_offset, now_ms)

    def _add_segment(self, base_offset: int, now_ms: int) -> Segment:
        config = self._config
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        jitter_ms = self._jitter(jitter) if jitter > 0 else 0
        try:
            segment = Segment(
                self.disk, self.directory, base_offset, self._roll_rules, now_ms, create=True, jitter_ms=jitter_ms
            )
        except OSError:
            self._remove_unborn(base_offset)
            raise
        self._segments.add(segment)
        self.durability.is_new = True
        return segment

    def _remove_unborn(self, base_offset: int) -> None:
        """A segment could not be made: a file of it would end the one before it, which takes more batches now."""
        try:
            self.disk.remove(f"{self.directory}/{offset_name(base_offset)}{LOG_SUFFIX}")
        except OSError as error:
            self.fail(error)

    def roll(self, now_ms: int, base_offset: int = 0) -> Segment:
        """Finish the active segment; begin one at the log's end, or ``base_offset`` beyond it. Raises ``OSError``."""
        active = self.segments[-1]
        base_offset = max(base_offset, self.log_end_offset)
        if active.size == 0 and active.base_offset == base_offset:
            active.reset_indexes()
            return active
        active.finish()
        self.producers.map_end_offset = base_offset
        self.producers.take_snapshot()
        return self._add_segment(base_offset, now_ms)

    # --- reading

    def read(
        self, offset: int, max_bytes: int, *, end_offset: int | None = None, at_least_one: bool = False
    ) -> FileRecords | bytes:
        """The records from the batch that holds ``offset`` on, below ``end_offset``, cut at ``max_bytes``.

        ``at_least_one`` gives the first batch whole even if it is larger. ``b""`` when there is nothing. Raises
        ``ApiError`` (OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE) and ``LogOfflineError``.
        """
        if self._health.offline is not None:
            raise self._health.offline
        log_end = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.partition}, but we only have log segments "
                f"in the range {self.log_start_offset} to {log_end}.",
            )
        if end_offset is None or end_offset > log_end:
            end_offset = log_end
        if offset >= end_offset or (max_bytes <= 0 and not at_least_one):
            return b""
        try:
            return self._segments.read(offset, max_bytes, end_offset, log_end, at_least_one=at_least_one)
        except OSError as error:
            self.fail(error)
        except CorruptFileError as error:
            self._health.refuse_to_read(error)

    def aborted_transactions(self, offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that touch the range, for a read_committed fetch. Raises ``ApiError``."""
        return self._health.reading(lambda: self._segments.aborted_transactions(offset, upper_bound_offset))

    def upper_bound_of(self, records: FileRecords) -> int:
        """An offset that the records of a read do not reach past: the bound for its aborted transactions.

        Raises ``ApiError``.
        """
        return self._health.reading(lambda: self._segments.upper_bound_of(records, self.log_end_offset))

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record that is not older than ``timestamp``, or None. Raises ``ApiError``."""
        return self._health.reading(
            lambda: lookup.offset_for_timestamp(self.segments, timestamp, self.log_start_offset, self.config)
        )

    def offset_for_max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp; None in an empty log. Raises ``ApiError``."""
        return self._health.reading(lambda: lookup.offset_for_max_timestamp(self.segments, self.config))

    def offsets_before(self, timestamp_ms: int, now_ms: int) -> list[int]:
        """Where segments begin that are not younger than a time, newest first. Raises ``ApiError``."""
        return self._health.reading(
            lambda: lookup.offsets_before(
                self.segments, self.log_start_offset, self.log_end_offset, timestamp_ms, now_ms
            )
        )

    # --- leader epochs

    def offset_for_leader_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch at or below ``epoch`` and the offset where it ends; (-1, -1) when unknown."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int | None:
        return self.epochs.epoch_at(offset)

    # --- cutting

    def truncate_to(self, offset: int, now_ms: int) -> bool:
        """Drop the records from ``offset`` on; whether there were any. A batch that holds ``offset`` goes whole."""
        if offset >= self.log_end_offset:
            if offset == self.log_end_offset:
                self._health.guarded(lambda: self.epochs.truncate_from_end(offset))
            return False
        if not self.segments or self.segments[0].base_offset > offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return True
        self._health.guarded(lambda: self._truncate_to(offset, now_ms))
        return True

    def _truncate_to(self, offset: int, now_ms: int) -> None:
        self._segments.truncate_to(offset, now_ms)
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self._after_cut()
        self.epochs.truncate_from_end(offset)
        if self.producers.map_end_offset != offset:
            start, expiry_ms = self.log_start_offset, self.producer_expiry_ms
            rebuild_producers(self.producers, self.segments, start, offset, now_ms, expiry_ms=expiry_ms)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop every record; the log begins and ends at ``offset``."""
        self._health.guarded(lambda: self._truncate_fully(offset, now_ms))

    def _truncate_fully(self, offset: int, now_ms: int) -> None:
        made = bool(self.segments)
        self._segments.remove_all()
        self.log_start_offset = self.log_end_offset = offset
        self._after_cut()
        self.producers.remove_snapshots_outside(0, -1)
        self.producers.clear(offset)
        self.producers.last_snapshot_offset = offset
        self.epochs.clear()
        if made:
            self._add_segment(offset, now_ms)

    def _after_cut(self) -> None:
        if self.clean_end_offset is not None:
            self.clean_end_offset = min(self.clean_end_offset, self.log_end_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.truncations += 1
        self.durability.is_new = bool(self.segments)

    def update_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset (DeleteRecords, retention); whether it rose. Segments below it go by retention."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._health.guarded(lambda: self.epochs.truncate_from_start(offset))
        self.producers.forget_replicated(offset)
        self.producers.map_end_offset = max(self.producers.map_end_offset, offset)
        if offset > self.log_end_offset:
            self.log_end_offset = offset
        return True

    def delete_first(self, count: int, now_ms: int) -> Discarded:
        """Let go of the first segments. Raises ``ApiError``: the log is offline, or the disk full."""
        if count == len(self.segments):
            self._health.attempt(lambda: self.roll(now_ms))
        discarded = self._segments.take_first(count, self.producers)
        self.update_log_start_offset(self.segments[0].base_offset)
        return discarded

    def rename(self, discarded: Discarded) -> None:
        """Mark the files of what was let go of. Blocks, may be called from a worker. Raises ``LogOfflineError``."""
        self._health.guarded(discarded.rename)

    def swap_in(self, base_offsets: tuple[int, ...]) -> Discarded:
        """Let readers find a cleaned segment in the place of those that begin there. Raises ``LogOfflineError``.

        Its files keep the suffix ``.swap`` until the others are renamed, and ``finish_swap`` is called.
        """
        first, count = base_offsets[0], len(base_offsets)
        return self._health.guarded(lambda: self._segments.swap_in(first, count, self._roll_rules, self.producers))

    def finish_swap(self, base_offset: int) -> None:
        """Give the swapped segment its names, if it is still there. Raises ``LogOfflineError``."""
        self._health.guarded(lambda: self._segments.finish_swap(base_offset))

    # --- durability and end

    def sync(self) -> SyncPoint:
        """Make everything appended so far durable. Blocks: call it from a worker, then ``mark_flushed`` on the loop.

        Raises ``LogOfflineError``: after a failed fsync only recovery tells what may be trusted. ``DiskFullError`` when
        there is no room for the small files: then nothing is said to be durable.
        """
        point = SyncPoint(self.log_end_offset, self.truncations)
        self.durability.sync(lambda: self.truncations != point.truncations)
        return point

    def mark_flushed(self, point: SyncPoint, now_ms: int) -> None:
        """The owner's half of ``sync``: move the recovery point, unless what was synced has been cut since."""
        if point.truncations == self.truncations:
            self.recovery_point = max(self.recovery_point, point.offset)
        self.last_flush_ms = now_ms

    def is_due_for_sync(self, now_ms: int, *, rolled: bool = True) -> bool:
        """Whether ``flush.messages``, ``flush.ms`` or (``rolled``) a finished segment asks for a ``sync``."""
        unflushed = self.log_end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        config = self._config
        asked = unflushed >= config.flush_messages or now_ms - self.last_flush_ms >= config.flush_ms
        return asked or (rolled and self.needs_sync)

    def close(self) -> None:
        """Complete the files for a clean stop. Fsync and ``release`` are the manager's. Raises ``ApiError``."""
        if self.segments:
            self._health.attempt(self._finish)

    def _finish(self) -> None:
        self.segments[-1].finish()
        self.producers.take_snapshot()
        self.epochs.truncate_from_end(self.log_end_offset)  # in which nothing was written, as the next start would
        self.durability.is_finished = True

    def release(self) -> None:
        """Let go of the files: as they are, or after ``close`` as a clean stop leaves them. Raises ``ApiError``."""
        if self.durability.is_finished:  # and was not synced, else nothing is left to be staged
            self.durability.stage_epochs()
            self.durability.place_epochs()
        for segment in self.segments:
            segment.release()

    def take_over(self, old: Log) -> None:
        """Become what ``old`` was, whose records all stand here too: its start, its epochs, its producers."""
        self.update_log_start_offset(old.log_start_offset)
        self.epochs.take_over(old.epochs)
        self.producers.take_over(old.producers)

    def rename_directory(self, directory: str) -> None:
        """The directory gets another name (deletion, a move); files that are open follow. Raises ``OSError``."""
        if self.segments:
            self._segments.rename_discarded()
            self.truncations += 1
            self.disk.rename(self.directory, directory)
            self.durability.is_new = True
        self.directory = self.durability.directory = directory
        self.epochs.move_to(directory)
        self.producers.directory = directory
        self._segments.move_to(directory)
