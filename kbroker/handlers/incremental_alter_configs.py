"""IncrementalAlterConfigs (KIP-339) for topics and for this broker or all brokers.

The broker that is asked checks what it can (duplicates, nulls, its own configuration), the controller the rest: as in
Kafka, a wrong broker config is INVALID_REQUEST and a wrong topic config INVALID_CONFIG.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kbroker.config import BROKER_KEYS, ConfigError
from kbroker.handlers.context import RequestContext
from kbroker.handlers.replies import then
from kbroker.kraft.controller.configs import Alteration, Operation
from kbroker.kraft.image import RESOURCE_BROKER, RESOURCE_TOPIC, ConfigResource
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
ResourceResponse = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


def handle(
    context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse | Awaitable[IncrementalAlterConfigsResponse]:
    """Alter each resource whole or not at all."""
    refused: dict[ConfigResource, ApiError | None] = {}
    changes: dict[ConfigResource, list[Alteration]] = {}
    counts: dict[ConfigResource, int] = {}
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        counts[key] = counts.get(key, 0) + 1
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        try:
            if counts[key] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            changes[key] = _checked(context, resource)
        except ApiError as error:
            refused[key] = error

    def answer(results: dict[ConfigResource, ApiError | None]) -> IncrementalAlterConfigsResponse:
        outcome = {**results, **refused}
        return IncrementalAlterConfigsResponse(
            throttle_time_ms=context.throttle_time_ms,
            responses=[_response(each, outcome[each.resource_type, each.resource_name]) for each in request.resources],
        )

    if not changes:
        return answer({})
    altered = context.node.quorum.incremental_alter_configs(changes, validate_only=request.validate_only)
    return then(altered, answer)


def error_response(
    context: RequestContext, request: IncrementalAlterConfigsRequest, error: ApiError
) -> IncrementalAlterConfigsResponse:
    """The error at every resource."""
    return IncrementalAlterConfigsResponse(
        throttle_time_ms=context.throttle_time_ms, responses=[_response(each, error) for each in request.resources]
    )


def _response(resource: Resource, error: ApiError | None) -> ResourceResponse:
    return ResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _checked(context: RequestContext, resource: Resource) -> list[Alteration]:
    names = [each.name for each in resource.configs]
    if len(dict.fromkeys(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [each.name for each in resource.configs if each.config_operation != Operation.DELETE and each.value is None]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    alterations = [Alteration(each.name, each.config_operation, each.value) for each in resource.configs]
    if resource.resource_type == RESOURCE_BROKER:
        _check_broker(context, resource.resource_name, alterations)
    elif resource.resource_type != RESOURCE_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    return alterations


def _check_broker(context: RequestContext, name: str, alterations: list[Alteration]) -> None:
    """A broker checks its own dynamic configuration before it asks the controller (``ConfigAdminManager``)."""
    if name:
        try:
            broker_id = int(name)
        except ValueError:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
        if broker_id != context.node.node_id:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {context.node.node_id}, but received {name}"
            )
    read_only = [each.name for each in alterations if _is_read_only(each.name)]
    if read_only:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(read_only)}]")
    quorum = context.node.quorum
    target = dict(quorum.image.configs.of(RESOURCE_BROKER, name))
    for alteration in alterations:
        if alteration.operation == Operation.DELETE:
            target.pop(alteration.name, None)
        elif alteration.operation == Operation.SET and alteration.value is not None:
            target[alteration.name] = alteration.value
    config = quorum.effective_config
    try:
        if name:
            config.with_dynamic(default=config.dynamic_default, broker=target)
        else:
            config.with_dynamic(default=target, broker=config.dynamic_broker)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _is_read_only(name: str) -> bool:
    key = BROKER_KEYS.find(name)
    return key is not None and key.read_only
