"""SaslAuthenticate of a listener without SASL: whoever can ask counts as authenticated (KIP-152)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(_context: RequestContext, _request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


def error_response(
    _context: RequestContext, _request: SaslAuthenticateRequest, error: ApiError
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
