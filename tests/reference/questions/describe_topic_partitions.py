"""DescribeTopicPartitions: order, limit, cursor."""

from __future__ import annotations

from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import create_topic, fresh_name

SERVED = range(1)
Cursor = DescribeTopicPartitionsRequest.Cursor


def description(*names: str, limit: int = 2000, cursor: Cursor | None = None) -> DescribeTopicPartitionsRequest:
    topics = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
    return DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)


@question(SERVED)
def order_limit_and_cursor(c: Conversation, version: int) -> None:
    first, _ = create_topic(c, partitions=3)
    second, _ = create_topic(c, partitions=3)
    c.ask(description(second, first, second), version)
    for limit in (0, -1, 1, 2, 3, 4, 6, 7):
        c.ask(description(first, second, limit=limit), version, label=f"limit {limit}")
    for topic, partition in ((first, 1), (second, 0), (second, 2), (second, 3), ("a", 0), ("zzz", 0), (first, -1)):
        cursor = Cursor(topic_name=topic, partition_index=partition)
        c.ask(description(first, second, cursor=cursor), version, label=f"cursor {partition}")
        c.ask(description(first, second, cursor=cursor, limit=2), version, label=f"cursor {partition}, limit 2")


@question(SERVED)
def topics_that_are_not_there(c: Conversation, version: int) -> None:
    for name in (fresh_name(c), "bad name!", "", ".", "a" * 250):
        c.ask(description(name), version, label=name[:20])
    c.ask(description(fresh_name(c), "bad name!", ""), version)
    topic, _ = create_topic(c)
    for name in (topic, ""):
        for partition in (0, 1):
            cursor = Cursor(topic_name=name, partition_index=partition)
            c.ask(description("", topic, cursor=cursor), version, label=f"from {name} {partition}")


@question(SERVED)
def a_cursor_at_the_end_of_all_numbers(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    for limit in (1, 2000):
        cursor = Cursor(topic_name=topic, partition_index=2**31 - 1)
        c.ask(description(topic, limit=limit, cursor=cursor), version, label=f"limit {limit}")
