"""RenewDelegationToken on a connection that did not authenticate: nobody may have a token there (KIP-48)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

_NO_TIME = -1


def handle(_context: RequestContext, _request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def error_response(
    context: RequestContext, _request: RenewDelegationTokenRequest, error: ApiError
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=error.code, expiry_timestamp_ms=_NO_TIME
    )
