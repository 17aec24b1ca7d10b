"""Offsets inside transactions, and markers that are written from outside."""

from __future__ import annotations

from typing import Any

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kbroker.types import GROUP_METADATA_TOPIC
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import create_topic, fresh_name
from tests.reference.questions.transactional_producer import (
    BUMPING,
    CLASSIC,
    Producer,
    find_coordinator,
    partition_in,
    patiently,
    read,
)

VERSIONS = range(7)
ADDS_SINCE = 5

Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
Partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition


def fresh_group(c: Conversation) -> str:
    group = fresh_name(c, "group")
    find_coordinator(c, group, 0)
    return group


def add_offsets(c: Conversation, producer: Producer, group: str) -> None:
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    patiently(c, request, 3)


def commit(
    c: Conversation,
    producer: Producer,
    group: str,
    topic: str,
    topic_id: bytes,
    version: int,
    offset: int = 7,
    partitions: tuple[int, ...] = (0,),
    **fields: Any,
) -> Any:
    request = TxnOffsetCommitRequest(
        transactional_id=fields.get("id", producer.id),
        group_id=group,
        producer_id=fields.get("producer_id", producer.producer_id),
        producer_epoch=fields.get("epoch", producer.epoch),
        topics=[
            Topic(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    Partition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_metadata=fields.get("metadata", "m"),
                    )
                    for index in partitions
                ],
            )
        ],
    )
    if version >= 3:
        request.generation_id_or_member_epoch = fields.get("generation", -1)
        request.member_id = fields.get("member", "")
        request.group_instance_id = fields.get("instance")
    return patiently(c, request, version, label=fields.get("label", ""))


def fetch(c: Conversation, group: str, topic: str, label: str, *, stable: bool = False) -> None:
    request = OffsetFetchRequest(
        require_stable=stable,
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=group,
                topics=[OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1])],
            )
        ],
    )
    patiently(c, request, 8, label=label)


@question(VERSIONS)
def offsets_count_when_the_transaction_commits(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    group = fresh_group(c)
    producer = Producer(c)
    producer.init()
    for committed in (True, False):
        if version < ADDS_SINCE:
            add_offsets(c, producer, group)
        commit(c, producer, group, topic, topic_id, version, offset=7 if committed else 9)
        fetch(c, group, topic, "open")
        fetch(c, group, topic, "open, stable", stable=True)
        producer.end(committed, BUMPING if version >= ADDS_SINCE else CLASSIC)
        fetch(c, group, topic, "over, stable", stable=True)


@question(VERSIONS)
def offsets_without_a_transaction(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    group = fresh_group(c)
    producer = Producer(c)
    producer.init()
    producer.init()
    commit(c, producer, group, topic, topic_id, version, label="not added")
    producer.describe()
    commit(c, producer, group, topic, topic_id, version, label="unknown id", id=fresh_name(c, "nobody"))
    commit(c, producer, group, topic, topic_id, version, label="wrong id", producer_id=producer.producer_id + 9)
    commit(c, producer, group, topic, topic_id, version, label="later epoch", epoch=producer.epoch + 1)
    commit(c, producer, group, topic, topic_id, version, label="earlier epoch", epoch=producer.epoch - 1)
    commit(c, producer, "", topic, topic_id, version, label="empty group")
    add_offsets(c, producer, group)
    commit(c, producer, group, topic, topic_id, version, label="earlier epoch, added", epoch=producer.epoch - 1)
    commit(c, producer, group, topic, topic_id, version, label="added", partitions=(0, 5))
    commit(c, producer, group, fresh_name(c, "missing"), bytes(15) + b"\x07", version, label="unknown topic")
    commit(c, producer, group, topic, topic_id, version, label="long metadata", metadata="x" * 5000)
    commit(c, producer, group, topic, topic_id, version, label="earlier epoch, open", epoch=producer.epoch - 1)
    commit(c, producer, group, topic, topic_id, version, label="later epoch, open", epoch=producer.epoch + 1)


@question(range(3, 7))
def offsets_and_the_members_of_the_group(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    group = fresh_group(c)
    producer = Producer(c)
    producer.init()
    add_offsets(c, producer, group)
    commit(c, producer, group, topic, topic_id, version, label="no group, generation 5", generation=5)
    commit(c, producer, group, topic, topic_id, version, label="no group, member", member="nobody")
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")],
    )
    joined = patiently(c, join, 3, note=False)
    member, generation = joined.member_id, joined.generation_id
    commit(c, producer, group, topic, topic_id, version, label="before sync", generation=generation, member=member)
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        assignments=[SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"")],
    )
    patiently(c, sync, 3, note=False)
    commit(c, producer, group, topic, topic_id, version, label="member", generation=generation, member=member)
    commit(c, producer, group, topic, topic_id, version, label="wrong generation", generation=9, member=member)
    commit(c, producer, group, topic, topic_id, version, label="wrong member", generation=generation, member="x")
    commit(c, producer, group, topic, topic_id, version, label="nobody")
    commit(
        c,
        producer,
        group,
        topic,
        topic_id,
        version,
        label="unknown instance",
        generation=generation,
        member=member,
        instance="i",
    )
    producer.end(True, CLASSIC)
    fetch(c, group, topic, "over", stable=True)


