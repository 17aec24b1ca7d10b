"""Changes of configurations, incremental (KIP-339) and whole (Kafka's ``ConfigurationControlManager``).

A resource changes whole or not at all. Not here: whether the resource may be named at all, and a broker's own checks of
its dynamic configuration, which the handler makes before it asks the controller (as Kafka's brokers do).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kbroker.config import BROKER_KEYS, TOPIC_KEYS, BrokerConfig, ConfigError, ConfigType, validate_topic_configs
from kbroker.config.client_metrics import UnknownSettingError, validate_client_metrics
from kbroker.config.dynamic import validate_group_configs
from kbroker.config.java_maps import in_map_order, in_timeline_order
from kbroker.config.values import java_int, java_split
from kbroker.kraft.controller.partitions import MIN_ISR, clear_elr_records, is_elr_enabled
from kbroker.kraft.controller.result import ControllerResult, check_record_count
from kbroker.kraft.controller.topics import check_topic_name
from kbroker.kraft.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigResource,
    MetadataImage,
)
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.records.metadata import ConfigRecord

_LISTS: Final = {RESOURCE_TOPIC: TOPIC_KEYS, RESOURCE_BROKER: BROKER_KEYS}
"""Whose lists may be appended to: Kafka's controller knows the types of no other keys."""


class Operation(IntEnum):
    """``AlterConfigOp.OpType``."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    name: str
    operation: int
    value: str | None


def incremental_alter_configs(
    image: MetadataImage, changes: Mapping[ConfigResource, Sequence[Alteration]], config: BrokerConfig
) -> ControllerResult[dict[ConfigResource, ApiError | None]]:
    """Alter each resource; the reply says for each what went wrong, if anything."""
    results: dict[ConfigResource, ApiError | None] = {}
    records: list[Any] = []
    for resource, alterations in changes.items():
        try:
            records += _alter_resource(image, resource, alterations, config)
            results[resource] = None
        except ApiError as error:
            if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:  # no operation of Kafka's: nothing is altered at all
                return ControllerResult(dict.fromkeys(changes, error), [])
            results[resource] = error
    records += clear_elr_records(image, records)
    check_record_count(records)
    return ControllerResult(results, records)


def legacy_alter_configs(
    image: MetadataImage, wanted: Mapping[ConfigResource, Mapping[str, str]], config: BrokerConfig
) -> ControllerResult[dict[ConfigResource, ApiError | None]]:
    """Give each resource these values and no others (AlterConfigs)."""
    results: dict[ConfigResource, ApiError | None] = {}
    records: list[Any] = []
    for resource, values in wanted.items():
        resource_type, name = resource
        current = image.configs.of(*resource)
        target = dict(values)
        changes: dict[str, str | None] = {
            key: values[key]
            for key in in_map_order(values)
            if values[key] != current.get(key) or resource_type == RESOURCE_BROKER
        }
        changes.update({key: None for key in in_timeline_order(current) if key not in values})
        try:
            _validate(image, resource, target, config, touched=list(changes))
            results[resource] = None
        except ApiError as error:
            results[resource] = error
            continue
        records += [
            ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
            for key, value in changes.items()
        ]
    records += clear_elr_records(image, records)
    check_record_count(records)
    return ControllerResult(results, records)


def _alter_resource(
    image: MetadataImage, resource: ConfigResource, alterations: Iterable[Alteration], config: BrokerConfig
) -> list[ConfigRecord]:
    resource_type, name = resource
    current = image.configs.of(*resource)
    target = dict(current)
    records = []
    by_name = {each.name: each for each in alterations}
    for alteration in map(by_name.__getitem__, in_map_order(by_name)):
        old = current.get(alteration.name)
        new = _altered(old, alteration, resource_type)
        # A broker's value is written even when it is the old one: it makes brokers read files again (KAFKA-14136).
        if new != old or resource_type == RESOURCE_BROKER:
            records.append(
                ConfigRecord(resource_type=resource_type, resource_name=name, name=alteration.name, value=new)
            )
        if new is None:
            target.pop(alteration.name, None)
        else:
            target[alteration.name] = new
    _validate(image, resource, target, config, touched=[each.name for each in records])
    return records


def _altered(old: str | None, alteration: Alteration, resource_type: int) -> str | None:
    """The new value. A list that was not altered yet begins with Kafka's default, whatever the file says."""
    try:
        operation = Operation(alteration.operation)
    except ValueError:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{alteration.operation} is no operation: 0 set, 1 delete, 2 append, 3 subtract",
        ) from None
    if operation is Operation.SET:
        return alteration.value
    if operation is Operation.DELETE:
        return None
    key = _LISTS[resource_type].find(alteration.name) if resource_type in _LISTS else None
    if key is None or key.type is not ConfigType.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {alteration.name} because its type is not LIST.",
        )
    parts = [each for each in (key.default or "" if old is None else old).split(",") if each]
    for value in java_split(alteration.value or ""):
        if operation is Operation.APPEND:
            if value not in parts:
                parts.append(value)
        elif value in parts:
            parts.remove(value)
    return ",".join(parts)


def _validate(
    image: MetadataImage,
    resource: ConfigResource,
    target: dict[str, str],
    config: BrokerConfig,
    *,
    touched: Collection[str],
) -> None:
    resource_type, name = resource
    if resource_type == RESOURCE_TOPIC:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(name)
        try:
            validate_topic_configs(target, config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        if name not in image.topics.by_name:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif resource_type == RESOURCE_BROKER:
        _check_broker_name(image, name)
        if is_elr_enabled(image):
            _check_min_isr_stays_common(name, target, touched)
    elif resource_type == RESOURCE_GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        try:
            validate_group_configs(target, config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
    elif resource_type == RESOURCE_CLIENT_METRICS:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        try:
            validate_client_metrics(target)
        except UnknownSettingError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_min_isr_stays_common(name: str, target: Mapping[str, str], touched: Collection[str]) -> None:
    """With ELR the controller must know every minimum ISR: the cluster has one, and no broker its own (KIP-966)."""
    if name and MIN_ISR in touched:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    if not name and MIN_ISR not in target:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )


def _check_broker_name(image: MetadataImage, name: str) -> None:
    if not name:
        return
    try:
        broker_id = java_int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.") from None
    if broker_id < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
    if broker_id not in image.cluster.brokers and broker_id not in image.cluster.controllers:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker with id {broker_id} not found.")
