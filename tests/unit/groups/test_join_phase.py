"""How a join phase ends: by the last who is waited for, by time, by sessions."""

from __future__ import annotations

import pytest

from kbroker.groups.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from kbroker.groups.settings import GroupSettings
from kbroker.protocol.errors import ErrorCode
from tests.unit.groups.script import Script, code, reply, waits

HOUR_MS = 3_600_000


def static_member(s: Script, instance: str = "one", *, rebalance_ms: int = 6_000, session_ms: int = 20_000) -> str:
    """A stable group of one static member."""
    join = s.join(instance=instance, rebalance_ms=rebalance_ms, session_ms=session_ms)
    s.pass_time(100)
    member: str = reply(join).member_id
    s.sync(member, 1, {member: b"all"}, instance=instance)
    return member


def test_an_id_that_was_given_out_is_waited_for() -> None:
    s = Script()
    first, second = s.stable(2)
    given = s.join().member_id
    joins = [s.join(first), s.join(second)]
    assert [waits(join) for join in joins] == [True, True]
    last = s.join(given)
    assert [reply(join).generation_id for join in (*joins, last)] == [2, 2, 2]


@pytest.mark.parametrize("leaves", [False, True])
def test_an_id_that_nobody_uses_ends_the_join_phase_when_it_goes(leaves: bool) -> None:
    s = Script()
    first, second = s.stable(2, session_ms=30_000)
    given = s.join(session_ms=6_000).member_id
    joins = [s.join(first), s.join(second)]
    if leaves:
        assert s.leave((given, None)) == [ErrorCode.NONE]
    else:
        s.pass_time(5_999)
        assert [waits(join) for join in joins] == [True, True]
        s.pass_time(1)
    assert [reply(join).generation_id for join in joins] == [2, 2]
    assert s.join(given).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_may_come_after_the_join_phase() -> None:
    s = Script()
    first, second = s.stable(2, rebalance_ms=6_000, session_ms=30_000)
    given = s.join(session_ms=30_000).member_id
    joins = [s.join(first, rebalance_ms=6_000), s.join(second, rebalance_ms=6_000)]
    s.pass_time(6_000)
    assert [reply(join).generation_id for join in joins] == [2, 2]
    assert waits(s.join(given))


def test_the_first_join_phase_ends_early_when_what_it_waits_for_goes() -> None:
    s = Script(GroupSettings(initial_rebalance_delay_ms=20_000))
    s.join(session_ms=6_000)
    _, join = s.join_known()
    s.pass_time(5_999)
    assert waits(join)
    s.pass_time(1)
    assert reply(join).generation_id == 1


def test_the_end_of_the_last_session_that_is_waited_for_ends_the_join_phase() -> None:
    s = Script()
    first, _ = s.stable(2, session_ms=6_000)
    joins = [s.join(first, session_ms=30_000), s.join_known()[1]]
    s.pass_time(5_999)
    assert [waits(join) for join in joins] == [True, True]
    s.pass_time(1)
    assert [reply(join).generation_id for join in joins] == [2, 2]


def test_a_new_member_waits_for_five_minutes_at_most() -> None:
    s = Script()
    static_member(s, rebalance_ms=HOUR_MS, session_ms=HOUR_MS // 2)
    member, join = s.join_known()
    s.pass_time(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert waits(join)
    s.pass_time(1)
    assert (code(join), reply(join).member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert s.join(member).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert s.state == "PreparingRebalance"


def test_static_members_who_stay_away_prolong_the_join_phase_until_their_sessions_end() -> None:
    s = Script()
    absent = static_member(s)
    member, join = s.join_known()
    s.leave((member, None))
    assert code(join) == ErrorCode.UNKNOWN_MEMBER_ID
    s.pass_time(12_000)
    assert s.state == "PreparingRebalance"
    assert s.heartbeat(absent, 1, "one") == ErrorCode.REBALANCE_IN_PROGRESS
    s.pass_time(20_000)
    assert s.state == "Empty"


def test_another_leads_when_a_static_leader_stays_away() -> None:
    s = Script()
    absent = static_member(s)
    member, join = s.join_known(rebalance_ms=6_000)
    s.pass_time(6_000)
    assert (reply(join).generation_id, reply(join).leader) == (2, member)
    assert sorted(each.member_id for each in reply(join).members) == sorted([absent, member])
    assert s.heartbeat(absent, 2, "one") == ErrorCode.NONE


def test_while_members_join_a_full_group_keeps_a_place_for_those_who_wait_only() -> None:
    s = Script(GroupSettings(initial_rebalance_delay_ms=100, max_size=2))
    first, second = s.stable(2)
    waiting = s.join(first)
    new, join = s.join_known()
    assert [waits(each) for each in (waiting, join)] == [True, True]
    assert s.join(second).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert s.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert sorted(s.shard.groups["g"].members) == sorted([first, new])
