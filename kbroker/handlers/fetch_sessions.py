"""Incremental fetch sessions (KIP-227): what a fetcher asked for is kept here, and only changes are told.

A request is one of four: *sessionless* (epoch -1), *full* (epoch 0: asks for everything and for a new session),
*incremental* (a session's next epoch: names what changes) or *in error*. Each is a context with two questions: which
partitions to read now (``select``), and what to answer (``answer``).

A session knows which of its partitions are quiet (``kbroker.replication.fetching``): an incremental fetch reads only
the others, so a session of thousands of idle partitions costs nothing per request. Partitions that gave data go to the
end of the order, so that a full answer starves nobody.

Sessions belong to no connection and are volatile: after a restart fetchers are told FETCH_SESSION_ID_NOT_FOUND and
begin anew. The cache holds ``max.incremental.fetch.session.cache.slots`` sessions, rounded down to a multiple of eight;
who may push out whom is Kafka's rule.
"""

from __future__ import annotations

from collections import OrderedDict
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.replication.fetching import FetchedPartition, FetchParams, Interest, Reading
from kbroker.types import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from random import Random

    from kbroker.host import Clock
    from kbroker.replication.replicas import ReplicaManager

TOPIC_IDS_SINCE = 13
"""The version from which topics go by their ids (KIP-516)."""
NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
"""How long a session must be unused, or old, to be pushed out by one that is worth no more."""

_CACHES = 8
_INT32_MAX = 2**31 - 1
_order = attrgetter("order")

Key: TypeAlias = tuple[str | Uuid, int]
"""A partition within one request or session: by topic id where the request has ids, else by name."""


