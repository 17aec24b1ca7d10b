"""SaslHandshake of a listener without SASL: it comes in a state in which nobody may authenticate any more (KIP-152)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_context: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """There are no mechanisms to choose from."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def error_response(_context: RequestContext, _request: SaslHandshakeRequest, error: ApiError) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=error.code)
