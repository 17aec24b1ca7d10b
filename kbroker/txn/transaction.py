"""One transactional id: the fold of its records in ``__transaction_state``, and the table of its transitions.

    from              | may become
    ------------------+---------------------------------------------------------------------------------
    (nothing)         | Empty: the id is initialised for the first time
    Empty             | Empty (initialised again), Ongoing (a partition joins), PrepareAbort (KIP-890), gone (expired)
    Ongoing           | Ongoing, PrepareCommit, PrepareAbort (by the producer, its successor, or the time-out)
    PrepareCommit     | CompleteCommit: every partition has its marker
    PrepareAbort      | CompleteAbort: every partition has its marker
    Complete*         | Empty, Ongoing, PrepareAbort (KIP-890: nothing to abort still bumps the epoch), gone (expired)

Kafka's further states, PrepareEpochFence and Dead, are never in the log: the first is part of the step from Ongoing to
PrepareAbort here, the second is a tombstone. Follows Kafka's ``TransactionMetadata`` (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from kbroker.protocol.coordinator_record import CoordinatorRecord
from kbroker.protocol.messages.records.transaction import TransactionLogKey, TransactionLogValue
from kbroker.types import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 2**15 - 1
"""Never a client's: with it the coordinator can always fence."""
NO_TIME: Final = -1
TIMEOUT_FOR_EVER_MS: Final = 2**31 - 1
"""The time-out of a transaction that somebody else decides (two-phase commit, KIP-939)."""

NO_PARTITIONS: Final[Mapping[TopicPartition, None]] = MappingProxyType({})


class TransactionState(IntEnum):
    """The numbers of the log; ``shown`` is what DescribeTransactions says."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown(self) -> str:
        return _SHOWN[self]

    @property
    def is_ending(self) -> bool:
        """Decided, and markers are on their way."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Nothing is open: an id that stays so for long is forgotten."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


_SHOWN: Final = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState}
STATE_BY_NAME: Final = {shown: state for state, shown in _SHOWN.items()}

_NEXT: Final = {
    TransactionState.EMPTY: (TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT),
    TransactionState.ONGOING: (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    ),
    TransactionState.PREPARE_COMMIT: (TransactionState.COMPLETE_COMMIT,),
    TransactionState.PREPARE_ABORT: (TransactionState.COMPLETE_ABORT,),
    TransactionState.COMPLETE_COMMIT: (
        TransactionState.EMPTY,
        TransactionState.ONGOING,
        TransactionState.PREPARE_ABORT,
    ),
    TransactionState.COMPLETE_ABORT: (TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT),
}


class Transaction(NamedTuple):
    """What the log says of a transactional id. Immutable; ``partitions`` keeps the order in which they joined."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    """The id that follows when this transaction is over, because the epochs of the present one are used up."""
    epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: Mapping[TopicPartition, None]
    updated_ms: int
    started_ms: int
    client_version: int
    """The level of ``transaction.version`` that the client's requests spoke; from 2 on every end bumps the epoch."""

    @classmethod
    def of_record(cls, transactional_id: str, value: TransactionLogValue) -> Transaction:
        state = TransactionState(value.transaction_status)
        partitions: Mapping[TopicPartition, None] = NO_PARTITIONS
        if state is not TransactionState.EMPTY and value.transaction_partitions:
            partitions = {
                TopicPartition(each.topic, index): None
                for each in value.transaction_partitions
                for index in each.partition_ids
            }
        return cls(
            transactional_id,
            value.producer_id,
            value.previous_producer_id,
            value.next_producer_id,
            value.producer_epoch,
            value.transaction_timeout_ms,
            state,
            partitions,
            value.transaction_last_update_timestamp_ms,
            value.transaction_start_timestamp_ms,
            value.client_transaction_version,
        )

    def record(self, feature_level: int) -> CoordinatorRecord:
        """The record that makes the shard's state of this id what is said here."""
        is_flexible = feature_level >= FLEXIBLE_LEVEL
        value = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.state,
            transaction_partitions=self._by_topic(),
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
        )
        if is_flexible:
            value.previous_producer_id = self.previous_producer_id
            value.next_producer_id = self.next_producer_id
            value.client_transaction_version = self.client_version
        return CoordinatorRecord(TransactionLogKey(transactional_id=self.transactional_id), value, int(is_flexible))

    def tombstone(self) -> CoordinatorRecord:
        return CoordinatorRecord(TransactionLogKey(transactional_id=self.transactional_id), None)

    def _by_topic(self) -> list[TransactionLogValue.PartitionsSchema] | None:
        if self.state is TransactionState.EMPTY:
            return None
        by_topic: dict[str, list[int]] = {}
        for topic, index in self.partitions:
            by_topic.setdefault(topic, []).append(index)
        return [
            TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=indexes)
            for topic, indexes in by_topic.items()
        ]

    def become(self, state: TransactionState, now_ms: int, **changes: object) -> Transaction:
        """The next step. Raises ``RuntimeError`` for one that the table does not have: our own bug."""
        if state not in _NEXT[self.state]:
            raise RuntimeError(f"{self.transactional_id}: {self.state.shown} does not become {state.shown}")
        changes.setdefault("previous_producer_id", self.producer_id)
        return self._replace(state=state, updated_ms=now_ms, **changes)  # type: ignore[arg-type]  # names are checked

    @property
    def bumps_epochs(self) -> bool:
        """Whether the client's last end was one that bumps the epoch (KIP-890)."""
        return self.client_version >= BUMPING_VERSION

    @property
    def next_epoch(self) -> int:
        """Nobody is given the last one, so that nothing comes after it."""
        return min(self.epoch + 1, EPOCH_MAX)

    @property
    def is_exhausted(self) -> bool:
        """No epoch is left for another client of this producer id."""
        return is_exhausted(self.epoch)

    @property
    def is_two_phase(self) -> bool:
        return self.timeout_ms == TIMEOUT_FOR_EVER_MS


BUMPING_VERSION: Final = 2
FLEXIBLE_LEVEL: Final = 1
"""The level of ``transaction.version`` from which records can say which version their client speaks."""


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1
