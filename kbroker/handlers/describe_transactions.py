"""DescribeTransactions: the state of single transactional ids (KIP-664)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse

_State = DescribeTransactionsResponse.TransactionState


def handle(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    """Each id, in the request's order."""
    states = [context.node.transactions.describe(each) for each in request.transactional_ids]
    if any(inspect.isawaitable(state) for state in states):
        return _later(context, states)
    return DescribeTransactionsResponse(
        throttle_time_ms=context.throttle_time_ms,
        transaction_states=[state for state in states if isinstance(state, _State)],
    )


def error_response(
    context: RequestContext, request: DescribeTransactionsRequest, error: ApiError
) -> DescribeTransactionsResponse:
    """The code at every id."""
    return DescribeTransactionsResponse(
        throttle_time_ms=context.throttle_time_ms,
        transaction_states=[_State(transactional_id=each, error_code=error.code) for each in request.transactional_ids],
    )


async def _later(context: RequestContext, states: list[_State | Awaitable[_State]]) -> DescribeTransactionsResponse:
    response = DescribeTransactionsResponse(throttle_time_ms=context.throttle_time_ms)
    for state in states:
        response.transaction_states.append(state if isinstance(state, _State) else await state)
    return response
