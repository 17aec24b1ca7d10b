"""What a log knows of the producers that write to it: sequences, epochs, open transactions (KIP-98, KIP-360, KIP-890).

Follows Kafka's ``ProducerStateManager`` and ``ProducerAppendInfo``. ``check`` decides and changes nothing; ``replay``
changes and refuses nothing, and is the one way in for a leader's append, a follower's, and recovery. Kafka's
verification of transactional batches (KIP-890) asks the coordinator and has its place before ``check``.

Invariants: a producer's kept batches are of its current epoch, at most five, in order; ``ongoing`` is in the order of
first offsets; ``map_end_offset`` is the offset after the last batch that was replayed.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from kbroker.config.java_maps import in_map_order
from kbroker.host import Disk
from kbroker.log import producer_snapshot
from kbroker.log.errors import CorruptFileError
from kbroker.log.paths import SNAPSHOT_SUFFIX, offset_name
from kbroker.log.producer_snapshot import ProducerEntry
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import BatchHeader
from kbroker.protocol.records.validation import AppendOrigin
from kbroker.types import TopicPartition

logger = logging.getLogger(__name__)

BATCHES_KEPT = 5
BUMPING_VERSION = 2
"""The version of transactions from which on every end raises the producer's epoch (KIP-890)."""
NO_EPOCH = -1
NO_SEQUENCE = -1
_SEQUENCE_MAX = 2**31 - 1
_EPOCH_MAX = 2**15 - 1
"""None comes after it."""


class KeptBatch(NamedTuple):
    """A batch that a repeat of it would be recognised by."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    max_timestamp: int


class EndMarker(NamedTuple):
    """A control record that ends a transaction."""

    commit: bool
    coordinator_epoch: int
    timestamp: int


class FirstWrite(NamedTuple):
    """The first batches of a transaction, from when a partition asked about them until one was appended (KIP-890).

    Several may be under way; if a later one came first, the producer's order would be lost.
    """

    epoch: int
    lowest_sequence: int
    starts_anew: bool
    """The client's protocol has a new epoch for every transaction: where nothing is known the first sequence is 0."""
    had_no_room: bool = False
    """It was refused for want of room; whatever comes of this producer next, the log knows from then on."""


class CompletedTxn(NamedTuple):
    """A transaction that a marker ended; ``last_offset`` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerState:
    """One producer in one log."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "txn_first_offset")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset: int | None = None
        self.batches: deque[KeptBatch] = deque(maxlen=BATCHES_KEPT)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def enter_epoch(self, epoch: int) -> None:
        if self.epoch != epoch:
            self.batches.clear()
            self.epoch = epoch


