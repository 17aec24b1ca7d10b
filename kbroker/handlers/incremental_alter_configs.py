"""IncrementalAlterConfigs (KIP-339) of topics, brokers, groups, client-metrics subscriptions, loggers."""

from __future__ import annotations

from kbroker.handlers import broker_loggers
from kbroker.handlers.config_alterations import (
    Outcomes,
    alter,
    altered_broker,
    check_broker,
    check_names_and_values,
    check_node_name,
    key_of,
    row,
)
from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.configs import Alteration, Operation, incremental_alter_configs
from kbroker.kraft.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kbroker.replies import Reply

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
Row = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


def handle(context: RequestContext, request: IncrementalAlterConfigsRequest) -> Reply[IncrementalAlterConfigsResponse]:
    """Alter each resource whole or not at all. The levels of loggers are this process's: the controller has no say."""

    def checked(resource: Resource) -> list[Alteration] | None:
        alterations = _checked(resource)
        name = resource.resource_name
        if resource.resource_type == RESOURCE_BROKER_LOGGER:
            check_node_name(context, name, "node id. Expected {}, but received {}")
            broker_loggers.apply(alterations, validate_only=request.validate_only)
            return None
        if resource.resource_type == RESOURCE_BROKER:
            check_broker(context, name, altered_broker(context, name, alterations))
        return alterations

    return alter(
        request.resources,
        checked,
        lambda wanted: context.node.quorum.decide(
            lambda image, config: incremental_alter_configs(image, wanted, config), validate_only=request.validate_only
        ),
        lambda outcomes: _response(context, request, outcomes),
    )


def error_response(
    context: RequestContext, request: IncrementalAlterConfigsRequest, error: ApiError
) -> IncrementalAlterConfigsResponse:
    """The error at every resource."""
    return _response(context, request, {key_of(each): error for each in request.resources})


def _response(
    context: RequestContext, request: IncrementalAlterConfigsRequest, outcomes: Outcomes
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        throttle_time_ms=context.throttle_time_ms,
        responses=[row(Row, each, outcomes[key_of(each)]) for each in request.resources],
    )


def _checked(resource: Resource) -> list[Alteration]:
    deleted = frozenset(each.name for each in resource.configs if each.config_operation == Operation.DELETE)
    check_names_and_values([(each.name, each.value) for each in resource.configs], deleted)
    known = (RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP)
    if resource.resource_type not in known:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    return [Alteration(each.name, each.config_operation, each.value) for each in resource.configs]
