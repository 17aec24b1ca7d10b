"""Static membership (KIP-345, KIP-814)."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.protocol.errors import ErrorCode
from tests.unit.groups.script import Script, code, reply, waits

RANGE = ("range", b"r")
STICKY = ("sticky", b"s")


def stable_static(s: Script, *instances: str, **options: Any) -> list[str]:
    joins = [s.join(instance=instance, **options) for instance in instances]
    s.pass_time(100 * (len(instances) + 1))
    members = [reply(join).member_id for join in joins]
    for member, instance in reversed(list(zip(members, instances, strict=True))):
        s.sync(member, 1, {each: each.encode() for each in members}, instance=instance)
    return members


def test_a_static_member_needs_no_member_id_first() -> None:
    s = Script()
    join = s.join(instance="one")
    assert waits(join)
    s.pass_time(100)
    assert reply(join).member_id.startswith("one-")


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    s = Script()
    leader, follower = stable_static(s, "one", "two")
    back = s.join(instance="two")
    assert (back.error_code, back.generation_id, back.skip_assignment) == (ErrorCode.NONE, 1, False)
    assert back.leader == leader
    assert s.state == "Stable"
    assert s.sync(back.member_id, 1, instance="two").assignment == follower.encode()
    assert s.heartbeat(follower, 1, "two") == ErrorCode.FENCED_INSTANCE_ID
    assert s.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_leader_that_comes_back_need_not_assign_since_version_9() -> None:
    s = Script()
    stable_static(s, "one", "two")
    back = s.join(instance="one")
    assert back.skip_assignment is True
    assert back.leader == back.member_id
    assert len(back.members) == 2


def test_before_version_9_a_static_leader_that_comes_back_is_told_its_old_id_leads() -> None:
    s = Script()
    leader, _ = stable_static(s, "one", "two", version=8)
    back = s.join(instance="one", version=8)
    assert (back.leader, back.members, back.skip_assignment) == (leader, [], False)


def test_a_static_member_whose_return_changes_the_protocol_rebalances() -> None:
    s = Script()
    stable_static(s, "one", "two", protocols=(STICKY, RANGE))
    # One vote each: the first in the order of a Java map stays; two for range win.
    assert not waits(s.join(instance="one", protocols=(RANGE, STICKY)))
    s.join(instance="two", protocols=(RANGE, STICKY))
    assert s.state == "PreparingRebalance"
    assert "the group's protocol changes" in s.reasons[-1]


def test_a_second_static_member_of_the_same_instance_fences_the_first_while_it_joins() -> None:
    s = Script()
    first = s.join(instance="one")
    second = s.join(instance="one")
    assert code(first) == ErrorCode.FENCED_INSTANCE_ID
    s.pass_time(200)
    assert code(second) == ErrorCode.NONE


def test_a_static_member_may_miss_a_rebalance_and_keeps_its_place() -> None:
    s = Script()
    _, absent = stable_static(s, "one", "two", session_ms=100_000, rebalance_ms=6_000)
    s.join(instance="three", session_ms=100_000, rebalance_ms=6_000)
    again = s.join(s.shard.groups["g"].static_members["one"], instance="one", rebalance_ms=6_000, session_ms=100_000)
    s.pass_time(6_000)
    assert reply(again).generation_id == 2
    assert absent in [each.member_id for each in reply(again).members]


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    s = Script()
    stable_static(s, "one", "two")
    assert s.leave(("", "two"), ("", "who")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert s.state == "PreparingRebalance"


def test_static_members_survive_a_restart() -> None:
    s = Script()
    stable_static(s, "one", "two")
    s.restart()
    back = s.join(instance="two")
    assert back.error_code == ErrorCode.NONE
    s.restart()
    assert s.heartbeat(back.member_id, 1, "two") == ErrorCode.NONE


@pytest.mark.parametrize("version", [8, 9])
def test_a_return_that_cannot_be_written_is_taken_back_and_told_the_generation_and_its_leader(version: int) -> None:
    s = Script()
    leader, follower = stable_static(s, "one", "two")
    s.refuses_writes = ErrorCode.UNKNOWN_SERVER_ERROR
    back = s.join(instance="one", protocols=(("range", b"new"), STICKY), version=version)
    assert (back.error_code, back.member_id, back.members) == (ErrorCode.UNKNOWN_SERVER_ERROR, "", [])
    assert (back.generation_id, back.protocol_type, back.protocol_name) == (1, "consumer", "range")
    assert (back.leader, back.skip_assignment) == (leader, False)
    assert s.heartbeat(leader, 1, "one") == s.heartbeat(follower, 1, "two") == ErrorCode.NONE
    assert s.shard.groups["g"].members[leader].protocols != (("range", b"new"), STICKY)


def test_a_sync_that_a_replaced_member_owes_ends_in_a_rebalance() -> None:
    s = Script()
    joins = [s.join(instance=instance, rebalance_ms=6_000, session_ms=30_000) for instance in ("one", "two")]
    s.pass_time(300)
    leader, _ = (reply(join).member_id for join in joins)
    s.sync(leader, 1, {leader: b"1"}, instance="one")
    back = s.join(instance="two", rebalance_ms=6_000, session_ms=30_000)
    assert (back.error_code, s.state) == (ErrorCode.NONE, "Stable")
    s.sync(back.member_id, 1, instance="two")
    s.pass_time(6_000)
    assert s.heartbeat(back.member_id, 1, "two") == ErrorCode.REBALANCE_IN_PROGRESS
