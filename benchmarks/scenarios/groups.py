"""Groups: commits and heartbeats on one connection, many groups and many commits at a fixed rate, a large group's first
rebalance, a consumer's start, and a coordinator that loads.

Both brokers begin a group without a delay (``group.initial.rebalance.delay.ms=0``).
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import confluent_kafka as ck

from benchmarks import wire
from benchmarks.members import COMMITTED, Assembly, Member, committed_offset, find, new_group
from benchmarks.pacing import Paced, Peer, pace
from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.scenarios.requests import drive, numbered, seconds
from benchmarks.targets import Launcher, Target, metered, running, wait_until_it_answers
from kbroker.coordinator.runtime import partition_of

MEMBERS = 500
GROUPS, HEARTBEAT_S, HEARTBEATS = 1000, 3.0, 5
"""Groups of two members, how often each member sends a heartbeat, and how many it sends."""
COMMITTERS, COMMITS_PER_S, COMMIT_S = 50, 10_000, 10.0
STARTS = 5
LOADED_GROUPS, LOADED_PARTITIONS = 100, 1000
"""So many groups of one shard have committed so many partitions each."""
OFFSETS_PARTITIONS = 50


@contextmanager
def members_of_new_groups(target: Target, groups: int, size: int = 1) -> Iterator[list[Member]]:
    """Stable groups, each member with its own connection."""
    with ExitStack() as stack:
        name = new_group("bench")
        members = [
            Member(stack.enter_context(target.connect(120)), f"{name}-{group}")
            for group in range(groups)
            for _ in range(size)
        ]
        find(members[0].connection, members[0].group)
        Assembly(members).run()
        yield members


def commits(target: Target, effort: Effort, window: int) -> Figures:
    with target.topic("groups-commit") as topic, members_of_new_groups(target, 1) as (member,):
        request = numbered(member.commit(topic))
        return drive(target, window, seconds(effort), request, partial(_no_error, "OffsetCommit"))


def heartbeats(target: Target, effort: Effort, window: int) -> Figures:
    with members_of_new_groups(target, 1) as (member,):
        request = numbered(member.heartbeat())
        return drive(target, window, seconds(effort), request, partial(_no_error, "Heartbeat"))


def _no_error(what: str, _n: int, answer: bytes | memoryview) -> None:
    """Both answers end with their only error code."""
    wire.check(int.from_bytes(answer[-2:], "big"), what)


def repeated(members: Sequence[Member], requests: Sequence[bytes], what: str) -> list[Peer]:
    """Each request with the answer that it gets now, which must be without an error."""
    peers = []
    for member, request in zip(members, requests, strict=True):
        answer = member.connection.exchange(request)
        _no_error(what, 0, answer)
        peers.append(Peer(member.connection, request, len(answer).to_bytes(4, "big") + answer))
    return peers


def many_groups(target: Target, effort: Effort) -> Figures:
    count = effort.of(GROUPS, 100)
    with members_of_new_groups(target, count, 2) as members:
        peers = repeated(members, [member.heartbeat() for member in members], "Heartbeat")
        paced = pace(target, peers, len(peers) / HEARTBEAT_S, HEARTBEAT_S * max(1, effort.of(HEARTBEATS)))
    return _figures(paced, "heartbeat")


def many_commits(target: Target, effort: Effort) -> Figures:
    with target.topic("groups-commits") as topic, members_of_new_groups(target, COMMITTERS) as members:
        peers = repeated(members, [member.commit(topic) for member in members], "OffsetCommit")
        paced = pace(target, peers, COMMITS_PER_S, max(1.0, COMMIT_S * effort.scale))
    return {"commits/s": paced.rate} | _figures(paced, "commit")


def _figures(paced: Paced, what: str) -> Figures:
    return {
        "server CPU %": 100 * paced.meter.cpu_s / paced.meter.wall_s,
        f"server CPU us/{what}": 1e6 * paced.meter.cpu_s / len(paced.delays_ms),
        "p50 ms": paced.delay_ms(0.5),
        "p99 ms": paced.delay_ms(0.99),
    }


def large_group(target: Target, effort: Effort) -> Figures:
    count = effort.of(MEMBERS, 20)
    with ExitStack() as stack:
        group = new_group("large")
        members = [Member(stack.enter_context(target.connect(120)), group) for _ in range(count)]
        find(members[0].connection, group)
        with metered(target) as meter:
            Assembly(members).run()
    return {"first join to stable, ms": meter.wall_s * 1000, "server CPU, ms": meter.cpu_s * 1000}


def first_record(target: Target, _effort: Effort) -> Figures:
    """From ``subscribe`` in a group nobody knew to the first record: the client's own waits are most of it."""
    times = []
    with target.topic("groups-first") as topic:
        with target.connect() as connection:
            connection.settle(topic, bytes(wire.Batch([bytes(100)]).data))
        with metered(target) as meter:
            for _ in range(STARTS):
                consumer: Any = ck.Consumer(target.client(group_id=new_group("first"), auto_offset_reset="earliest"))
                began = time.perf_counter()
                consumer.subscribe([topic])
                message = consumer.poll(30)
                if message is None or message.error():
                    raise wire.WireError("no record came in 30 s")
                times.append((time.perf_counter() - began) * 1000)
                consumer.close()
    return {
        "subscribe to first record, ms": statistics.median(times),
        "server CPU ms/group": meter.cpu_s * 1000 / STARTS,
    }


