"""Joining, leaving, time-outs of a classic group, as scripts with the answers expected."""

from __future__ import annotations

import pytest

from kbroker.groups import membership
from kbroker.groups.settings import GroupSettings
from kbroker.protocol.errors import ApiError, ErrorCode
from tests.unit.groups.script import Script, code, reply, waits

RANGE = ("range", b"r")
ROUND_ROBIN = ("roundrobin", b"rr")
STICKY = ("sticky", b"s")


def test_a_first_member_waits_for_the_initial_delay_and_leads() -> None:
    s = Script()
    member, join = s.join_known()
    s.pass_time(99)
    assert waits(join)
    s.pass_time(1)
    answer = reply(join)
    assert (answer.generation_id, answer.leader, answer.protocol_name) == (1, member, "range")
    assert [each.member_id for each in answer.members] == [member]
    sync = s.sync(member, 1, {member: b"all"})
    assert sync.assignment == b"all"
    assert s.state == "Stable"


def test_member_ids_are_the_client_id_and_a_random_uuid() -> None:
    s = Script()
    first = s.join(client="app")
    assert first.member_id.startswith("app-")
    assert first.member_id[4:][14] == "4"
    assert len(first.member_id) == len("app-") + 36
    assert Script().join(client="app").member_id == first.member_id


def test_before_version_4_a_member_joins_at_once() -> None:
    s = Script()
    join = s.join(version=3)
    s.pass_time(100)
    assert reply(join).member_id == reply(join).leader


def test_a_new_member_prolongs_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    s = Script()
    _, first = s.join_known(rebalance_ms=250)
    s.pass_time(50)
    _, second = s.join_known(rebalance_ms=250)
    s.pass_time(99)
    assert waits(first)
    _, third = s.join_known(rebalance_ms=250)
    s.pass_time(150)
    assert [waits(each) for each in (first, second, third)] == [False, False, False]
    assert s.time_ms <= 300


def test_an_empty_group_appears_with_the_first_join_even_when_it_is_refused() -> None:
    s = Script()
    assert s.join(protocols=()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert s.state == "Empty"
    assert len(s.log) == 1


def test_a_group_that_is_lost_before_its_first_generation_is_empty() -> None:
    """Its first record once held the member that had just joined, without a protocol: nobody else could join after."""
    s = Script()
    s.join(version=3)
    s.restart()
    assert s.state == "Empty"
    assert waits(s.join(version=3))


def test_a_made_up_member_id_makes_no_group() -> None:
    s = Script()
    assert s.join("nobody").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert s.state == "Dead"


def test_a_pending_member_id_expires_with_its_session() -> None:
    s = Script()
    member = s.join().member_id
    s.pass_time(10_000)
    assert s.join(member).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_ids_that_nobody_comes_back_with_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "PENDING_JOINS_MAX", 3)
    s = Script()
    given = [s.join().member_id for _ in range(4)]
    assert s.join(given[0]).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(s.shard.groups["g"].pending_joins) == 3
    assert waits(s.join(given[1]))


def test_a_second_member_makes_the_first_join_again() -> None:
    s = Script()
    (first,) = s.stable()
    second, join = s.join_known()
    assert s.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = s.join(first)
    assert reply(again).generation_id == reply(join).generation_id == 2
    assert [each.member_id for each in reply(again).members] == [first, second]
    assert reply(join).members == []
    waiting = s.sync(second, 2)
    assert waits(waiting)
    s.sync(first, 2, {first: b"1", second: b"2"})
    assert reply(waiting).assignment == b"2"


