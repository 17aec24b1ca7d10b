"""What one shard knows: the fold of its partition, and what is volatile beside it.

``transactions`` changes in ``replay`` only. ``markers`` is derived from it: which partitions of an ending transaction
have no marker yet; it begins anew with every election, because a marker written twice does no harm. Volatile by nature
are the epochs that a repeated InitProducerId is recognised by (as in Kafka, they do not outlive the coordinator), since
when a transaction is open by the monotonic clock, and why a producer was last put off.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kbroker.protocol.coordinator_record import CoordinatorRecord, Deadlines, Decision, Now
from kbroker.protocol.errors import ApiError
from kbroker.txn.settings import TransactionSettings
from kbroker.txn.transaction import BUMPING_VERSION, FLEXIBLE_LEVEL, NO_EPOCH, Transaction, TransactionState
from kbroker.types import TopicPartition


class Asker(NamedTuple):
    """Who sent a request: for the log, and for people who ask why they were fenced."""

    client_id: str
    host: str

    def __str__(self) -> str:
        return f"client {self.client_id!r} at {self.host}"


class PutOff(NamedTuple):
    """How a producer lost its transactional id or its transaction: fenced by a successor, or timed out."""

    at_ms: int
    producer_id: int
    producer_epoch: int
    reason: str

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return f"producer id {self.producer_id}, epoch {self.producer_epoch} was put off at {at}: {self.reason}"


PUT_OFFS_MAX: Final = 5
"""How many of them an id remembers: an application that starts anew must not hide why it had to."""


class ShardState:
    """Owner: the shard. ``take_id`` gives a producer id that nobody had, None while there is none at hand."""

    def __init__(self, settings: TransactionSettings, take_id: Callable[[], int | None]) -> None:
        self.settings = settings
        self.take_id = take_id
        self.deadlines = Deadlines()
        self.transactions: dict[str, Transaction] = {}
        self.markers: dict[str, dict[TopicPartition, None]] = {}
        """Transactional id -> the partitions that still want the marker of its ending transaction."""
        self.previous_epochs: dict[str, int] = {}
        self.open_since_ms: dict[str, int] = {}
        """Transactional id -> the monotonic time at which its open transaction began."""
        self.put_offs: dict[str, tuple[PutOff, ...]] = {}
        """Transactional id -> how its producers were put off, oldest first."""

    def replay(self, transactional_id: str, transaction: Transaction | None) -> None:
        """Take over what a record says."""
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            self.previous_epochs.pop(transactional_id, None)
            self.put_offs.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
        if transaction is not None and transaction.state.is_ending:
            self.markers[transactional_id] = dict.fromkeys(transaction.partitions)
        else:
            self.markers.pop(transactional_id, None)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            self.open_since_ms.pop(transactional_id, None)

    def note_put_off(self, transactional_id: str, put_off: PutOff) -> None:
        """Remember it; the oldest one is forgotten."""
        self.put_offs[transactional_id] = (*self.put_offs.get(transactional_id, ()), put_off)[-PUT_OFFS_MAX:]

    def put_off(self, transactional_id: str) -> PutOff | None:
        """The latest."""
        known = self.put_offs.get(transactional_id)
        return known[-1] if known else None

    def previous_epoch(self, transactional_id: str) -> int:
        """The epoch that the producer had before, if it is the same client that goes on; else -1."""
        return self.previous_epochs.get(transactional_id, NO_EPOCH)

    def remember_previous_epoch(self, transactional_id: str, epoch: int) -> Callable[[ApiError, Now], None]:
        """Set it ahead of the record that is being written; what is returned takes it back."""
        before = self.previous_epoch(transactional_id)
        self._set_previous_epoch(transactional_id, epoch)
        return lambda _error, _now: self._set_previous_epoch(transactional_id, before)

    def _set_previous_epoch(self, transactional_id: str, epoch: int) -> None:
        if epoch == NO_EPOCH:
            self.previous_epochs.pop(transactional_id, None)
        else:
            self.previous_epochs[transactional_id] = epoch

    def can_serve(self, client_version: int) -> bool:
        """Below the first level a record cannot say that its client bumps epochs, and so no such client is served.

        What it began above that level is brought to its end all the same.
        """
        return self.settings.feature_level >= FLEXIBLE_LEVEL or client_version < BUMPING_VERSION

    def record(self, transaction: Transaction) -> list[CoordinatorRecord]:
        return [transaction.record(self.settings.feature_level)]

    def opened(self, transactional_id: str, now: Now, check: Callable[[Now], Decision[None]]) -> None:
        """A transaction begins: its time-out runs."""
        self.open_since_ms.setdefault(transactional_id, now.monotonic_ms)
        if "time-outs" not in self.deadlines:
            self.deadlines.set("time-outs", now.monotonic_ms + self.settings.abort_interval_ms, check)
