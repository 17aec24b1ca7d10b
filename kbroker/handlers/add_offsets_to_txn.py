"""AddOffsetsToTxn: the partition of ``__consumer_offsets`` that holds a group joins a transaction (KIP-98)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.handlers.transaction_replies import older_code
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kbroker.replies import Reply, then
from kbroker.types import GROUP_METADATA_TOPIC, TopicPartition

_FENCED_SINCE = 2


def handle(context: RequestContext, request: AddOffsetsToTxnRequest) -> Reply[AddOffsetsToTxnResponse]:
    """Let the group's partition join."""
    reply = context.node.transactions.add(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [offsets_partition(context, request.group_id)],
        0,
    )
    return then(reply, lambda code: _answer(context, code))


def error_response(
    context: RequestContext, _request: AddOffsetsToTxnRequest, error: ApiError
) -> AddOffsetsToTxnResponse:
    """The code."""
    return _answer(context, error.code)


def _answer(context: RequestContext, code: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=older_code(context, code, _FENCED_SINCE)
    )


def offsets_partition(context: RequestContext, group_id: str) -> TopicPartition:
    """Where a group's offsets are, or will be once the topic is made."""
    return TopicPartition(GROUP_METADATA_TOPIC, context.node.groups.partition_of(group_id))
