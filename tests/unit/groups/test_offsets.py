"""Commits, fetches, deletions, transactions' pending offsets, retention (KIP-211)."""

from __future__ import annotations

import pytest

from kbroker.groups.offsets import commit, is_too_long
from kbroker.groups.settings import GroupSettings
from kbroker.groups.shard import EXPIRY_SLICE
from kbroker.protocol.coordinator_record import Decision
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.types import ZERO_UUID
from tests.unit.groups.script import GROUP_ID, WALL_MS, Script

DAY_MS = 24 * 3600 * 1000


def commit_in_transaction(s: Script, producer_id: int, offset: int, partition: int = 0) -> None:
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=GROUP_ID,
        producer_id=producer_id,
        producer_epoch=0,
        generation_id_or_member_epoch=-1,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset
                    )
                ],
            )
        ],
    )
    s.run(s.shard.offset_requests.commit_in_transaction(request, 5, s.now))


def delete(s: Script, topic: str = "t") -> ErrorCode:
    request = OffsetDeleteRequest(
        group_id=GROUP_ID,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    )
    try:
        answer = s.run(s.shard.offset_requests.delete(request, s.now))
    except ApiError as error:
        return error.code
    return ErrorCode(answer.topics[0].partitions[0].error_code)  # type: ignore[union-attr]  # never deferred


def test_what_was_committed_is_fetched_also_after_a_restart() -> None:
    s = Script()
    assert s.commit(7) == ErrorCode.NONE
    assert s.commit(-3, partition=1) == ErrorCode.NONE
    s.restart()
    assert (s.committed(), s.committed(partition=1), s.committed(partition=2)) == (7, -3, -1)
    assert s.state == "Empty"


