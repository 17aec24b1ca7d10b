"""The records whose fold is a given image, in the order Kafka writes them: what a snapshot contains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbroker.kraft.image import METADATA_VERSION, BrokerImage, ControllerImage, MetadataImage, PartitionImage
from kbroker.protocol.messages.records import metadata as m
from kbroker.types import Uuid


def image_records(image: MetadataImage) -> Iterator[Any]:
    """``metadata.version`` comes first: it says how to read the rest (``ImageWriter``)."""
    yield from _feature_records(image)
    for broker in image.cluster.brokers.values():
        yield _broker_record(broker)
    for controller in image.cluster.controllers.values():
        yield _controller_record(controller)
    for topic in image.topics.by_id.values():
        yield m.TopicRecord(name=topic.name, topic_id=topic.id)
        for number, partition in sorted(topic.partitions.items()):
            yield partition_record(topic.id, number, partition)
    for (resource_type, name), configs in image.configs.by_resource.items():
        for key, value in configs.items():
            yield m.ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
    if image.next_producer_id:
        yield m.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.retained.values()


def partition_record(topic_id: Uuid, number: int, partition: PartitionImage) -> m.PartitionRecord:
    """A partition's whole registration as a record (``PartitionRegistration.toRecord``)."""
    return m.PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _feature_records(image: MetadataImage) -> Iterator[Any]:
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION, name))
    for name in names:
        yield m.FeatureLevelRecord(name=name, feature_level=image.features[name])


def _broker_record(broker: BrokerImage) -> m.RegisterBrokerRecord:
    record = m.RegisterBrokerRecord
    cordoned = broker.cordoned_directories
    return record(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            record.BrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in broker.endpoints.values()
        ],
        features=[
            record.BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def _controller_record(controller: ControllerImage) -> m.RegisterControllerRecord:
    record = m.RegisterControllerRecord
    return record(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        end_points=[
            record.ControllerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in controller.endpoints.values()
        ],
        features=[
            record.ControllerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in controller.features.items()
        ],
    )
