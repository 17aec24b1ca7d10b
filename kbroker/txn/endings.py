"""How transactions end: EndTxn in both protocols, the time-out, the markers, and the id that is forgotten.

An end is decided once its Prepare record is written; the markers follow, and the Complete record when every partition
has its own. Up to EndTxn 4 the producer keeps its epoch. From 5 on every end raises it (KIP-890): a repeat is told by
the epoch before, and aborting nothing is allowed, because the producer wants the new epoch.
"""

from __future__ import annotations

import logging

from kbroker.protocol.coordinator_record import CoordinatorRecord, Decision, Now
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kbroker.txn.producers import ProducerIdNeededError, fence
from kbroker.txn.state import Asker, ShardState
from kbroker.txn.transaction import (
    BUMPING_VERSION,
    EPOCH_MAX,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from kbroker.types import TopicPartition

logger = logging.getLogger(__name__)

_PREPARE = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}
_COMPLETE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


class Endings:
    """Owner: the shard."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    # --- EndTxn

    def end(
        self, request: EndTxnRequest, client_version: int, asker: Asker, now: Now, fresh_id: int | None
    ) -> Decision[EndTxnResponse]:
        """Commit or abort. Raises ``ApiError``, and ``ProducerIdNeededError`` where ``fresh_id`` is None."""
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The transactional id is empty.")
        known = self._state.transactions.get(request.transactional_id)
        if known is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if client_version < BUMPING_VERSION:
            return self._end_keeping_epoch(known, request, asker, now)
        return self._end_bumping_epoch(known, request, asker, now, fresh_id)

    def _end_keeping_epoch(
        self, known: Transaction, request: EndTxnRequest, asker: Asker, now: Now
    ) -> Decision[EndTxnResponse]:
        if known.producer_id != request.producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.epoch != request.producer_epoch:
            raise self._fenced(known, request, asker)
        if known.state.is_ending:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.state is TransactionState.ONGOING:
            following = known.become(_PREPARE[request.committed], now.wall_ms, client_version=0)
            return Decision(_answer(known.producer_id, known.epoch), self._state.record(following))
        if known.state is _COMPLETE[request.committed]:
            return Decision(_answer(known.producer_id, known.epoch))
        raise _wrong_state(known, request)

    def _end_bumping_epoch(
        self, known: Transaction, request: EndTxnRequest, asker: Asker, now: Now, fresh_id: int | None
    ) -> Decision[EndTxnResponse]:
        if known.state.is_ending:
            # Asked first: the producer may have been told of a new id that is the current one only afterwards.
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        epoch = request.producer_epoch
        # Only such an end leaves the epoch before as its mark; after another, the epoch before is a fenced producer's.
        has_new_id = known.previous_producer_id == request.producer_id and epoch == EPOCH_MAX - 1 and known.epoch == 0
        is_complete = known.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        is_repeat = is_complete and known.bumps_epochs and (known.epoch == epoch + 1 or has_new_id)
        if known.producer_id != request.producer_id and not has_new_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if known.epoch != epoch and not is_repeat:
            raise self._fenced(known, request, asker)
        if is_repeat:
            if known.state is not _COMPLETE[request.committed]:
                raise _wrong_state(known, request)
            return Decision(_answer(known.producer_id, known.epoch))
        if known.state is not TransactionState.ONGOING and request.committed:
            raise _wrong_state(known, request)
        return self._prepare(known, request.committed, now, fresh_id)

    def _prepare(self, known: Transaction, committed: bool, now: Now, fresh_id: int | None) -> Decision[EndTxnResponse]:
        if not self._state.can_serve(BUMPING_VERSION):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                "EndTxn 5 needs transaction.version 1 at least: ask by version 4, or raise the feature's level.",
            )
        next_id = NO_PRODUCER_ID
        if known.is_exhausted:
            if fresh_id is None:
                raise ProducerIdNeededError
            next_id = fresh_id
        is_open = known.state is TransactionState.ONGOING
        following = known.become(
            _PREPARE[committed],
            now.wall_ms,
            epoch=known.next_epoch,
            next_producer_id=next_id,
            client_version=BUMPING_VERSION,
            partitions=known.partitions if is_open else NO_PARTITIONS,
            started_ms=known.started_ms if is_open else now.wall_ms,
        )
        answer = _answer(known.producer_id, following.epoch) if next_id == NO_PRODUCER_ID else _answer(next_id, 0)
        return Decision(
            answer,
            self._state.record(following),
            failed=self._state.remember_previous_epoch(known.transactional_id, known.epoch),
        )

    def _fenced(self, known: Transaction, request: EndTxnRequest, asker: Asker) -> ApiError:
        put_off = self._state.put_off(known.transactional_id)
        why = "another producer has the id now" if put_off is None else str(put_off)
        message = (
            f"Transactional id {known.transactional_id!r}: {asker} may not end a transaction with epoch "
            f"{request.producer_epoch}, the epoch is {known.epoch}: {why}."
        )
        logger.info("%s", message)
        return ApiError(ErrorCode.PRODUCER_FENCED, message)

    # --- the time-out

    def check_timeouts(self, now: Now) -> Decision[None]:
        """Abort what has been open for longer than its producer asked for."""
        state = self._state
        records: list[CoordinatorRecord] = []
        undo = []
        for transactional_id, since_ms in list(state.open_since_ms.items()):
            known = state.transactions[transactional_id]
            open_ms = now.monotonic_ms - since_ms
            if known.is_two_phase or open_ms <= known.timeout_ms:
                continue
            reason = f"its transaction timed out after {open_ms} ms (time-out {known.timeout_ms} ms)"
            try:
                aborted, failed = fence(state, known, now, reason, state.take_id)
            except ProducerIdNeededError:
                continue  # there will be one at the next check
            logger.warning(
                "Transactional id %r: the transaction of producer id %d, epoch %d timed out: open for %d ms, its "
                "time-out is %d ms. It is aborted, and its producer fenced.",
                transactional_id,
                known.producer_id,
                known.epoch,
                open_ms,
                known.timeout_ms,
            )
            records += aborted
            undo.append(failed)
        if len(state.open_since_ms) > len(undo):
            state.deadlines.set("time-outs", now.monotonic_ms + state.settings.abort_interval_ms, self.check_timeouts)

        def failed_all(error: ApiError, then: Now) -> None:
            for each in undo:
                each(error, then)
            state.deadlines.set("time-outs", then.monotonic_ms + state.settings.abort_interval_ms, self.check_timeouts)

        return Decision(None, records, atomic=False, failed=failed_all)

    # --- markers

    def marked(self, transactional_id: str, partition: TopicPartition) -> bool:
        """A partition has its marker (or is gone); whether it was the last."""
        waiting = self._state.markers.get(transactional_id)
        if waiting is None:
            return False
        waiting.pop(partition, None)
        return not waiting

    def complete(self, transactional_id: str, now: Now) -> Decision[None]:
        """Every partition has its marker: the transaction is over."""
        known = self._state.transactions.get(transactional_id)
        if known is None or not known.state.is_ending or self._state.markers.get(transactional_id):
            return Decision(None)
        rotates = known.bumps_epochs and known.next_producer_id != NO_PRODUCER_ID
        following = known.become(
            _COMPLETE[known.state is TransactionState.PREPARE_COMMIT],
            now.wall_ms,
            producer_id=known.next_producer_id if rotates else known.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            epoch=0 if rotates else known.epoch,
            partitions=NO_PARTITIONS,
        )
        return Decision(None, self._state.record(following))

    # --- ids that nobody uses

    def expire(self, now: Now) -> Decision[None]:
        """Forget the ids that nobody used for ``transactional.id.expiration.ms``."""
        state = self._state
        state.deadlines.set("expiry", now.monotonic_ms + state.settings.expiry_interval_ms, self.expire)
        limit_ms = now.wall_ms - state.settings.id_expiration_ms
        records = [
            known.tombstone()
            for known in state.transactions.values()
            if known.state.may_expire and known.updated_ms <= limit_ms
        ]
        if records:
            logger.info("%d transactional ids expire.", len(records))
        return Decision(None, records, atomic=False)


def _answer(producer_id: int, epoch: int) -> EndTxnResponse:
    return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)


def _wrong_state(known: Transaction, request: EndTxnRequest) -> ApiError:
    wanted = "commit" if request.committed else "abort"
    return ApiError(
        ErrorCode.INVALID_TXN_STATE,
        f"Transactional id {known.transactional_id!r} is {known.state.shown}: there is nothing to {wanted}.",
    )
