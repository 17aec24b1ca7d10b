"""InitProducerId with a transactional id: who may write under it from now on (KIP-98, KIP-360, KIP-890).

Each success raises the producer's epoch, and so fences whoever had the id before; when the epochs of a producer id are
used up, the next one is taken. An open transaction is aborted first, under an epoch that nobody is given, and the
client is told to come again (CONCURRENT_TRANSACTIONS), as Kafka does. A client that names the id and epoch it has goes
on as the same one; its repeated request gets the same answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kbroker.protocol.coordinator_record import CoordinatorRecord, Decision, Now
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kbroker.txn.state import Asker, PutOff, ShardState
from kbroker.txn.transaction import (
    BUMPING_VERSION,
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    NO_TIME,
    Transaction,
    TransactionState,
    is_exhausted,
)

logger = logging.getLogger(__name__)


class ProducerIdNeededError(Exception):
    """The operation needs a producer id that nobody had: give it one and ask again. Nothing was decided yet."""


class Producers:
    """Owner: the shard."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def initialise(
        self, request: InitProducerIdRequest, asker: Asker, now: Now, fresh_id: int | None
    ) -> Decision[InitProducerIdResponse]:
        """Answer a request. Raises ``ApiError``, and ``ProducerIdNeededError`` where ``fresh_id`` is None."""
        transactional_id = request.transactional_id
        assert transactional_id is not None
        self._check_timeout(request.transaction_timeout_ms)
        state = self._state
        known = state.transactions.get(transactional_id)
        if known is None:
            known = _new(transactional_id, request.transaction_timeout_ms, needed(fresh_id))
        if known.state.is_ending:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        expected: tuple[int, int] | None = None
        if request.producer_epoch != NO_EPOCH:
            expected = request.producer_id, request.producer_epoch
            _check_expected(known, expected[0], expected[1])
        if known.state is TransactionState.ONGOING:
            return self._abort_first(known, asker, now, fresh_id)
        epoch, previous_epoch = known.epoch, NO_EPOCH
        producer_id = known.producer_id
        if known.is_exhausted and (expected is None or expected[1] == known.epoch):
            producer_id, epoch = needed(fresh_id), 0
            previous_epoch = NO_EPOCH if expected is None else known.epoch
        else:
            epoch, previous_epoch = self._next_epoch(known, expected)
        if expected is None and known.epoch != NO_EPOCH and not self._is_abort_over(known, asker):
            reason = f"{asker} initialised the transactional id"
            state.note_put_off(transactional_id, PutOff(now.wall_ms, known.producer_id, known.epoch, reason))
        following = known.become(
            TransactionState.EMPTY,
            now.wall_ms,
            producer_id=producer_id,
            next_producer_id=NO_PRODUCER_ID,
            epoch=epoch,
            timeout_ms=request.transaction_timeout_ms,
            partitions=NO_PARTITIONS,
            started_ms=NO_TIME,
        )
        logger.info(
            "Transactional id %r is initialised by %s: producer id %d, epoch %d.",
            transactional_id,
            asker,
            producer_id,
            epoch,
        )
        return Decision(
            InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch),
            state.record(following),
            failed=state.remember_previous_epoch(transactional_id, previous_epoch),
        )

    def _check_timeout(self, timeout_ms: int) -> None:
        limit = self._state.settings.max_timeout_ms
        if not 0 < timeout_ms <= limit:
            message = (
                f"The transaction time-out is {timeout_ms} ms, and the broker's transaction.max.timeout.ms is {limit}: "
                f"ask for 1 to {limit} ms, or raise the limit."
            )
            logger.warning("%s", message)
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, message)

    def _next_epoch(self, known: Transaction, expected: tuple[int, int] | None) -> tuple[int, int]:
        """The epoch to give, and the one before it that a repeated request is known by."""
        transactional_id = known.transactional_id
        previous_epoch = self._state.previous_epoch(transactional_id)
        if expected is None:
            return known.epoch + 1, NO_EPOCH
        if known.epoch == NO_EPOCH or (expected[1] == known.epoch and not known.is_exhausted):
            return known.epoch + 1, known.epoch
        if expected[1] == previous_epoch:
            return known.epoch, previous_epoch
        raise self._fenced(known, expected[1])

    def _is_abort_over(self, known: Transaction, asker: Asker) -> bool:
        """Whether the asker comes again after ``_abort_first``: the producer with this epoch was nobody."""
        put_off = self._state.put_off(known.transactional_id)
        return (
            known.state is TransactionState.COMPLETE_ABORT
            and put_off is not None
            and (put_off.producer_id, put_off.producer_epoch) == (known.producer_id, known.epoch - 1)
            and put_off.reason == _while_open(asker)
        )

    def _fenced(self, known: Transaction, epoch: int) -> ApiError:
        put_off = self._state.put_off(known.transactional_id)
        why = "" if put_off is None else f": {put_off}"
        return ApiError(
            ErrorCode.PRODUCER_FENCED,
            f"Epoch {epoch} of transactional id {known.transactional_id!r} is not the current one, {known.epoch}{why}.",
        )

    def _abort_first(
        self, known: Transaction, asker: Asker, now: Now, fresh_id: int | None
    ) -> Decision[InitProducerIdResponse]:
        records, failed = fence(self._state, known, now, _while_open(asker), lambda: fresh_id)
        logger.warning(
            "Transactional id %r: %s initialises it while a transaction of producer id %d, epoch %d has been open for "
            "%d ms; the transaction is aborted and its producer fenced.",
            known.transactional_id,
            asker,
            known.producer_id,
            known.epoch,
            now.wall_ms - known.started_ms,
        )
        return Decision(
            InitProducerIdResponse(
                error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH
            ),
            records,
            failed=failed,
        )


