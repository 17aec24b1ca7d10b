"""OffsetCommit: offsets of partitions that exist, by topic name or, from version 10 on, by topic id (KIP-848).

What does not exist is refused here and stands first in the answer, as in Kafka's; the rest is the coordinator's.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable

from kbroker.groups.membership import Client
from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

TOPIC_IDS_SINCE = 10

_Topic = OffsetCommitRequest.OffsetCommitRequestTopic
_TopicAnswer = OffsetCommitResponse.OffsetCommitResponseTopic
_Slot = OffsetCommitResponse.OffsetCommitResponsePartition


def handle(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Sort out what does not exist, commit the rest."""
    response = OffsetCommitResponse()
    existing: list[_Topic] = []
    for topic in request.topics:
        _sort_out(context, topic, existing, response)
    if not existing:
        return response
    request.topics = existing
    client = Client(context.client_id or "", f"/{context.client_host}", context.api_version)
    try:
        reply = context.node.groups.commit(client, request)
    except ApiError as error:
        return _merged(response, _refused(existing, error.code))
    if inspect.isawaitable(reply):
        return _later(response, existing, reply)
    return _merged(response, reply)


def error_response(_context: RequestContext, request: OffsetCommitRequest, error: ApiError) -> OffsetCommitResponse:
    """The code at every partition."""
    return _refused(request.topics, error.code)


def _sort_out(context: RequestContext, topic: _Topic, existing: list[_Topic], response: OffsetCommitResponse) -> None:
    topics = context.node.quorum.image.topics
    if context.api_version >= TOPIC_IDS_SINCE:
        known = topics.by_id.get(topic.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known = topics.by_name.get(topic.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if known is None:
        _add(response, _refused_topic(topic, missing))
        return
    topic.name, topic.topic_id = known.name, known.id
    there = [each for each in topic.partitions if each.partition_index in known.partitions]
    if len(there) < len(topic.partitions):
        absent = _Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[each for each in topic.partitions if each.partition_index not in known.partitions],
        )
        _add(response, _refused_topic(absent, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if there:
        topic.partitions = there
        existing.append(topic)


def _add(response: OffsetCommitResponse, answer: _TopicAnswer) -> None:
    """A topic stands once in an answer, however often it was named."""
    for topic in response.topics:
        if (topic.name, topic.topic_id) == (answer.name, answer.topic_id):
            topic.partitions += answer.partitions
            return
    response.topics.append(answer)


def _refused(topics: list[_Topic], code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[_refused_topic(topic, code) for topic in topics])


def _refused_topic(topic: _Topic, code: ErrorCode) -> _TopicAnswer:
    slots = [_Slot(partition_index=each.partition_index, error_code=code) for each in topic.partitions]
    return _TopicAnswer(name=topic.name, topic_id=topic.topic_id, partitions=slots)


def _merged(response: OffsetCommitResponse, reply: OffsetCommitResponse) -> OffsetCommitResponse:
    """The coordinator's answer behind what was refused; a topic stands once."""
    if not response.topics:
        return reply
    for topic in reply.topics:
        _add(response, topic)
    return response


async def _later(
    response: OffsetCommitResponse, topics: list[_Topic], reply: Awaitable[OffsetCommitResponse]
) -> OffsetCommitResponse:
    try:
        return _merged(response, await reply)
    except ApiError as error:
        return _merged(response, _refused(topics, error.code))
