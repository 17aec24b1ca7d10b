"""AlterConfigs, the old way: the values given replace all that were set on the resource."""

from __future__ import annotations

from collections.abc import Awaitable

from kbroker.handlers.config_alterations import check_broker, check_names_and_values, check_once
from kbroker.handlers.context import RequestContext
from kbroker.handlers.replies import then
from kbroker.kraft.controller.configs import legacy_alter_configs
from kbroker.kraft.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigResource,
)
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

Resource = AlterConfigsRequest.AlterConfigsResource
ResourceResponse = AlterConfigsResponse.AlterConfigsResourceResponse


def handle(
    context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse | Awaitable[AlterConfigsResponse]:
    """Alter each resource whole or not at all."""
    refused = check_once([(each.resource_type, each.resource_name) for each in request.resources])
    done: dict[ConfigResource, ApiError | None] = dict(refused)
    wanted: dict[ConfigResource, dict[str, str]] = {}
    for resource in request.resources:
        key = (resource.resource_type, resource.resource_name)
        if key in refused:
            continue
        try:
            wanted[key] = _checked(context, resource)
        except ApiError as error:
            done[key] = error

    def answer(results: dict[ConfigResource, ApiError | None]) -> AlterConfigsResponse:
        outcome = {**results, **done}
        return AlterConfigsResponse(
            throttle_time_ms=context.throttle_time_ms,
            responses=[_response(each, outcome[each.resource_type, each.resource_name]) for each in request.resources],
        )

    if not wanted:
        return answer({})
    altered = context.node.quorum.decide(
        lambda image, config: legacy_alter_configs(image, wanted, config), validate_only=request.validate_only
    )
    return then(altered, answer)


def error_response(context: RequestContext, request: AlterConfigsRequest, error: ApiError) -> AlterConfigsResponse:
    """The error at every resource."""
    return AlterConfigsResponse(
        throttle_time_ms=context.throttle_time_ms, responses=[_response(each, error) for each in request.resources]
    )


def _response(resource: Resource, error: ApiError | None) -> ResourceResponse:
    return ResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _checked(context: RequestContext, resource: Resource) -> dict[str, str]:
    check_names_and_values([(each.name, each.value) for each in resource.configs])
    values = {each.name: each.value or "" for each in resource.configs}
    if resource.resource_type == RESOURCE_BROKER:
        check_broker(context, resource.resource_name, values)
    elif resource.resource_type not in (RESOURCE_TOPIC, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.resource_type}")
    return values
