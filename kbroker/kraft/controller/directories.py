"""In which data directory of its broker each replica is, and what becomes of it when that fails (KIP-858, KIP-1066).

A broker says where it has put a replica (AssignReplicasToDirs), which directories it has lost and which are cordoned
(both in its heartbeat). A replica in a directory that its broker does not have is offline: it leaves the ISR and may
not lead. Follows Kafka's ``ReplicationControlManager``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.partitions import (
    accepts_leader,
    change_partition,
    effective_min_isr,
    election_for,
    is_elr_enabled,
    leader_and_isr_updates,
)
from kbroker.kraft.controller.result import ControllerResult
from kbroker.kraft.image import BrokerImage, MetadataImage, TopicImage
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kbroker.protocol.messages.records import metadata as m
from kbroker.types import Uuid

DirectoryResult = AssignReplicasToDirsResponse.DirectoryData
TopicResult = AssignReplicasToDirsResponse.TopicData
PartitionResult = AssignReplicasToDirsResponse.PartitionData


def assign_replicas_to_dirs(
    image: MetadataImage, request: AssignReplicasToDirsRequest, broker: BrokerImage, config: BrokerConfig
) -> ControllerResult[AssignReplicasToDirsResponse]:
    """Note where ``broker`` has its replicas, with a result for each. In a directory that it lost they are offline."""
    records: list[Any] = []
    lost: set[tuple[Uuid, int]] = set()
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        result = DirectoryResult(id=directory.id)
        response.directories.append(result)
        for wanted in directory.topics:
            topic = image.topics.by_id.get(wanted.topic_id)
            answers = TopicResult(topic_id=wanted.topic_id)
            result.topics.append(answers)
            for entry in wanted.partitions:
                index = entry.partition_index
                code = _check(topic, index, broker.id)
                answers.partitions.append(PartitionResult(partition_index=index, error_code=code))
                if topic is not None and code == ErrorCode.NONE:
                    records += _assignment(image, topic, index, broker, directory.id, config)
                    if directory.id not in broker.directories:
                        lost.add((topic.id, index))
    if lost:
        records += leader_and_isr_updates(image, config, removed=broker.id, among=lost)
    return ControllerResult(response, records)


def _check(topic: TopicImage | None, index: int, broker_id: int) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker_id in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _assignment(
    image: MetadataImage, topic: TopicImage, index: int, broker: BrokerImage, directory_id: Uuid, config: BrokerConfig
) -> list[Any]:
    """A replica that is found in a directory which its broker has may lead again."""
    partition = moved = topic.partitions[index]
    if directory_id in broker.directories:
        known = {each: partition.directory_of(each) for each in partition.replicas} | {broker.id: directory_id}
        moved = partition._replace(directories=tuple(known[each] for each in partition.replicas))
    record = change_partition(
        topic.id,
        index,
        partition,
        is_acceptable_leader=lambda replica: accepts_leader(image, replica, moved),
        min_isr=effective_min_isr(image, topic, config),
        elr_enabled=is_elr_enabled(image),
        election=election_for(image, topic.name, config),
        directories={broker.id: directory_id},
    )
    return [] if record is None else [record]


def offline_directory_records(
    image: MetadataImage, broker: BrokerImage, offline: Sequence[Uuid], config: BrokerConfig
) -> list[Any]:
    """The broker has lost directories: its replicas there leave their ISRs and lead nothing; nothing new, no record."""
    newly = [each for each in broker.directories if each in offline]
    if not newly:
        return []
    lost = {
        (topic.id, index)
        for topic in image.topics.by_id.values()
        for index, partition in topic.partitions.items()
        if partition.directory_of(broker.id) in newly
    }
    left = [each for each in broker.directories if each not in offline]
    change = m.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)
    return [*leader_and_isr_updates(image, config, removed=broker.id, among=lost), change]


def cordoned_directory_records(broker: BrokerImage, cordoned: Sequence[Uuid] | None) -> list[Any]:
    """The broker has said which directories take no new replicas; nothing when it says nothing new."""
    if cordoned is None or (
        broker.cordoned_directories is not None and set(cordoned) == {*broker.cordoned_directories}
    ):
        return []
    return [
        m.BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
        )
    ]
