"""Replicas follow the metadata image."""

from __future__ import annotations

import pytest

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.records.metadata import ConfigRecord
from kbroker.types import TopicPartition
from tests.unit.replication.one_node import OneNode
from tests.unit.replication.test_partition import refused


def test_a_created_topic_is_led_at_once_by_name_and_by_id(node: OneNode) -> None:
    topic_id = node.create("t", 3)
    assert node.replicas.partition("t", 2) is node.replicas.partition_by_id(topic_id, 2)
    assert node.partition("t", 2).is_leader
    assert node.replicas.topic_name(topic_id) == "t"
    assert len(node.replicas.all()) == 3


def test_what_the_cluster_does_not_have_is_unknown(node: OneNode) -> None:
    topic_id = node.create("t")
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        node.replicas.partition("nope", 0)
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        node.replicas.partition("t", 1)
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        node.replicas.partition_by_id(topic_id, 1)
    with refused(ErrorCode.UNKNOWN_TOPIC_ID):
        node.replicas.partition_by_id(b"x" * 16, 0)


def test_what_lives_elsewhere_is_not_led_here(node: OneNode) -> None:
    topic_id = node.create("t", replicas=[2, 3], leader=2)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        node.replicas.partition("t", 0)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        node.replicas.partition_by_id(topic_id, 0)


def test_a_deleted_topic_goes_with_its_logs(node: OneNode) -> None:
    topic_id = node.create("t", 2)
    node.append("t", 1)
    node.delete("t")
    assert node.logs.deleted == [TopicPartition("t", 1)]
    assert node.replicas.get("t", 1) is None
    with refused(ErrorCode.UNKNOWN_TOPIC_ID):
        node.replicas.partition_by_id(topic_id, 1)


def test_a_topic_made_again_begins_anew(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    node.delete("t")
    node.create("t", topic_id=b"2" * 16)
    assert node.partition("t").log is None
    assert node.append("t") == 0


def test_a_replica_that_moves_away_is_dropped(node: OneNode) -> None:
    from kbroker.protocol.messages.records.metadata import PartitionChangeRecord

    topic_id = node.create("t", replicas=[1, 2])
    node.append("t")
    node.apply(PartitionChangeRecord(partition_id=0, topic_id=topic_id, replicas=[2], isr=[2], leader=2))
    assert node.logs.deleted == [TopicPartition("t", 0)]
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        node.replicas.partition("t", 0)


def test_a_topic_config_reaches_the_partitions_and_their_logs(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    node.apply(ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1234"))
    log = node.partition("t").log
    assert log is not None
    assert node.partition("t").config.retention_ms == log.config.retention_ms == 1234


def test_a_dynamic_broker_config_is_the_default_of_topics_without_their_own(node: OneNode) -> None:
    node.create("plain")
    node.create("own", configs={"max.message.bytes": "77"})
    node.apply(ConfigRecord(resource_type=4, resource_name="", name="message.max.bytes", value="100"))
    assert node.partition("plain").config.max_message_bytes == 100
    assert node.partition("own").config.max_message_bytes == 77
    with pytest.raises(ApiError):
        node.append("plain", size=200)


def test_topics_without_their_own_configs_share_one(node: OneNode) -> None:
    node.create("a")
    node.create("b")
    assert node.partition("a").config is node.partition("b").config


def test_the_checkpoint_holds_what_has_a_log(node: OneNode) -> None:
    node.create("t", 2)
    node.append("t", 1, count=4)
    assert node.replicas.high_watermarks() == {TopicPartition("t", 1): 4}