def test_who_does_not_join_again_within_the_rebalance_timeout_is_left_behind() -> None:
    s = Script()
    first, second = s.stable(2, rebalance_ms=20_000, session_ms=60_000)
    join = s.join(second, rebalance_ms=20_000)
    assert not waits(join)  # it does not lead and nothing changed: it is told what is
    third, joining = s.join_known(rebalance_ms=20_000)
    again = s.join(second, rebalance_ms=20_000)
    s.pass_time(19_999)
    assert waits(again)
    s.pass_time(1)
    assert reply(again).generation_id == 2
    assert reply(again).leader == second
    assert reply(joining).member_id == third
    assert s.heartbeat(first, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_after_its_session_and_the_history_says_so() -> None:
    s = Script()
    first, second = s.stable(2)
    for _ in range(4):
        s.pass_time(3_000)
        s.heartbeat(first, 1)
    assert s.state == "PreparingRebalance"
    assert s.reasons[-1] == f"Member {second} was not heard of for 10000 ms"


def test_members_that_wait_for_their_assignment_are_alive() -> None:
    s = Script()
    members = [s.join_known(session_ms=6_000) for _ in range(2)]
    s.pass_time(200)
    leader, follower = members[0][0], members[1][0]
    sync = s.sync(follower, 1)
    s.pass_time(5_000)
    assert s.heartbeat(leader, 1) == ErrorCode.NONE
    s.pass_time(5_000)
    assert waits(sync)
    s.sync(leader, 1, {follower: b"x"})
    assert reply(sync).assignment == b"x"
    s.pass_time(5_999)
    assert s.heartbeat(follower, 1) == ErrorCode.NONE


def test_members_that_never_ask_for_their_assignment_are_removed() -> None:
    s = Script()
    first, _ = s.join_known(rebalance_ms=8_000)
    second, _ = s.join_known(rebalance_ms=8_000)
    s.pass_time(200)
    s.sync(first, 1, {first: b"1", second: b"2"})
    s.pass_time(7_999)
    assert s.state == "Stable"
    s.pass_time(1)
    assert s.state == "PreparingRebalance"
    assert s.reasons[-1] == f"{second} did not ask for an assignment in time"


def test_the_protocol_most_members_prefer_among_the_common_ones_wins() -> None:
    s = Script()
    joins = [
        s.join_known(protocols=(RANGE, STICKY, ROUND_ROBIN)),
        s.join_known(protocols=(STICKY, ROUND_ROBIN)),
        s.join_known(protocols=(ROUND_ROBIN, STICKY)),
    ]
    s.pass_time(300)
    assert reply(joins[0][1]).protocol_name == "sticky"
    assert [each.metadata for each in reply(joins[0][1]).members] == [b"s", b"s", b"s"]


def test_a_member_without_a_common_protocol_or_of_another_type_is_refused() -> None:
    s = Script()
    s.stable(protocols=(RANGE,))
    assert s.join(protocols=(STICKY,)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert s.join(protocols=(RANGE,), protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_leader_may_force_a_rebalance_and_others_only_with_other_metadata() -> None:
    s = Script()
    first, second = s.stable(2, protocols=(RANGE,))
    assert s.join(second, protocols=(RANGE,)).generation_id == 1
    assert s.state == "Stable"
    assert waits(s.join(second, protocols=(("range", b"new"),)))
    assert s.reasons[-1] == f"Member {second} joins again with other metadata"
    s.join(first, protocols=(RANGE,))
    s.sync(second, 2)
    s.sync(first, 2, {})
    assert waits(s.join(first, protocols=(RANGE,), reason="topics changed"))
    assert s.reasons[-1] == f"Leader {first} joins again (it says: topics changed)"


def test_a_full_group_takes_nobody() -> None:
    s = Script(GroupSettings(initial_rebalance_delay_ms=100, max_size=2))
    s.stable(2)
    assert s.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_what_members_say_of_themselves_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "METADATA_SIZE_MAX", 100)
    s = Script()
    member, _ = s.join_known(protocols=(("range", bytes(30)), ("sticky", bytes(30))))
    assert s.join(protocols=(("range", bytes(41)),)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert waits(s.join(member, protocols=(("range", bytes(100)),)))
    assert code(s.join(member, protocols=(("range", bytes(101)),))) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert s.shard.groups["g"].metadata_size == 0


def test_a_loaded_group_over_the_size_limit_rebalances_down_to_it() -> None:
    s = Script()
    members = s.stable(3)
    s.settings = GroupSettings(initial_rebalance_delay_ms=100, max_size=2)
    s.restart()
    assert s.state == "PreparingRebalance"
    joins = [s.join(member) for member in members]
    assert [waits(join) for join in joins[:2]] == [True, True] or not waits(joins[0])
    assert code(joins[2]) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_leaving_rebalances_the_rest_and_the_last_one_leaves_an_empty_group() -> None:
    s = Script()
    first, second = s.stable(2)
    assert s.leave((first, None), ("who", None), reason="bye") == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert s.reasons[-1] == f"{first} (it says: bye) left"
    join = s.join(second)
    assert reply(join).leader == second
    assert reply(join).generation_id == 2
    s.sync(second, 2, {})
    s.leave((second, None))
    assert s.state == "Empty"
    group = s.shard.groups["g"]
    assert (group.generation, group.protocol, group.protocol_type) == (3, None, "consumer")


def test_a_join_waiting_when_its_member_leaves_is_refused() -> None:
    s = Script()
    member, join = s.join_known()
    s.leave((member, None))
    assert code(join) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_whose_first_record_cannot_be_written_does_not_exist() -> None:
    s = Script()
    s.refuses_writes = ErrorCode.NOT_COORDINATOR
    with pytest.raises(ApiError):
        s.join(version=3)
    assert s.state == "Dead"


def test_a_join_that_is_answered_at_once_keeps_its_answer_when_the_groups_first_record_cannot_be_written() -> None:
    s = Script()
    s.refuses_writes = ErrorCode.NOT_COORDINATOR
    given = s.join()
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert s.state == "Dead"
    assert s.join(given.member_id).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_assignments_that_cannot_be_written_make_everybody_join_again() -> None:
    s = Script()
    first, _ = s.join_known()
    second, _ = s.join_known()
    s.pass_time(200)
    waiting = s.sync(second, 1)
    s.refuses_writes = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(ApiError):
        s.sync(first, 1, {first: b"1"})
    assert code(waiting) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert s.state == "PreparingRebalance"


def test_a_restart_keeps_members_generation_and_assignments() -> None:
    s = Script()
    first, second = s.stable(2)
    s.restart()
    assert s.state == "Stable"
    assert s.heartbeat(first, 1) == s.heartbeat(second, 1) == ErrorCode.NONE
    assert s.sync(second, 1).assignment == second.encode()
    s.pass_time(10_000)
    assert s.state == "Empty" or s.state == "PreparingRebalance"


def test_unloading_tells_those_who_wait() -> None:
    s = Script()
    _, join = s.join_known()
    s.shard.unload()
    assert code(join) == ErrorCode.NOT_COORDINATOR
