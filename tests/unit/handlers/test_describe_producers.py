"""DescribeProducers: producers and their open transactions, an error for each partition."""

from __future__ import annotations

from kbroker.handlers.describe_producers import handle
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from tests.unit.replication.one_node import OneNode, batch


def describe(node: OneNode, topic: str, index: int = 0) -> DescribeProducersResponse.PartitionResponse:
    wanted = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[index])
    return handle(node.context(61, 0), DescribeProducersRequest(topics=[wanted])).topics[0].partitions[0]


def test_a_producer_shows_its_last_sequence_and_where_its_transaction_began(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    now_ms = node.host.clock.wall_ms()
    for sequence in (0, 2):
        records = batch(
            count=2, producer_id=9, producer_epoch=3, base_sequence=sequence, transactional=True, timestamp=now_ms
        )
        node.partition("t").append_as_leader(records, 1, now_ms)
    (producer,) = describe(node, "t").active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (9, 3, 3)
    assert (producer.current_txn_start_offset, producer.last_timestamp) == (1, now_ms + 1)


def test_partitions_that_are_not_led_here_have_an_error_each(node: OneNode) -> None:
    node.create("t")
    node.create("led-elsewhere", replicas=(1, 2), leader=2)
    assert describe(node, "t", 7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(node, "nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(node, "a b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(node, "led-elsewhere").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
