"""What questions about groups have in common: coordinators found, requests put together, groups made stable."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from tests.reference.conversation import Conversation
from tests.reference.questions.scenery import fresh_name

RANGE = ("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")
"""A subscription of version 0 to the topic ``t``."""
STICKY = ("sticky", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")
Protocols = Sequence[tuple[str, bytes]]


def new_group(c: Conversation) -> str:
    """A group id of this conversation's own, whose coordinator answers."""
    group = fresh_name(c, "g")
    deadline = time.monotonic() + c.timeout_seconds
    while time.monotonic() < deadline:
        found = c.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4, note=False)
        if found.coordinators[0].error_code == ErrorCode.NONE:
            wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
            fetched = c.ask(OffsetFetchRequest(groups=[wanted]), 8, note=False)
            if fetched.groups[0].error_code == ErrorCode.NONE:
                return group
        time.sleep(0.05)
    raise TimeoutError("the group has no coordinator")


def join_request(
    group: str,
    member_id: str = "",
    *,
    instance: str | None = None,
    protocols: Protocols = (RANGE,),
    protocol_type: str = "consumer",
    session_ms: int = 60_000,
    rebalance_ms: int = 60_000,
    reason: str | None = None,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols
        ],
        reason=reason,
    )


def sync_request(
    group: str,
    generation: int,
    member_id: str,
    assignments: dict[str, bytes] | None = None,
    *,
    instance: str | None = None,
    protocol_type: str | None = "consumer",
    protocol: str | None = "range",
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type=protocol_type,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=each, assignment=assignment)
            for each, assignment in (assignments or {}).items()
        ],
    )


def heartbeat_request(group: str, generation: int, member_id: str, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance)


def leave_request(group: str, *members: tuple[str, str | None], version: int = 5) -> LeaveGroupRequest:
    """Members by id and instance id; before version 3 only one, by its id."""
    if version < 3:
        return LeaveGroupRequest(group_id=group, member_id=members[0][0])
    return LeaveGroupRequest(
        group_id=group,
        members=[
            LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance)
            for member_id, instance in members
        ],
    )


def begin_join(c: Conversation, connection: str, group: str, version: int, **options: Any) -> str:
    """Begin a new member's join on a connection of its own; its id, "" where the version tells it at the end only."""
    member_id = ""
    if version >= 4 and options.get("instance") is None:
        first = c.ask(join_request(group, **options), version, connection=connection, note=False)
        if first.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            raise AssertionError(f"no member id was given: {first}")
        member_id = first.member_id
    c.begin(join_request(group, member_id, **options), version, connection)
    return member_id


def stable_pair(c: Conversation, group: str, version: int, **options: Any) -> tuple[str, str, int]:
    """A group of two members, ``ann`` who leads and ``bob``, with assignments: their ids and the generation."""
    begin_join(c, "ann", group, version, **options)
    ann = c.end("ann")
    begin_join(c, "bob", group, version, **options)
    c.ask(
        join_request(group, ann.member_id, **options),
        version,
        connection="ann",
        label="ann joins again",
        unordered=True,
    )
    bob = c.end("bob")
    name = bob.protocol_name
    share = {ann.member_id: b"for ann", bob.member_id: b"for bob"}
    generation = bob.generation_id
    c.begin(sync_request(group, generation, bob.member_id, protocol=name), 5, "bob")
    c.ask(sync_request(group, generation, ann.member_id, share, protocol=name), 5, connection="ann")
    c.end("bob")
    return ann.member_id, bob.member_id, generation
