"""IncrementalAlterConfigs (KIP-339) of topics, brokers, groups, client-metrics subscriptions, loggers."""

from __future__ import annotations

from collections.abc import Awaitable

from kbroker.handlers import broker_loggers
from kbroker.handlers.config_alterations import (
    altered_broker,
    check_broker,
    check_names_and_values,
    check_node_name,
    check_once,
)
from kbroker.handlers.context import RequestContext
from kbroker.handlers.replies import then
from kbroker.kraft.controller.configs import Alteration, Operation
from kbroker.kraft.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigResource,
)
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
    refused = check_once([(each.resource_type, each.resource_name) for each in request.resources])
    done: dict[ConfigResource, ApiError | None] = dict(refused)
    changes: dict[ConfigResource, list[Alteration]] = {}
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        if key in refused:
            continue
        try:
            alterations = _checked(resource)
            if resource.resource_type == RESOURCE_BROKER_LOGGER:
                check_node_name(context, resource.resource_name, "node id. Expected {}, but received {}")
                broker_loggers.apply(alterations, validate_only=request.validate_only)
                done[key] = None
                continue
            if resource.resource_type == RESOURCE_BROKER:
                check_broker(context, key[1], altered_broker(context, key[1], alterations))
            changes[key] = alterations
        except ApiError as error:
            done[key] = error

    def answer(results: dict[ConfigResource, ApiError | None]) -> IncrementalAlterConfigsResponse:
        outcome = {**results, **done}
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


def _checked(resource: Resource) -> list[Alteration]:
    deleted = frozenset(each.name for each in resource.configs if each.config_operation == Operation.DELETE)
    check_names_and_values([(each.name, each.value) for each in resource.configs], deleted)
    known = (RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP)
    if resource.resource_type not in known:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    return [Alteration(each.name, each.config_operation, each.value) for each in resource.configs]
