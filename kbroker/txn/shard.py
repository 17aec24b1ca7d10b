"""One partition's share of all transactional ids: the fold of its log, their requests, and their timers.

The runtime hosts it: ``replay`` is called for every record, written or loaded; operations take the time and return
decisions; ``deadlines`` says when to come back. Which markers have to be written is derived from the fold
(``markers``), so that a new leader goes on where the old one stopped; writing them is the coordinator's business.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kbroker.protocol.coordinator_record import CoordinatorRecord, Decision, Now, Stamp
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsResponse
from kbroker.protocol.messages.list_transactions import ListTransactionsResponse
from kbroker.protocol.messages.records.transaction import TransactionLogKey, TransactionLogValue
from kbroker.txn.endings import Endings
from kbroker.txn.membership import Membership
from kbroker.txn.producers import Producers
from kbroker.txn.seeing import Filter, described, listed
from kbroker.txn.settings import TransactionSettings
from kbroker.txn.state import PutOff, ShardState
from kbroker.txn.transaction import Transaction, TransactionState
from kbroker.types import TopicPartition

logger = logging.getLogger(__name__)


class Marker(NamedTuple):
    """What ends a transaction in its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]


class TransactionShard:
    """Owner: the runtime. ``take_id`` gives a producer id that nobody had, None while there is none at hand."""

    def __init__(self, settings: TransactionSettings, take_id: Callable[[], int | None]) -> None:
        self._state = ShardState(settings, take_id)
        self.deadlines = self._state.deadlines
        self.producers = Producers(self._state)
        self.endings = Endings(self._state)
        self.membership = Membership(self._state, self.endings.check_timeouts)

    @property
    def settings(self) -> TransactionSettings:
        return self._state.settings

    @settings.setter
    def settings(self, settings: TransactionSettings) -> None:
        self._state.settings = settings

    @property
    def transactions(self) -> dict[str, Transaction]:
        """By transactional id. To be read only."""
        return self._state.transactions

    # --- the fold

    def replay(self, record: CoordinatorRecord, _offset: int, _stamp: Stamp | None) -> None:
        """One record of the log."""
        key, value = record.key, record.value
        if not isinstance(key, TransactionLogKey):
            logger.warning("Passing over a %s", type(key).__name__)
            return
        if value is None:
            self._state.replay(key.transactional_id, None)
            return
        if not isinstance(value, TransactionLogValue):
            raise TypeError(f"a transactional id's key has a {type(value).__name__}")
        self._state.replay(key.transactional_id, Transaction.of_record(key.transactional_id, value))

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Transactions end in the partitions that joined them; this log is never one of those."""
        logger.warning("Passing over a marker of producer id %d (commit: %s)", producer_id, is_commit)

    # --- life

    def loaded(self, now: Now) -> Decision[None]:
        """Everything is read: from now on this shard decides. Open transactions have been open since they began."""
        state = self._state
        for transactional_id, known in state.transactions.items():
            if known.state is TransactionState.ONGOING:
                open_ms = max(0, now.wall_ms - known.started_ms)
                begun = Now(now.wall_ms, now.monotonic_ms - open_ms)
                state.open_since_ms[transactional_id] = begun.monotonic_ms
                state.opened(transactional_id, now, self.endings.check_timeouts)
        state.deadlines.set("expiry", now.monotonic_ms + state.settings.expiry_interval_ms, self.endings.expire)
        return Decision(None)

    def unload(self) -> None:
        """The shard leaves this node. Nobody waits here: every reply is given with its records."""
        self._state.markers.clear()
        self._state.open_since_ms.clear()

    # --- markers

    def has_markers(self) -> bool:
        """Whether a transaction is ending."""
        return bool(self._state.markers)

    def markers(self) -> Iterator[Marker]:
        """What has to be written into which partitions; none left for a transaction that only has to be completed."""
        for transactional_id in list(self._state.markers):
            marker = self.marker_of(transactional_id)
            if marker is not None:
                yield marker

    def marker_of(self, transactional_id: str) -> Marker | None:
        """The marker of one ending transaction; None when it is not ending."""
        waiting = self._state.markers.get(transactional_id)
        if waiting is None:
            return None
        known = self._state.transactions[transactional_id]
        return Marker(
            transactional_id,
            known.producer_id,
            known.epoch,
            known.state is TransactionState.PREPARE_COMMIT,
            known.client_version,
            tuple(waiting),
        )

    # --- seeing

    def describe(self, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
        if not transactional_id:
            code = ErrorCode.INVALID_REQUEST
        else:
            known = self.transactions.get(transactional_id)
            if known is not None:
                return described(known, self._state.markers.get(transactional_id, known.partitions))
            code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return DescribeTransactionsResponse.TransactionState(transactional_id=transactional_id, error_code=code)

    def list_transactions(self, wanted: Filter) -> list[ListTransactionsResponse.TransactionState]:
        return listed(self.transactions.values(), wanted)

    def put_off(self, transactional_id: str) -> PutOff | None:
        """How the id's producer was last fenced or timed out, if this coordinator saw it."""
        return self._state.put_off(transactional_id)

    def put_offs(self, transactional_id: str) -> tuple[PutOff, ...]:
        """How the id's latest producers were fenced or timed out, oldest first."""
        return self._state.put_offs.get(transactional_id, ())
