"""DescribeTransactions: the state of single transactional ids (KIP-664)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from kbroker.replies import Reply, then, together

_State = DescribeTransactionsResponse.TransactionState


def handle(context: RequestContext, request: DescribeTransactionsRequest) -> Reply[DescribeTransactionsResponse]:
    """Each id, in the request's order."""
    described = together([context.node.transactions.describe(each) for each in request.transactional_ids])
    return then(
        described,
        lambda states: DescribeTransactionsResponse(
            throttle_time_ms=context.throttle_time_ms, transaction_states=states
        ),
    )


def error_response(
    context: RequestContext, request: DescribeTransactionsRequest, error: ApiError
) -> DescribeTransactionsResponse:
    """The code at every id."""
    return DescribeTransactionsResponse(
        throttle_time_ms=context.throttle_time_ms,
        transaction_states=[_State(transactional_id=each, error_code=error.code) for each in request.transactional_ids],
    )
