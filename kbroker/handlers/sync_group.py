"""SyncGroup: a member asks for its assignment, the leader brings everybody's. The answer waits for the leader."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kbroker.replies import Reply

PROTOCOL_SINCE = 5


def handle(context: RequestContext, request: SyncGroupRequest) -> Reply[SyncGroupResponse]:
    """Ask the coordinator; since version 5 a member has to say what it takes its group for (KIP-559)."""
    if context.api_version >= PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "Protocol type and name are required.")
    return context.node.groups.sync(request)


def error_response(_context: RequestContext, _request: SyncGroupRequest, error: ApiError) -> SyncGroupResponse:
    """The code, and nothing else."""
    return SyncGroupResponse(error_code=error.code)
