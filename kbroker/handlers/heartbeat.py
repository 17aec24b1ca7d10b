"""Heartbeat: a member lives, and learns whether its group is about to change."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.replies import Reply


def handle(context: RequestContext, request: HeartbeatRequest) -> Reply[HeartbeatResponse]:
    """Ask the coordinator."""
    return context.node.groups.heartbeat(request)


def error_response(_context: RequestContext, _request: HeartbeatRequest, error: ApiError) -> HeartbeatResponse:
    """The code, and nothing else."""
    return HeartbeatResponse(error_code=error.code)
