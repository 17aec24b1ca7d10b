"""More partitions for topics that exist (Kafka's ``ReplicationControlManager.createPartitions``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kbroker.kraft.controller.placement import Chance, InvalidReplicationFactorError, place
from kbroker.kraft.controller.result import RECORDS_PER_OPERATION_MAX, ControllerResult, check_record_count
from kbroker.kraft.controller.topics import check_manual_assignment, new_partition, usable_brokers
from kbroker.kraft.image import MetadataImage, PartitionImage
from kbroker.kraft.image_records import partition_record
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

Topic = CreatePartitionsRequest.CreatePartitionsTopic
TopicResult = CreatePartitionsResponse.CreatePartitionsTopicResult


def create_partitions(
    image: MetadataImage, topics: Iterable[Topic], chance: Chance
) -> ControllerResult[list[TopicResult]]:
    """Let topics grow; each grows or fails by itself. Names are unique (the handler saw to it)."""
    results: list[TopicResult] = []
    records: list[Any] = []
    topics = list(topics)
    _check_count(image, topics)
    for topic in topics:
        try:
            records += _grow(image, topic, chance)
            results.append(TopicResult(name=topic.name, error_message=None))
        except ApiError as error:
            results.append(TopicResult(name=topic.name, error_code=error.code, error_message=error.message))
    check_record_count(records)
    return ControllerResult(results, records)


def _check_count(image: MetadataImage, topics: Sequence[Topic]) -> None:
    """Refuse the whole request when it asks for more partitions than one batch of records can hold."""
    known = image.topics.by_name
    additional = sum(
        max(0, each.count - len(known[each.name].partitions)) if each.name in known else 0 for each in topics
    )
    if additional > RECORDS_PER_OPERATION_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of additional partitions per request.")


def _grow(image: MetadataImage, topic: Topic, chance: Chance) -> list[Any]:
    known = image.topics.by_name.get(topic.name)
    if known is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    count = len(known.partitions)
    if topic.count == count:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if topic.count < count:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {count} partition(s); {topic.count} would not be an increase.",
        )
    additional = topic.count - count
    replicas = len(known.partitions[0].replicas)
    if topic.assignments is None:
        added = _placed(image, additional, replicas, chance)
    else:
        added = _assigned(image, [each.broker_ids for each in topic.assignments], additional, replicas, count)
    return [partition_record(known.id, number, each) for number, each in enumerate(added, count)]


def _assigned(
    image: MetadataImage, assignments: Sequence[Sequence[int]], additional: int, replicas: int, first: int
) -> list[PartitionImage]:
    if len(assignments) != additional:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} assignment(s) "
            "were specified.",
        )
    partitions = []
    for number, assignment in enumerate(assignments, first):
        check_manual_assignment(image, assignment, replicas)
        isr = [each for each in assignment if image.cluster.is_active(each)]
        if not isr:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
                "controlled shutdown.",
            )
        partitions.append(new_partition(image, assignment, isr))
    return partitions


def _placed(image: MetadataImage, additional: int, replicas: int, chance: Chance) -> list[PartitionImage]:
    usable = usable_brokers(image)
    try:
        assignments = place(usable, additional, replicas, chance)
    except InvalidReplicationFactorError as error:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, str(error)) from error
    partitions = []
    for assignment in assignments:
        isr = [each for each in assignment if image.cluster.is_active(each)]
        if not isr:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replicas} time(s): All brokers are currently fenced or in "
                "controlled shutdown.",
            )
        partitions.append(new_partition(image, assignment, isr))
    return partitions
