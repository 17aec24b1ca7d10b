"""The whole table: a group in each of its states, and what is said to it by everybody there is, right and wrong.

Nothing here waits or changes a group's state, so that one group of each state is enough for all that is asked of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.group_offsets import Topic, commit_request, delete_request
from tests.reference.questions.group_scenery import (
    begin_join,
    heartbeat_request,
    join_request,
    leave_request,
    new_group,
    stable_pair,
    sync_request,
)
from tests.reference.questions.late_members import joined_pair
from tests.reference.questions.scenery import create_topic

SESSION_MS = 300_000


class Group(NamedTuple):
    """A group of some state, and the ids of those whom it knows."""

    group_id: str
    generation: int
    ids: dict[str, str]


def absent(c: Conversation, _topic: Topic) -> Group:
    return Group(new_group(c), 1, {})


def simple(c: Conversation, topic: Topic) -> Group:
    group = new_group(c)
    c.ask(commit_request(group, topic, (0, 1)), 8)
    return Group(group, 0, {})


def pending(c: Conversation, _topic: Topic) -> Group:
    group = new_group(c)
    return Group(group, 0, {"pen": c.ask(join_request(group, session_ms=SESSION_MS), 9).member_id})


def stable(c: Conversation, _topic: Topic) -> Group:
    group = new_group(c)
    ann, bob, generation = stable_pair(c, group, 9, session_ms=SESSION_MS)
    return Group(group, generation, {"ann": ann, "bob": bob})


def stable_with_one_pending(c: Conversation, topic: Topic) -> Group:
    group = stable(c, topic)
    group.ids["pen"] = c.ask(join_request(group.group_id, session_ms=SESSION_MS), 9).member_id
    return group


def static(c: Conversation, _topic: Topic) -> Group:
    group = new_group(c)
    ann = c.ask(join_request(group, instance="ann", session_ms=SESSION_MS), 9).member_id
    c.ask(sync_request(group, 1, ann, {ann: b"all"}, instance="ann"), 5)
    return Group(group, 1, {"ann": ann})


def emptied(c: Conversation, topic: Topic) -> Group:
    group = stable(c, topic)
    c.ask(leave_request(group.group_id, *((member_id, None) for member_id in group.ids.values())), 5)
    return group._replace(generation=group.generation + 1)


def deleted(c: Conversation, topic: Topic) -> Group:
    group = emptied(c, topic)
    c.ask(DeleteGroupsRequest(groups_names=[group.group_id]), 2)
    return group


def preparing(c: Conversation, topic: Topic) -> Group:
    group = stable(c, topic)
    group.ids["cid"] = begin_join(c, "cid", group.group_id, 9, session_ms=SESSION_MS)
    return group


def completing(c: Conversation, _topic: Topic) -> Group:
    group = new_group(c)
    ann, bob = joined_pair(c, group, 9, session_ms=SESSION_MS)
    return Group(group, 2, {"ann": ann, "bob": bob})


STATES: tuple[Callable[[Conversation, Topic], Group], ...] = (
    absent,
    simple,
    pending,
    stable,
    stable_with_one_pending,
    static,
    emptied,
    deleted,
    preparing,
    completing,
)


@question(range(1))
def everything_that_is_said_in_every_state(c: Conversation, _version: int) -> None:
    topic = create_topic(c)
    for state in STATES:
        group_id, generation, ids = state(c, topic)
        for name, member_id in {**ids, "made up": "made up", "nobody": ""}.items():
            for instance in (None, "", "ann", "zoe"):
                for number in (generation, generation + 1, -1):
                    said = f"{state.__name__}: {name} {instance!r} {number}"
                    c.ask(heartbeat_request(group_id, number, member_id, instance), 4, label=f"{said} beats")
                    if number >= 0 or member_id or instance is not None:  # an outsider would make the group
                        commit = commit_request(
                            group_id, topic, (0, 3), member_id=member_id, generation=number, instance=instance
                        )
                        c.ask(commit, 9, label=f"{said} commits")
                    if state is not completing:  # there it would wait
                        c.ask(sync_request(group_id, number, member_id, instance=instance), 5, label=f"{said} syncs")
        c.ask(leave_request(group_id, ("made up", None), ("", "zoe"), ("made up", "ann")), 5, label="strangers leave")
        c.ask(join_request(group_id, "made up"), 9, label="a stranger joins")
        c.ask(delete_request(group_id, (topic[0], [0])), 0, label=state.__name__)
        c.ask(DescribeGroupsRequest(groups=[group_id]), 6, label=state.__name__, unordered=True)
        for connection in ("ann", "bob", "cid"):
            c.hang_up(connection)
