"""AlterConfigs, the old way: the values given replace all that were set on the resource."""

from __future__ import annotations

from kbroker.handlers.config_alterations import Outcomes, alter, check_broker, check_names_and_values, key_of, row
from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.configs import legacy_alter_configs
from kbroker.kraft.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kbroker.replies import Reply

Resource = AlterConfigsRequest.AlterConfigsResource
Row = AlterConfigsResponse.AlterConfigsResourceResponse


def handle(context: RequestContext, request: AlterConfigsRequest) -> Reply[AlterConfigsResponse]:
    """Alter each resource whole or not at all."""
    return alter(
        request.resources,
        lambda resource: _checked(context, resource),
        lambda wanted: context.node.quorum.decide(
            lambda image, config: legacy_alter_configs(image, wanted, config), validate_only=request.validate_only
        ),
        lambda outcomes: _response(context, request, outcomes),
    )


def error_response(context: RequestContext, request: AlterConfigsRequest, error: ApiError) -> AlterConfigsResponse:
    """The error at every resource."""
    return _response(context, request, {key_of(each): error for each in request.resources})


def _response(context: RequestContext, request: AlterConfigsRequest, outcomes: Outcomes) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        throttle_time_ms=context.throttle_time_ms,
        responses=[row(Row, each, outcomes[key_of(each)]) for each in request.resources],
    )


def _checked(context: RequestContext, resource: Resource) -> dict[str, str]:
    check_names_and_values([(each.name, each.value) for each in resource.configs])
    values = {each.name: each.value or "" for each in resource.configs}
    if resource.resource_type == RESOURCE_BROKER:
        check_broker(context, resource.resource_name, values)
    elif resource.resource_type not in (RESOURCE_TOPIC, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    return values
