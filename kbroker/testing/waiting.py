"""Waiting for what a broker comes to hold, woken by what happens to it: nothing is polled.

A wait looks at its condition again when a partition it watches changes, when metadata change, and when another core
starts. It watches partitions as a waiting fetch does. Groups and transactions change by what is appended to their
internal topics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from kbroker.replication.fetching import DelayedFetch, FetchedPartition, Interest
from kbroker.testing import state
from kbroker.testing.engine import Engine
from kbroker.testing.names import check_count, check_timeout
from kbroker.testing.values import Group, Record, WaitTimeoutError
from kbroker.types import GROUP_METADATA_TOPIC, ZERO_UUID

T = TypeVar("T")

SHOWN_MAX = 5


class Watcher:
    """Told by partitions as a waiting fetch is (``kbroker.replication.fetching``). Owner: one wait."""

    def __init__(self, engine: Engine, topics: tuple[str, ...]) -> None:
        self._engine = engine
        self._topics = topics
        self._interest = Interest()
        self._interest.waiter = cast("DelayedFetch", self)
        self._entries: dict[tuple[str, int], FetchedPartition] = {}
        self._core: object = None
        self.scheduled = False
        self.future: asyncio.Future[None] = engine.loop.create_future()

    def watch(self) -> asyncio.Future[None]:
        """A future that is done at the next change."""
        self.future = self._engine.loop.create_future()
        if not self._engine.is_alive:
            return self.future
        node = self._engine.node
        if self._core is not node:
            self._core = node
            self._entries.clear()
        for topic in self._topics:
            image = node.quorum.image.topics.by_name.get(topic)
            for index in () if image is None else image.partitions:
                partition = node.replicas.get(topic, index)
                if partition is not None:
                    entry = self._entries.get((topic, index))
                    if entry is None:
                        entry = FetchedPartition(topic, ZERO_UUID, index, 0, 0, -1, -1)
                        entry.interest = self._interest
                        self._entries[topic, index] = entry
                    entry.watch(partition)
        return self.future

    def try_complete(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def close(self) -> None:
        for entry in self._entries.values():
            entry.unwatch()
            entry.interest = None
        if not self.future.done():
            self.future.cancel()


async def until(
    engine: Engine,
    topics: tuple[str, ...],
    look: Callable[[], Awaitable[T | None]],
    timeout_s: float,
    complain: Callable[[], Awaitable[str]],
) -> T:
    """What ``look`` gives as soon as it is not None. Raises ``WaitTimeoutError`` with what ``complain`` says."""
    check_timeout(timeout_s)
    watcher = Watcher(engine, topics)
    engine.on_change(watcher.try_complete)
    expired: asyncio.Future[None] = engine.loop.create_future()
    timer = engine.loop.call_later(timeout_s, expired.set_result, None)
    try:
        while True:
            changed = watcher.watch()
            found = await look() if engine.is_alive else None
            if found is not None:
                return found
            if expired.done():
                said = await complain() if engine.is_alive else "the broker was killed"
                raise WaitTimeoutError(f"{said} (waited {timeout_s:g} s)")
            await asyncio.wait((changed, expired), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
        engine.off_change(watcher.try_complete)
        watcher.close()


def _topic_exists(engine: Engine, topic: str) -> bool:
    return topic in engine.node.quorum.image.topics.by_name


async def for_records(
    engine: Engine, topic: str, count: int, timeout_s: float, partition: int | None, committed_only: bool
) -> list[Record]:
    """At least ``count`` records; all that are there."""
    check_count("count", count, 0)

    def here() -> list[Record]:
        if not _topic_exists(engine, topic):
            return []
        found = state.records(engine, topic, partition)
        return [each for each in found if each.transaction in (None, "committed")] if committed_only else found

    async def look() -> list[Record] | None:
        if not _topic_exists(engine, topic):
            return None
        replicas = state.partitions_of(engine, topic, partition)
        if sum(each.log_end_offset - each.log_start_offset for each in replicas) < count:
            return None
        found = here()
        return found if len(found) >= count else None

    async def complain() -> str:
        if not _topic_exists(engine, topic):
            known = ", ".join(state.topics(engine)) or "none"
            return f"{count} records of {topic!r} were expected; there is no such topic. There are: {known}"
        kind = "committed records" if committed_only else "records"
        there = state.records(engine, topic, partition)
        return f"{count} {kind} of {topic!r} were expected; there are {describe(there)}"

    return await until(engine, (topic,), look, timeout_s, complain)


def describe(found: list[Record]) -> str:
    """How many records there are, and the last of them."""
    if not found:
        return "none"
    shown = "; ".join(f"{each.partition}@{each.offset} {_short(each.value)}" for each in found[-SHOWN_MAX:])
    open_count = sum(each.transaction == "open" for each in found)
    aborted = sum(each.transaction == "aborted" for each in found)
    extra = f" ({open_count} in open transactions, {aborted} aborted)" if open_count or aborted else ""
    return f"{len(found)}{extra}, the last: {shown}"


def _short(value: bytes | None) -> str:
    return repr(value) if value is None or len(value) <= 40 else f"{value[:40]!r}..."


async def for_no_records(engine: Engine, topic: str, within_s: float, allowed: int) -> None:
    """The topic has no more than so many records, and gets no more for a while."""
    check_count("beyond", allowed, 0)
    try:
        found = await for_records(engine, topic, allowed + 1, within_s, None, False)
    except WaitTimeoutError:
        return
    beyond = f" beyond {allowed}" if allowed else ""
    raise AssertionError(f"no records of {topic!r} were expected{beyond}; there are {describe(found)}")


def exactly_once(engine: Engine, topic: str, values: list[bytes | None], partition: int | None) -> None:
    """Of the records that read_committed sees, each of ``values`` is there once, and nothing else."""
    found = [each.value for each in state.records(engine, topic, partition) if each.transaction in (None, "committed")]
    seen, wanted = Counter(found), Counter(values)
    missing = [_short(value) for value in (wanted - seen).elements()]
    surplus = [f"{_short(value)} ({seen[value]} times)" for value in (seen - wanted)]
    if missing or surplus:
        said = []
        if missing:
            said.append(f"missing: {', '.join(missing[:SHOWN_MAX])}{_more(missing)}")
        if surplus:
            said.append(f"too many: {', '.join(surplus[:SHOWN_MAX])}{_more(surplus)}")
        raise AssertionError(f"{topic!r} does not hold each of {len(values)} values exactly once; {'; '.join(said)}")


def _more(found: list[str]) -> str:
    return f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""


# --- groups


async def _no_group(engine: Engine) -> str:
    return f"there is no such group. There are: {', '.join(await state.groups(engine)) or 'none'}"


async def for_assignment(engine: Engine, group_id: str, members: int, topic: str | None, timeout_s: float) -> Group:
    """The group is stable with at least ``members`` members that have an assignment (of ``topic``)."""

    async def look() -> Group | None:
        found = await state.group(engine, group_id)
        if found is None or found.state.upper() != "STABLE" or len(found.members) < members:
            return None
        assigned = [each for each in found.members if each.assignment is not None]
        if len(assigned) < len(found.members):
            return None
        named = {name for each in assigned for name in each.assignment or ()}
        return found if (named if topic is None else topic in named) else None

    async def complain() -> str:
        wanted = f"{members} of its members have partitions{'' if topic is None else f' of {topic!r}'}"
        expected = f"group {group_id!r} was expected to be stable while {wanted}"
        found = await state.group(engine, group_id)
        if found is None:
            return f"{expected}; {await _no_group(engine)}"
        having = ", ".join(f"{each.client_id!r} with {dict(each.assignment or {})}" for each in found.members)
        return f"{expected}; it is {found.state}, its members are {having or 'none'}"

    return await until(engine, (GROUP_METADATA_TOPIC,), look, timeout_s, complain)


async def for_commit(engine: Engine, group_id: str, topic: str, offset: int, partition: int, timeout_s: float) -> int:
    """The group has committed ``offset`` or a later one."""

    async def look() -> int | None:
        if not _topic_exists(engine, topic):
            return None
        found = await state.committed(engine, group_id, topic, partition)
        return found if found is not None and found >= offset else None

    async def complain() -> str:
        expected = f"group {group_id!r} was expected to commit {offset} of {topic}-{partition}"
        if not _topic_exists(engine, topic):
            return f"{expected}; there is no such topic"
        if await state.group(engine, group_id) is None:
            return f"{expected}; {await _no_group(engine)}"
        return f"{expected}; it committed {await state.committed_offsets(engine, group_id) or 'nothing'}"

    return await until(engine, (GROUP_METADATA_TOPIC, topic), look, timeout_s, complain)


async def for_lag(engine: Engine, group_id: str, lag: int, topic: str | None, timeout_s: float) -> int:
    """The group has committed something, and at most ``lag`` records are before it."""

    async def look() -> int | None:
        offsets = await state.committed_offsets(engine, group_id)
        if not any(rows for name, rows in offsets.items() if topic in (None, name)):
            return None
        found = await state.lag(engine, group_id, topic)
        return found if found <= lag else None

    async def complain() -> str:
        expected = f"a lag of {lag} was expected of group {group_id!r}"
        if await state.group(engine, group_id) is None:
            return f"{expected}; {await _no_group(engine)}"
        offsets = await state.committed_offsets(engine, group_id)
        return f"{expected}; it is {await state.lag(engine, group_id, topic)}, it committed {offsets or 'nothing'}"

    watched = (GROUP_METADATA_TOPIC, *state.topics(engine)) if topic is None else (GROUP_METADATA_TOPIC, topic)
    return await until(engine, watched, look, timeout_s, complain)
