"""Replicas follow the metadata image."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.kraft.image import EMPTY
from kbroker.log.errors import LogOfflineError
from kbroker.log.log import Log
from kbroker.log.manager import LogManager
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
    assert TopicPartition("t", 1) not in node.logs.logs
    assert not node.host.disk.exists("/data/t-1")
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
    assert not node.host.disk.exists("/data/t-0")
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


def test_a_restart_finds_the_records_and_leads_them(node: OneNode) -> None:
    node.create("t", 2)
    node.append("t", 1, count=3)
    after = node.restart()
    assert after.partition("t", 0).log is None
    partition = after.partition("t", 1)
    assert (partition.is_leader, partition.log_end_offset, partition.high_watermark) == (True, 3, 3)
    assert after.append("t", 1) == 3


def test_a_restart_takes_the_high_watermark_from_its_checkpoint(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    node.append("t", count=5)
    node.partition("t").on_follower_fetch(2, 3)
    node.logs.checkpoint_job(node.replicas.high_watermarks())()
    after = node.restart()
    assert after.partition("t").high_watermark == 3


def test_a_log_that_cannot_be_loaded_is_offline_and_the_others_serve(
    node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create("bad")
    node.create("good")
    node.append("bad")
    node.append("good")
    load = LogManager.get_or_create

    def fail(logs: LogManager, name: TopicPartition, *settings: Any, **more: Any) -> Log:
        if name.topic == "bad":
            raise LogOfflineError("the disk is gone")
        return load(logs, name, *settings, **more)

    monkeypatch.setattr(LogManager, "get_or_create", fail)
    after = node.restart()
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        after.partition("bad")
    assert after.append("good") == 1
    after.delete("bad")
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        after.partition("bad")


def test_a_directory_of_an_older_topic_of_the_same_name_is_not_taken(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    node.quorum.image = EMPTY
    after = node.restart()
    after.create("t", topic_id=b"2" * 16)
    assert after.partition("t").log_end_offset == 0
    assert after.append("t") == 0
