"""AlterPartitionReassignments and ListPartitionReassignments where there is one broker."""

from __future__ import annotations

from kbroker.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kbroker.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import create_topic, fresh_name

Topic = AlterPartitionReassignmentsRequest.ReassignableTopic
Partition = AlterPartitionReassignmentsRequest.ReassignablePartition
Listed = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics


def reassignment(
    topic: str,
    *partitions: tuple[int, list[int] | None],
    timeout_ms: int = 10_000,
    factor_may_change: bool = True,
) -> AlterPartitionReassignmentsRequest:
    wanted = [Partition(partition_index=index, replicas=replicas) for index, replicas in partitions]
    return AlterPartitionReassignmentsRequest(
        topics=[Topic(name=topic, partitions=wanted)],
        timeout_ms=timeout_ms,
        allow_replication_factor_change=factor_may_change,
    )


@question(range(2))
def reassignments_on_one_broker(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    for replicas in ([1], None, [], [1, 1], [2], [1, 2], [-1]):
        c.ask(reassignment(topic, (0, replicas)), version, label=str(replicas))
    c.ask(reassignment(topic, (0, [1]), (1, [1]), (0, [1])), version, label="both")
    c.ask(reassignment(topic, (7, [1]), (-1, None)), version, label="no such partition")
    c.ask(reassignment(topic), version, label="no partition")
    for name in (fresh_name(c), "", "bad name!"):
        c.ask(reassignment(name, (0, [1])), version, label=name[:6])
    c.ask(AlterPartitionReassignmentsRequest(topics=[], timeout_ms=1000), version, label="nothing")
    c.ask(reassignment(topic, (0, [1]), timeout_ms=0), version, label="no time")
    if version:
        for replicas in ([1], [1, 2], [], None):
            c.ask(reassignment(topic, (0, replicas), factor_may_change=False), version, label=f"same factor {replicas}")


@question(range(1))
def no_reassignment_goes_on(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for topics in (
        None,
        [],
        [Listed(name=topic, partition_indexes=[0])],
        [Listed(name=topic, partition_indexes=[7])],
        [Listed(name=fresh_name(c), partition_indexes=[0])],
        [Listed(name="", partition_indexes=[])],
    ):
        c.ask(ListPartitionReassignmentsRequest(topics=topics, timeout_ms=1000), version)
    c.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=0), version, label="no time")