def first_record_by_hand(target: Target, _effort: Effort) -> Figures:
    """The same requests without a client's waits: what is left is the broker's."""
    with target.topic("groups-hand") as topic, target.connect() as connection:
        connection.settle(topic, bytes(wire.Batch([bytes(100)]).data))
        times = [_start_by_hand(target, topic) for _ in range(STARTS)]
    return {"connect to first record, ms": statistics.median(times)}


def first_group(launcher: Launcher, _effort: Effort) -> Figures:
    """Nobody has asked for a coordinator before: ``__consumer_offsets`` is made."""
    with running(launcher) as target, target.topic("groups-hand") as topic:
        with target.connect() as connection:
            connection.settle(topic, bytes(wire.Batch([bytes(100)]).data))
        return {
            "connect to first record, ms": _start_by_hand(target, topic),
            "the second group, ms": _start_by_hand(target, topic),
        }


def _start_by_hand(target: Target, topic: str) -> float:
    """What a consumer asks until it has a record: milliseconds."""
    began = time.perf_counter()
    with target.connect() as connection:
        member = Member(connection, new_group("hand"))
        connection.api_versions()
        connection.wait_for_leaders(topic)
        find(connection, member.group)
        Assembly([member]).run()
        if committed_offset(connection, member.group, topic) != -1:
            raise wire.WireError("a new group has a committed offset")
        connection.end_offsets(topic)
        error, records = wire.fetch_answer(memoryview(connection.exchange(wire.fetch_request(topic, 0, 1000))), topic)
        if error or not len(records):
            raise wire.WireError(f"Fetch answered error {error} and {len(records)} bytes")
    return (time.perf_counter() - began) * 1000


def loading(launcher: Launcher, _effort: Effort) -> Figures:
    """After a restart: one shard has 100 000 offsets to read, another one next to nothing."""
    with running(launcher) as target:
        crowded, other = _groups_of_two_shards()
        topic = new_group("groups-load")
        with target.connect(120) as connection:
            connection.create_topic(topic, LOADED_PARTITIONS)
            connection.wait_for_leaders(topic, LOADED_PARTITIONS)
            find(connection, other)
            for group in (*crowded, other):
                request = Member(connection, group).commit(topic, LOADED_PARTITIONS)
                _no_error("OffsetCommit", 0, connection.exchange(request))
        restarted = launcher.restart()
        wait_until_it_answers(restarted)
        with restarted.connect() as connection, metered(restarted) as meter:
            began = time.perf_counter()
            waits_ms: list[float] = []
            served_ms = 0.0
            is_loaded = False
            while not is_loaded:
                before = time.perf_counter()
                is_served = committed_offset(connection, other, topic) == COMMITTED
                asked = time.perf_counter()
                is_loaded = committed_offset(connection, crowded[-1], topic, LOADED_PARTITIONS - 1) == COMMITTED
                waits_ms += [(asked - before) * 1000, (time.perf_counter() - asked) * 1000]
                if is_served and not served_ms:
                    served_ms = (asked - began) * 1000
    return {
        "first answer to all loaded, ms": meter.wall_s * 1000,
        "server CPU, ms": meter.cpu_s * 1000,
        "first answer to the other group served, ms": served_ms,
        "longest answer meanwhile, ms": max(waits_ms),
    }


def _groups_of_two_shards() -> tuple[list[str], str]:
    """Groups of the first shard, and one of another."""
    numbers = itertools.count()
    crowded: list[str] = []
    while len(crowded) < LOADED_GROUPS:
        group = f"load-{next(numbers)}"
        if partition_of(group, OFFSETS_PARTITIONS) == 0:
            crowded.append(group)
    return crowded, next(group for n in numbers if partition_of(group := f"load-{n}", OFFSETS_PARTITIONS) != 0)


CASES = [
    *(Case(f"OffsetCommit of one offset, {window} in flight", partial(commits, window=window)) for window in (1, 5)),
    *(Case(f"Heartbeat, {window} in flight", partial(heartbeats, window=window)) for window in (1, 5)),
    Case("1000 groups of two members", many_groups),
    Case("10 000 commits a second", many_commits),
    Case("a group of 500 members", large_group),
    Case("a new group", first_record),
    Case("a new group, by hand", first_record_by_hand),
    Case("the first group of a broker", first_group, warm_up=False, is_fresh=True),
    Case("a coordinator that loads", loading, warm_up=False, is_fresh=True),
]
