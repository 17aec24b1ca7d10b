"""Which brokers hold a partition, changed by an administrator (KIP-455, KIP-860).

steady        other replicas wanted              in progress: the new ones adding, the old ones removing
in progress   all who stay are in sync           steady, by ``change_partition``
in progress   cancelled                          steady, with the replicas from before
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.partitions import (
    Election,
    Reassignment,
    accepts_leader,
    change_partition,
    effective_min_isr,
    election_for,
    is_elr_enabled,
)
from kbroker.kraft.controller.result import ControllerResult, check_record_count
from kbroker.kraft.controller.topics import check_manual_assignment, default_directories
from kbroker.kraft.image import MetadataImage, PartitionImage, TopicImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kbroker.protocol.messages.records.metadata import PartitionChangeRecord

TopicResult = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
PartitionResult = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse
Listed = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
Ongoing = ListPartitionReassignmentsResponse.OngoingTopicReassignment


def alter_partition_reassignments(
    image: MetadataImage, request: AlterPartitionReassignmentsRequest, config: BrokerConfig
) -> ControllerResult[list[TopicResult]]:
    """Begin, change or (replicas of None) cancel; each partition by itself."""
    results = []
    records: list[Any] = []
    for topic in request.topics:
        result = TopicResult(name=topic.name)
        for wanted in topic.partitions:
            answer = PartitionResult(partition_index=wanted.partition_index, error_message=None)
            try:
                record = _alter(
                    image,
                    topic.name,
                    wanted.partition_index,
                    wanted.replicas,
                    config,
                    factor_may_change=request.allow_replication_factor_change,
                )
                if record is not None:
                    records.append(record)
            except ApiError as error:
                answer.error_code, answer.error_message = error.code, error.message
            result.partitions.append(answer)
        results.append(result)
    check_record_count(records)
    return ControllerResult(results, records)


def _alter(
    image: MetadataImage,
    name: str,
    number: int,
    replicas: Sequence[int] | None,
    config: BrokerConfig,
    *,
    factor_may_change: bool,
) -> PartitionChangeRecord | None:
    topic = image.topics.by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(number)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}.")
    if replicas is None:
        return _cancel(image, topic, number, partition, config)
    check_manual_assignment(image, replicas, None)
    if not factor_may_change:
        current = len([each for each in partition.replicas if each not in partition.removing_replicas])
        if len(replicas) != current:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {current} to {len(replicas)}",
            )
    removing = tuple(sorted(each for each in partition.replicas if each not in replicas))
    adding = tuple(sorted(each for each in replicas if each not in partition.replicas))
    target = Reassignment((*replicas, *removing), adding, removing, default_directories(image, adding))
    return change_partition(
        topic.id,
        number,
        partition,
        is_acceptable_leader=_acceptable(image, partition),
        min_isr=effective_min_isr(image, topic, config),
        elr_enabled=is_elr_enabled(image),
        target=target,
    )


def _cancel(
    image: MetadataImage, topic: TopicImage, number: int, partition: PartitionImage, config: BrokerConfig
) -> PartitionChangeRecord | None:
    if not (partition.adding_replicas or partition.removing_replicas):
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    before = tuple(each for each in partition.replicas if each not in partition.adding_replicas)
    isr = [each for each in partition.isr if each not in partition.adding_replicas]
    election = election_for(image, topic.name, config)
    if not isr:
        if election is not Election.UNCLEAN:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{number} because it would require an unclean "
                "leader election.",
            )
        isr = list(before[:1])
    return change_partition(
        topic.id,
        number,
        partition,
        is_acceptable_leader=_acceptable(image, partition),
        min_isr=effective_min_isr(image, topic, config),
        elr_enabled=is_elr_enabled(image),
        target_isr=isr,
        target=Reassignment(before),
        election=election,
    )


def _acceptable(image: MetadataImage, partition: PartitionImage) -> Callable[[int], bool]:
    return lambda replica: accepts_leader(image, replica, partition)


def list_partition_reassignments(image: MetadataImage, wanted: Sequence[Listed] | None) -> list[Ongoing]:
    """What is in progress, of everything (None) or of the partitions named."""
    if wanted is None:
        named = [(topic, list(topic.partitions)) for topic in image.topics.by_id.values()]
    else:
        named = [
            (image.topics.by_name[each.name], each.partition_indexes)
            for each in wanted
            if each.name in image.topics.by_name
        ]
    found = []
    for topic, numbers in named:
        ongoing = Ongoing(name=topic.name)
        for number in numbers:
            partition = topic.partitions.get(number)
            if partition is not None and (partition.adding_replicas or partition.removing_replicas):
                ongoing.partitions.append(
                    ListPartitionReassignmentsResponse.OngoingPartitionReassignment(
                        partition_index=number,
                        replicas=list(partition.replicas),
                        adding_replicas=list(partition.adding_replicas),
                        removing_replicas=list(partition.removing_replicas),
                    )
                )
        if ongoing.partitions:
            found.append(ongoing)
    return found
