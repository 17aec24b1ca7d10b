"""Creating and deleting topics (Kafka's ``ReplicationControlManager``): every rule, in Kafka's order and words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from kbroker.config import BrokerConfig, ConfigError, validate_topic_configs
from kbroker.config.describe import effective_topic_configs
from kbroker.config.java_maps import in_map_order
from kbroker.kraft.controller.partitions import clear_elr_records
from kbroker.kraft.controller.placement import Chance, InvalidReplicationFactorError, UsableBroker, place
from kbroker.kraft.controller.result import RECORDS_PER_OPERATION_MAX, ControllerResult, check_record_count
from kbroker.kraft.image import (
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionImage,
    has_collision_chars,
    unify_collision_chars,
)
from kbroker.kraft.image_records import partition_record
from kbroker.kraft.metadata_versions import DIRECTORIES
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.records import metadata as m
from kbroker.types import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, Uuid

NAME_LENGTH_MAX: Final = 249
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)

CreatableTopic = CreateTopicsRequest.CreatableTopic
CreatableTopicResult = CreateTopicsResponse.CreatableTopicResult


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION unless Kafka would take the name (``Topic.validate``)."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL_NAME.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if reason is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def create_topics(
    image: MetadataImage,
    topics: Iterable[CreatableTopic],
    *,
    config: BrokerConfig,
    chance: Chance,
    new_topic_id: Callable[[], Uuid],
) -> ControllerResult[list[CreatableTopicResult]]:
    """Create what can be created; each topic succeeds or fails by itself. Names are unique (the handler saw to it).

    ``config`` is the controller's effective configuration, with the cluster's dynamic values.
    """
    topics = list(topics)
    _check_partition_count(topics, config.integer("num.partitions"))
    creation = _Creation(image, config, chance, new_topic_id)
    results: list[CreatableTopicResult] = []
    records: list[Any] = []
    for topic in topics:
        try:
            result, topic_records = creation.create(topic)
        except ApiError as error:
            results.append(
                CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message, configs=[])
            )
            continue
        results.append(result)
        records += topic_records
        check_record_count(records)
    return ControllerResult(results, records)


def _check_partition_count(topics: Sequence[CreatableTopic], default: int) -> None:
    """Refuse the whole request when it asks for more partitions than one batch of records can hold."""
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        else:
            total += default if topic.num_partitions == -1 else max(0, topic.num_partitions)
    if total > RECORDS_PER_OPERATION_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


class _Creation:
    """One request's surroundings. Topics with the same configuration share their rows."""

    def __init__(
        self,
        image: MetadataImage,
        config: BrokerConfig,
        chance: Chance,
        new_topic_id: Callable[[], Uuid],
    ) -> None:
        self.image = image
        self.config = config
        self.chance = chance
        self.new_topic_id = new_topic_id
        self._rows: dict[tuple[tuple[str, str], ...], list[CreateTopicsResponse.CreatableTopicConfigs]] = {}
        self.usable = usable_brokers(image)

    def create(self, topic: CreatableTopic) -> tuple[CreatableTopicResult, list[Any]]:
        self._check_name(topic.name)
        overrides = self._checked_configs(topic)
        partitions = self._assigned(topic) if topic.assignments else self._placed(topic)
        topic_id = self.new_topic_id()
        result = CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
            configs=self._described(overrides),
        )
        records: list[Any] = [m.TopicRecord(name=topic.name, topic_id=topic_id)]
        # Configs stand between the topic and its partitions: whoever makes the logs knows them by then.
        configs = [
            m.ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=topic.name, name=name, value=overrides[name])
            for name in in_map_order(overrides)
        ]
        records += configs
        records += clear_elr_records(self.image, configs)
        records += [partition_record(topic_id, number, each) for number, each in enumerate(partitions)]
        return result, records

    def _described(self, overrides: dict[str, str]) -> list[CreateTopicsResponse.CreatableTopicConfigs]:
        key = tuple(overrides.items())
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = [
                CreateTopicsResponse.CreatableTopicConfigs(name=each.name, value=each.value, config_source=each.source)
                for each in effective_topic_configs(self.config, overrides)
            ]
        return rows

    def _check_name(self, name: str) -> None:
        check_topic_name(name)
        if name in self.image.topics.by_name:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if has_collision_chars(name):
            colliding = self.image.topics.colliding.get(unify_collision_chars(name))
            if colliding:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding[0]}"
                )

    def _checked_configs(self, topic: CreatableTopic) -> dict[str, str]:
        """The overrides. Without any, what the cluster's own values say of each other is not looked at."""
        if not topic.configs:
            return {}
        nulls = [each.name for each in topic.configs if each.value is None]
        if nulls:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
        overrides = {each.name: each.value for each in topic.configs if each.value is not None}
        try:
            validate_topic_configs(overrides, self.config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return overrides

    def _assigned(self, topic: CreatableTopic) -> list[PartitionImage]:
        """A manual assignment, checked."""
        if topic.replication_factor != -1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if topic.num_partitions != -1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        partitions: dict[int, PartitionImage] = {}
        replication_factor: int | None = None
        for assignment in topic.assignments:
            number, replicas = assignment.partition_index, assignment.broker_ids
            if number in partitions:
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Found multiple manual partition assignments for partition {number}",
                )
            check_manual_assignment(self.image, replicas, replication_factor)
            replication_factor = len(replicas)
            isr = self._active(replicas)
            if not isr:
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"All brokers specified in the manual partition assignment for partition {number} are fenced "
                    "or in controlled shutdown.",
                )
            partitions[number] = new_partition(self.image, replicas, isr)
        if any(number not in partitions for number in range(len(partitions))):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        return [partitions[number] for number in range(len(partitions))]

    def _placed(self, topic: CreatableTopic) -> list[PartitionImage]:
        """Partitions placed by the controller; -1 asks for the defaults."""
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        count, replicas = topic.num_partitions, topic.replication_factor
        if count == -1:
            count = self.config.integer("num.partitions")
        if replicas == -1:
            replicas = self.config.integer("default.replication.factor")
        refused = f"Unable to replicate the partition {replicas} time(s): "
        try:
            assignments = place(self.usable, count, replicas, self.chance)
        except InvalidReplicationFactorError as error:
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, refused + str(error)) from error
        partitions = []
        for assignment in assignments:
            isr = self._active(assignment)
            if not isr:
                raise ApiError(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    refused + "All brokers are currently fenced or in controlled shutdown.",
                )
            partitions.append(new_partition(self.image, assignment, isr))
        return partitions

    def _active(self, replicas: Sequence[int]) -> list[int]:
        return [each for each in replicas if self.image.cluster.is_active(each)]


