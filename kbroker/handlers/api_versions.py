"""ApiVersions: what is served, and the cluster's features. What is not in the table of handlers is not here either.

An ApiVersions request in a version that is not served is answered in version 0 by the dispatcher, before it gets here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kbroker import handlers
from kbroker.config.java_maps import copied_table, in_map_order
from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.features import KRAFT_VERSION, SUPPORTED
from kbroker.kraft.image import METADATA_VERSION
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)
_SOFTWARE_SINCE: Final = 3
_LEVEL_ZERO_SINCE: Final = 4
_DESTINATION_SINCE: Final = 5
_NO_NODE: Final = -1


def handle(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The answer may be asked for again and again on one connection; the software's name is kept with it."""
    version = context.api_version
    if version >= _SOFTWARE_SINCE:
        names = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(each) for each in names):
            raise ApiError(ErrorCode.INVALID_REQUEST)
        context.connection.client_software_name, context.connection.client_software_version = names
    if version >= _DESTINATION_SINCE:
        _check_destination(context, request)
    image = context.node.quorum.image
    return ApiVersionsResponse(
        throttle_time_ms=context.throttle_time_ms,
        api_keys=served_versions(),
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in SUPPORTED.items()
            # Older clients take a minimum of 0 for garbage (KAFKA-17011).
            if lowest > 0 or version >= _LEVEL_ZERO_SINCE
        ],
        finalized_features_epoch=image.offset,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in _in_order(_finalized(context))
        ],
    )


def _finalized(context: RequestContext) -> Mapping[str, int]:
    """The image's levels, and that of the quorum itself."""
    quorum = context.node.quorum
    levels, kraft_version = quorum.image.features, quorum.voters.kraft_version
    return {**levels, KRAFT_VERSION: kraft_version} if kraft_version else levels


def _in_order(features: Mapping[str, int]) -> list[tuple[str, int]]:
    """As Kafka's map has them: copied from another, then the metadata version put in."""
    names = sorted(features, key=lambda name: name == METADATA_VERSION)
    return [(name, features[name]) for name in in_map_order(names, copied_table(len(names) - 1))]


def error_response(context: RequestContext, _request: ApiVersionsRequest, error: ApiError) -> ApiVersionsResponse:
    """An error without any API; a client that asked for too new a version finds out what is served."""
    return ApiVersionsResponse(error_code=error.code, throttle_time_ms=context.throttle_time_ms)


def served_versions() -> list[ApiVersionsResponse.ApiVersion]:
    """A row for each API served, by key."""
    return [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=served.oldest, max_version=served.latest)
        for key, served in sorted(handlers.SERVED.items())
    ]


def _check_destination(context: RequestContext, request: ApiVersionsRequest) -> None:
    """Refuse a client that meant another cluster or node (KIP-1242): its bootstrap addresses have gone stale."""
    names_cluster, names_node = request.cluster_id is not None, request.node_id != _NO_NODE
    if names_cluster != names_node:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if names_cluster and (request.cluster_id != context.node.cluster_id or request.node_id != context.node.node_id):
        raise ApiError(ErrorCode.REBOOTSTRAP_REQUIRED)
