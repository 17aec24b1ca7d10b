"""The runtime: elections, loading, replies that wait for commits, failed writes, timers, the end of a shard."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.coordinator.runtime import partition_of
from kbroker.groups.membership import Client
from kbroker.handlers import join_group
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.coordinator_record import CoordinatorRecord
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.records import metadata
from kbroker.protocol.messages.records.consumer_group import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.protocol.record_codec import encode_coordinator_key, encode_coordinator_value
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.types import GROUP_METADATA_TOPIC
from tests.unit.replication.one_node import NODE, OneNode

CLIENT = Client("c", "/1.2.3.4", 9)


@pytest.fixture
def one() -> Iterator[OneNode]:
    node = OneNode({"group.initial.rebalance.delay.ms": "0"})
    yield node
    node.close()


def commit(one: OneNode, offset: int, *, group: str = "g", topic: str = "t") -> Any:
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                ],
            )
        ],
    )
    return one.node.groups.commit(CLIENT, request)


def committed(one: OneNode, *, group: str = "g", stable: bool = False) -> Any:
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    reply = one.node.groups.fetch_offsets(wanted, require_stable=stable)
    if isinstance(reply, asyncio.Future):
        return reply
    return reply.topics[0].partitions[0].committed_offset  # type: ignore[union-attr]


def given(one: OneNode, reply: Any) -> Any:
    """The reply, now or when it comes."""
    return one.wait(reply) if isinstance(reply, asyncio.Future) else reply


def restart(one: OneNode) -> None:
    """The node is elected anew: its shards begin from their logs."""
    for index in range(len(one.quorum.image.topics.by_name[GROUP_METADATA_TOPIC].partitions)):
        one.change(GROUP_METADATA_TOPIC, index, leader=-1)
        one.change(GROUP_METADATA_TOPIC, index, leader=NODE)


@pytest.mark.parametrize(
    ("key", "partition"), [("", 0), ("a", 47), ("polygenelubricants", 0), ("probe-g", 10), ("\U0001f600", 49)]
)
def test_keys_belong_to_partitions_as_in_java(key: str, partition: int) -> None:
    assert partition_of(key, 50) == partition


def test_a_reply_comes_at_once_with_one_replica_and_offsets_survive(one: OneNode) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC, 3)
    assert commit(one, 7).topics[0].partitions[0].error_code == ErrorCode.NONE
    restart(one)
    one.turn()
    assert committed(one) == 7


def test_without_the_topic_nobody_coordinates(one: OneNode) -> None:
    with pytest.raises(ApiError) as caught:
        commit(one, 7)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


def test_before_the_topic_is_made_groups_belong_where_they_will(one: OneNode) -> None:
    groups = one.node.groups
    expected = [partition_of(group_id, 50) for group_id in ("g", "h", "")]
    assert [groups.partition_of(group_id) for group_id in ("g", "h", "")] == expected
    assert groups.in_order_of_answers(["g", "h", ""]) == ["", "g", "h"]
    deleted = given(one, groups.delete_groups(["g", "h", ""]))
    assert [(each.group_id, each.error_code) for each in deleted] == [
        (group_id, ErrorCode.NOT_COORDINATOR) for group_id in ("", "g", "h")
    ]


def test_keys_stay_where_they_are_when_the_topic_grows_until_the_next_start(one: OneNode) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC, 3)
    commit(one, 7)
    topic_id = one.quorum.image.topics.by_name[GROUP_METADATA_TOPIC].id
    more = (metadata.PartitionRecord(partition_id=index, topic_id=topic_id, leader=-1) for index in range(3, 50))
    one.apply(*more)
    assert committed(one) == 7
    assert one.node.groups.partition_of("g") == partition_of("g", 3) != partition_of("g", 50)
    assert one.restart().node.groups.partition_of("g") == partition_of("g", 50)


def test_keys_move_when_the_topic_is_made_again(one: OneNode) -> None:
    one.create(GROUP_METADATA_TOPIC, 3)
    one.delete(GROUP_METADATA_TOPIC)
    one.create(GROUP_METADATA_TOPIC, 5, topic_id=b"another one's id")
    assert one.node.groups.partition_of("g") == partition_of("g", 5) != partition_of("g", 3)


def test_a_join_that_nobody_could_take_is_refused_without_a_coordinator(one: OneNode) -> None:
    for group_id, session_ms, code in (
        ("", 1, ErrorCode.INVALID_GROUP_ID),
        ("g", 5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        ("g", 1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ):
        request = join_request("member")
        request.group_id, request.session_timeout_ms = group_id, session_ms
        answer = given(one, one.node.groups.join(CLIENT, request))
        assert (answer.error_code, answer.member_id) == (code, "member")


def test_a_join_without_a_coordinator_is_told_no_member_id(one: OneNode) -> None:
    with pytest.raises(ApiError) as caught:
        one.node.groups.join(CLIENT, join_request("member"))
    context = one.context(ApiKey.JOIN_GROUP, 9)
    answer = join_group.error_response(context, join_request("member"), caught.value)
    assert (answer.error_code, answer.member_id) == (ErrorCode.NOT_COORDINATOR, "")


def test_replies_wait_for_the_other_replicas(one: OneNode) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC, replicas=[NODE, 2])
    reply = commit(one, 7)
    assert isinstance(reply, asyncio.Future)
    fetched = committed(one)
    one.turn()
    assert not reply.done()
    assert not fetched.done()
    one.partition(GROUP_METADATA_TOPIC).on_follower_fetch(2, 1)
    assert reply.result().topics[0].partitions[0].error_code == ErrorCode.NONE
    assert fetched.result().topics[0].partitions[0].committed_offset == 7


def test_a_write_that_is_never_replicated_ends_in_time(one: OneNode) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC, replicas=[NODE, 2])
    reply = commit(one, 7)
    with pytest.raises(ApiError) as caught:
        given(one, reply)
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_losing_the_lead_answers_who_waits(one: OneNode) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC, replicas=[NODE, 2], isr=[NODE])
    join = one.node.groups.join(CLIENT, join_request())
    assert isinstance(join, asyncio.Future) is False
    waiting = one.node.groups.join(CLIENT._replace(api_version=3), join_request())
    one.change(GROUP_METADATA_TOPIC, leader=2)
    assert given(one, waiting).error_code == ErrorCode.NOT_COORDINATOR
    with pytest.raises(ApiError):
        commit(one, 1)


def join_request(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


def test_a_join_is_answered_by_the_timer(one: OneNode) -> None:
    one.create(GROUP_METADATA_TOPIC)
    reply = given(one, one.node.groups.join(CLIENT._replace(api_version=3), join_request()))
    assert reply.generation_id == 1
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=reply.member_id)
    assert given(one, one.node.groups.heartbeat(beat)).error_code == ErrorCode.NONE
    one.turn(7)
    assert given(one, one.node.groups.heartbeat(beat)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_long_log_is_loaded_while_others_are_served(one: OneNode) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC)
    for offset in range(1000):
        commit(one, offset)
    restart(one)
    with pytest.raises(ApiError) as caught:
        committed(one)
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert given(one, one.node.groups.heartbeat(beat)).error_code == ErrorCode.NONE
    one.loop.run_until_complete(one.node.groups.finish_loading())
    assert committed(one) == 999


def test_a_deleted_topic_takes_its_offsets_along_also_while_nobody_leads(one: OneNode) -> None:
    one.create("t")
    one.create("u")
    one.create(GROUP_METADATA_TOPIC)
    commit(one, 7)
    commit(one, 7, group="h", topic="u")
    one.delete("t")
    assert committed(one) == -1
    one.change(GROUP_METADATA_TOPIC, leader=-1)
    one.delete("u")
    one.change(GROUP_METADATA_TOPIC, leader=NODE)
    log = one.partition(GROUP_METADATA_TOPIC).log
    assert log is not None
    assert log.log_end_offset == 4


def transaction(one: OneNode, offset: int, *, is_commit: bool | None) -> None:
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=5,
        producer_epoch=0,
        generation_id_or_member_epoch=-1,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                ],
            )
        ],
    )
    one.node.groups.commit_in_transaction(request, 5)
    if is_commit is not None:
        one.node.groups.end_transaction(0, 5, 0, 0, is_commit=is_commit, transaction_version=0)


@pytest.mark.parametrize("reloaded", [False, True])
def test_offsets_of_a_transaction_count_when_it_commits(one: OneNode, reloaded: bool) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC)
    transaction(one, 1, is_commit=True)
    transaction(one, 2, is_commit=False)
    transaction(one, 3, is_commit=None)
    if reloaded:
        restart(one)
    assert committed(one) == 1
    reply = one.node.groups.fetch_offsets(
        OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id="g", topics=[OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        ),
        require_stable=True,
    )
    assert given(one, reply).topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_failed_write_changes_nothing(one: OneNode) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC)
    commit(one, 7)
    one.partition(GROUP_METADATA_TOPIC).is_leader = False
    with pytest.raises(ApiError) as caught:
        commit(one, 8)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    assert committed(one) == 7


def test_what_a_failed_operation_says_of_its_failure_is_the_reply(one: OneNode) -> None:
    one.create(GROUP_METADATA_TOPIC)
    request = join_request()
    request.group_instance_id = "i"
    member = given(one, one.node.groups.join(CLIENT, request)).member_id
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member)
    assert given(one, one.node.groups.sync(sync)).error_code == ErrorCode.NONE
    one.partition(GROUP_METADATA_TOPIC).is_leader = False
    back = given(one, one.node.groups.join(CLIENT, request))
    assert (back.error_code, back.generation_id, back.leader) == (ErrorCode.NOT_COORDINATOR, 1, member)


def test_a_record_that_cannot_be_replayed_drops_its_shard_only(one: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC, 50)
    commit(one, 1)
    from kbroker.groups.shard import GroupShard

    replay = GroupShard.replay

    def broken(shard: GroupShard, record: CoordinatorRecord, offset: int, stamp: Any) -> None:
        if getattr(record.key, "group", "") == "g":
            raise RuntimeError("a bug")
        replay(shard, record, offset, stamp)

    monkeypatch.setattr(GroupShard, "replay", broken)
    with pytest.raises(ApiError):
        commit(one, 2)
    with pytest.raises(ApiError):
        committed(one)
    commit(one, 3, group="other")
    assert committed(one, group="other") == 3


def test_records_of_other_kinds_of_groups_are_passed_over_and_kept(one: OneNode) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC)
    commit(one, 7)
    partition = one.partition(GROUP_METADATA_TOPIC)
    key = encode_coordinator_key(ConsumerGroupMetadataKey(group_id="modern"))
    value = encode_coordinator_value(ConsumerGroupMetadataValue(epoch=3), 0)
    rows = [Record(0, 0, key, value, []), Record(0, 0, b"\x7f\xff of the future", b"x", [])]
    partition.append_as_leader(bytearray(build_batch(rows)), 1, 0)
    restart(one)
    assert committed(one) == 7
    assert partition.log_end_offset == 3
    commit(one, 8)
    assert committed(one) == 8


def test_a_stopped_coordinator_takes_no_election(one: OneNode) -> None:
    one.create("t")
    one.create(GROUP_METADATA_TOPIC)
    one.loop.run_until_complete(one.node.groups.stop())
    restart(one)
    with pytest.raises(ApiError):
        commit(one, 1)


def test_stopping_answers_those_who_wait(one: OneNode) -> None:
    one.create(GROUP_METADATA_TOPIC)
    waiting = one.node.groups.join(CLIENT._replace(api_version=3), join_request())
    one.loop.run_until_complete(one.node.groups.stop())
    assert given(one, waiting).error_code == ErrorCode.NOT_COORDINATOR
