"""DescribeAcls as a broker without an authorizer answers it."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(_context: RequestContext, _request: DescribeAclsRequest) -> DescribeAclsResponse:
    raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


def error_response(context: RequestContext, _request: DescribeAclsRequest, error: ApiError) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=error.code, error_message=error.message
    )
