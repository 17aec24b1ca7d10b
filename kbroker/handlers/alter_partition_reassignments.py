"""AlterPartitionReassignments (KIP-455): which brokers hold a partition."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.handlers.deadline import check_deadline
from kbroker.kraft.controller.reassignments import PartitionResult, TopicResult, alter_partition_reassignments
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kbroker.replies import Reply, then


def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Reply[AlterPartitionReassignmentsResponse]:
    """Begin, change or cancel; each partition by itself."""
    if not request.topics:
        return AlterPartitionReassignmentsResponse(throttle_time_ms=context.throttle_time_ms)
    check_deadline(request.timeout_ms)
    altered = context.node.quorum.decide(lambda image, config: alter_partition_reassignments(image, request, config))
    return then(
        altered,
        lambda results: AlterPartitionReassignmentsResponse(
            throttle_time_ms=context.throttle_time_ms,
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None,
            responses=results,
        ),
    )


def error_response(
    context: RequestContext, request: AlterPartitionReassignmentsRequest, error: ApiError
) -> AlterPartitionReassignmentsResponse:
    """The error for the whole and at every partition."""
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=context.throttle_time_ms,
        error_code=error.code,
        error_message=error.message,
        responses=[
            TopicResult(
                name=topic.name,
                partitions=[
                    PartitionResult(
                        partition_index=each.partition_index, error_code=error.code, error_message=error.message
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
