"""DescribeGroups: state, protocol and members of classic groups."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kbroker.replies import Reply, then, together, unless_refused

ALL_GROUP_OPERATIONS = 0b1101_0100_1000
"""Read, delete, describe, describe and alter configs: the bits of ``AclOperation`` codes."""

Described = DescribeGroupsResponse.DescribedGroup


def handle(context: RequestContext, request: DescribeGroupsRequest) -> Reply[DescribeGroupsResponse]:
    """Each group by itself: one that is coordinated elsewhere does not spoil the others."""
    request.groups = context.node.groups.in_order_of_answers(request.groups)
    described = together([_describe(context, group_id) for group_id in request.groups])
    return then(described, lambda groups: _answer(request, groups))


def error_response(_context: RequestContext, request: DescribeGroupsRequest, error: ApiError) -> DescribeGroupsResponse:
    """The code at every group."""
    return DescribeGroupsResponse(groups=[_failed(group_id, error) for group_id in request.groups])


def _describe(context: RequestContext, group_id: str) -> Reply[Described]:
    return unless_refused(
        lambda: context.node.groups.describe(group_id, context.api_version), lambda error: _failed(group_id, error)
    )


def _failed(group_id: str, error: ApiError) -> Described:
    return Described(group_id=group_id, error_code=error.code)


def _answer(request: DescribeGroupsRequest, groups: list[Described]) -> DescribeGroupsResponse:
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)
