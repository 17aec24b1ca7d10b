"""DescribeCluster (KIP-700): cluster id, brokers, who takes the controller's requests."""

from __future__ import annotations

from typing import Final

from kbroker.handlers.cluster_view import ALL_CLUSTER_OPERATIONS, ClusterView
from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

BROKER_ENDPOINT: Final = 1
CONTROLLER_ENDPOINT: Final = 2


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the cluster as the listener sees it; fenced brokers only where they were asked for."""
    if request.endpoint_type not in (BROKER_ENDPOINT, CONTROLLER_ENDPOINT):
        raise ApiError(
            _code(context, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE), f"Unsupported endpoint type {request.endpoint_type}"
        )
    if request.endpoint_type != BROKER_ENDPOINT:
        raise ApiError(
            _code(context, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    quorum = context.node.quorum
    view = ClusterView(quorum.image.cluster, context.listener)
    shown = view.registered if request.include_fenced_brokers else view.live.values()
    response = DescribeClusterResponse(
        throttle_time_ms=context.throttle_time_ms,
        endpoint_type=BROKER_ENDPOINT,
        cluster_id=context.node.cluster_id,
        controller_id=view.controller(quorum.leader_id),
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=broker.id,
                host=context.connection.told_host(endpoint.host),
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker, endpoint in shown
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response


def error_response(
    context: RequestContext, _request: DescribeClusterRequest, error: ApiError
) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=error.code, error_message=error.message
    )


def _code(context: RequestContext, code: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_REQUEST if context.api_version == 0 else code
