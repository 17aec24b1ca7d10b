"""A change of configuration reaches the partitions that are there already, for each key that acts (KIP-226).

What comes of it is in ``test_config_effects``.
"""

from __future__ import annotations

import pytest

from kbroker.config import TOPIC_KEYS
from kbroker.protocol.messages.records.metadata import ConfigRecord
from kbroker.types import StartupError
from tests.unit.replication.one_node import OneNode

TOPIC, BROKER = 2, 4
CHANGED = {
    "cleanup.policy": "compact",
    "compression.gzip.level": "3",
    "compression.lz4.level": "3",
    "compression.type": "lz4",
    "compression.zstd.level": "5",
    "file.delete.delay.ms": "777",
    "flush.messages": "777",
    "flush.ms": "777",
    "index.interval.bytes": "777",
    "internal.segment.bytes": "777",
    "max.compaction.lag.ms": "777",
    "max.decompressed.message.bytes": "777777",
    "max.message.bytes": "777",
    "delete.retention.ms": "777",
    "min.cleanable.dirty.ratio": "0.77",
    "min.compaction.lag.ms": "777",
    "message.timestamp.after.max.ms": "777",
    "message.timestamp.before.max.ms": "777",
    "message.timestamp.type": "LogAppendTime",
    "min.insync.replicas": "2",
    "preallocate": "true",
    "retention.bytes": "777",
    "retention.ms": "777",
    "segment.bytes": "7777777",
    "segment.index.bytes": "777",
    "segment.jitter.ms": "777",
    "segment.ms": "777",
}


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_a_topics_own_value_reaches_its_partitions_and_leaves_again(node: OneNode, name: str) -> None:
    node.create("t", 2)
    node.append("t")
    attribute = name.replace(".", "_") if name != "internal.segment.bytes" else "segment_bytes"
    before = getattr(node.partition("t").config, attribute)
    node.apply(ConfigRecord(resource_type=TOPIC, resource_name="t", name=name, value=CHANGED[name]))
    for index in (0, 1):
        config = node.partition("t", index).config
        assert getattr(config, attribute) != before
    log = node.partition("t").log
    assert log is not None
    assert log.config == node.partition("t").config
    node.apply(ConfigRecord(resource_type=TOPIC, resource_name="t", name=name, value=None))
    assert getattr(node.partition("t").config, attribute) == before


@pytest.mark.parametrize("name", sorted(set(CHANGED) - {"internal.segment.bytes"}))
def test_a_brokers_value_reaches_the_topics_without_their_own(node: OneNode, name: str) -> None:
    node.create("t")
    attribute = name.replace(".", "_")
    node.create("own", configs={name: str(CHANGED[name])})
    own, before = getattr(node.partition("own").config, attribute), getattr(node.partition("t").config, attribute)
    key = TOPIC_KEYS[name].broker_synonym
    assert key is not None
    for resource in ("", "1"):
        node.apply(ConfigRecord(resource_type=BROKER, resource_name=resource, name=key, value=CHANGED[name]))
        assert getattr(node.partition("t").config, attribute) == own != before
        node.apply(ConfigRecord(resource_type=BROKER, resource_name=resource, name=key, value=None))
        assert getattr(node.partition("t").config, attribute) == before


def test_a_changed_expiry_makes_a_log_forget_its_producers_sooner(node: OneNode) -> None:
    from tests.unit.replication.one_node import batch

    node.create("t")
    now_ms = node.host.clock.wall_ms()
    records = batch(producer_id=9, producer_epoch=0, base_sequence=0, timestamp=now_ms)
    node.partition("t").append_as_leader(records, 1, now_ms)
    log = node.partition("t").log
    assert log is not None
    node.turn(10)
    node.logs.remove_expired_producers()
    assert list(log.active_producers()) == [9]
    node.apply(ConfigRecord(resource_type=BROKER, resource_name="", name="producer.id.expiration.ms", value="5000"))
    node.logs.remove_expired_producers()
    assert list(log.active_producers()) == []


def test_a_brokers_stored_value_that_is_not_taken_any_more_counts_for_nothing(node: OneNode) -> None:
    node.create("t")
    before = node.partition("t").config
    node.apply(ConfigRecord(resource_type=BROKER, resource_name="", name="log.segment.bytes", value="1000"))
    assert node.partition("t").config == before


def test_a_topics_stored_value_that_is_not_taken_any_more_is_told_in_a_line(node: OneNode) -> None:
    node.create("t")
    with pytest.raises(StartupError, match=r"topic t was given .* 1000 for configuration segment\.bytes"):
        node.apply(ConfigRecord(resource_type=TOPIC, resource_name="t", name="segment.bytes", value="1000"))
