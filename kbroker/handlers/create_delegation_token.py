"""CreateDelegationToken on a connection that did not authenticate: nobody may have a token there (KIP-48)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

REQUESTER_SINCE = 3
_NO_TIME = -1


def handle(_context: RequestContext, _request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def error_response(
    context: RequestContext, request: CreateDelegationTokenRequest, error: ApiError
) -> CreateDelegationTokenResponse:
    """The code, whose the token would be, and who asked."""
    kind, _, name = context.principal.partition(":")
    response = CreateDelegationTokenResponse(
        throttle_time_ms=context.throttle_time_ms,
        error_code=error.code,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=_NO_TIME,
        expiry_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
    )
    if context.api_version >= REQUESTER_SINCE:
        response.token_requester_principal_type, response.token_requester_principal_name = kind, name
        if request.owner_principal_name:
            response.principal_type = request.owner_principal_type or ""
            response.principal_name = request.owner_principal_name
    return response
