"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: members come, wait for each other, and go."""

from __future__ import annotations

import time

from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.group_offsets import commit_request, delete_request
from tests.reference.questions.group_scenery import (
    RANGE,
    STICKY,
    begin_join,
    heartbeat_request,
    join_request,
    leave_request,
    new_group,
    stable_pair,
    sync_request,
)
from tests.reference.questions.scenery import create_topic

JOIN = range(10)
SYNC = range(6)
HEARTBEAT = range(5)
LEAVE = range(6)


@question(JOIN)
def a_first_member_joins(c: Conversation, version: int) -> None:
    group = new_group(c)
    first = c.ask(join_request(group), version)
    if version >= 4:
        first = c.ask(join_request(group, first.member_id), version, label="with its id")
    c.ask(join_request(group, first.member_id), version, label="the same again")


@question(JOIN)
def joins_that_are_refused(c: Conversation, version: int) -> None:
    group = new_group(c)
    c.ask(join_request(""), version, label="no group id")
    c.ask(join_request("", "m"), version, label="no group id, with a member id")
    c.ask(join_request(group, "made up"), version, label="a made-up id")
    for session_ms in (0, -1, 5_999, 1_800_001):
        c.ask(join_request(group, session_ms=session_ms), version, label=f"session {session_ms}")
    c.ask(join_request(group, protocols=()), version, label="no protocols")
    c.ask(join_request(group, protocol_type=""), version, label="no type")
    c.ask(join_request(group, "made up"), version, label="a made-up id in an empty group")


