"""Transactions with what no client of Kafka's own would send: partitions, groups, ids and markers of every kind."""

from __future__ import annotations

from typing import Any

from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kbroker.types import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import create_topic, fresh_name
from tests.reference.questions.transactional_offsets import ADDS_SINCE, add_offsets, fetch, fresh_group
from tests.reference.questions.transactional_producer import BUMPING, CLASSIC, Producer, find_coordinator, patiently

BATCHED_SINCE = 4
Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
Partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
Marker = WriteTxnMarkersRequest.WritableTxnMarker
MarkerTopic = WriteTxnMarkersRequest.WritableTxnMarkerTopic


@question(range(6))
def strange_partitions_join(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    find_coordinator(c, fresh_name(c, "group"), 0)
    asked: list[tuple[str, list[tuple[str, tuple[int, ...]]]]] = [
        ("offsets", [(GROUP_METADATA_TOPIC, (0,))]),
        ("transactions", [(TRANSACTION_STATE_TOPIC, (0,))]),
        ("metadata", [("__cluster_metadata", (0,))]),
        ("an internal topic beside others", [(GROUP_METADATA_TOPIC, (0,)), (topic, (0, 7))]),
        ("no partition of an internal topic", [(topic, (0,)), (TRANSACTION_STATE_TOPIC, (77,))]),
        ("no name", [("", (0,))]),
        ("a bad name", [("bad name!", (0, 1))]),
        ("no partitions", [(topic, ())]),
        ("a topic twice", [(topic, (0,)), (topic, (1,))]),
        ("a partition twice", [(topic, (0,)), (topic, (0,))]),
        ("below 0", [(topic, (-1,))]),
        ("a topic twice, half of it there", [(topic, (0, 5)), (topic, (1, 5))]),
        ("of all kinds", [(topic, (0, 5)), ("", (1,)), (topic, (1,))]),
    ]
    for label, topics in asked:
        producer = Producer(c)
        producer.init(note=False)
        if version < BATCHED_SINCE:
            c.ask(producer.adding(topics), version, label=label, unordered=True)
            shares = producer.adding([(SHARE_GROUP_STATE_TOPIC, (0,)), *topics])
            c.ask(shares, version, label=f"{label}, and share groups", unordered=True)
        else:
            for verify_only in (False, True):
                request = AddPartitionsToTxnRequest(transactions=[producer.batched(topics, verify_only=verify_only)])
                c.ask(request, version, label=f"{label}, verify only {verify_only}", unordered=True)
        producer.describe()


@question(range(5))
def offsets_of_groups_with_strange_names_join(c: Conversation, version: int) -> None:
    producer = Producer(c)
    producer.init()
    find_coordinator(c, "g", 0)
    for group in ("ü", "x" * 300, " "):
        request = AddOffsetsToTxnRequest(
            transactional_id=producer.id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group,
        )
        c.ask(request, version, label=group[:2])
    producer.describe()


@question(range(7))
def strange_offsets_in_a_transaction(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    group, producer = fresh_group(c), Producer(c)
    producer.init()
    if version < ADDS_SINCE:
        add_offsets(c, producer, group)

    def ours(*partitions: tuple[int, int, str | None], epoch: int = -1) -> Topic:
        wanted = [
            Partition(
                partition_index=index,
                committed_offset=offset,
                committed_metadata=metadata,
                committed_leader_epoch=epoch,
            )
            for index, offset, metadata in partitions
        ]
        return Topic(name=topic, topic_id=topic_id, partitions=wanted)

    def ask(label: str, *topics: Topic, **fields: Any) -> None:
        request = TxnOffsetCommitRequest(
            transactional_id=fields.pop("id", producer.id),
            group_id=fields.pop("group", group),
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=list(topics),
            **fields,
        )
        patiently(c, request, version, label=label)

    nameless = Topic(name="", topic_id=bytes(16), partitions=[Partition(partition_index=0, committed_offset=1)])
    ask("no topics")
    ask("no partitions", ours())
    ask("null metadata", ours((0, -9, None)))
    ask("a partition twice, one below 0", ours((0, 1, ""), (0, 2, ""), (-1, 2, "")))
    ask("a topic twice", ours((0, 1, "")), nameless, ours((1, 1, "m" * 5000), (7, 1, "")))
    ask("a leader epoch", ours((0, 1, "x"), epoch=7 if version >= 2 else -1))
    ask("an empty id", ours((0, 1, "x")), id="")
    ask("nothing is right", nameless, id="", group="")
    if version >= 3:
        for generation, member, instance in ((0, "", None), (-1, "m", None), (-1, "", "i"), (-5, "", None)):
            ask(
                f"{generation} {member} {instance}",
                ours((0, 1, "x")),
                generation_id_or_member_epoch=generation,
                member_id=member,
                group_instance_id=instance,
            )
    producer.describe()
    fetch(c, group, topic, "open")
    producer.end(True, BUMPING if version >= ADDS_SINCE else CLASSIC)
    fetch(c, group, topic, "over")


def marker(producer_id: int, epoch: int, *topics: tuple[str, list[int]], coordinator_epoch: int = 1) -> Marker:
    return Marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        transaction_result=False,
        topics=[MarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics],
    )


@question(range(1, 3))
def strange_markers(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    find_coordinator(c, fresh_name(c, "group"), 0)
    Producer(c)

    def ask(label: str, *markers: Marker) -> None:
        answer = c.client().call(WriteTxnMarkersRequest(markers=list(markers)), version)
        found = {
            (each.producer_id, "ours" if on.name == topic else on.name, slot.partition_index): slot.error_code
            for each in answer.markers
            for on in each.topics
            for slot in on.partitions
        }
        c.note(label, (sorted(each.producer_id for each in answer.markers), sorted(found.items())))

    ask("none")
    ask("no topics", marker(5, 0))
    ask("no partitions", marker(5, 0, (topic, [])))
    ask("an id below 0", marker(-1, 0, (topic, [1])))
    ask("an epoch below 0", marker(77_777, -1, (topic, [1])))
    ask("an epoch below 0 that goes nowhere", marker(77_777, -1, (topic, [7])))
    ask("an epoch below 0 without a partition", marker(77_777, -1))
    ask("a coordinator's epoch below 0", marker(77_778, 0, (topic, [1]), coordinator_epoch=-1))
    ask("good and wrong", marker(77_779, 0, (topic, [0])), marker(77_780, -1, (topic, [1, 7])))
    ask("wrong and empty", marker(77_781, -1, (topic, [0])), marker(77_782, 0, (topic, [])))
    ask("internal", marker(77_783, 0, (GROUP_METADATA_TOPIC, [0, 99])))
    ask("strange names", marker(77_784, 0, ("", [0]), ("bad name!", [0])))
    ask("one producer twice", marker(77_785, 0, (topic, [1])), marker(77_785, 0, (topic, [0])))
    if version >= 2:
        for number in (-1, 1, 2, 3, 9):
            one = marker(77_790 + number, 0, (topic, [1]))
            one.transaction_version = number
            ask(f"transaction version {number}", one)


@question(range(6))
def strange_transactional_ids(c: Conversation, version: int) -> None:
    Producer(c)
    for stem in (" ", "ü\U0001f600", "x" * 200):
        name = fresh_name(c, stem)
        fields: tuple[dict[str, int], ...] = (
            {},
            {"producer_id": 5, "producer_epoch": 3},
            {"producer_id": -5, "producer_epoch": -5},
        )
        for each in fields if version >= 3 else fields[:1]:
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)
            for field, value in each.items():
                setattr(request, field, value)
            patiently(c, request, version, label=f"{stem[:2]} {each}")


@question(range(3))
def filters_of_a_list_of_transactions(c: Conversation, version: int) -> None:
    producer = Producer(c)
    producer.init()

    def ask(label: str, **fields: Any) -> None:
        answer = c.ask(ListTransactionsRequest(**fields), version, note=False)
        answer.transaction_states = [each for each in answer.transaction_states if each.transactional_id == producer.id]
        c.note_answer(label, answer, version)

    for states in (["Empty", "Empty"], ["Dead"], ["PrepareEpochFence"], ["Unknown"], ["Empty", "x", "x", "y"], [""]):
        ask(str(states), state_filters=states)
    for ids in ([-1], [producer.producer_id] * 2, [0]):
        ask(f"{len(ids)} ids", producer_id_filters=ids)
    if version >= 1:
        for duration in (-1, -5, 0, 1, 2**62):
            ask(f"duration {duration}", duration_filter=duration)
    if version >= 2:
        for pattern in (None, ".*", "^ID$", "ID.", "[", "a{2", "*", "(?<n>x)|.*", r"\QID\E", r"\QID", "(?i)id"):
            ask(f"pattern {pattern}", transactional_id_pattern=pattern and pattern.replace("ID", producer.id))


@question(range(BATCHED_SINCE))
def the_order_of_partitions(c: Conversation, version: int) -> None:
    """It is that of hash maps over partitions of topics whose names both brokers know."""
    names = [f"order-{letter}-{version}" for letter in "abc"]
    made = [CreateTopicsRequest.CreatableTopic(name=name, num_partitions=4, replication_factor=1) for name in names]
    c.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000), 7, note=False)
    for name in names:
        c.await_leaders(name, 4)
    one, two, three = names
    asked: list[list[tuple[str, tuple[int, ...]]]] = [
        [(three, (3, 0)), (one, (2, 1, 0)), (two, (0, 1, 2, 3))],
        [(one, (3, 2, 1, 0, 9))],
        [(one, (0, 9)), (two, (1, 0)), ("missing", (0,))],
        [(three, (3, 1)), (two, (3, 9, 1)), (one, (3,))],
    ]
    for topics in asked:
        producer = Producer(c)
        producer.init(note=False)
        c.ask(producer.adding(topics), version)
        c.ask(DescribeTransactionsRequest(transactional_ids=[producer.id]), 0)
    c.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), 5, note=False)
