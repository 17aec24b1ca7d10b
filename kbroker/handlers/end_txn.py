"""EndTxn: a producer commits or aborts. From version 5 on it is told its next epoch (KIP-890)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.handlers.transaction_replies import asker, older_code
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kbroker.replies import Reply
from kbroker.txn.transaction import BUMPING_VERSION

BUMPS_SINCE = 5
_FENCED_SINCE = 2


def handle(context: RequestContext, request: EndTxnRequest) -> Reply[EndTxnResponse]:
    """The coordinator decides; the markers are its business."""
    client_version = BUMPING_VERSION if context.api_version >= BUMPS_SINCE else 0
    return context.node.transactions.end(request, client_version, asker(context))


def error_response(context: RequestContext, _request: EndTxnRequest, error: ApiError) -> EndTxnResponse:
    """The code and no id."""
    return EndTxnResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=older_code(context, error.code, _FENCED_SINCE)
    )
