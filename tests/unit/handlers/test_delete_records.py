"""DeleteRecords: how far a log's start moves up, and which logs are not cut."""

from __future__ import annotations

from kbroker.handlers.delete_records import handle
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from tests.unit.replication.one_node import OneNode


def delete(node: OneNode, topic: str, *offsets: tuple[int, int]) -> list[tuple[int, int, int]]:
    partitions = [DeleteRecordsRequest.DeleteRecordsPartition(partition_index=i, offset=o) for i, o in offsets]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=1000
    )
    answer = handle(node.context(21, 2), request)
    return [(each.partition_index, each.low_watermark, each.error_code) for each in answer.topics[0].partitions]


def test_the_start_of_the_log_moves_up_and_never_down(node: OneNode) -> None:
    node.create("t")
    node.append("t", count=5)
    assert delete(node, "t", (0, 3)) == [(0, 3, ErrorCode.NONE)]
    assert delete(node, "t", (0, 1)) == [(0, 3, ErrorCode.NONE)]
    assert delete(node, "t", (0, -1)) == [(0, 5, ErrorCode.NONE)]
    assert node.partition("t").log_start_offset == 5


def test_an_offset_beyond_the_high_watermark_is_out_of_range_and_moves_nothing(node: OneNode) -> None:
    node.create("t")
    node.append("t", count=5)
    for offset in (6, -2):
        assert delete(node, "t", (0, offset)) == [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert node.partition("t").log_start_offset == 0


def test_a_partition_without_a_record_has_nothing_to_delete(node: OneNode) -> None:
    node.create("t")
    assert delete(node, "t", (0, 0)) == [(0, 0, ErrorCode.NONE)]
    assert delete(node, "t", (0, 1)) == [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert node.partition("t").log is None


def test_records_of_a_topic_that_is_only_compacted_stay(node: OneNode) -> None:
    node.create("t", configs={"cleanup.policy": "compact"})
    node.append("t", count=5)
    assert delete(node, "t", (0, 3)) == [(0, -1, ErrorCode.POLICY_VIOLATION)]


def test_internal_unknown_and_foreign_partitions_are_refused(node: OneNode) -> None:
    node.create("__consumer_offsets")
    node.create("led-elsewhere", replicas=(1, 2), leader=2)
    assert delete(node, "__consumer_offsets", (0, 0)) == [(0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)]
    assert delete(node, "nowhere", (0, 0)) == [(0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert delete(node, "led-elsewhere", (0, 0)) == [(0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