def next_epoch(epoch: int) -> int:
    """The epoch that a session's next request must carry; 0 and -1 are never reached."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _INT32_MAX else epoch + 1


class FetchSession:
    """One session. Owner: ``FetchSessions``; changed by its requests only."""

    __slots__ = (
        "_next_order",
        "cached_size",
        "created_ms",
        "epoch",
        "evictable_by_all",
        "evictable_by_privileged",
        "id",
        "interest",
        "is_closed",
        "last_used_ms",
        "partitions",
        "privileged",
        "rules",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, privileged: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.privileged = privileged
        """True for sessions of followers, which consumers cannot push out."""
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[Key, FetchedPartition] = {}
        self.interest = Interest()
        self.rules: tuple[int, bool] | None = None
        """Isolation and leader-only of the last request: what is quiet under one may not be under another."""
        self.cached_size = 0
        self.is_closed = False
        self.evictable_by_all = False
        self.evictable_by_privileged = False
        self._next_order = 0

    def add(self, key: Key, entry: FetchedPartition) -> None:
        """Take a partition in, at the end of the order."""
        self.partitions[key] = entry
        entry.interest = self.interest
        self.interest.active[entry] = None
        self.move_to_end(entry)

    def move_to_end(self, entry: FetchedPartition) -> None:
        """Give way to the others."""
        entry.order = self._next_order
        self._next_order += 1

    def forget(self, key: Key) -> None:
        """Drop a partition; no error when it is not there."""
        entry = self.partitions.pop(key, None)
        if entry is not None:
            entry.unwatch()
            entry.interest = None
            self.interest.active.pop(entry, None)

    def update(self, asked: dict[Key, FetchedPartition]) -> None:
        """Take what a request names: new partitions, and new positions of known ones."""
        active = self.interest.active
        for key, wanted in asked.items():
            entry = self.partitions.get(key)
            if entry is None:
                self.add(key, wanted)
                continue
            entry.fetch_offset = wanted.fetch_offset
            entry.max_bytes = wanted.max_bytes
            entry.current_leader_epoch = wanted.current_leader_epoch
            entry.last_fetched_epoch = wanted.last_fetched_epoch
            active[entry] = None

    def judge_by(self, params: FetchParams) -> None:
        """Look at everything again when the rules changed under which partitions were found quiet."""
        rules = (params.isolation, params.leader_only)
        if rules != self.rules:
            self.rules = rules
            for entry in self.partitions.values():
                self.interest.active[entry] = None

    def close(self) -> None:
        """Let go of the partitions, as soon as no fetch waits for them any more."""
        self.is_closed = True
        if self.interest.waiter is None:
            for entry in self.partitions.values():
                entry.unwatch()


class SessionError:
    """The request does not fit its session: nothing is read, the code is all there is to say."""

    __slots__ = ("code",)

    def __init__(self, code: ErrorCode) -> None:
        self.code = code

    def answer(self) -> FetchResponse:
        """The code, and no session."""
        return FetchResponse(error_code=self.code, session_id=NO_SESSION)


class PlainFetch:
    """A fetch that lists everything it wants: sessionless, or full when ``sessions`` is to make a session of it."""

    __slots__ = ("_interest", "_replicas", "_sessions", "_uses_topic_ids", "entries", "privileged")

    def __init__(
        self,
        entries: list[FetchedPartition],
        replicas: ReplicaManager,
        sessions: FetchSessions | None = None,
        *,
        uses_topic_ids: bool = False,
        privileged: bool = False,
    ) -> None:
        self.entries = entries
        self.privileged = privileged
        self._replicas = replicas
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids
        self._interest: Interest | None = None

    def select(self) -> list[FetchedPartition]:
        """Everything, in the order of the request."""
        return self.entries

    def has_quiet(self) -> bool:
        """Nothing is taken to be quiet: everything is read."""
        return False

    def park(self, entries: list[FetchedPartition], reading: Reading) -> Interest:
        """Watch every partition; what has data already counts towards the minimum."""
        interest = self._interest = Interest()
        for entry, answer in zip(entries, reading.answers, strict=True):
            if entry.is_unknown or entry.topic is None:
                continue
            partition = self._replicas.get(entry.topic, entry.partition)
            if partition is not None:
                entry.interest = interest
                entry.watch(partition)
                if answer.records:
                    interest.active[entry] = None
        return interest

    def answer(self, entries: list[FetchedPartition], reading: Reading) -> FetchResponse:
        """Every partition asked for, and the new session's id if there is room for one."""
        if self._interest is not None:
            self.give_up()
        response = FetchResponse()
        group(response, entries, reading.answers)
        if self._sessions is not None:
            for entry, answer in zip(entries, reading.answers, strict=True):
                entry.high_watermark = answer.high_watermark
                entry.log_start_offset = answer.log_start_offset
            response.session_id = self._sessions.create(entries, self._uses_topic_ids, self.privileged)
        return response

    def give_up(self) -> None:
        """Watch no more."""
        for entry in self.entries:
            entry.unwatch()