def test_a_members_commit_needs_its_generation_and_an_outsiders_an_empty_group() -> None:
    s = Script()
    assert s.commit(1, member_id="m", generation=1) == ErrorCode.GROUP_ID_NOT_FOUND
    assert s.commit(1, member_id="m", generation=1, version=8) == ErrorCode.ILLEGAL_GENERATION
    (member,) = s.stable()
    assert s.commit(1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert s.commit(1, member_id="who", generation=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert s.commit(1, member_id=member, generation=0) == ErrorCode.ILLEGAL_GENERATION
    assert s.commit(1, member_id=member, generation=1, instance="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert s.commit(1, member_id=member, generation=1) == ErrorCode.NONE


def test_commits_are_taken_while_members_join_and_refused_while_assignments_are_awaited() -> None:
    s = Script()
    (member,) = s.stable()
    second, _ = s.join_known()
    assert s.commit(5, member_id=member, generation=1) == ErrorCode.NONE
    s.join(member)
    assert s.commit(6, member_id=second, generation=2) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_renews_the_session() -> None:
    s = Script()
    (member,) = s.stable()
    for offset in range(3):
        s.pass_time(9_000)
        assert s.commit(offset, member_id=member, generation=1) == ErrorCode.NONE


def test_metadata_has_a_limit_in_javas_characters() -> None:
    s = Script(GroupSettings(offset_metadata_max=4))
    assert s.commit(1, metadata="four") == ErrorCode.NONE
    assert s.commit(2, metadata="five!") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert s.commit(3, metadata=None) == ErrorCode.NONE
    assert s.committed() == 3
    assert is_too_long("\U0001f600" * 3, 4)
    assert not is_too_long("\U0001f600" * 2, 4)


def test_offsets_of_a_topic_that_was_made_again_do_not_count() -> None:
    s = Script()
    request = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", topic_id=b"2" * 16, partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP_ID, topics=[request])
    s.commit(7)
    assert s.shard.offset_requests.fetch(group, require_stable=False).topics[0].partitions[0].committed_offset == 7
    table = s.shard.offsets.committed.by_group[GROUP_ID]["t"]
    table[0] = table[0]._replace(topic_id=b"1" * 16)
    assert s.shard.offset_requests.fetch(group, require_stable=False).topics[0].partitions[0].committed_offset == -1


def test_pending_offsets_show_when_their_transaction_commits_and_never_when_it_aborts() -> None:
    s = Script()
    commit_in_transaction(s, 1, 10)
    commit_in_transaction(s, 2, 20, partition=1)
    assert s.committed() == -1
    assert s.committed(stable=True) == ErrorCode.UNSTABLE_OFFSET_COMMIT
    s.shard.replay_marker(1, is_commit=True)
    s.shard.replay_marker(2, is_commit=False)
    s.shard.replay_marker(3, is_commit=True)
    assert (s.committed(stable=True), s.committed(partition=1, stable=True)) == (10, -1)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_plain_commit_after_a_transactional_one_survives_both_outcomes(is_commit: bool) -> None:
    s = Script()
    commit_in_transaction(s, 1, 10)
    s.commit(30)
    s.shard.replay_marker(1, is_commit=is_commit)
    assert s.committed() == 30


def test_deleting_a_group_drops_its_pending_offsets() -> None:
    s = Script()
    commit_in_transaction(s, 1, 10)
    s.run(s.shard.delete_groups([GROUP_ID]))
    s.shard.replay_marker(1, is_commit=True)
    assert s.committed() == -1
    assert s.state == "Dead"


def test_groups_with_members_are_not_deleted() -> None:
    s = Script()
    s.stable()
    results = s.run(s.shard.delete_groups([GROUP_ID, "other"]))
    assert [each.error_code for each in results] == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]  # type: ignore[union-attr]


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    s = Script()
    assert delete(s) == ErrorCode.GROUP_ID_NOT_FOUND
    (member,) = s.stable()
    s.commit(1, member_id=member, generation=1)
    s.commit(1, member_id=member, generation=1, topic="u")
    assert delete(s) == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(s, "u") == ErrorCode.NONE
    assert (s.committed(), s.committed("u")) == (1, -1)


@pytest.mark.parametrize("version", [0, 3, 9, 32_767, -1])
def test_topics_are_found_in_metadata_of_any_version(version: int) -> None:
    s = Script()
    metadata = version.to_bytes(2, "big", signed=True) + b"\0\0\0\1\0\1t\xff\xff\xff\xff and more"
    s.stable(protocols=(("range", metadata),))
    assert delete(s, "t") == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(s, "u") == ErrorCode.NONE


def test_a_group_of_another_type_must_be_empty_to_delete_its_offsets() -> None:
    s = Script()
    s.stable(protocol_type="connect")
    assert delete(s) == ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_a_deleted_topic_go() -> None:
    s = Script()
    s.commit(1)
    s.commit(2, topic="u")
    s.run(s.shard.topics_deleted(lambda topic: None if topic == "t" else ZERO_UUID))
    assert (s.committed(), s.committed("u")) == (-1, 2)


def test_offsets_of_a_topic_that_was_made_again_go_while_the_shard_is_loaded() -> None:
    s = Script()
    s.run(Decision(None, [commit(GROUP_ID, "t", bytes(15) + b"1", 0, 1, -1, "", WALL_MS)]))
    s.commit(2, partition=1)  # without an id
    s.run(s.shard.topics_deleted(lambda _topic: bytes(15) + b"2"))
    assert (s.committed(), s.committed(partition=1)) == (-1, 2)


def test_an_outsiders_offsets_expire_after_the_last_commit_and_the_group_with_them() -> None:
    s = Script()
    s.commit(1)
    s.pass_time(4 * DAY_MS)
    s.commit(2, partition=1)
    s.pass_time(3 * DAY_MS + 600_000)
    assert (s.committed(), s.committed(partition=1)) == (-1, 2)
    s.pass_time(4 * DAY_MS)
    assert s.state == "Dead"


def test_a_groups_offsets_expire_when_it_was_empty_for_long() -> None:
    s = Script()
    (member,) = s.stable(session_ms=1_000_000)
    s.commit(1, member_id=member, generation=1)
    for _ in range(20 * DAY_MS // 900_000):
        s.pass_time(900_000)
        s.heartbeat(member, 1)
    assert s.committed() == 1
    s.leave((member, None))
    s.pass_time(7 * DAY_MS - 600_000)
    assert s.committed() == 1
    s.pass_time(1_200_000)
    assert s.state == "Dead"


def test_retention_looks_at_a_part_of_the_groups_and_comes_back_for_the_others() -> None:
    s = Script()
    for number in range(EXPIRY_SLICE + 10):
        s.commit(1, group=f"g{number}")
    s.time_ms = 8 * DAY_MS
    first = s.shard.expire(s.now)
    assert 0 < len(first.records) <= 2 * EXPIRY_SLICE
    s.run(first)
    assert s.shard.groups
    s.pass_time(0)
    assert not s.shard.groups


def test_an_old_clients_retention_time_is_kept() -> None:
    s = Script()
    s.commit(1, retention_ms=1_000, version=4)
    s.restart()
    s.pass_time(600_000)
    assert s.committed() == -1


def test_a_retention_time_to_the_end_of_the_numbers_ends_in_the_past_as_in_java() -> None:
    s = Script()
    s.commit(1, retention_ms=2**63 - 1, version=4)
    assert s.committed() == 1
    s.pass_time(600_000)
    assert s.committed() == -1


def test_pending_offsets_keep_their_group_alive() -> None:
    s = Script()
    commit_in_transaction(s, 1, 10)
    s.pass_time(30 * DAY_MS)
    assert s.state == "Empty"


def test_a_group_whose_pending_offsets_were_all_deleted_goes_when_retention_looks_at_it() -> None:
    s = Script()
    commit_in_transaction(s, 1, 10)
    assert delete(s) == ErrorCode.NONE
    s.pass_time(600_000)
    assert s.state == "Dead"
    s.shard.replay_marker(1, is_commit=True)
    assert s.state == "Dead"


def test_a_group_that_nobody_joined_yet_goes_when_retention_looks_at_it() -> None:
    s = Script()
    member = s.join(session_ms=1_000_000).member_id
    s.pass_time(600_000)
    assert s.state == "Dead"
    assert s.join(member).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_first_commit_makes_a_group_even_when_its_offsets_are_refused() -> None:
    s = Script(GroupSettings(offset_metadata_max=4))
    assert s.commit(2, metadata="five!") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert list(s.shard.groups) == ["g"]
    assert s.shard.list_groups((), ()) == []  # readers see it from the next record on
    assert s.commit(2, group="another") == ErrorCode.NONE
    assert sorted(each.group_id for each in s.shard.list_groups((), ())) == ["another", "g"]
