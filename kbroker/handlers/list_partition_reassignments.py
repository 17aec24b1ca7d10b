"""ListPartitionReassignments (KIP-455): what is on its way to other brokers."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.reassignments import list_partition_reassignments
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(context: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """All that is in progress (None), or of the partitions named."""
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=context.throttle_time_ms,
        error_message=None,
        topics=list_partition_reassignments(context.node.quorum.image, request.topics),
    )


def error_response(
    context: RequestContext, _request: ListPartitionReassignmentsRequest, error: ApiError
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=error.code, error_message=error.message
    )
