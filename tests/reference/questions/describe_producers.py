"""DescribeProducers: who has written to a partition with an id."""

from __future__ import annotations

import time

from kbroker.protocol.messages.describe_producers import DescribeProducersRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.records.batch import Record, build_batch
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import append, batch, create_topic, fresh_name

SERVED = range(1)
Topic = DescribeProducersRequest.TopicRequest


def description(topic: str, *partitions: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[Topic(name=topic, partition_indexes=list(partitions))])


@question(SERVED)
def producers_of_a_partition(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    c.ask(description(topic, 0), version, label="nobody")
    append(c, topic, batch())
    c.ask(description(topic, 0, 1), version, label="without an id")
    made = c.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 5, note=False)
    now = int(time.time() * 1000)
    stamp = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    append(
        c,
        topic,
        build_batch([Record(0, now, None, b"a", []), Record(1, now, None, b"b", [])], base_sequence=0, **stamp),
    )
    c.ask(description(topic, 0, 1), version, label="one")
    append(c, topic, build_batch([Record(0, now, None, b"c", [])], base_sequence=2, **stamp))
    c.ask(description(topic, 0, 1), version, label="two batches")


@question(SERVED)
def producers_of_what_is_not_there(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    c.ask(description(topic, 0, 1, -1, 0), version)
    c.ask(description(topic), version)
    for name in (fresh_name(c), "", "bad name!"):
        c.ask(description(name, 0), version, label=name[:12])
    c.ask(DescribeProducersRequest(topics=[]), version)


@question(SERVED)
def many_producers_stand_in_the_order_of_a_map(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    now = int(time.time() * 1000)
    for producer_id in (4000, 17, 4001, 1, 1 << 33, 2**63 - 1, *range(30, 45)):
        stamp = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        append(c, topic, build_batch([Record(0, now, None, b"a", [])], **stamp))
    answer = c.ask(description(topic, 0), version, note=False)
    c.note("order", [each.producer_id for each in answer.topics[0].partitions[0].active_producers])