@question(range(1))
def a_plain_commit_among_transactional_ones(c: Conversation, _version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    for committed in (True, False):
        group = fresh_group(c)
        producer = Producer(c)
        producer.init()
        commit(c, producer, group, topic, topic_id, 5, offset=7)
        plain = OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
                    ],
                )
            ],
        )
        patiently(c, plain, 8)
        fetch(c, group, topic, "open")
        fetch(c, group, topic, "open, stable", stable=True)
        producer.end(committed, BUMPING)
        fetch(c, group, topic, "over", stable=True)


@question(range(1))
def a_group_is_deleted_with_its_pending_offsets(c: Conversation, _version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    group = fresh_group(c)
    producer = Producer(c)
    producer.init()
    commit(c, producer, group, topic, topic_id, 5)
    patiently(c, DeleteGroupsRequest(groups_names=[group]), 2)
    fetch(c, group, topic, "deleted", stable=True)
    producer.end(True, BUMPING)
    fetch(c, group, topic, "over", stable=True)


# --- WriteTxnMarkers


def marking(topic: str, version: int, producer_id: int, epoch: int, **fields: Any) -> WriteTxnMarkersRequest:
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=fields.get("committed", False),
        coordinator_epoch=fields.get("coordinator_epoch", 0),
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                name=topic, partition_indexes=list(fields.get("partitions", (0,)))
            )
        ],
    )
    if version >= 2:
        marker.transaction_version = fields.get("transaction_version", 0)
    return WriteTxnMarkersRequest(markers=[marker])


def mark(
    c: Conversation, topic: str, version: int, producer_id: int, epoch: int, label: str = "", **fields: Any
) -> None:
    answer = c.client().call(marking(topic, version, producer_id, epoch, **fields), version)
    codes = [
        (partition.partition_index, ErrorCode(partition.error_code).name)
        for each in answer.markers
        for written in each.topics
        for partition in written.partitions
    ]
    c.note(label or "marker", sorted(codes))


