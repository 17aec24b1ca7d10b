"""ListTransactions: the transactional ids of this node, by state, producer id, duration and pattern (KIP-664)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kbroker.replies import Reply


def handle(context: RequestContext, request: ListTransactionsRequest) -> Reply[ListTransactionsResponse]:
    """Those that pass every filter."""
    return context.node.transactions.list_transactions(request)


def error_response(
    context: RequestContext, _request: ListTransactionsRequest, error: ApiError
) -> ListTransactionsResponse:
    """The code and no ids."""
    return ListTransactionsResponse(throttle_time_ms=context.throttle_time_ms, error_code=error.code)