def fence(
    state: ShardState, known: Transaction, now: Now, reason: str, take_id: Callable[[], int | None]
) -> tuple[list[CoordinatorRecord], Callable[[ApiError, Now], None]]:
    """Abort an open transaction under an epoch that nobody is given. One bump, whatever the level (KAFKA-19367).

    ``take_id`` is asked for the producer id that follows where no epoch would be left. Raises
    ``ProducerIdNeededError`` when it has none: nothing was decided yet.
    """
    bumps = state.settings.feature_level >= BUMPING_VERSION
    aborting = known.become(
        TransactionState.PREPARE_ABORT,
        now.wall_ms,
        epoch=known.next_epoch,
        next_producer_id=needed(take_id()) if bumps and known.is_exhausted else NO_PRODUCER_ID,
        client_version=BUMPING_VERSION if bumps else 0,
    )
    state.note_put_off(known.transactional_id, PutOff(now.wall_ms, known.producer_id, known.epoch, reason))
    failed = state.remember_previous_epoch(known.transactional_id, known.epoch if bumps else NO_EPOCH)
    return state.record(aborting), failed


def _while_open(asker: Asker) -> str:
    return f"{asker} initialised the transactional id while the transaction was open"


def _new(transactional_id: str, timeout_ms: int, producer_id: int) -> Transaction:
    return Transaction(
        transactional_id,
        producer_id,
        NO_PRODUCER_ID,
        NO_PRODUCER_ID,
        NO_EPOCH,
        timeout_ms,
        TransactionState.EMPTY,
        NO_PARTITIONS,
        NO_TIME,
        NO_TIME,
        0,
    )


def needed(fresh_id: int | None) -> int:
    """The id. Raises ``ProducerIdNeededError`` where none is at hand."""
    if fresh_id is None:
        raise ProducerIdNeededError
    return fresh_id


def _check_expected(known: Transaction, producer_id: int, epoch: int) -> None:
    """A client may go on with the current producer id, or repeat the request that gave it a new one."""
    if known.epoch == NO_EPOCH or producer_id == known.producer_id:
        return
    if producer_id == known.previous_producer_id and is_exhausted(epoch):
        return
    raise ApiError(
        ErrorCode.PRODUCER_FENCED,
        f"Producer id {producer_id} does not belong to transactional id {known.transactional_id!r} (any more).",
    )