@question(JOIN)
def a_second_member_and_a_rebalance(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, bob, generation = stable_pair(c, group, version)
    c.ask(heartbeat_request(group, generation, ann), 4, connection="ann")
    begin_join(c, "cid", group, version)
    c.note_whether_it_waits("cid")
    c.ask(heartbeat_request(group, generation, ann), 4, connection="ann", label="while somebody joins")
    c.begin(join_request(group, bob), version, "bob")
    c.note_whether_it_waits("bob")
    c.ask(join_request(group, ann), version, connection="ann", label="ann joins again", unordered=True)
    c.end("bob")
    cid = c.end("cid")
    c.ask(heartbeat_request(group, generation + 1, ann), 4, connection="ann", label="while assignments are awaited")
    c.ask(heartbeat_request(group, generation, ann), 4, connection="ann", label="of the last generation")
    c.begin(sync_request(group, generation + 1, cid.member_id), 5, "cid")
    c.note_whether_it_waits("cid")
    c.ask(sync_request(group, generation + 1, ann, {cid.member_id: b"c"}), 5, connection="ann", label="ann assigns")
    c.end("cid")
    c.ask(sync_request(group, generation + 1, bob), 5, connection="bob", label="bob asks late")


@question(JOIN)
def protocols_are_voted_for(c: Conversation, version: int) -> None:
    group = new_group(c)
    stable_pair(c, group, version, protocols=(STICKY, RANGE))
    for protocols, kind in (((("other", b""),), "consumer"), ((RANGE,), "connect"), ((), "consumer")):
        c.ask(join_request(group, protocols=protocols, protocol_type=kind), version, connection="cid", label=kind)


@question(JOIN)
def known_members_join_again(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, bob, generation = stable_pair(c, group, version)
    c.ask(join_request(group, bob), version, connection="bob", label="bob, nothing new")
    c.ask(heartbeat_request(group, generation, ann), 4, connection="ann")
    changed = (("range", b"\0\0\0\0\0\1\0\1u\xff\xff\xff\xff"),)
    c.begin(join_request(group, bob, protocols=changed), version, "bob")
    c.note_whether_it_waits("bob")
    c.ask(heartbeat_request(group, generation, ann), 4, connection="ann", label="bob changed")
    c.ask(join_request(group, ann), version, connection="ann", label="ann", unordered=True)
    c.end("bob")
    c.ask(join_request(group, bob, protocols=changed), version, connection="bob", label="bob repeats himself")
    c.ask(join_request(group, ann), version, connection="ann", label="ann repeats herself", unordered=True)


@question(SYNC)
def syncs_that_are_refused(c: Conversation, version: int) -> None:
    group = new_group(c)
    c.ask(sync_request("", 1, "m"), version, label="no group id")
    c.ask(sync_request(group, 1, "m"), version, label="no group")
    begin_join(c, "ann", group, 9)
    ann = c.end("ann").member_id
    c.ask(sync_request(group, 1, "made up"), version, label="a made-up id")
    c.ask(sync_request(group, 2, ann), version, label="a later generation")
    c.ask(sync_request(group, 0, ann), version, label="an earlier generation")
    if version >= 3:
        c.ask(sync_request(group, 1, ann, instance="i"), version, label="an instance id nobody has")
    if version >= 5:
        for kind, name in (("other", "range"), ("consumer", "other"), (None, "range"), ("consumer", None)):
            request = sync_request(group, 1, ann, protocol_type=kind, protocol=name)
            c.ask(request, version, label=f"{kind} {name}")
    c.ask(sync_request(group, 1, ann, {ann: b"all", "made up": b"x"}), version, label="good")
    c.ask(sync_request(group, 1, ann), version, label="once more")
    c.ask(sync_request(group, 1, ann, {ann: b"other"}), version, label="other assignments come too late")


@question(SYNC)
def a_sync_that_waits_ends_with_the_next_rebalance(c: Conversation, version: int) -> None:
    group = new_group(c)
    begin_join(c, "ann", group, 9)
    ann = c.end("ann").member_id
    bob = begin_join(c, "bob", group, 9)
    c.ask(join_request(group, ann), 9, connection="ann", label="ann joins again", unordered=True)
    c.end("bob")
    c.begin(sync_request(group, 2, bob), version, "bob")
    c.note_whether_it_waits("bob")
    begin_join(c, "cid", group, 9)
    c.end("bob")
    c.ask(sync_request(group, 2, ann, {bob: b"b"}), version, connection="ann", label="while members join")


@question(SYNC)
def nobody_is_left_out_by_the_leader(c: Conversation, version: int) -> None:
    group = new_group(c)
    begin_join(c, "ann", group, 9)
    ann = c.end("ann").member_id
    c.ask(sync_request(group, 1, ann), version, label="no assignments at all")
    request = SyncGroupRequest(group_id=group, generation_id=1, member_id=ann)
    c.ask(request, version, label="without type and name")


@question(HEARTBEAT)
def heartbeats(c: Conversation, version: int) -> None:
    group = new_group(c)
    c.ask(HeartbeatRequest(group_id="", generation_id=1, member_id="m"), version, label="no group id")
    c.ask(heartbeat_request(group, 1, "m"), version, label="no group")
    given = c.ask(join_request(group), 9)
    c.ask(heartbeat_request(group, 0, given.member_id), version, label="pending")
    c.ask(leave_request(group, (given.member_id, None)), 5)
    ann, bob, generation = stable_pair(c, group, 9)
    for number in (generation, generation - 1, generation + 1, -1):
        c.ask(heartbeat_request(group, number, ann), version, label=f"generation {number}")
    c.ask(heartbeat_request(group, generation, "made up"), version, label="a made-up id")
    c.ask(heartbeat_request(group, generation, ""), version, label="no member id")
    if version >= 3:
        c.ask(heartbeat_request(group, generation, bob, "i"), version, label="an instance id nobody has")


@question(LEAVE)
def members_leave(c: Conversation, version: int) -> None:
    group = new_group(c)
    c.ask(leave_request("", ("m", None), version=version), version, label="no group id")
    c.ask(leave_request(group, ("m", None), version=version), version, label="no group")
    given = c.ask(join_request(group), 9)
    c.ask(leave_request(group, ("made up", None), version=version), version, label="a made-up id")
    c.ask(leave_request(group, ("", None), version=version), version, label="no member id")
    c.ask(leave_request(group, (given.member_id, None), version=version), version, label="pending")
    ann, bob, generation = stable_pair(c, group, 9)
    c.ask(leave_request(group, (bob, None), version=version), version, label="bob")
    c.ask(heartbeat_request(group, generation, ann), 4, connection="ann")
    c.ask(join_request(group, ann), 9, connection="ann", unordered=True)
    c.ask(leave_request(group, (ann, None), version=version), version, label="ann")
    c.ask(leave_request(group, (ann, None), version=version), version, label="ann again")


@question(range(3, 6))
def several_members_leave_at_once(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, bob, _ = stable_pair(c, group, 9)
    c.ask(leave_request(group), version, label="nobody")
    members = ((bob, None), ("made up", None), (ann, "i"), (bob, None), ("", "i"), ("", None))
    c.ask(leave_request(group, *members), version)
    begin_join(c, "cid", group, 9)
    c.note_whether_it_waits("cid")
    c.ask(leave_request(group, (ann, None)), version, label="the one who is waited for")
    c.end("cid")


@question(LEAVE)
def a_join_that_waits_when_its_member_leaves(c: Conversation, version: int) -> None:
    group = new_group(c)
    begin_join(c, "ann", group, 9)
    c.end("ann")
    bob = begin_join(c, "bob", group, 9)
    c.note_whether_it_waits("bob")
    c.ask(leave_request(group, (bob, None), version=version), version)
    c.end("bob")


@question(range(8, 10))
def reasons_are_taken(c: Conversation, version: int) -> None:
    group = new_group(c)
    given = c.ask(join_request(group, reason="because"), version)
    c.ask(join_request(group, given.member_id, reason="x" * 300), version)


@question(range(9, 10))
def a_member_whose_session_ends(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, bob, generation = stable_pair(c, group, version, session_ms=6_000, rebalance_ms=6_000)
    for _ in range(16):
        time.sleep(0.5)
        answer = c.ask(heartbeat_request(group, generation, ann), 4, connection="ann", note=False)
        if answer.error_code:
            break
    c.ask(heartbeat_request(group, generation, ann), 4, connection="ann", label="bob is gone")
    c.ask(heartbeat_request(group, generation, bob), 4, connection="bob", label="bob")
    c.ask(join_request(group, ann), version, connection="ann", unordered=True)


@question(range(7, 10))
def a_protocol_without_a_name(c: Conversation, version: int) -> None:
    group = new_group(c)
    begin_join(c, "ann", group, version, protocols=(("", b""),))
    ann = c.end("ann").member_id
    c.ask(sync_request(group, 1, ann, {ann: b"a"}, protocol=""), 5)
    c.ask(DescribeGroupsRequest(groups=[group]), 6)


@question(range(9, 10))
def a_vote_that_is_a_tie(c: Conversation, version: int) -> None:
    """The order of a hash map decides: for these names it is known."""
    names = ("range", "roundrobin", "sticky", "cooperative-sticky", "default", "eager", "x")
    for number, first in enumerate(names):
        for second in names[number + 1 :]:
            group = new_group(c)
            ann = ((first, b""), (second, b""))
            c.begin(join_request(group, instance="ann", protocols=ann), version, "ann")
            joined = c.end("ann", note=False)
            c.begin(join_request(group, instance="bob", protocols=ann[::-1]), version, "bob")
            again = join_request(group, joined.member_id, instance="ann", protocols=ann)
            c.ask(again, version, connection="ann", note=False)
            c.note(f"{first} or {second}", c.end("bob", note=False).protocol_name)


@question(range(9, 10))
def an_empty_group_is_joined_by_another_type(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    begin_join(c, "ann", group, version)
    ann = c.end("ann").member_id
    c.ask(sync_request(group, 1, ann), 5, connection="ann")
    c.ask(commit_request(group, topic, (0, 1), member_id=ann, generation=1), 9)
    c.ask(leave_request(group, (ann, None)), 5)
    c.ask(DescribeGroupsRequest(groups=[group]), 6, label="empty")
    for label, fields in (
        ("the last generation", {"generation": 1}),
        ("the generation", {"generation": 2}),
        ("a member of before", {"generation": 2, "member_id": ann}),
        ("a member without a generation", {"member_id": ann}),
        ("an instance", {"instance": "i"}),
    ):
        c.ask(commit_request(group, topic, (0, 2), **fields), 9, label=label)
    c.ask(delete_request(group, (topic[0], [0])), 0)
    begin_join(c, "bob", group, version, protocol_type="connect", protocols=(("x", b""),))
    bob = c.end("bob").member_id
    c.ask(sync_request(group, 3, bob, protocol_type="connect", protocol="x"), 5, connection="bob")
    c.ask(DescribeGroupsRequest(groups=[group]), 6, label="connect")
    c.ask(delete_request(group, (topic[0], [0])), 0)
    c.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    c.ask(leave_request(group, (bob, None)), 5)
    c.ask(delete_request(group, (topic[0], [0])), 0)
    c.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    c.ask(DescribeGroupsRequest(groups=[group]), 6, label="gone")
    c.ask(heartbeat_request(group, 3, bob), 4)