@question(range(1, 3))
def markers_from_outside(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    producer = Producer(c)
    producer.init()
    producer.init()
    known, epoch = producer.producer_id, producer.epoch
    producer.produce(topic, topic_id, 12)
    mark(c, topic, version, known, epoch - 1, "earlier epoch")
    mark(c, topic, version, known, epoch, "same epoch", coordinator_epoch=3)
    read(c, topic, "aborted by hand")
    mark(c, topic, version, known, epoch, "again", coordinator_epoch=3)
    mark(c, topic, version, known, epoch, "earlier coordinator", coordinator_epoch=2)
    mark(c, topic, version, known, epoch, "later coordinator", coordinator_epoch=5, committed=True)
    mark(c, topic, version, known + 5000, 0, "unknown producer", partitions=(1,))
    mark(c, topic, version, known, epoch, "unknown partition", partitions=(0, 7))
    mark(c, fresh_name(c, "missing"), version, known, epoch, "unknown topic")
    read(c, topic, "at last")


@question(range(2, 3))
def markers_of_version_2(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    producer = Producer(c)
    producer.init()
    known, epoch = producer.producer_id, producer.epoch
    producer.produce(topic, topic_id, 12)
    mark(c, topic, version, known, epoch, "same epoch", transaction_version=2)
    mark(c, topic, version, known, epoch + 1, "next epoch", transaction_version=2)
    mark(c, topic, version, known, epoch + 1, "again", transaction_version=2)
    mark(c, topic, version, known, epoch + 1, "again, the opposite", transaction_version=2, committed=True)
    mark(c, topic, version, known, epoch, "earlier epoch", transaction_version=2)
    mark(c, topic, version, known, epoch + 2, "later epoch", transaction_version=2)
    mark(c, topic, version, known, epoch + 2, "version 1 again", transaction_version=1)
    mark(c, topic, version, known + 5000, 0, "unknown producer", partitions=(1,), transaction_version=2)
    read(c, topic, "at last")


@question(VERSIONS)
def a_group_whose_log_has_heard_of_a_later_epoch(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    group, producer = fresh_group(c), Producer(c)
    producer.init()
    index = partition_in(c, GROUP_METADATA_TOPIC, group)
    c.client().call(marking(GROUP_METADATA_TOPIC, 1, producer.producer_id, 5, partitions=(index,)), 1)
    for name in (producer.id, fresh_name(c, "nobody")):
        commit(c, producer, group, topic, topic_id, version, id=name)
    commit(c, producer, group, topic, topic_id, version, epoch=6)
    producer.describe()


@question(range(9, 14, 3))
def bad_input_writes_nothing(c: Conversation, version: int) -> None:
    """Before and after the new protocol of Produce; what is in the logs is noted behind each request."""
    topic, topic_id = create_topic(c)
    given, other = fresh_group(c), fresh_group(c)
    is_new = version >= 12
    end_version, commit_version = (BUMPING, 5) if is_new else (CLASSIC, 3)
    producer = Producer(c)
    producer.init()
    producer.init()

    def look(label: str) -> None:
        producer.describe()
        read(c, topic, label)
        for group in (given, other):
            fetch(c, group, topic, label)

    producer.produce(topic, topic_id, version, id=fresh_name(c, "nobody"))
    look("an unknown id")
    strangers: tuple[dict[str, Any], ...] = (
        {"producer_id": producer.producer_id + 9},
        {"epoch": producer.epoch - 1},
        {"epoch": producer.epoch + 1},
    )
    for fields in strangers:
        producer.produce(topic, topic_id, version, **fields)
        producer.end(True, end_version, stays=True, **fields)
        commit(c, producer, given, topic, topic_id, commit_version, **fields)
        look(f"wrong {next(iter(fields))}")
    if not is_new:
        producer.produce(topic, topic_id, version)
        commit(c, producer, given, topic, topic_id, commit_version)
        look("no transaction")
        producer.add(topic)
        add_offsets(c, producer, given)
    producer.produce(topic, topic_id, version)
    if not is_new:
        commit(c, producer, other, topic, topic_id, commit_version)
        look("another group")
    producer.produce(topic, topic_id, version, sequence=1, transactional=False)
    look("a plain batch in a transaction")
    producer.add(fresh_name(c, "missing"))
    look("a partition that is not there")
    producer.end(False, end_version)
    producer.end(True, end_version, stays=True)
    look("a commit after an abort")