def usable_brokers(image: MetadataImage) -> list[UsableBroker]:
    """The brokers that take new replicas: those that have not cordoned all their directories (KIP-1066)."""
    return [
        UsableBroker(each.id, each.rack, each.fenced) for each in image.cluster.brokers.values() if not each.is_cordoned
    ]


def new_partition(image: MetadataImage, replicas: Sequence[int], isr: Sequence[int]) -> PartitionImage:
    """A partition as it begins, led by the first of its ISR."""
    return PartitionImage(
        replicas=tuple(replicas),
        isr=tuple(isr),
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(default_directories(image, replicas).values()),
    )


def default_directories(image: MetadataImage, broker_ids: Iterable[int]) -> dict[int, Uuid]:
    """Where brokers will have a new replica: a broker's only directory, else it will choose or say later (KIP-858).

    Empty where the level of ``metadata.version`` knows of no directories.
    """
    if image.metadata_version < DIRECTORIES:
        return {}
    return {each: _default_directory(image, each) for each in broker_ids}


def _default_directory(image: MetadataImage, broker_id: int) -> Uuid:
    broker = image.cluster.brokers.get(broker_id)
    if broker is None or len(broker.directories) > 1:
        return UNASSIGNED_DIRECTORY
    return broker.directories[0] if broker.directories else MIGRATING_DIRECTORY


def check_manual_assignment(image: MetadataImage, replicas: Sequence[int], replication_factor: int | None) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless one partition's replicas may be what a client asks for."""
    if not replicas:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."
        )
    previous = None
    for broker_id in sorted(replicas):
        broker = image.cluster.brokers.get(broker_id)
        if broker is None:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered.",
            )
        if broker.is_cordoned:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {broker_id}, but all its log directories are "
                "cordoned.",
            )
        if broker_id == previous:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes the broker {previous} more than once.",
            )
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s).",
        )


def delete_topics(image: MetadataImage, topic_ids: Iterable[Uuid]) -> ControllerResult[dict[Uuid, ApiError | None]]:
    """Delete by id; the reply says for each what went wrong, if anything."""
    results: dict[Uuid, ApiError | None] = {}
    records: list[Any] = []
    for topic_id in topic_ids:
        if topic_id in image.topics.by_id:
            results[topic_id] = None
            records.append(m.RemoveTopicRecord(topic_id=topic_id))
        else:
            results[topic_id] = ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    check_record_count(records)
    return ControllerResult(results, records)
