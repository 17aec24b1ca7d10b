"""Groups, by hand: commits and heartbeats on one connection, a large group's first rebalance; and a consumer's start.

Both brokers begin a group without a delay (``group.initial.rebalance.delay.ms=0``).
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import confluent_kafka as ck

from benchmarks import wire
from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.scenarios.requests import drive, numbered, seconds
from benchmarks.targets import Target, metered
from kbroker.protocol import codec
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIND, JOIN, SYNC, HEARTBEAT, COMMIT = 2, 5, 3, 3, 7
"""The version in which each request is sent; none is flexible."""
MEMBERS = 500
STARTS = 5
REBALANCE_IN_PROGRESS = 27
SESSION_MS, REBALANCE_MS = 30_000, 60_000


def new_group(connection: wire.Connection) -> str:
    """A group whose coordinator answers."""
    group = f"group-{time.time_ns() // 1000}"
    give_up = time.monotonic() + wire.LEADER_WAIT_S
    while time.monotonic() < give_up:
        found = connection.ask(FindCoordinatorRequest(key=group), FIND, FindCoordinatorResponse)
        if found.error_code == 0:
            refused = connection.ask(join(group, "nobody"), JOIN, JoinGroupResponse).error_code
            if refused == 25:  # not "loading" and not "elsewhere": the coordinator does not know this member
                return group
        time.sleep(0.05)
    raise wire.WireError("no group has a coordinator")


def join(group: str, member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        protocol_type="bench",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="p", metadata=bytes(50))],
    )


def sync(group: str, joined: JoinGroupResponse) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=member.member_id, assignment=bytes(50))
            for member in joined.members
        ],
    )


@contextmanager
def member_of_new_group(target: Target) -> Iterator[tuple[str, str]]:
    """The only member of a stable group: group and member id. Its generation is 1."""
    with target.connect() as connection:
        group = new_group(connection)
        given = connection.ask(join(group), JOIN, JoinGroupResponse)
        joined = connection.ask(join(group, given.member_id), JOIN, JoinGroupResponse)
        connection.ask(sync(group, joined), SYNC, SyncGroupResponse)
        if joined.generation_id != 1:
            raise wire.WireError(f"a new group is at generation {joined.generation_id}")
        yield group, joined.member_id


def commits(target: Target, effort: Effort, window: int) -> Figures:
    with target.topic("groups-commit") as topic, member_of_new_group(target) as (group, member_id):
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=1,
            member_id=member_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic, partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=7)]
                )
            ],
        )

        def check(_n: int, answer: memoryview) -> None:
            if bytes(answer[-2:]) != b"\0\0":
                raise wire.WireError(f"OffsetCommit answered error {int.from_bytes(answer[-2:], 'big')}")

        return drive(target, window, seconds(effort), numbered(wire.framed(request, COMMIT)), check)


def heartbeats(target: Target, effort: Effort, window: int) -> Figures:
    with member_of_new_group(target) as (group, member_id):
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)

        def check(_n: int, answer: memoryview) -> None:
            if bytes(answer[-2:]) != b"\0\0":
                raise wire.WireError(f"Heartbeat answered error {int.from_bytes(answer[-2:], 'big')}")

        return drive(target, window, seconds(effort), numbered(wire.framed(request, HEARTBEAT)), check)


def large_group(target: Target, effort: Effort) -> Figures:
    """All join at once; until each has its assignment of a generation with all of them in it."""
    count = effort.of(MEMBERS, 20)
    with ExitStack() as stack:
        members = [stack.enter_context(target.connect(120)) for _ in range(count)]
        group = new_group(members[0])
        with metered(target) as meter:
            ids = [member.ask(join(group), JOIN, JoinGroupResponse).member_id for member in members]
            for member, member_id in zip(members, ids, strict=True):
                member.socket.sendall(wire.framed(join(group, member_id), JOIN))
            _await_assignments(group, members)
    return {"first join to stable, ms": meter.wall_s * 1000, "server CPU, ms": meter.cpu_s * 1000}


def _await_assignments(group: str, members: list[wire.Connection]) -> None:
    joined: dict[wire.Connection, JoinGroupResponse] = {}
    syncs: dict[wire.Connection, None] = {}
    largest = 0
    settled: dict[wire.Connection, int] = {}
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member.socket, selectors.EVENT_READ, member)
        while len(settled) < len(members) or min(settled.values()) < largest:
            ready = selector.select(60)
            if not ready:
                raise wire.WireError(f"{len(settled)} of {len(members)} members have their assignments after a minute")
            for key, _ in ready:
                member = key.data
                answer = member.receive()
                if member not in syncs:
                    response = joined[member] = codec.decode(JoinGroupResponse, JOIN, answer, 4)
                    if response.error_code:
                        raise wire.WireError(f"JoinGroup answered error {response.error_code}")
                    largest = max(largest, response.generation_id)
                    syncs[member] = None
                    member.socket.sendall(wire.framed(sync(group, response), SYNC))
                    continue
                del syncs[member]
                code = codec.decode(SyncGroupResponse, SYNC, answer, 4).error_code
                if code == 0 and joined[member].generation_id == largest:
                    settled[member] = largest
                elif code in (0, REBALANCE_IN_PROGRESS):
                    member.socket.sendall(wire.framed(join(group, joined[member].member_id), JOIN))
                else:
                    raise wire.WireError(f"SyncGroup answered error {code}")


def first_record(target: Target, _effort: Effort) -> Figures:
    """From ``subscribe`` in a group nobody knew to the first record."""
    times = []
    with target.topic("groups-first") as topic:
        with target.connect() as connection:
            connection.settle(topic, bytes(wire.Batch([bytes(100)]).data))
        with metered(target) as meter:
            for number in range(STARTS):
                group = f"first-{time.time_ns() // 1000}-{number}"
                consumer: Any = ck.Consumer(target.client(group_id=group, auto_offset_reset="earliest"))
                began = time.perf_counter()
                consumer.subscribe([topic])
                message = consumer.poll(30)
                if message is None or message.error():
                    raise wire.WireError("no record came in 30 s")
                times.append((time.perf_counter() - began) * 1000)
                consumer.close()
    times.sort()
    return {"subscribe to first record, ms": times[len(times) // 2], "server CPU ms/group": meter.cpu_s * 1000 / STARTS}


CASES = [
    *(Case(f"OffsetCommit of one offset, {window} in flight", partial(commits, window=window)) for window in (1, 5)),
    *(Case(f"Heartbeat, {window} in flight", partial(heartbeats, window=window)) for window in (1, 5)),
    Case("a group of 500 members", large_group),
    Case("a new group", first_record),
]
