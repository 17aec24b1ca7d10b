"""ListConfigResources (KIP-1142; ListClientMetricsResources of KIP-714 in version 0)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.kraft.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

Resource = ListConfigResourcesResponse.ConfigResource
_LISTABLE = (RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP)


def handle(context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """What has, or by its nature may be asked for, a configuration; every type when none is named."""
    if context.api_version == 0:
        kinds = [RESOURCE_CLIENT_METRICS]
    else:
        kinds = list(dict.fromkeys(request.resource_types)) or list(_LISTABLE)
    if any(each not in _LISTABLE for each in kinds):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    image = context.node.quorum.image
    resources = []
    for kind in kinds:
        if kind == RESOURCE_TOPIC:
            names = list(image.topics.by_name)
        elif kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER):
            names = [str(each.id) for each in image.cluster.unfenced()]
        else:
            names = [name for resource_type, name in image.configs.by_resource if resource_type == kind]
        resources += [Resource(resource_type=kind, resource_name=name) for name in names]
    return ListConfigResourcesResponse(throttle_time_ms=context.throttle_time_ms, config_resources=resources)


def error_response(
    context: RequestContext, _request: ListConfigResourcesRequest, error: ApiError
) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(throttle_time_ms=context.throttle_time_ms, error_code=error.code)
