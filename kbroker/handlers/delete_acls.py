"""DeleteAcls as a broker without an authorizer answers it."""

from __future__ import annotations

from kbroker.handlers.context import ConnectionMustCloseError, RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse


def handle(_context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Kafka cannot read a filter with a type of 0, "unknown", and hangs up."""
    for each in request.filters:
        if 0 in (each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type):
            raise ConnectionMustCloseError("its DeleteAcls request has an unknown type")
    raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def error_response(context: RequestContext, request: DeleteAclsRequest, error: ApiError) -> DeleteAclsResponse:
    """The error at every filter."""
    return DeleteAclsResponse(
        throttle_time_ms=context.throttle_time_ms,
        filter_results=[
            DeleteAclsResponse.DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
            for _ in request.filters
        ],
    )
