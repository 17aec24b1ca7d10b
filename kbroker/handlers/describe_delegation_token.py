"""DescribeDelegationToken on a connection that did not authenticate: nobody may have a token there (KIP-48)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(_context: RequestContext, _request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def error_response(
    context: RequestContext, _request: DescribeDelegationTokenRequest, error: ApiError
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(throttle_time_ms=context.throttle_time_ms, error_code=error.code)
