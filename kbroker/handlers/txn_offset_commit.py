"""TxnOffsetCommit: offsets that count once the producer's transaction commits (KIP-98, KIP-447, KIP-890).

What does not exist is refused first, as in OffsetCommit. Then the group's partition of ``__consumer_offsets`` must be
in the transaction: up to version 4 the producer has added it (AddOffsetsToTxn), from 5 on it joins by this request.
The rest is the group coordinator's.
"""

from __future__ import annotations

from kbroker.coordinator.transaction_coordinator import Admission
from kbroker.handlers.add_offsets_to_txn import offsets_partition
from kbroker.handlers.commit_parts import CommitParts, Form
from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kbroker.replies import Reply, then
from kbroker.types import TopicPartition

ABORTABLE_SINCE = 4
ADDS_SINCE = 5

_Topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
_Parts = CommitParts[_Topic, TxnOffsetCommitResponse]
_FORM = Form(
    topic=_Topic,
    response=TxnOffsetCommitResponse,
    topic_answer=TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic,
    slot=TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition,
    topic_ids_since=6,
)


def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> Reply[TxnOffsetCommitResponse]:
    """Sort out what does not exist, see to it that the transaction covers the rest, commit it."""
    parts: _Parts = CommitParts(_FORM, context, request.topics)
    if not parts.existing:
        return parts.response
    request.topics = parts.existing
    if not request.group_id:
        return parts.refuse(ErrorCode.INVALID_GROUP_ID)
    partition = offsets_partition(context, request.group_id)
    try:
        is_open = _is_open(context, request, partition)
    except ApiError as error:
        return parts.refuse(error.code)
    if is_open:
        return _commit(context, request, parts)
    refused = context.node.transactions.admit(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [partition],
        Admission.of(context.api_version, abortable_since=ABORTABLE_SINCE, adds_since=ADDS_SINCE),
    )
    return then(refused, lambda errors: _go_on(context, request, parts, errors))


def error_response(
    _context: RequestContext, request: TxnOffsetCommitRequest, error: ApiError
) -> TxnOffsetCommitResponse:
    """The code at every partition."""
    return _FORM.refused(request.topics, error.code)


def _is_open(context: RequestContext, request: TxnOffsetCommitRequest, name: TopicPartition) -> bool:
    """Whether the group's partition has records of this transaction already. Raises ``ApiError``: a later epoch."""
    partition = context.node.replicas.get(*name)
    if partition is None or partition.log is None:
        return False
    return partition.log.producers.has_open_transaction(request.producer_id, request.producer_epoch)


def _go_on(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    parts: _Parts,
    refused: dict[TopicPartition, ApiError],
) -> Reply[TxnOffsetCommitResponse]:
    for error in refused.values():
        return parts.refuse(error.code)
    return _commit(context, request, parts)


def _commit(context: RequestContext, request: TxnOffsetCommitRequest, parts: _Parts) -> Reply[TxnOffsetCommitResponse]:
    return parts.answered(lambda: context.node.groups.commit_in_transaction(request, context.api_version))
