"""What a fetch asks of partitions, and the fetch that waits.

A fetch names partitions (``FetchedPartition``). What it has to look at is its ``Interest``: the partitions that may
have something new. A partition that had nothing new is *quiet*: it is not looked at again, but watched, and the
partition itself moves its watchers back into their interests when it changes. So neither an append nor a fetch costs
more because other partitions of the same session are idle.

Invariants: an entry of a session is in its interest's ``active`` or its partition knows it as a watcher (or both); a
partition forgets its watchers when it has told them. A waiting fetch is looked at once per turn of the loop, however
many appends the turn brought, and completes when enough bytes are readable, an error shows, or its time is over.

Follows Kafka's ``DelayedFetch`` and ``ReplicaManager.readFromLog``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kbroker.log.file_records import FileRecords
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.types import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from kbroker.host import Timer
    from kbroker.replication.partition import Partition
    from kbroker.replication.replicas import ReplicaManager

logger = logging.getLogger(__name__)

LOG_END = 0
"""Isolation of followers: everything that is written."""
HIGH_WATERMARK = 1
"""Isolation ``read_uncommitted``: what every in-sync replica has."""
TXN_COMMITTED = 2
"""Isolation ``read_committed``: what lies before the first open transaction."""


_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class FetchParams:
    """The rules of one fetch, worked out from the request. Sizes in bytes."""

    __slots__ = ("hard_max_bytes", "isolation", "leader_only", "max_bytes", "max_wait_ms", "min_bytes", "replica_id")

    def __init__(
        self,
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: int,
        leader_only: bool,
        replica_id: int,
        hard_max_bytes: bool = False,
    ) -> None:
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation
        self.leader_only = leader_only
        self.replica_id = replica_id
        self.hard_max_bytes = hard_max_bytes
        """Whether not even the first batch may exceed the limits: so before KIP-74."""


class Interest:
    """The partitions a fetch (or a fetch session) has to look at, and the fetch that waits for them, if one does."""

    __slots__ = ("active", "waiter")

    def __init__(self) -> None:
        self.active: dict[FetchedPartition, None] = {}
        self.waiter: DelayedFetch | None = None


class FetchedPartition:
    """One partition as a fetch names it; in a session it lives on, with what was last reported (``CachedPartition``).

    ``topic`` is None while a topic id is unknown; ``topic_id`` is zero when the fetch names topics. Epochs are -1 when
    the fetcher did not say. ``high_watermark`` and ``log_start_offset`` are what the fetcher was told last (-1: nothing
    yet).
    """

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "interest",
        "is_unknown",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "order",
        "partition",
        "topic",
        "topic_id",
        "watched",
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: Uuid,
        partition: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.high_watermark = -1
        self.log_start_offset = -1
        self.order = 0
        self.is_unknown = False
        """The cluster had no such partition when the fetch came: such an entry neither wakes nor ends a wait."""
        self.interest: Interest | None = None
        self.watched: Partition | None = None

    def watch(self, partition: Partition) -> None:
        """Be told when ``partition`` changes."""
        if self.watched is not partition:
            self.unwatch()
            self.watched = partition
        partition.watchers[self] = None

    def unwatch(self) -> None:
        """Be told no more."""
        if self.watched is not None:
            self.watched.watchers.pop(self, None)
            self.watched = None


def failed(entry: FetchedPartition, code: ErrorCode) -> FetchResponse.PartitionData:
    """The answer for a partition whose read failed: nothing but the code.

    The aborted list is null, but empty where there is no such partition at all: Kafka's two ways of failing.
    """
    return FetchResponse.PartitionData(
        partition_index=entry.partition,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[] if entry.is_unknown else None,
        records=b"",
    )


def hosted(replicas: ReplicaManager, entry: FetchedPartition) -> Partition:
    """The replica that an entry means.

    Raises ``ApiError``: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, or INCONSISTENT_TOPIC_ID
    when the topic was deleted and made again since the session learned its id.
    """
    if entry.topic is None:
        raise _unknown(entry)
    partition = replicas.partition(entry.topic, entry.partition)
    if entry.topic_id != ZERO_UUID and entry.topic_id != partition.topic_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"Topic {entry.topic} was made again under another id: refresh the metadata.",
        )
    return partition


def _unknown(entry: FetchedPartition) -> ApiError:
    if entry.topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "There is no topic with this id (any more): refresh the metadata.")
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There was no {entry.topic}-{entry.partition}: ask again.")


class Reading:
    """The outcome of looking at the partitions of a fetch once: answers in the order of the entries."""

    __slots__ = ("answers", "has_errors", "must_answer", "size", "unknown_count")

    def __init__(self) -> None:
        self.answers: list[FetchResponse.PartitionData] = []
        self.size = 0
        self.must_answer = False
        """An error or a diverging epoch shows: the fetch must not wait."""
        self.has_errors = False
        self.unknown_count = 0
        """Partitions that the cluster does not have: alone they end the wait, beside others they do not."""

    def unknown_last(self, entries: list[FetchedPartition], *, ids_first: bool) -> list[FetchedPartition]:
        """The entries in the order in which Kafka answers them: what is unknown at the end.

        ``ids_first``: unknown topic ids before unknown partitions, as consumers get them. The answers move along.
        """
        pairs = sorted(
            zip(entries, self.answers, strict=True),
            key=lambda pair: (pair[0].is_unknown, ids_first and pair[0].topic is not None),
        )
        self.answers = [answer for _, answer in pairs]
        return [entry for entry, _ in pairs]


def read_from_log(
    replicas: ReplicaManager, params: FetchParams, entries: list[FetchedPartition], *, has_waited: bool = False
) -> Reading:
    """Read every entry in turn within the limits; only the first that has data may exceed them.

    What is unknown when a fetch arrives is so for this fetch, even if it ``has_waited`` and there is something now.
    """
    reading = Reading()
    answers = reading.answers
    limit = params.max_bytes
    at_least_one = not params.hard_max_bytes
    for entry in entries:
        try:
            if has_waited and entry.is_unknown:
                raise _unknown(entry)
            entry.is_unknown = False
            answer = hosted(replicas, entry).fetch(entry, params, limit, at_least_one)
        except ApiError as error:
            reading.has_errors = True
            if error.code in _UNKNOWN and (entry.is_unknown or not has_waited):
                entry.is_unknown = True
                reading.unknown_count += 1
            else:
                reading.must_answer = True
                limit = max(0, limit)
            answer = failed(entry, error.code)
        except Exception:
            logger.exception("The fetch of %s-%d failed", entry.topic, entry.partition)
            answer = failed(entry, ErrorCode.UNKNOWN_SERVER_ERROR)
            reading.has_errors = reading.must_answer = True
            limit = max(0, limit)
        else:
            records = answer.records
            size = len(records) if records else 0
            limit = limit - size if limit > size else 0
            if size:
                reading.size += size
                at_least_one = False
                if isinstance(records, FileRecords):
                    # Only now: the limits and the minimum count what Kafka's answer would have.
                    records.leave_out_cut_batch()
            elif entry.last_fetched_epoch >= 0 and answer.diverging_epoch.end_offset >= 0:
                reading.must_answer = True
        answers.append(answer)
    return reading


class FetchFuture(asyncio.Future[FetchResponse]):
    """The answer of a waiting fetch. Cancelling it (the connection is gone) forgets the fetch."""

    delayed: DelayedFetch | None = None

    def hurry(self) -> None:
        """Answer now with what there is (the broker is stopping)."""
        if self.delayed is not None:
            self.delayed.complete()

    def cancel(self, msg: object = None) -> bool:
        """Forget the fetch; True when it was still waiting."""
        if self.delayed is not None:
            self.delayed.abandon()
        return super().cancel(msg)


class DelayedFetch:
    """A fetch that waits. Owner: the interest it waits on, for as long as it waits.

    ``select`` gives the entries to read when the wait ends, ``answer`` makes the response of them; ``give_up`` is
    called instead when nobody waits for it any more.
    """

    __slots__ = ("_answer", "_give_up", "_replicas", "_select", "_timer", "future", "interest", "params", "scheduled")

    def __init__(
        self,
        replicas: ReplicaManager,
        params: FetchParams,
        interest: Interest,
        select: Callable[[], list[FetchedPartition]],
        answer: Callable[[list[FetchedPartition], Reading], FetchResponse],
        give_up: Callable[[], None],
    ) -> None:
        self._replicas = replicas
        self._give_up = give_up
        self._select = select
        self._answer = answer
        self.params = params
        self.interest = interest
        self.scheduled = False
        self.future = FetchFuture(loop=replicas.loop)
        self.future.delayed = self
        previous = interest.waiter
        interest.waiter = self
        if previous is not None:
            # Two requests wait on one session (from two connections): the older learns that its epoch is stale.
            replicas.wakeups.schedule(previous)
        self._timer: Timer = replicas.clock.call_later(params.max_wait_ms, self.complete)

    def try_complete(self) -> None:
        """Answer if there is enough to say now; called once per turn of the loop after a watched partition changed."""
        if self.interest.waiter is not self or self._enough():
            self.complete()

    def complete(self) -> None:
        """Read what there is and answer."""
        if self.future.done():
            return
        self._end()
        try:
            entries = self._select()
            reading = read_from_log(self._replicas, self.params, entries, has_waited=True)
            self.future.set_result(self._answer(entries, reading))
        except Exception as error:
            logger.exception("Answering a waiting fetch failed")
            self.future.set_exception(error)

    def abandon(self) -> None:
        """Stop waiting without an answer."""
        self._end()
        self._give_up()

    def _end(self) -> None:
        self._timer.cancel()
        self.future.delayed = None
        if self.interest.waiter is self:
            self.interest.waiter = None

    def _enough(self) -> bool:
        params = self.params
        total = 0
        for entry in self.interest.active:
            if entry.is_unknown:
                continue
            try:
                partition = hosted(self._replicas, entry)
                total += partition.readable(entry, params)
            except ApiError:
                return True
            if total >= params.min_bytes:
                return True
            entry.watch(partition)
        return False


class Wakeups:
    """Waiting fetches to look at in the next turn of the loop."""

    __slots__ = ("_call_soon", "_pending")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._pending: list[DelayedFetch] = []

    def schedule(self, waiter: DelayedFetch) -> None:
        """Have ``waiter`` looked at; any number of calls in one turn are one look."""
        if not waiter.scheduled:
            waiter.scheduled = True
            if not self._pending:
                self._call_soon(self._run)
            self._pending.append(waiter)

    def _run(self) -> None:
        pending, self._pending = self._pending, []
        for waiter in pending:
            waiter.scheduled = False
            if not waiter.future.done():
                waiter.try_complete()
