"""What AlterConfigs and IncrementalAlterConfigs share: the way of a resource from its check to its row in the answer.

As in Kafka (``ConfigAdminManager``) the broker that is asked looks at duplicates, nulls, its loggers and its own
dynamic configuration; the controller does the rest. A wrong broker config is INVALID_REQUEST, a wrong topic config
INVALID_CONFIG.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kbroker.config import BROKER_KEYS, ConfigError, ConfigType
from kbroker.config.dynamic import taken, validate_broker_alteration
from kbroker.config.registry import base_name
from kbroker.config.values import java_int, java_split
from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.configs import Alteration, Operation
from kbroker.kraft.image import RESOURCE_BROKER, ConfigResource
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kbroker.replies import Reply, then

Resource = AlterConfigsRequest.AlterConfigsResource | IncrementalAlterConfigsRequest.AlterConfigsResource
Outcomes = Mapping[ConfigResource, ApiError | None]
R = TypeVar("R", bound=Resource)
T = TypeVar("T")
A = TypeVar("A")
RowT = TypeVar(
    "RowT",
    AlterConfigsResponse.AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse.AlterConfigsResourceResponse,
)


def alter(
    resources: Sequence[R],
    check: Callable[[R], T | None],
    decide: Callable[[dict[ConfigResource, T]], Reply[Outcomes]],
    answer: Callable[[Outcomes], A],
) -> Reply[A]:
    """Have the controller ``decide`` on what ``check`` makes of each resource; None says that it is done already."""
    done: dict[ConfigResource, ApiError | None] = dict(check_once([key_of(each) for each in resources]))
    wanted: dict[ConfigResource, T] = {}
    for resource in resources:
        key = key_of(resource)
        if key in done:
            continue
        try:
            checked = check(resource)
        except ApiError as error:
            done[key] = error
            continue
        if checked is None:
            done[key] = None
        else:
            wanted[key] = checked
    if not wanted:
        return answer(done)
    return then(decide(wanted), lambda outcomes: answer({**outcomes, **done}))


def key_of(resource: Resource) -> ConfigResource:
    return resource.resource_type, resource.resource_name


def row(kind: type[RowT], resource: Resource, error: ApiError | None) -> RowT:
    """The answer for one resource, of the row class of its API."""
    return kind(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def check_once(resources: Sequence[ConfigResource]) -> dict[ConfigResource, ApiError]:
    """The resources that are named twice, with the error for them."""
    counts: dict[ConfigResource, int] = {}
    for resource in resources:
        counts[resource] = counts.get(resource, 0) + 1
    twice = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    return {resource: twice for resource, count in counts.items() if count > 1}


def check_names_and_values(values: Sequence[tuple[str, str | None]], nullable: frozenset[str] = frozenset()) -> None:
    """Raise INVALID_REQUEST for a key that stands twice, or has no value and needs one."""
    names = [name for name, _ in values]
    if len(dict.fromkeys(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [name for name, value in values if value is None and name not in nullable]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def check_node_name(
    context: RequestContext, name: str, what: str = "broker id, expected {}, but received {name}"
) -> None:
    """Raise INVALID_REQUEST unless ``name`` is this node's id."""
    try:
        node_id = java_int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
    if node_id != context.node.node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected {what.format(context.node.node_id, node_id, name=name)}")


def check_broker(context: RequestContext, name: str, target: Mapping[str, str]) -> None:
    """Raise INVALID_REQUEST unless this broker, or with no name the cluster, may have these dynamic values."""
    if name:
        check_node_name(context, name)
    try:
        validate_broker_alteration(context.node.quorum.effective_config, target, cluster_wide=not name)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error


def altered_broker(context: RequestContext, name: str, alterations: Sequence[Alteration]) -> dict[str, str]:
    """The dynamic values of a broker after the alterations. Raises INVALID_REQUEST or INVALID_CONFIG."""
    if name:
        check_node_name(context, name)
    target = taken(context.node.quorum.image.configs.of(RESOURCE_BROKER, name), cluster_wide=not name)
    for each in alterations:
        if each.operation not in tuple(Operation):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {each.operation}")
    for key, operation, value in alterations:
        if operation == Operation.DELETE:
            target.pop(key, None)
        elif operation == Operation.SET:
            target[key] = value or ""
        else:
            target[key] = _relisted(target.get(key), key, Operation(operation), value or "")
    return target


def _relisted(old: str | None, name: str, operation: Operation, value: str) -> str:
    """A list after an addition or a removal; one that nobody altered begins with Kafka's default."""
    key = BROKER_KEYS.find(base_name(name))
    if key is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if key.type is not ConfigType.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Config value {operation.name.lower()} is not allowed for config key: {name}",
        )
    if key.required and old is None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{name} has no default to begin with: set the whole list.")
    old = (key.default or "") if old is None else old
    given = java_split(value)
    if operation is Operation.APPEND:
        parts = java_split(old) if old else []
        return ",".join([*parts, *(each for each in given if each not in parts)])
    return ",".join(each for each in java_split(old) if each not in given)
