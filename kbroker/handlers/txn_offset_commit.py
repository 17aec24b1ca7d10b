"""TxnOffsetCommit: offsets that count once the producer's transaction commits (KIP-98, KIP-447, KIP-890).

What does not exist is refused first, as in OffsetCommit. Then the group's partition of ``__consumer_offsets`` must be
in the transaction: up to version 4 the producer has added it (AddOffsetsToTxn), from 5 on it joins by this request.
The rest is the group coordinator's.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable

from kbroker.coordinator.transaction_coordinator import Admission
from kbroker.handlers.add_offsets_to_txn import offsets_partition
from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kbroker.types import TopicPartition

ABORTABLE_SINCE = 4
ADDS_SINCE = 5
TOPIC_IDS_SINCE = 6

_Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
_TopicAnswer = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
_Slot = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


def handle(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Sort out what does not exist, see to it that the transaction covers the rest, commit it."""
    response = TxnOffsetCommitResponse(throttle_time_ms=context.throttle_time_ms)
    existing: list[_Topic] = []
    for topic in request.topics:
        _sort_out(context, topic, existing, response)
    if not existing:
        return response
    request.topics = existing
    if not request.group_id:
        return _merged(response, _refused(existing, ErrorCode.INVALID_GROUP_ID))
    partition = offsets_partition(context, request.group_id)
    if _is_open(context, request, partition):
        return _commit(context, request, response)
    refused = context.node.transactions.admit(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [partition],
        _admission(context.api_version),
    )
    if inspect.isawaitable(refused):
        return _admitted_later(context, request, response, refused)
    return _go_on(context, request, response, refused)


def error_response(
    _context: RequestContext, request: TxnOffsetCommitRequest, error: ApiError
) -> TxnOffsetCommitResponse:
    """The code at every partition."""
    return _refused(request.topics, error.code)


def _admission(version: int) -> Admission:
    if version >= ADDS_SINCE:
        return Admission.ADD
    return Admission.VERIFY_ABORTABLE if version >= ABORTABLE_SINCE else Admission.VERIFY


def _is_open(context: RequestContext, request: TxnOffsetCommitRequest, name: TopicPartition) -> bool:
    """Whether the group's partition has records of this transaction already."""
    partition = context.node.replicas.get(*name)
    if partition is None or partition.log is None:
        return False
    return partition.log.has_open_transaction(request.producer_id, request.producer_epoch)


def _go_on(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    response: TxnOffsetCommitResponse,
    refused: dict[TopicPartition, ApiError],
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    for error in refused.values():
        return _merged(response, _refused(request.topics, _answered(error.code)))
    return _commit(context, request, response)


def _answered(code: ErrorCode) -> ErrorCode:
    """What could not be verified is the coordinator's trouble."""
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.NOT_ENOUGH_REPLICAS else code


def _commit(
    context: RequestContext, request: TxnOffsetCommitRequest, response: TxnOffsetCommitResponse
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    try:
        reply = context.node.groups.commit_in_transaction(request, context.api_version)
    except ApiError as error:
        return _merged(response, _refused(request.topics, error.code))
    if inspect.isawaitable(reply):
        return _committed_later(request, response, reply)
    return _merged(response, reply)


async def _admitted_later(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    response: TxnOffsetCommitResponse,
    refused: Awaitable[dict[TopicPartition, ApiError]],
) -> TxnOffsetCommitResponse:
    answer = _go_on(context, request, response, await refused)
    return await answer if inspect.isawaitable(answer) else answer


async def _committed_later(
    request: TxnOffsetCommitRequest, response: TxnOffsetCommitResponse, reply: Awaitable[TxnOffsetCommitResponse]
) -> TxnOffsetCommitResponse:
    try:
        return _merged(response, await reply)
    except ApiError as error:
        return _merged(response, _refused(request.topics, error.code))


def _sort_out(
    context: RequestContext, topic: _Topic, existing: list[_Topic], response: TxnOffsetCommitResponse
) -> None:
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


def _add(response: TxnOffsetCommitResponse, answer: _TopicAnswer) -> None:
    """A topic stands once in an answer, however often it was named."""
    for topic in response.topics:
        if (topic.name, topic.topic_id) == (answer.name, answer.topic_id):
            topic.partitions += answer.partitions
            return
    response.topics.append(answer)


def _refused(topics: list[_Topic], code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=[_refused_topic(topic, code) for topic in topics])


def _refused_topic(topic: _Topic, code: ErrorCode) -> _TopicAnswer:
    slots = [_Slot(partition_index=each.partition_index, error_code=code) for each in topic.partitions]
    return _TopicAnswer(name=topic.name, topic_id=topic.topic_id, partitions=slots)


def _merged(response: TxnOffsetCommitResponse, reply: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    """The coordinator's answer behind what was refused; a topic stands once."""
    if not response.topics:
        return reply
    for topic in reply.topics:
        _add(response, topic)
    return response
