"""ElectLeaders (KIP-460): preferred leaders, or any when no eligible one is left."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.handlers.deadline import check_deadline
from kbroker.kraft.controller.elections import PartitionResult, Result, elect_leaders
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kbroker.replies import Reply, then


def handle(context: RequestContext, request: ElectLeadersRequest) -> Reply[ElectLeadersResponse]:
    """Elect; each partition by itself."""
    if request.topic_partitions is None or request.topic_partitions:
        check_deadline(request.timeout_ms)
    elected = context.node.quorum.decide(lambda image, config: elect_leaders(image, request, config))
    return then(
        elected,
        lambda results: ElectLeadersResponse(
            throttle_time_ms=context.throttle_time_ms, replica_election_results=results
        ),
    )


def error_response(context: RequestContext, request: ElectLeadersRequest, error: ApiError) -> ElectLeadersResponse:
    """The error at every partition and, where the version has a place for it, for the whole."""
    response = ElectLeadersResponse(
        throttle_time_ms=context.throttle_time_ms,
        replica_election_results=[
            Result(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=number, error_code=error.code, error_message=error.message)
                    for number in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )
    if context.api_version > 0:
        response.error_code = error.code
    return response
