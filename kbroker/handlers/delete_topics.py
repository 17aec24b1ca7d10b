"""DeleteTopics by name or, from version 6 on, by id (KIP-516)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.handlers.deadline import check_deadline
from kbroker.kraft.image import MetadataImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kbroker.replies import Reply, then
from kbroker.types import ZERO_UUID, Uuid

Result = DeleteTopicsResponse.DeletableTopicResult


def handle(context: RequestContext, request: DeleteTopicsRequest) -> Reply[DeleteTopicsResponse]:
    """Delete what is named once and exists."""
    if not context.node.quorum.effective_config.boolean("delete.topic.enable"):
        if context.api_version < 3:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
    selection = _Selection(request, context.node.quorum.image)
    if selection.asks_controller:
        check_deadline(request.timeout_ms)
    if not selection.wanted:
        return DeleteTopicsResponse(throttle_time_ms=context.throttle_time_ms, responses=selection.refused)

    def answer(deleted: dict[Uuid, ApiError | None]) -> DeleteTopicsResponse:
        results = [_result(selection.wanted[topic_id], topic_id, error) for topic_id, error in deleted.items()]
        return DeleteTopicsResponse(throttle_time_ms=context.throttle_time_ms, responses=[*selection.refused, *results])

    return then(context.node.quorum.delete_topics(list(selection.wanted)), answer)


def error_response(context: RequestContext, request: DeleteTopicsRequest, error: ApiError) -> DeleteTopicsResponse:
    """The error at every topic that was named."""
    topics: list[tuple[str | None, Uuid]] = [(name, ZERO_UUID) for name in request.topic_names]
    topics += [(each.name, each.topic_id) for each in request.topics if each.name is not None or each.topic_id]
    return DeleteTopicsResponse(
        throttle_time_ms=context.throttle_time_ms,
        responses=[_result(name, topic_id, error) for name, topic_id in topics],
    )


def _result(name: str | None, topic_id: Uuid, error: ApiError | None) -> Result:
    if error is None:
        return Result(name=name, topic_id=topic_id)
    return Result(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)


class _Selection:
    """Which topics the request names: ``wanted`` by id with their names, and the answers of what cannot be deleted."""

    def __init__(self, request: DeleteTopicsRequest, image: MetadataImage) -> None:
        self.wanted: dict[Uuid, str | None] = {}
        self.refused: list[Result] = []
        names: dict[str, int] = {}
        ids: dict[Uuid, int] = {}
        for name in request.topic_names:
            names[name] = names.get(name, 0) + 1
        for topic in request.topics:
            if topic.name is None:
                if topic.topic_id == ZERO_UUID:
                    self._refuse(None, ZERO_UUID, "Neither topic name nor id were specified.")
                else:
                    ids[topic.topic_id] = ids.get(topic.topic_id, 0) + 1
            elif topic.topic_id == ZERO_UUID:
                names[topic.name] = names.get(topic.name, 0) + 1
            else:
                self._refuse(topic.name, topic.topic_id, "You may not specify both topic name and topic id.")
        for name, count in names.items():
            if count > 1:
                self._refuse(name, ZERO_UUID, "Duplicate topic name.")
        for topic_id, count in ids.items():
            if count > 1:
                self._refuse(None, topic_id, "Duplicate topic id.")
        single_ids = [each for each in ids if ids[each] == 1]
        single_names = [each for each in names if names[each] == 1]
        self.asks_controller = bool(single_ids or single_names)
        self._resolve(single_ids, single_names, ids, image)

    def _refuse(self, name: str | None, topic_id: Uuid, message: str) -> None:
        self.refused.append(_result(name, topic_id, ApiError(ErrorCode.INVALID_REQUEST, message)))

    def _resolve(self, ids: list[Uuid], names: list[str], seen: dict[Uuid, int], image: MetadataImage) -> None:
        for topic_id in ids:
            known = image.topics.by_id.get(topic_id)
            if known is None:
                unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
                self.refused.append(_result(None, topic_id, unknown))
            else:
                self.wanted[topic_id] = known.name
        for name in names:
            topic = image.topics.by_name.get(name)
            if topic is None:
                missing = ApiError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
                )
                self.refused.append(_result(name, ZERO_UUID, missing))
            elif topic.id in seen:
                self.wanted.pop(topic.id, None)
                self._refuse(name, topic.id, "The provided topic name maps to an ID that was already supplied.")
            else:
                self.wanted[topic.id] = name
