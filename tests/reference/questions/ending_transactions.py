"""Transactions that are decided and whose markers are not written yet: who asks meanwhile, and what is told.

A partition that has heard of a later coordinator refuses the marker for good (TRANSACTION_COORDINATOR_FENCED), and so
holds its transaction in this state, however fast the broker is. The ids stay in it: nobody else uses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import batch, create_topic, produce_request
from tests.reference.questions.transactional_offsets import Partition, Topic, fetch, fresh_group, marking
from tests.reference.questions.transactional_producer import BUMPING, CLASSIC, TXN_TIMEOUT_MS, Producer, read

LATER_COORDINATOR = 1000


@question(range(CLASSIC, BUMPING + 1, 2))
def requests_while_a_transaction_ends(c: Conversation, version: int) -> None:
    """The version is that of EndTxn."""
    topic, topic_id = create_topic(c, partitions=2)
    group = fresh_group(c)
    for committed in (True, False):
        producer = _open(c, topic, topic_id, version)
        c.ask(_ended(producer, committed), version, label="its end")
        if version >= BUMPING:
            producer.epoch += 1
        _ask_all(c, producer, group, topic, topic_id)


@question(range(CLASSIC, BUMPING + 1, 2))
def requests_while_a_fenced_transaction_ends(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    group = fresh_group(c)
    producer = _open(c, topic, topic_id, version)
    successor = InitProducerIdRequest(transactional_id=producer.id, transaction_timeout_ms=TXN_TIMEOUT_MS)
    c.ask(successor, 5, label="a successor comes")
    _ask_all(c, producer, group, topic, topic_id)


def _open(c: Conversation, topic: str, topic_id: bytes, version: int) -> Producer:
    """A producer in a transaction that cannot be over."""
    producer = Producer(c)
    producer.init(note=False)
    producer.init(note=False)
    c.client().call(marking(topic, 1, producer.producer_id, producer.epoch, coordinator_epoch=LATER_COORDINATOR), 1)
    if version < BUMPING:
        producer.add(topic)
    producer.produce(topic, topic_id, 9 if version < BUMPING else 12)
    return producer


def _ended(producer: Producer, committed: bool, **fields: Any) -> EndTxnRequest:
    fields = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, **fields}
    return EndTxnRequest(transactional_id=producer.id, committed=committed, **fields)


def _ask_all(c: Conversation, producer: Producer, group: str, topic: str, topic_id: bytes) -> None:
    producer.describe()
    fetch(c, group, topic, "the group is coordinated")
    for label, other_id, step in (("right", 0, 0), ("earlier", 0, -1), ("later", 0, 1), ("wrong id", 100_000, 0)):
        stamp = {"producer_id": producer.producer_id + other_id, "producer_epoch": producer.epoch + step}
        for name, request, version in _requests(producer, stamp, group, topic, topic_id):
            c.ask(request, version, label=f"{name} {version}, {label}", unordered=True)
    successor = InitProducerIdRequest(transactional_id=producer.id, transaction_timeout_ms=TXN_TIMEOUT_MS)
    for version in range(6):
        c.ask(successor, version, label="a successor")
    producer.describe()


def _requests(
    producer: Producer, stamp: dict[str, Any], group: str, topic: str, topic_id: bytes
) -> Iterator[tuple[str, Any, int]]:
    """Each kind in the versions that know different codes."""
    producer_id, epoch = stamp["producer_id"], stamp["producer_epoch"]
    of_it = {"producer_id": producer_id, "epoch": epoch}
    for version in (3, 4):
        yield (
            "init",
            InitProducerIdRequest(transactional_id=producer.id, transaction_timeout_ms=TXN_TIMEOUT_MS, **stamp),
            version,
        )
    for index in (0, 1):
        for version in (1, 3):
            yield f"add {index}", producer.adding([(topic, (index,))], **of_it), version
    for verify_only in (True, False):
        batched = producer.batched([(topic, (0, 1))], verify_only=verify_only, **of_it)
        yield f"verify {verify_only}", AddPartitionsToTxnRequest(transactions=[batched]), 5
    for version in (1, 3):
        yield "offsets", AddOffsetsToTxnRequest(transactional_id=producer.id, group_id=group, **stamp), version
    for version in (1, 4, 5):
        for committed in (True, False):
            yield f"end {committed}", _ended(producer, committed, **stamp), version
    for version in (2, 3, 4, 5, 6):
        yield (
            "commit",
            TxnOffsetCommitRequest(
                transactional_id=producer.id,
                group_id=group,
                topics=[
                    Topic(name=topic, topic_id=topic_id, partitions=[Partition(partition_index=0, committed_offset=1)])
                ],
                **stamp,
            ),
            version,
        )
    for version in (9, 11, 12):
        records = batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
        write = produce_request(topic, records, topic_id=topic_id, partition=1)
        write.transactional_id = producer.id
        yield "produce", write, version


@question(range(CLASSIC, BUMPING + 1, 2))
def a_topic_is_deleted_under_an_open_transaction(c: Conversation, version: int) -> None:
    """What is gone needs no marker; what has its name by then gets one."""
    for is_made_again in (False, True):
        topic, topic_id = create_topic(c, partitions=2)
        kept, kept_id = create_topic(c)
        producer = Producer(c)
        producer.init(note=False)
        producer.add(topic, (0, 1))
        producer.add(kept)
        producer.produce(topic, topic_id, 9)
        producer.produce(kept, kept_id, 9)
        c.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5, note=False)
        if is_made_again:
            made = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=2, replication_factor=1)
            again = CreateTopicsRequest(topics=[made], timeout_ms=10_000)
            c.await_answer(again, 7, lambda answer: answer.topics[0].error_code == ErrorCode.NONE)
            c.await_leaders(topic, 2)
        producer.describe()
        producer.end(True, version)
        producer.describe()
        read(c, kept, "the topic that was kept")
        if is_made_again:
            read(c, topic, "the topic of the same name")
