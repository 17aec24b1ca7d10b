"""CreateAcls as a broker without an authorizer answers it."""

from __future__ import annotations

from kbroker.handlers.context import ConnectionMustCloseError, RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse


def handle(_context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Kafka cannot read an ACL with a type of 0, "unknown", and hangs up."""
    for each in request.creations:
        if 0 in (each.resource_type, each.resource_pattern_type, each.operation, each.permission_type):
            raise ConnectionMustCloseError("its CreateAcls request has an unknown type")
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
