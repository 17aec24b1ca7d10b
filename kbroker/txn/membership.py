"""Partitions that join a transaction: AddPartitionsToTxn, AddOffsetsToTxn, and the first write to one (KIP-890).

``add`` opens a transaction where none is open, even when it names no partition. ``verify`` is asked by a partition's
leader before it takes the first batch of a client that speaks an older protocol: no batch enters a log outside of a
transaction, so that none can hang there for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kbroker.protocol.coordinator_record import Decision, Now
from kbroker.protocol.errors import ErrorCode
from kbroker.txn.state import ShardState
from kbroker.txn.transaction import NO_PRODUCER_ID, Transaction, TransactionState
from kbroker.types import TopicPartition


class Membership:
    """Owner: the shard. ``check_timeouts`` is the action of the time-outs' deadline."""

    def __init__(self, state: ShardState, check_timeouts: Callable[[Now], Decision[None]]) -> None:
        self._state = state
        self._check_timeouts = check_timeouts

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[TopicPartition],
        client_version: int,
        now: Now,
    ) -> Decision[ErrorCode]:
        """Let partitions join; the code is that of all of them."""
        if not transactional_id:
            return Decision(ErrorCode.INVALID_REQUEST)
        state = self._state
        known = state.transactions.get(transactional_id)
        if known is None:
            return Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.state.is_ending:
            # Asked first: the producer may have been told of a new id that is the current one only afterwards.
            return Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
        code = _wrong_producer(known, producer_id, epoch)
        if code is not None:
            return Decision(code)
        is_open = known.state is TransactionState.ONGOING
        joining = {partition: None for partition in partitions if partition not in known.partitions or not is_open}
        if is_open and not joining:
            return Decision(ErrorCode.NONE)
        if not state.can_serve(client_version):
            return Decision(ErrorCode.UNSUPPORTED_VERSION)
        following = known.become(
            TransactionState.ONGOING,
            now.wall_ms,
            partitions={**known.partitions, **joining} if is_open else joining,
            started_ms=known.started_ms if is_open else now.wall_ms,
            next_producer_id=NO_PRODUCER_ID,
            client_version=client_version,
        )
        state.opened(transactional_id, now, self._check_timeouts)
        return Decision(ErrorCode.NONE, state.record(following))

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is part of the producer's transaction."""
        known = self._state.transactions.get(transactional_id)
        code: ErrorCode | None = None
        if not transactional_id:
            code = ErrorCode.INVALID_REQUEST
        elif known is None:
            code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        else:
            code = _wrong_producer(known, producer_id, epoch)
            if code is None and known.state.is_ending:
                code = ErrorCode.CONCURRENT_TRANSACTIONS
        if code is not None or known is None:
            return dict.fromkeys(partitions, code or ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return {
            partition: ErrorCode.NONE if partition in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }


def _wrong_producer(known: Transaction, producer_id: int, epoch: int) -> ErrorCode | None:
    if known.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return None
