"""LeaveGroup: members leave, or an administrator removes static ones (KIP-345)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kbroker.replies import Reply, then

BATCHED_SINCE = 3


def handle(context: RequestContext, request: LeaveGroupRequest) -> Reply[LeaveGroupResponse]:
    """Ask the coordinator; the one member of an old request has the request's own code."""
    if context.api_version >= BATCHED_SINCE:
        return context.node.groups.leave(request)
    request.members = [LeaveGroupRequest.MemberIdentity(member_id=request.member_id)]
    request.member_id = ""
    return then(context.node.groups.leave(request), _of_one)


def error_response(_context: RequestContext, _request: LeaveGroupRequest, error: ApiError) -> LeaveGroupResponse:
    """The code, and nothing else."""
    return LeaveGroupResponse(error_code=error.code)


def _of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    if response.error_code == ErrorCode.NONE:
        response.error_code = response.members[0].error_code
    response.members = []
    return response