class ProducerStates:
    """All producers of one log, and its snapshots on disk. Owned by the ``Log``."""

    __slots__ = (
        "_disk",
        "directory",
        "last_snapshot_offset",
        "map_end_offset",
        "ongoing",
        "partition",
        "producers",
        "snapshots",
        "unreplicated",
        "unsynced",
    )

    def __init__(self, disk: Disk, directory: str, partition: TopicPartition) -> None:
        self._disk = disk
        self.directory = directory
        self.partition = partition
        self.producers: dict[int, ProducerState] = {}
        self.ongoing: dict[int, int] = {}
        """First offset -> producer id of the transactions without a marker yet."""
        self.unreplicated: dict[int, int] = {}
        """First offset -> marker's offset of the transactions whose marker is not below the high watermark yet."""
        self.snapshots: list[int] = []
        self.unsynced: deque[int] = deque()
        """Snapshots that were written and not made durable yet."""
        self.map_end_offset = 0
        self.last_snapshot_offset = 0

    # --- deciding

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether records of the producer's transaction stand here already: then it has been verified.

        Raises ``ApiError``: INVALID_PRODUCER_EPOCH when the log has heard of a later epoch.
        """
        producer = self.producers.get(producer_id)
        if producer is None:
            return False
        if epoch < producer.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch "
                f"{producer.epoch} in {self.partition}",
            )
        return producer.txn_first_offset is not None and producer.epoch == epoch

    def check(
        self,
        header: BatchHeader,
        offset: int,
        origin: AppendOrigin,
        marker: EndMarker | None,
        transaction_version: int = 0,
        first_write: FirstWrite | None = None,
    ) -> KeptBatch | None:
        """The kept batch that this one repeats, or None when it may be appended at ``offset``. Raises ``ApiError``."""
        state = self.producers.get(header.producer_id)
        epoch = header.producer_epoch
        if origin is AppendOrigin.CLIENT and state is not None and epoch == state.epoch:
            sequences = (header.base_sequence, header.last_sequence)
            for kept in state.batches:
                if kept[:2] == sequences:
                    return kept
        last_epoch = NO_EPOCH if state is None else state.epoch
        if epoch < last_epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {header.producer_id} at offset {offset} in {self.partition} is {epoch}, "
                f"which is smaller than the last seen epoch {last_epoch}",
            )
        if state is None:
            if first_write is not None:
                self._check_first_write(first_write, header, offset, is_known=False)
            return None
        if marker is not None:
            ends_open = epoch == state.epoch and state.txn_first_offset is not None
            if transaction_version >= BUMPING_VERSION and ends_open and epoch != _EPOCH_MAX:
                raise ApiError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"Epoch of producer {header.producer_id} at offset {offset} in {self.partition} is {epoch}, "
                    f"and a transaction of version {transaction_version} ends with an epoch after {state.epoch}",
                )
            self._check_coordinator_epoch(state, marker, offset)
        elif not header.is_control:
            if origin is AppendOrigin.CLIENT:
                if first_write is not None:
                    self._check_first_write(first_write, header, offset, is_known=bool(state.batches))
                self._check_sequence(state, header, offset)
            if state.txn_first_offset is not None and not header.is_transactional:
                raise ApiError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"Expected transactional write from producer {header.producer_id} at offset {offset} "
                    f"in partition {self.partition}",
                )
        return None

    def _check_coordinator_epoch(self, state: ProducerState, marker: EndMarker, offset: int) -> None:
        if state.coordinator_epoch > marker.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {state.producer_id} at offset {offset} in partition "
                f"{self.partition}: {marker.coordinator_epoch} (zombie), {state.coordinator_epoch} (current)",
            )

    def _check_first_write(self, first: FirstWrite, header: BatchHeader, offset: int, *, is_known: bool) -> None:
        sequence = header.base_sequence
        if sequence > first.lowest_sequence or (first.starts_anew and sequence != 0 and not is_known):
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id} at offset {offset} in partition "
                f"{self.partition}: {sequence} (incoming seq. number), a transaction begins with "
                f"{0 if first.starts_anew and not is_known else first.lowest_sequence}",
            )

    def _check_sequence(self, state: ProducerState, header: BatchHeader, offset: int) -> None:
        if state.epoch == NO_EPOCH:
            return
        sequence = header.base_sequence
        if header.producer_epoch != state.epoch:
            if sequence != 0:
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {header.producer_id} at offset {offset} "
                    f"in partition {self.partition}: {header.producer_epoch} (request epoch), {sequence} "
                    f"(seq. number), {state.epoch} (current producer epoch)",
                )
            return
        last = state.last_sequence
        if sequence != last + 1 and not (sequence == 0 and last == _SEQUENCE_MAX):
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id} at offset {offset} in partition "
                f"{self.partition}: {sequence} (incoming seq. number), {last} (current end sequence number)",
            )

    # --- changing

    def replay(self, header: BatchHeader, offset: int, marker: EndMarker | None) -> CompletedTxn | None:
        """Take in a batch that stands in the log at ``offset``; the transaction it ended, if it did."""
        last_offset = offset + header.last_offset_delta
        self.map_end_offset = last_offset + 1
        producer_id = header.producer_id
        if producer_id < 0:
            return None
        state = self.producers.get(producer_id)
        if state is None:
            if header.is_control and marker is None:
                return None
            state = self.producers[producer_id] = ProducerState(producer_id)
        if header.is_control:
            return self._replay_marker(state, header.producer_epoch, offset, marker) if marker else None
        state.enter_epoch(header.producer_epoch)
        state.batches.append(
            KeptBatch(header.base_sequence, header.last_sequence, offset, last_offset, header.max_timestamp)
        )
        state.last_timestamp = header.max_timestamp
        if header.is_transactional and state.txn_first_offset is None:
            state.txn_first_offset = offset
            self.ongoing[offset] = producer_id
        return None

    def _replay_marker(self, state: ProducerState, epoch: int, offset: int, marker: EndMarker) -> CompletedTxn | None:
        first_offset = state.txn_first_offset
        state.enter_epoch(epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = marker.timestamp
        state.txn_first_offset = None
        if first_offset is None:
            return None
        return CompletedTxn(state.producer_id, first_offset, offset, not marker.commit)

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """Where read_committed may read to once ``completed`` is: the next open transaction of another producer."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTxn) -> None:
        """The transaction is over, but holds the last stable offset until its marker is below the high watermark."""
        self.ongoing.pop(completed.first_offset, None)
        self.unreplicated[completed.first_offset] = completed.last_offset

    def forget_replicated(self, high_watermark: int) -> None:
        """Drop finished transactions whose marker is below ``high_watermark``."""
        for first in [first for first, last in self.unreplicated.items() if last < high_watermark]:
            del self.unreplicated[first]

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest transaction that is open or not yet replicated."""
        if not self.ongoing and not self.unreplicated:
            return None
        return min([*self.unreplicated, *([next(iter(self.ongoing))] if self.ongoing else [])])

    def remove_expired(self, now_ms: int, expiry_ms: int) -> None:
        """Forget producers without an open transaction that wrote nothing for ``expiry_ms`` of wall-clock time."""
        for producer_id in [p for p, s in self.producers.items() if self._expired(s, now_ms, expiry_ms)]:
            del self.producers[producer_id]

    @staticmethod
    def _expired(state: ProducerState, now_ms: int, expiry_ms: int) -> bool:
        return state.txn_first_offset is None and now_ms - state.last_timestamp >= expiry_ms

    def clear(self, end_offset: int) -> None:
        self.producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()
        self.map_end_offset = end_offset

    def take_over(self, other: ProducerStates) -> None:
        """Know what ``other`` knows, of a log that ends at the same offset. ``other`` is over."""
        self.producers, self.ongoing, self.unreplicated = other.producers, other.ongoing, other.unreplicated

    # --- snapshots

    def snapshot_path(self, offset: int) -> str:
        return f"{self.directory}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"

    def take_snapshot(self) -> None:
        """Write the producers as of ``map_end_offset``, unless a snapshot says it already."""
        if self.map_end_offset <= self.last_snapshot_offset:
            return
        offset = self.map_end_offset
        producers = self.producers
        data = producer_snapshot.encode(self._entry(producers[each]) for each in in_map_order(producers))
        self._disk.write_atomically(self.snapshot_path(offset), data, sync=False)
        self.last_snapshot_offset = offset
        self.unsynced.append(offset)
        at = bisect_left(self.snapshots, offset)
        if self.snapshots[at : at + 1] != [offset]:
            self.snapshots.insert(at, offset)

    @staticmethod
    def _entry(state: ProducerState) -> ProducerEntry:
        last = state.batches[-1] if state.batches else None
        return ProducerEntry(
            producer_id=state.producer_id,
            epoch=state.epoch,
            last_sequence=last.last_sequence if last else NO_SEQUENCE,
            last_offset=last.last_offset if last else -1,
            offset_delta=last.last_offset - last.first_offset if last else 0,
            timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_first_offset=-1 if state.txn_first_offset is None else state.txn_first_offset,
        )

    def load_newest_snapshot(self, start_offset: int, now_ms: int, expiry_ms: int) -> None:
        """Begin from the newest readable snapshot, or from nothing at ``start_offset``. Unreadable ones are removed."""
        self.clear(start_offset)
        self.last_snapshot_offset = start_offset
        while self.snapshots:
            offset = self.snapshots[-1]
            path = self.snapshot_path(offset)
            try:
                entries = producer_snapshot.decode(path, self._disk.read(path))
            except (CorruptFileError, FileNotFoundError) as error:
                logger.warning("%s: removed, producer state is rebuilt from an earlier snapshot or the log", error)
                self.remove_snapshot(offset)
                continue
            self.map_end_offset = self.last_snapshot_offset = offset
            for entry in sorted(entries, key=lambda entry: entry.current_txn_first_offset):
                self._load(entry, now_ms, expiry_ms)
            return

    def _load(self, entry: ProducerEntry, now_ms: int, expiry_ms: int) -> None:
        state = ProducerState(entry.producer_id)
        state.epoch = entry.epoch
        state.coordinator_epoch = entry.coordinator_epoch
        state.last_timestamp = entry.timestamp
        if entry.current_txn_first_offset >= 0:
            state.txn_first_offset = entry.current_txn_first_offset
            self.ongoing[entry.current_txn_first_offset] = entry.producer_id
        if entry.last_offset >= 0:
            first_sequence = (entry.last_sequence - entry.offset_delta) & _SEQUENCE_MAX
            first_offset = entry.last_offset - entry.offset_delta
            kept = KeptBatch(first_sequence, entry.last_sequence, first_offset, entry.last_offset, entry.timestamp)
            state.batches.append(kept)
        if not self._expired(state, now_ms, expiry_ms):
            self.producers[entry.producer_id] = state

    def remove_snapshot(self, offset: int) -> None:
        if offset in self.snapshots:
            self.snapshots.remove(offset)
            self._disk.remove(self.snapshot_path(offset))

    def forget_snapshots(self, offsets: Iterable[int]) -> frozenset[int]:
        """Those of them that there are: their files are the caller's now."""
        found = set()
        for offset in offsets:
            at = bisect_left(self.snapshots, offset)
            if self.snapshots[at : at + 1] == [offset]:
                del self.snapshots[at]
                found.add(offset)
        return frozenset(found)

    def remove_snapshots_outside(self, after: int, until: int) -> None:
        """Keep only the snapshots in ``after < offset <= until``."""
        for offset in [offset for offset in self.snapshots if not after < offset <= until]:
            self.remove_snapshot(offset)

    def remove_stray_snapshots(self, base_offsets: list[int]) -> None:
        """Keep the snapshots at the start of a segment, and the newest one if it lies after every segment's start."""
        bases = set(base_offsets)
        newest = self.snapshots[-1] if self.snapshots else -1
        keep_newest = newest > (base_offsets[-1] if base_offsets else -1)
        for offset in list(self.snapshots):
            if offset not in bases and not (keep_newest and offset == newest):
                self.remove_snapshot(offset)
