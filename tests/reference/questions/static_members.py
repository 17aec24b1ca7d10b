"""Static membership (KIP-345): who comes back takes its own place, and its double is fenced."""

from __future__ import annotations

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.group_scenery import (
    RANGE,
    STICKY,
    heartbeat_request,
    join_request,
    leave_request,
    new_group,
    sync_request,
)

STATIC = range(5, 10)


def stable(c: Conversation, group: str, version: int, protocols: object = (RANGE,)) -> tuple[str, str]:
    """Two static members, ann (who leads) and bob, of generation 2."""
    options = {"protocols": protocols}
    ann = c.ask(join_request(group, instance="ann", **options), version, connection="ann")  # type: ignore[arg-type]
    c.begin(join_request(group, instance="bob", **options), version, "bob")  # type: ignore[arg-type]
    c.note_whether_it_waits("bob")
    again = join_request(group, ann.member_id, instance="ann", **options)  # type: ignore[arg-type]
    c.ask(again, version, connection="ann", label="ann again", unordered=True)
    bob = c.end("bob")
    share = {ann.member_id: b"for ann", bob.member_id: b"for bob"}
    name = bob.protocol_name
    c.ask(sync_request(group, 2, ann.member_id, share, instance="ann", protocol=name), 5, connection="ann")
    c.ask(sync_request(group, 2, bob.member_id, instance="bob", protocol=name), 5, connection="bob")
    return ann.member_id, bob.member_id


@question(STATIC)
def a_follower_comes_back(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, bob = stable(c, group, version)
    back = c.ask(join_request(group, instance="bob"), version, connection="bob", label="bob is back")
    c.ask(heartbeat_request(group, 2, bob, "bob"), 4, connection="bob", label="his double")
    c.ask(heartbeat_request(group, 2, bob), 4, connection="bob", label="his double without instance id")
    c.ask(heartbeat_request(group, 2, back.member_id, "bob"), 4, connection="bob", label="bob lives")
    c.ask(heartbeat_request(group, 2, ann, "ann"), 4, connection="ann", label="ann lives")
    c.ask(sync_request(group, 2, back.member_id, instance="bob"), 5, connection="bob")
    c.ask(sync_request(group, 2, bob, instance="bob"), 5, connection="bob", label="his double syncs")
    c.ask(join_request(group, bob, instance="bob"), version, connection="bob", label="his double joins")
    c.ask(DescribeGroupsRequest(groups=[group]), 5, unordered=True)


@question(STATIC)
def a_leader_comes_back(c: Conversation, version: int) -> None:
    group = new_group(c)
    stable(c, group, version)
    back = c.ask(join_request(group, instance="ann"), version, connection="ann", label="ann is back", unordered=True)
    c.ask(sync_request(group, 2, back.member_id, instance="ann"), 5, connection="ann")
    c.ask(heartbeat_request(group, 2, back.member_id, "ann"), 4, connection="ann")


@question(STATIC)
def a_double_while_members_join(c: Conversation, version: int) -> None:
    group = new_group(c)
    stable(c, group, version)
    c.begin(join_request(group, instance="cid"), version, "cid")
    c.note_whether_it_waits("cid")
    c.begin(join_request(group, instance="cid"), version, "double")
    c.end("cid")
    c.note_whether_it_waits("double")


@question(STATIC)
def a_double_while_assignments_are_awaited(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann = c.ask(join_request(group, instance="ann"), version, connection="ann")
    c.begin(join_request(group, instance="bob"), version, "bob")
    c.ask(join_request(group, ann.member_id, instance="ann"), version, connection="ann", label="again", unordered=True)
    bob = c.end("bob")
    c.begin(sync_request(group, 2, bob.member_id, instance="bob"), 5, "bob")
    c.note_whether_it_waits("bob")
    c.begin(join_request(group, instance="bob"), version, "double")
    c.end("bob")
    c.note_whether_it_waits("double")
    c.ask(sync_request(group, 2, ann.member_id, instance="ann"), 5, connection="ann")


@question(STATIC)
def a_return_with_other_protocols(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, _ = stable(c, group, version, (RANGE, STICKY))
    changed = (("range", b"new"), STICKY)
    c.ask(join_request(group, instance="bob", protocols=changed), version, connection="bob", label="other metadata")
    c.ask(heartbeat_request(group, 2, ann, "ann"), 4, connection="ann")
    c.ask(join_request(group, instance="bob", protocols=(("x", b""),)), version, connection="bob", label="unknown")
    c.begin(join_request(group, instance="bob", protocols=(STICKY,)), version, "bob")
    c.note_whether_it_waits("bob")
    c.ask(heartbeat_request(group, 2, ann, "ann"), 4, connection="ann", label="the protocol changes")


@question(STATIC)
def a_sole_static_member_returns_with_an_unknown_protocol(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann = c.ask(join_request(group, instance="ann"), version, connection="ann")
    c.ask(sync_request(group, 1, ann.member_id, instance="ann"), 5, connection="ann")
    c.ask(join_request(group, instance="ann", protocols=(STICKY,)), version, connection="ann", label="other")
    c.ask(join_request(group, instance="ann", protocols=(RANGE, STICKY)), version, connection="ann", label="both")


@question(STATIC)
def wrong_instance_ids(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, bob = stable(c, group, version)
    c.ask(join_request(group, ann, instance="bob"), version, label="ann says she is bob")
    c.ask(join_request(group, ann, instance="who"), version, label="ann says she is who")
    c.ask(join_request(group, "made up", instance="bob"), version, label="a made-up id")
    given = c.ask(join_request(group), version)
    if given.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        c.ask(join_request(group, given.member_id, instance="new"), version, label="pending, with an instance id")
    c.ask(join_request(group, bob), version, connection="bob", label="bob without his")


@question(range(3, 6))
def an_administrator_removes_static_members(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, _ = stable(c, group, 9)
    c.ask(leave_request(group, ("made up", "bob"), ("", "who"), (ann, "bob")), version, label="nobody")
    c.ask(heartbeat_request(group, 2, ann, "ann"), 4, connection="ann")
    c.ask(leave_request(group, ("", "bob")), version, label="bob")
    c.ask(heartbeat_request(group, 2, ann, "ann"), 4, connection="ann")
