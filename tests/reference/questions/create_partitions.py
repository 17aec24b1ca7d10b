"""CreatePartitions: counts, assignments, validation only, several topics at once."""

from __future__ import annotations

from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import create_topic, fresh_name

SERVED = range(4)
LATEST = range(3, 4)
Topic = CreatePartitionsRequest.CreatePartitionsTopic
Assignment = CreatePartitionsRequest.CreatePartitionsAssignment


def growth(
    name: str, count: int, assignments: list[list[int]] | None = None, *, validate_only: bool = False
) -> CreatePartitionsRequest:
    assigned = None if assignments is None else [Assignment(broker_ids=each) for each in assignments]
    topic = Topic(name=name, count=count, assignments=assigned)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=validate_only)


def note_partitions(c: Conversation, topic: str, partitions: int) -> None:
    """Note the partitions once they lead; Apache Kafka follows some moments after its answer."""
    c.await_leaders(topic, partitions)
    request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name=topic)])
    answer = c.ask(request, 0, note=False)
    c.note("partitions", [(each.partition_index, each.replica_nodes) for each in answer.topics[0].partitions])


@question(SERVED)
def a_topic_grows(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    c.ask(growth(topic, 5, validate_only=True), version)
    note_partitions(c, topic, 2)
    c.ask(growth(topic, 3), version)
    note_partitions(c, topic, 3)
    c.ask(growth(topic, 5, [[1], [1]]), version)
    note_partitions(c, topic, 5)


@question(SERVED)
def counts_that_no_topic_can_grow_to(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    for count in (2, 1, 0, -1, -(2**31)):
        c.ask(growth(topic, count), version, label=str(count))
    c.ask(growth(topic, 20_000), version, label="too many at once")


@question(SERVED)
def assignments_that_do_not_fit(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    wrong: tuple[list[list[int]], ...] = (
        [],
        [[1]],
        [[1], [1], [1]],
        [[], []],
        [[1], [2]],
        [[1], [1, 1]],
        [[1], [-1]],
        [[1, 2], [1]],
    )
    for assignments in wrong:
        c.ask(growth(topic, 3, assignments, validate_only=True), version, label=str(assignments))


@question(SERVED)
def topics_that_cannot_grow(c: Conversation, version: int) -> None:
    for name in (fresh_name(c), "", "bad name!", "__cluster_metadata"):
        c.ask(growth(name, 3), version, label=name[:12])
    c.ask(CreatePartitionsRequest(topics=[], timeout_ms=10_000), version)


@question(LATEST)
def several_topics_at_once(c: Conversation, version: int) -> None:
    first, _ = create_topic(c)
    second, _ = create_topic(c)
    missing = fresh_name(c)
    names = (first, missing, second, second)
    request = CreatePartitionsRequest(
        topics=[Topic(name=each, count=2, assignments=None) for each in names], timeout_ms=10_000
    )
    c.ask(request, version, unordered=True)
    note_partitions(c, first, 2)
    note_partitions(c, second, 1)
    c.ask(CreatePartitionsRequest(topics=request.topics[:1], timeout_ms=0), version, label="no time")
    c.ask(CreatePartitionsRequest(topics=request.topics[:1], timeout_ms=-1), version, label="negative time")
    c.ask(CreatePartitionsRequest(topics=[request.topics[2], request.topics[3]], timeout_ms=0), version, label="twice")
    c.ask(CreatePartitionsRequest(topics=request.topics, timeout_ms=0), version, label="several", unordered=True)
    c.ask(CreatePartitionsRequest(topics=[], timeout_ms=0), version, label="none")


@question(LATEST)
def answers_stand_in_the_order_of_a_map(c: Conversation, version: int) -> None:
    names = ["no-such-a", "no-such-c", "no-such-b", "no-such-e", "no-such-d"]
    topics = [Topic(name=name, count=3, assignments=None) for name in names]
    c.ask(CreatePartitionsRequest(topics=topics, timeout_ms=10_000), version)