class IncrementalFetch:
    """The next request of a session."""

    __slots__ = ("_epoch", "_params", "_replicas", "session")

    def __init__(self, session: FetchSession, params: FetchParams, replicas: ReplicaManager) -> None:
        self.session = session
        self._params = params
        self._replicas = replicas
        self._epoch = session.epoch

    def select(self) -> list[FetchedPartition]:
        """What is not quiet, in the session's order."""
        active = self.session.interest.active
        return list(active) if len(active) < 2 else sorted(active, key=_order)

    def has_quiet(self) -> bool:
        """Whether there are partitions that need no reading."""
        return len(self.session.partitions) > len(self.session.interest.active)

    def park(self, entries: list[FetchedPartition], reading: Reading) -> Interest:
        """Watch every partition; those with something to tell stay active."""
        self._settle(entries, reading, waits=True)
        return self.session.interest

    def answer(self, entries: list[FetchedPartition], reading: Reading) -> FetchResponse:
        """The partitions that have data, an error, or a moved high watermark or log start."""
        session = self.session
        response = FetchResponse(session_id=session.id)
        if session.epoch != self._epoch:
            # The session was used again while this request waited: a duplicate, or two fetchers share an id.
            response.error_code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
            return response
        told: list[FetchedPartition] = []
        answers: list[FetchResponse.PartitionData] = []
        for entry, answer in zip(entries, reading.answers, strict=True):
            has_error = answer.error_code != ErrorCode.NONE
            has_data = bool(answer.records)
            if (
                has_error
                or has_data
                or entry.high_watermark != answer.high_watermark
                or entry.log_start_offset != answer.log_start_offset
                or _diverges(entry, answer)
            ):
                told.append(entry)
                answers.append(answer)
                # After an error nothing counts as told, so that the partition is told again when the error is gone.
                entry.high_watermark = -1 if has_error else answer.high_watermark
                entry.log_start_offset = answer.log_start_offset
                if has_data:
                    session.move_to_end(entry)
        if session.is_closed:
            session.close()
        else:
            self._settle(entries, reading, waits=False)
        group(response, told, answers)
        return response

    def give_up(self) -> None:
        """The session goes on watching, unless it was closed meanwhile."""
        if self.session.is_closed:
            self.session.close()

    def _settle(self, entries: list[FetchedPartition], reading: Reading, *, waits: bool) -> None:
        """Find out who is quiet now. All else stays active, and is watched too while the fetch waits."""
        active = self.session.interest.active
        isolation = self._params.isolation
        for entry, answer in zip(entries, reading.answers, strict=True):
            if entry.topic is None or answer.error_code != ErrorCode.NONE:
                continue
            partition = self._replicas.get(entry.topic, entry.partition)
            if partition is None or entry.interest is None:
                continue
            is_quiet = (
                entry.fetch_offset >= partition.visible_end(isolation)
                and entry.high_watermark == answer.high_watermark == partition.high_watermark
                and entry.log_start_offset == answer.log_start_offset
                and not _diverges(entry, answer)
            )
            if is_quiet:
                active.pop(entry, None)
            if is_quiet or waits:
                entry.watch(partition)


def _diverges(entry: FetchedPartition, answer: FetchResponse.PartitionData) -> bool:
    return entry.last_fetched_epoch >= 0 and answer.diverging_epoch.end_offset >= 0


FetchContext: TypeAlias = PlainFetch | IncrementalFetch


def group(response: FetchResponse, entries: list[FetchedPartition], answers: list[FetchResponse.PartitionData]) -> None:
    """Put the answers into the response: neighbours of one topic share a topic entry, the order stays.

    Raises ``ApiError`` when something follows an entry with neither id nor name: Kafka compares names there.
    """
    topics = response.responses
    is_nameless = False
    last: FetchResponse.FetchableTopicResponse | None = None
    for entry, answer in zip(entries, answers, strict=True):
        if (
            last is None
            or last.topic_id != entry.topic_id
            or (entry.topic_id == ZERO_UUID and last.topic != entry.topic)
        ):
            if is_nameless:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "A topic is asked for by an id that is all zero.")
            is_nameless = entry.topic is None and entry.topic_id == ZERO_UUID
            last = FetchResponse.FetchableTopicResponse(
                topic=entry.topic or "", topic_id=entry.topic_id, partitions=[answer]
            )
            topics.append(last)
        else:
            last.partitions.append(answer)


def capacity(slots: int) -> int:
    """How many sessions so many slots hold: Kafka parts them evenly among its caches, and leaves the rest unused."""
    return slots // _CACHES * _CACHES


