"""CreatePartitions: names once; the rest is the controller's."""

from __future__ import annotations

from kbroker.config.java_maps import in_map_order
from kbroker.handlers.context import RequestContext
from kbroker.handlers.deadline import check_deadline
from kbroker.kraft.controller.new_partitions import create_partitions
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kbroker.replies import Reply, then

Result = CreatePartitionsResponse.CreatePartitionsTopicResult


def handle(context: RequestContext, request: CreatePartitionsRequest) -> Reply[CreatePartitionsResponse]:
    """Let topics grow; with ``validate_only`` say what would come of it."""
    counts: dict[str, int] = {}
    for topic in request.topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    refused = [
        Result(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    ]
    once = {each.name: each for each in request.topics if counts[each.name] == 1}
    wanted = [once[name] for name in in_map_order(once)]
    if wanted:
        check_deadline(request.timeout_ms)
    grown = context.node.quorum.decide(
        lambda image, _: create_partitions(image, wanted, context.node.host.random), validate_only=request.validate_only
    )
    return then(
        grown,
        lambda results: CreatePartitionsResponse(
            throttle_time_ms=context.throttle_time_ms, results=[*refused, *results]
        ),
    )


def error_response(
    context: RequestContext, request: CreatePartitionsRequest, error: ApiError
) -> CreatePartitionsResponse:
    """The error at every topic, as often as it is named."""
    return CreatePartitionsResponse(
        throttle_time_ms=context.throttle_time_ms,
        results=[Result(name=each.name, error_code=error.code, error_message=error.message) for each in request.topics],
    )
