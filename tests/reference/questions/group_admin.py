"""ListGroups, DescribeGroups, DeleteGroups."""

from __future__ import annotations

from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.group_offsets import commit_request
from tests.reference.questions.group_scenery import (
    begin_join,
    join_request,
    leave_request,
    new_group,
    stable_pair,
    sync_request,
)
from tests.reference.questions.scenery import create_topic, fresh_name

LIST = range(6)
DESCRIBE = range(7)
DELETE = range(4)


def describe(c: Conversation, group: str, version: int, label: str) -> None:
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=version >= 3)
    c.ask(request, version, label=label, unordered=True)


@question(DESCRIBE)
def a_group_described_in_every_state(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    describe(c, group, version, "unknown")
    c.ask(commit_request(group, topic, (0, 1)), 8)
    describe(c, group, version, "offsets only")
    given = c.ask(join_request(group), 9)
    describe(c, group, version, "a pending member")
    c.ask(leave_request(group, (given.member_id, None)), 5)
    ann, bob, generation = stable_pair(c, group, 9)
    describe(c, group, version, "stable")
    begin_join(c, "cid", group, 9)
    c.note_whether_it_waits("cid")
    describe(c, group, version, "somebody joins")
    c.begin(join_request(group, bob), 9, "bob")
    c.ask(join_request(group, ann), 9, connection="ann", unordered=True)
    c.end("bob")
    cid = c.end("cid").member_id
    describe(c, group, version, "assignments are awaited")
    c.ask(sync_request(group, generation + 1, ann, {ann: b"a"}), 5, connection="ann")
    describe(c, group, version, "stable again")
    c.ask(leave_request(group, (ann, None), (bob, None), (cid, None)), 5)
    describe(c, group, version, "empty")


@question(DESCRIBE)
def several_groups_described(c: Conversation, version: int) -> None:
    names = [new_group(c), "", fresh_name(c, "g")]
    topic = create_topic(c)
    c.ask(commit_request(names[0], topic, (0, 1)), 8)
    c.ask(DescribeGroupsRequest(groups=[*names, names[0]]), version, unordered=True)
    c.ask(DescribeGroupsRequest(groups=[]), version, label="none")


@question(LIST)
def groups_are_listed(c: Conversation, version: int) -> None:
    topic = create_topic(c)
    simple, pair, refused = new_group(c), new_group(c), new_group(c)
    c.ask(commit_request(simple, topic, (0, 1)), 8)
    c.ask(join_request(refused, protocols=()), 9)
    stable_pair(c, pair, 9)

    def listed(label: str, **filters: list[str]) -> None:
        answer = c.ask(ListGroupsRequest(**filters), version, note=False)
        mine = [each for each in answer.groups if each.group_id in (simple, pair, refused)]
        shown = sorted(mine, key=lambda each: (simple, pair, refused).index(each.group_id))
        c.note_answer(label, ListGroupsResponse(error_code=answer.error_code, groups=shown), version)

    listed("all")
    if version >= 4:
        for states in (["Stable"], ["stable", "EMPTY"], [" Empty "], ["Dead"], ["nonsense"], [""]):
            listed(f"{states}", states_filter=states)
    if version >= 5:
        for types in (["classic"], ["Classic"], ["consumer"], ["nonsense"], ["nonsense", "classic"], [""]):
            listed(f"{types}", types_filter=types)


@question(DELETE)
def groups_are_deleted(c: Conversation, version: int) -> None:
    topic = create_topic(c)
    simple, pair, unknown = new_group(c), new_group(c), fresh_name(c, "g")
    c.ask(commit_request(simple, topic, (0, 1)), 8)
    stable_pair(c, pair, 9)
    c.ask(DeleteGroupsRequest(groups_names=[pair, unknown]), version, unordered=True)
    c.ask(DeleteGroupsRequest(groups_names=[simple]), version, label="it goes")
    c.ask(DeleteGroupsRequest(groups_names=[simple]), version, label="it is gone")
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=simple, topics=None)
    c.ask(OffsetFetchRequest(groups=[wanted]), 8)
    c.ask(DeleteGroupsRequest(groups_names=[]), version, label="none")
    c.ask(DeleteGroupsRequest(groups_names=[unknown, unknown]), version, label="twice")


@question(DELETE)
def the_empty_group_is_deleted(c: Conversation, version: int) -> None:
    new_group(c)
    topic = create_topic(c)
    c.ask(commit_request("", topic, (0, 1)), 8)
    c.ask(DeleteGroupsRequest(groups_names=[""]), version)


@question(DESCRIBE)
def groups_of_strange_names_are_described(c: Conversation, version: int) -> None:
    new_group(c)
    names = ["\u00fc\U0001f600", "a b", "x" * 300]
    request = DescribeGroupsRequest(groups=names, include_authorized_operations=version >= 3)
    c.ask(request, version, unordered=True)


@question(range(4, 6))
def filters_of_a_list_of_groups(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    c.ask(commit_request(group, topic, (0, 5)), 8)

    def listed(**filters: list[str]) -> None:
        answer = c.ask(ListGroupsRequest(**filters), version, note=False)
        mine = [each for each in answer.groups if each.group_id == group]
        c.note_answer(str(filters), ListGroupsResponse(error_code=answer.error_code, groups=mine), version)

    for states in (["Empty", "Empty"], ["EMPTY", "x"], ["completingrebalance"], ["NotReady"], ["unknown"], ["classic"]):
        listed(states_filter=states)
    if version >= 5:
        for types in (["share"], ["streams"], ["CLASSIC", "share"], ["Unknown"], ["", "classic"], ["x", "y"]):
            listed(types_filter=types)
            listed(types_filter=types, states_filter=["Empty"])


@question(range(1))
def the_order_of_groups(c: Conversation, _version: int) -> None:
    """It is that of hash maps over the partitions of the groups and over names that everybody knows."""
    new_group(c)
    topic = create_topic(c)
    names = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "g1", "g2", "g3"]
    for name in names:
        c.ask(commit_request(name, topic, (0, 1)), 8, note=False)
    c.ask(DescribeGroupsRequest(groups=names), 5)
    listed = c.ask(ListGroupsRequest(), 4, note=False)
    # Two groups of one partition stand in the order of a map of its own.
    both = ("eta", "theta"), ("beta", "delta")
    c.note("listed", [each.group_id for each in listed.groups if each.group_id in set(names) - {"eta", "beta"}])
    c.note("listed together", all(set(pair) < {each.group_id for each in listed.groups} for pair in both))
    c.ask(DeleteGroupsRequest(groups_names=[*names, "nope"]), 2)
