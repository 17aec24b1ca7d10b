"""DescribeAcls as a broker without an authorizer answers it."""

from __future__ import annotations

from kbroker.handlers.context import ConnectionMustCloseError, RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(_context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Kafka cannot read a request with a type of 0, "unknown", and hangs up."""
    if 0 in (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    ):
        raise ConnectionMustCloseError("its DescribeAcls request has an unknown type")
    raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


def error_response(context: RequestContext, _request: DescribeAclsRequest, error: ApiError) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=error.code, error_message=error.message
    )