class FetchSessions:
    """All sessions of a node, in the order of their last use. Owner: the node."""

    def __init__(self, slots: int, clock: Clock, random: Random) -> None:
        self._slots = slots
        self._clock = clock
        self._random = random
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        """The session, None when there is none (any more)."""
        return self._sessions.get(session_id)

    def open(
        self, request: FetchRequest, version: int, params: FetchParams, replicas: ReplicaManager
    ) -> FetchContext | SessionError:
        """What kind of fetch a request is; moves its session on."""
        session_id = request.session_id
        epoch = request.session_epoch
        uses_topic_ids = version >= TOPIC_IDS_SINCE
        topics = request.topics
        if epoch == FINAL_EPOCH and session_id == NO_SESSION and len(topics) == 1 and len(topics[0].partitions) == 1:
            # Most fetches of clients without sessions, and worth a short way.
            topic = topics[0]
            name = replicas.topic_name(topic.topic_id) if uses_topic_ids else topic.topic
            wanted = topic.partitions[0]
            entry = FetchedPartition(
                name,
                topic.topic_id,
                wanted.partition,
                wanted.fetch_offset,
                wanted.partition_max_bytes,
                wanted.current_leader_epoch,
                wanted.last_fetched_epoch,
            )
            return PlainFetch([entry], replicas)
        asked = _asked(topics, uses_topic_ids, replicas)
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self.remove(session_id)
            entries = list(asked.values())
            if epoch == FINAL_EPOCH:
                return PlainFetch(entries, replicas)
            return PlainFetch(entries, replicas, self, uses_topic_ids=uses_topic_ids, privileged=params.replica_id >= 0)
        session = self._sessions.get(session_id)
        if session is None:
            return SessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return SessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return SessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(asked)
        for forgotten in request.forgotten_topics_data:
            forgotten_topic: str | Uuid = forgotten.topic_id if uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                session.forget((forgotten_topic, index))
        if not session.partitions:
            self.remove(session_id)
            return PlainFetch(list(asked.values()), replicas)
        self._touch(session)
        session.epoch = next_epoch(session.epoch)
        if uses_topic_ids:
            for entry in session.interest.active:
                if entry.topic is None:
                    entry.topic = replicas.topic_name(entry.topic_id)
        session.judge_by(params)
        return IncrementalFetch(session, params, replicas)

    def create(self, entries: list[FetchedPartition], uses_topic_ids: bool, privileged: bool) -> int:
        """Make a session of what a full fetch asked for; its id, or 0 when there is no room."""
        now_ms = self._clock.monotonic_ms()
        if len(self._sessions) >= self._slots and not self._evict(privileged, len(entries), now_ms):
            return NO_SESSION
        session_id = self._random.randrange(1, _INT32_MAX)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, _INT32_MAX)
        session = FetchSession(session_id, privileged, uses_topic_ids, now_ms)
        for entry in entries:
            key: Key = (entry.topic_id if uses_topic_ids else entry.topic or "", entry.partition)
            session.add(key, entry)
        self._sessions[session_id] = session
        self._touch(session)
        return session_id

    def remove(self, session_id: int) -> None:
        """Close a session; no error when there is none."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _touch(self, session: FetchSession) -> None:
        now_ms = self._clock.monotonic_ms()
        session.last_used_ms = now_ms
        session.cached_size = len(session.partitions)
        is_old = now_ms - session.created_ms > EVICTION_MS
        session.evictable_by_all = is_old
        session.evictable_by_privileged = is_old or not session.privileged
        self._sessions.move_to_end(session.id)

    def _evict(self, privileged: bool, size: int, now_ms: int) -> bool:
        """Push one session out for a new one with ``size`` partitions, if the rule allows it.

        The longest unused goes if it is stale; else the least (privileged, size, id) among the evictable, if the new
        session is worth more (``FetchSessionCacheShard.tryEvict``).
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self.remove(oldest.id)
            return True
        least = min(
            (
                (session.privileged, session.cached_size, session.id)
                for session in self._sessions.values()
                if (session.evictable_by_privileged if privileged else session.evictable_by_all)
            ),
            default=None,
        )
        if least is None or (privileged, size, 0) < least:
            return False
        self.remove(least[2])
        return True


def _asked(
    topics: list[FetchRequest.FetchTopic], uses_topic_ids: bool, replicas: ReplicaManager
) -> dict[Key, FetchedPartition]:
    """What a request names: a partition named twice has the place of the first mention and the wishes of the last."""
    asked: dict[Key, FetchedPartition] = {}
    for topic in topics:
        topic_id = topic.topic_id
        name = replicas.topic_name(topic_id) if uses_topic_ids else topic.topic
        topic_key: str | Uuid = topic_id if uses_topic_ids else topic.topic
        for wanted in topic.partitions:
            asked[(topic_key, wanted.partition)] = FetchedPartition(
                name,
                topic_id,
                wanted.partition,
                wanted.fetch_offset,
                wanted.partition_max_bytes,
                wanted.current_leader_epoch,
                wanted.last_fetched_epoch,
            )
    return asked
