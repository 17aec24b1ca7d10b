"""OffsetDelete: a group forgets offsets of topics that it does not read (KIP-496)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kbroker.replies import Reply, then

_TopicAnswer = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Slot = OffsetDeleteResponse.OffsetDeleteResponsePartition


def handle(context: RequestContext, request: OffsetDeleteRequest) -> Reply[OffsetDeleteResponse]:
    """Sort out what does not exist, which then stands first in the answer, and ask the coordinator for the rest."""
    by_name = context.node.quorum.image.topics.by_name
    missing: dict[str, _TopicAnswer] = {}
    existing = []
    for topic in request.topics:
        known = by_name.get(topic.name)
        if known is None:
            missing.setdefault(topic.name, _TopicAnswer(name=topic.name))
        there = []
        for each in topic.partitions:
            if known is not None and each.partition_index in known.partitions:
                there.append(each)
                continue
            slot = _Slot(partition_index=each.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            missing.setdefault(topic.name, _TopicAnswer(name=topic.name)).partitions.append(slot)
        if there:
            topic.partitions = there
            existing.append(topic)
    request.topics = existing

    def answer(reply: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if not missing:
            return reply
        for topic in reply.topics:
            missing.setdefault(topic.name, _TopicAnswer(name=topic.name)).partitions.extend(topic.partitions)
        return OffsetDeleteResponse(topics=list(missing.values()))

    return then(context.node.groups.delete_offsets(request), answer)


def error_response(_context: RequestContext, _request: OffsetDeleteRequest, error: ApiError) -> OffsetDeleteResponse:
    """The code, and nothing else."""
    return OffsetDeleteResponse(error_code=error.code)
