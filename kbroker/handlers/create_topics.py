"""CreateTopics: names once, none that is forbidden; the rest is the controller's."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.handlers.deadline import check_deadline
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.replies import Reply, then
from kbroker.types import METADATA_TOPIC

Result = CreateTopicsResponse.CreatableTopicResult


def handle(context: RequestContext, request: CreateTopicsRequest) -> Reply[CreateTopicsResponse]:
    """Create the topics; with ``validate_only`` say what would come of it."""
    counts: dict[str, int] = {}
    for topic in request.topics:
        counts[topic.name] = counts.get(topic.name, 0) + 1
    wanted = [each for each in request.topics if counts[each.name] == 1 and each.name != METADATA_TOPIC]
    if wanted:
        check_deadline(request.timeout_ms)
    refused = [
        Result(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name.", configs=[])
        for name, count in counts.items()
        if count > 1
    ]
    if counts.get(METADATA_TOPIC) == 1:
        message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        refused.append(
            Result(name=METADATA_TOPIC, error_code=ErrorCode.INVALID_REQUEST, error_message=message, configs=[])
        )
    created = context.node.quorum.create_topics(wanted, validate_only=request.validate_only)
    return then(
        created,
        lambda results: CreateTopicsResponse(throttle_time_ms=context.throttle_time_ms, topics=[*results, *refused]),
    )


def error_response(context: RequestContext, request: CreateTopicsRequest, error: ApiError) -> CreateTopicsResponse:
    """The error at every topic, as often as it is named."""
    return CreateTopicsResponse(
        throttle_time_ms=context.throttle_time_ms,
        topics=[
            Result(name=each.name, error_code=error.code, error_message=error.message, configs=[])
            for each in request.topics
        ],
    )
