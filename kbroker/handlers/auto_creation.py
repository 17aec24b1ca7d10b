"""Topics that come into being because somebody asked for them: ordinary ones, and the coordinators' own.

Follows Kafka's ``AutoTopicCreationManager``: the internal topics have keys of their own for all of it.
"""

from __future__ import annotations

from kbroker.config import BrokerConfig
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.types import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC

CreatableTopic = CreateTopicsRequest.CreatableTopic


def creatable_topic(name: str, config: BrokerConfig, live_brokers: int) -> CreatableTopic:
    """How the topic is created: with the defaults, unless it is internal."""
    integer = config.integer
    if name == GROUP_METADATA_TOPIC:
        replicas = _clamped(config, integer("offsets.topic.replication.factor"), live_brokers)
        segment = integer("offsets.topic.segment.bytes")
        configs = {"cleanup.policy": "compact", "segment.bytes": str(segment), "compression.type": "producer"}
        return _topic(name, integer("offsets.topic.num.partitions"), replicas, configs)
    if name == TRANSACTION_STATE_TOPIC:
        replicas = _clamped(config, integer("transaction.state.log.replication.factor"), live_brokers)
        configs = {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(integer("transaction.state.log.min.isr")),
            "segment.bytes": str(integer("transaction.state.log.segment.bytes")),
        }
        return _topic(name, integer("transaction.state.log.num.partitions"), replicas, configs)
    if name == SHARE_GROUP_STATE_TOPIC:
        replicas = _clamped(config, integer("share.coordinator.state.topic.replication.factor"), live_brokers)
        configs = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(integer("share.coordinator.state.topic.min.isr")),
            "retention.ms": "-1",
            "segment.bytes": str(integer("share.coordinator.state.topic.segment.bytes")),
        }
        return _topic(name, integer("share.coordinator.state.topic.num.partitions"), replicas, configs)
    return _topic(name, integer("num.partitions"), integer("default.replication.factor"), {})


def _clamped(config: BrokerConfig, replicas: int, live_brokers: int) -> int:
    if config.boolean("kbroker.internal.topics.clamp.replication"):
        return max(1, min(replicas, live_brokers))
    return replicas


def _topic(name: str, partitions: int, replicas: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
