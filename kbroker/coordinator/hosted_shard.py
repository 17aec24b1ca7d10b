"""One coordinator shard at work: it decides, its records are written, and its replies go when they are committed.

A shard decides (``kbroker.protocol.coordinator_record``); this module does the rest: it appends a decision's records as
one batch, replays them, and lets the reply go when everything the shard has written is committed (with one replica: at
once, without a task or a future). Replies that a shard owes from earlier (``Deferred``) go the same way. When the
append fails nothing is replayed and the request ends with the code that Kafka's coordinators answer. A record just
written that cannot be replayed is our bug: the shard is dropped.

Which shards there are is in ``kbroker.coordinator.runtime``. Follows Kafka's ``CoordinatorRuntime``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kbroker.protocol.coordinator_record import CoordinatorRecord, Deadlines, Decision, Deferred, Now, Stamp
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.record_codec import encode_coordinator_key, encode_coordinator_value
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.control import ControlRecordType, EndTransactionMarker, build_end_transaction_marker
from kbroker.protocol.records.validation import AppendOrigin

if TYPE_CHECKING:
    from kbroker.host import Clock, Timer
    from kbroker.replication.partition import Partition

logger = logging.getLogger(__name__)

RECORDS_PER_BATCH_MAX = 1000
"""A decision that is not atomic (retention, deleted topics) is written in batches of so many records."""
ACKS = -1
"""Too few replicas in sync refuse the write; the coordinator waits for the high watermark itself."""

_ANSWERED = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a client of a coordinator is told when a write fails (``CoordinatorOperationExceptionHelper``)."""


class Shard(Protocol):
    """What the runtime needs of a shard."""

    deadlines: Deadlines

    def replay(self, record: CoordinatorRecord, offset: int, stamp: Stamp | None, /) -> None: ...

    def replay_marker(self, producer_id: int, /, *, is_commit: bool) -> None: ...

    def loaded(self, now: Now) -> Decision[None]: ...

    def unload(self) -> None: ...


S = TypeVar("S", bound=Shard)
T = TypeVar("T")


