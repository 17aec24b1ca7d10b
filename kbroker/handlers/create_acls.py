"""CreateAcls as a broker without an authorizer answers it."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse


def handle(_context: RequestContext, _request: CreateAclsRequest) -> CreateAclsResponse:
    raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def error_response(context: RequestContext, request: CreateAclsRequest, error: ApiError) -> CreateAclsResponse:
    """The error at every ACL."""
    return CreateAclsResponse(
        throttle_time_ms=context.throttle_time_ms,
        results=[
            CreateAclsResponse.AclCreationResult(error_code=error.code, error_message=error.message)
            for _ in request.creations
        ],
    )
