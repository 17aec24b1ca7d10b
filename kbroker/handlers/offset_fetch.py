"""OffsetFetch: what groups have committed; one group up to version 7, many since (KIP-709), topic ids since 10.

An error of a group stands at its top from version 2 on, and at each of its partitions before.
"""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.replies import Reply, then, together
from kbroker.types import ZERO_UUID

TOP_LEVEL_ERROR_SINCE = 2
BATCHED_SINCE = 8
TOPIC_IDS_SINCE = 10

_Group = OffsetFetchRequest.OffsetFetchRequestGroup
_Topic = OffsetFetchRequest.OffsetFetchRequestTopics
_GroupAnswer = OffsetFetchResponse.OffsetFetchResponseGroup
_TopicAnswer = OffsetFetchResponse.OffsetFetchResponseTopics
_Slot = OffsetFetchResponse.OffsetFetchResponsePartitions


def handle(context: RequestContext, request: OffsetFetchRequest) -> Reply[OffsetFetchResponse]:
    """Ask the coordinator for each group by itself."""
    if context.api_version >= BATCHED_SINCE:
        replies = [_fetch(context, group, require_stable=request.require_stable) for group in request.groups]
        return then(together(replies), lambda groups: OffsetFetchResponse(groups=groups))
    reply = _fetch(context, _only_group(request), require_stable=request.require_stable)
    return then(reply, lambda answer: _single(context, request, answer))


def error_response(context: RequestContext, request: OffsetFetchRequest, error: ApiError) -> OffsetFetchResponse:
    """The code at every group, or wherever the version has a place for it."""
    if context.api_version >= BATCHED_SINCE:
        return OffsetFetchResponse(
            groups=[_GroupAnswer(group_id=group.group_id, error_code=error.code) for group in request.groups]
        )
    return _single(context, request, _GroupAnswer(error_code=error.code))


def _only_group(request: OffsetFetchRequest) -> _Group:
    topics = None
    if request.topics is not None:
        topics = [_Topic(name=each.name, partition_indexes=each.partition_indexes) for each in request.topics]
    return _Group(group_id=request.group_id, topics=topics)


def _fetch(context: RequestContext, group: _Group, *, require_stable: bool) -> Reply[_GroupAnswer]:
    """One group's answer. Here is the place where topics that the client may not see would be left out."""
    unknown: list[_TopicAnswer] = []
    if context.api_version >= TOPIC_IDS_SINCE and group.topics is not None:
        group.topics = _named(context, group.topics, unknown)
    try:
        reply = context.node.groups.fetch_offsets(group, require_stable=require_stable)
    except ApiError as error:
        return _GroupAnswer(group_id=group.group_id, error_code=error.code)
    if context.api_version < TOPIC_IDS_SINCE:
        return reply
    return then(reply, lambda answer: _with_ids(context, answer, unknown))


def _named(context: RequestContext, topics: list[_Topic], unknown: list[_TopicAnswer]) -> list[_Topic]:
    """Topics by their names; what no topic has the id of is answered at once."""
    by_id = context.node.quorum.image.topics.by_id
    named = []
    for topic in topics:
        known = by_id.get(topic.topic_id)
        if known is not None:
            topic.name = known.name
            named.append(topic)
            continue
        slots = [
            _Slot(partition_index=index, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
            for index in topic.partition_indexes
        ]
        unknown.append(_TopicAnswer(topic_id=topic.topic_id, partitions=slots))
    return named


def _with_ids(context: RequestContext, answer: _GroupAnswer, unknown: list[_TopicAnswer]) -> _GroupAnswer:
    by_name = context.node.quorum.image.topics.by_name
    for topic in answer.topics:
        known = by_name.get(topic.name)
        topic.topic_id = ZERO_UUID if known is None else known.id
    answer.topics = [topic for topic in answer.topics if topic.topic_id != ZERO_UUID] + unknown
    return answer


def _single(context: RequestContext, request: OffsetFetchRequest, answer: _GroupAnswer) -> OffsetFetchResponse:
    """The answer in its form before version 8."""
    code = answer.error_code
    if code != ErrorCode.NONE and context.api_version < TOP_LEVEL_ERROR_SINCE:
        answer.topics = [
            _TopicAnswer(
                name=topic.name,
                partitions=[
                    _Slot(partition_index=index, committed_offset=-1, error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    return OffsetFetchResponse(
        error_code=code,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartition(
                        partition_index=slot.partition_index,
                        committed_offset=slot.committed_offset,
                        committed_leader_epoch=slot.committed_leader_epoch,
                        metadata=slot.metadata,
                        error_code=slot.error_code,
                    )
                    for slot in topic.partitions
                ],
            )
            for topic in answer.topics
        ],
    )