class Written:
    """A reply that waits for the commit of what was written. Parked at the partition."""

    __slots__ = ("_reply", "_timer", "future")

    def __init__(self, future: asyncio.Future[Any], reply: Any, clock: Clock, timeout_ms: int) -> None:
        self.future = future
        self._reply = reply
        self._timer = clock.call_later(timeout_ms, self._expire)

    def settle(self, _partition: Partition, code: ErrorCode) -> None:
        """Committed, or it never will be under this leader."""
        self._timer.cancel()
        if self.future.done():
            return
        if code in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            self.future.set_result(self._reply)
        else:
            self.future.set_exception(ApiError(_ANSWERED.get(code, code)))

    def _expire(self) -> None:
        if not self.future.done():
            self.future.set_exception(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The write was not replicated."))


class CommitNotice:
    """Tells a shard's coordinator of a commit. Parked at the partition."""

    __slots__ = ("_hosted",)

    def __init__(self, hosted: HostedShard[Any]) -> None:
        self._hosted = hosted

    def settle(self, _partition: Partition, code: ErrorCode) -> None:
        if code in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            self._hosted.committed()


class ShardContext(Generic[S]):
    """What the shards of one runtime share. ``compression`` and ``commit_timeout_ms`` may be assigned at any time.

    ``committed`` is told after records of a shard were committed, ``failed`` that a shard must be dropped.
    ``base_sequence`` stands in every batch of records, which nobody looks at but people who ask for it.
    """

    __slots__ = ("base_sequence", "clock", "commit_timeout_ms", "committed", "compression", "failed", "loop")

    def __init__(
        self,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        committed: Callable[[HostedShard[S]], None] | None,
        failed: Callable[[HostedShard[S]], None],
        base_sequence: int,
    ) -> None:
        self.base_sequence = base_sequence
        self.clock = clock
        self.loop = loop
        self.committed = committed
        self.failed = failed
        self.commit_timeout_ms = 5_000
        self.compression = Compression.NONE

    def now(self) -> Now:
        return Now(self.clock.wall_ms(), self.clock.monotonic_ms())


class HostedShard(Generic[S]):
    """One shard and its partition, from its election to its end. Owner: the runtime."""

    def __init__(self, context: ShardContext[S], partition: Partition, shard: S) -> None:
        self._context = context
        self.partition = partition
        self.shard = shard
        self.is_active = False
        self.is_over = False
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._due: list[tuple[asyncio.Future[Any], Any]] = []

    # --- operations

    def perform(self, operation: Callable[[S, Now], Decision[T]], *, parks: bool = True) -> T | asyncio.Future[T]:
        """Decide, write, replay; the reply, or a future of it when it comes later or waits for its commit.

        Raises ``ApiError``: what the operation refuses, or that its records could not be written.
        """
        now = self._context.now()
        decision = operation(self.shard, now)
        error = None
        if decision.records:
            error = self._write(decision, now)
        reply = decision.reply
        told = None
        if error is not None and decision.failed is not None:
            told = decision.failed(error, now)
        if self._due:
            self._let_go()
        self.set_timer()
        if told is not None:
            return told
        if error is not None:
            raise error
        if decision.records and self._context.committed is not None:
            self._tell_when_committed()
        if isinstance(reply, Deferred):
            if not reply.is_done:
                future: asyncio.Future[T] = self._context.loop.create_future()
                reply.listener = lambda answer: self._due.append((future, answer))
                return future
            answer: T = reply.reply  # type: ignore[assignment]  # it is there when it is done
        else:
            answer = reply
        return self.park(answer) if parks else answer

    def _tell_when_committed(self) -> None:
        """Tell the coordinator that what was written is committed; with one replica it is already."""
        end_offset = self.partition.log_end_offset
        if self.partition.high_watermark >= end_offset:
            self.committed()
        else:
            self.partition.park_produce(end_offset, CommitNotice(self))

    def committed(self) -> None:
        """Everything written before is committed."""
        if self._context.committed is not None and not self.is_over:
            self._context.committed(self)

    def park(self, reply: T) -> T | asyncio.Future[T]:
        """Hold a reply until everything written so far is committed; with one replica it is already."""
        partition = self.partition
        end_offset = partition.log_end_offset
        if partition.high_watermark >= end_offset:
            return reply
        future: asyncio.Future[T] = self._context.loop.create_future()
        self._park(future, reply, end_offset)
        return future

    def _park(self, future: asyncio.Future[Any], reply: Any, end_offset: int) -> None:
        context = self._context
        self.partition.park_produce(end_offset, Written(future, reply, context.clock, context.commit_timeout_ms))

    def _let_go(self) -> None:
        """Replies that came due in this turn."""
        due, self._due = self._due, []
        end_offset = self.partition.log_end_offset
        is_committed = self.partition.high_watermark >= end_offset
        for future, reply in due:
            if future.done():
                continue  # who asked is gone
            if is_committed or self.is_over:
                future.set_result(reply)
            else:
                self._park(future, reply, end_offset)

    # --- writing

    def _write(self, decision: Decision[Any], now: Now) -> ApiError | None:
        records = decision.records
        step = len(records) if decision.atomic else RECORDS_PER_BATCH_MAX
        for start in range(0, len(records), step):
            error = self._write_batch(records[start : start + step], decision.stamp, now)
            if error is not None:
                return error
        return None

    def _write_batch(self, records: Sequence[CoordinatorRecord], stamp: Stamp | None, now: Now) -> ApiError | None:
        wall_ms = now.wall_ms
        rows = [
            Record(
                0,
                wall_ms,
                encode_coordinator_key(key),
                None if value is None else encode_coordinator_value(value, version),
            )
            for key, value, version in records
        ]
        batch = build_batch(
            rows,
            compression=self._context.compression,
            producer_id=-1 if stamp is None else stamp.producer_id,
            producer_epoch=-1 if stamp is None else stamp.producer_epoch,
            base_sequence=self._context.base_sequence,
            transactional=stamp is not None,
        )
        error, offset = self._append(batch, wall_ms)
        if error is not None:
            return error
        try:
            for each in records:
                self.shard.replay(each, offset, stamp)
                offset += 1
        except Exception:
            logger.exception("%s: a record just written cannot be replayed; the shard is dropped", self.partition.name)
            self._context.failed(self)
            return ApiError(ErrorCode.NOT_COORDINATOR, "The coordinator failed; its log says how.")
        return None

    def _append(self, batch: bytes, wall_ms: int, transaction_version: int = 0) -> tuple[ApiError | None, int]:
        try:
            info = self.partition.append_as_leader(
                bytearray(batch),
                ACKS,
                wall_ms,
                origin=AppendOrigin.COORDINATOR,
                transaction_version=transaction_version,
            )
        except ApiError as error:
            logger.warning("%s: writing %d bytes failed: %s", self.partition.name, len(batch), error)
            return ApiError(_ANSWERED.get(error.code, error.code), error.message), -1
        return None, info.first_offset

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        is_commit: bool,
        transaction_version: int = 0,
    ) -> asyncio.Future[None] | None:
        """Write the marker that ends a producer's transaction here. Raises ``ApiError``."""
        now = self._context.now()
        kind = ControlRecordType.COMMIT if is_commit else ControlRecordType.ABORT
        batch = build_end_transaction_marker(
            EndTransactionMarker(kind, coordinator_epoch),
            timestamp=now.wall_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        error, _ = self._append(batch, now.wall_ms, transaction_version)
        if error is not None:
            raise error
        self.shard.replay_marker(producer_id, is_commit=is_commit)
        return self.park(None)

    # --- time

    def set_timer(self) -> None:
        """See that the shard's first deadline is not missed. Waking too early is harmless, and cheaper than moving."""
        at_ms = self.shard.deadlines.next_ms()
        if at_ms is None or self.is_over:
            return
        if self._timer is not None:
            if self._timer_ms <= at_ms:
                return
            self._timer.cancel()
        self._timer_ms = at_ms
        clock = self._context.clock
        self._timer = clock.call_later(max(0, at_ms - clock.monotonic_ms()), self._wake)

    def _wake(self) -> None:
        self._timer = None
        due_ms = self._context.clock.monotonic_ms()  # what comes due meanwhile has a turn of its own
        while not self.is_over:
            action = self.shard.deadlines.pop_due(due_ms)
            if action is None:
                break
            try:
                self.perform(lambda _shard, now, act=action: act(now), parks=False)  # type: ignore[misc]
            except ApiError as error:
                logger.warning("%s: what time brought could not be written: %s", self.partition.name, error)
            except Exception:
                logger.exception("%s: a deadline's action failed", self.partition.name)
        self.set_timer()

    # --- end

    def end(self) -> None:
        """The shard leaves this node: who waits is answered."""
        if self.is_over:
            return
        self.is_over = True
        self.is_active = False
        if self._timer is not None:
            self._timer.cancel()
        self.shard.unload()
        self._let_go()
