"""DeleteAcls as a broker without an authorizer answers it."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse


def handle(_context: RequestContext, _request: DeleteAclsRequest) -> DeleteAclsResponse:
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
