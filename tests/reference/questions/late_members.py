"""Members that are late for a join or a sync, and what becomes of them and of those who waited."""

from __future__ import annotations

from typing import Any

from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.group_scenery import (
    begin_join,
    heartbeat_request,
    join_request,
    leave_request,
    new_group,
    stable_pair,
    sync_request,
)

SHORT_MS = 600


def short(c: Conversation) -> int:
    return SHORT_MS * c.slowness


def describe(c: Conversation, group: str) -> None:
    c.ask(DescribeGroupsRequest(groups=[group]), 6, unordered=True)


def joined_pair(c: Conversation, group: str, version: int, **options: Any) -> tuple[str, str]:
    """Two members of generation 2 that wait for assignments, ``ann`` who leads and ``bob``."""
    begin_join(c, "ann", group, version, **options)
    ann = c.end("ann").member_id
    bob = begin_join(c, "bob", group, version, **options)
    c.ask(join_request(group, ann, **options), version, connection="ann", label="again", unordered=True)
    c.end("bob")
    return ann, bob


@question(range(9, 10))
def a_follower_is_late(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, bob, generation = stable_pair(c, group, version, rebalance_ms=short(c))
    begin_join(c, "cid", group, version, rebalance_ms=short(c))
    c.begin(join_request(group, ann, rebalance_ms=short(c)), version, "ann")
    c.end("ann", unordered=True)
    c.end("cid", unordered=True)
    c.ask(heartbeat_request(group, generation, bob), 4, connection="bob")
    c.ask(join_request(group, bob), version, connection="bob")
    describe(c, group)


@question(range(9, 10))
def everybody_else_is_late(c: Conversation, version: int) -> None:
    group = new_group(c)
    _, bob, _ = stable_pair(c, group, version, rebalance_ms=short(c))
    begin_join(c, "cid", group, version, rebalance_ms=short(c))
    c.ask(leave_request(group, (bob, None)), 5, connection="bob")
    c.end("cid", unordered=True)
    describe(c, group)


@question(range(5, 10))
def static_members_are_late(c: Conversation, version: int) -> None:
    """They stay, without having joined."""
    group = new_group(c)
    options: dict[str, Any] = {"rebalance_ms": short(c)}
    ann = c.ask(join_request(group, instance="ann", **options), version, connection="ann").member_id
    c.begin(join_request(group, instance="bob", **options), version, "bob")
    again = join_request(group, ann, instance="ann", **options)
    c.ask(again, version, connection="ann", label="again", unordered=True)
    bob = c.end("bob").member_id
    c.ask(sync_request(group, 2, ann, instance="ann"), 5, connection="ann")
    c.ask(sync_request(group, 2, bob, instance="bob"), 5, connection="bob")
    c.begin(join_request(group, instance="cid", **options), version, "cid")
    c.ask(heartbeat_request(group, 2, ann, "ann"), 4, connection="ann")
    c.end("cid", unordered=True)
    for generation in (2, 3):
        c.ask(heartbeat_request(group, generation, ann, "ann"), 4, connection="ann")
        c.ask(heartbeat_request(group, generation, bob, "bob"), 4, connection="bob")
    describe(c, group)


@question(range(9, 10))
def the_leader_does_not_assign_in_time(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, bob = joined_pair(c, group, version, rebalance_ms=short(c))
    c.begin(sync_request(group, 2, bob), 5, "bob")
    c.end("bob")
    c.ask(heartbeat_request(group, 2, ann), 4, connection="ann")
    c.ask(heartbeat_request(group, 2, bob), 4, connection="bob")
    describe(c, group)
    c.ask(join_request(group, bob), version, connection="bob", unordered=True)


@question(range(9, 10))
def a_follower_does_not_ask_for_its_assignment_in_time(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, bob = joined_pair(c, group, version, rebalance_ms=short(c))
    c.ask(sync_request(group, 2, ann, {bob: b"b"}), 5, connection="ann")
    beat = heartbeat_request(group, 2, ann)
    c.await_answer(beat, 4, lambda answer: bool(answer.error_code))
    c.ask(beat, 4, connection="ann", label="bob is out")
    describe(c, group)
    c.ask(sync_request(group, 2, bob), 5, connection="bob")


@question(range(9, 10))
def a_connection_breaks_while_its_member_joins(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann, bob, generation = stable_pair(c, group, version)
    cid = begin_join(c, "cid", group, version)
    c.note_whether_it_waits("cid")
    c.hang_up("cid")
    c.begin(join_request(group, ann), version, "ann")
    c.ask(join_request(group, bob), version, connection="bob", unordered=True)
    c.end("ann", unordered=True)
    describe(c, group)
    c.ask(heartbeat_request(group, generation + 1, cid), 4, connection="cid")
