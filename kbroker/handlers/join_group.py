"""JoinGroup: a member enters its group, or enters it again. The answer waits for the others (KIP-345, 394, 814)."""

from __future__ import annotations

from collections.abc import Awaitable

from kbroker.groups.membership import Client
from kbroker.handlers.context import RequestContext
from kbroker.handlers.replies import then
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_SINCE = 7


def handle(context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    """Ask the coordinator."""
    client = Client(context.client_id or "", f"/{context.client_host}", context.api_version)
    reply = context.node.groups.join(client, request)
    return reply if context.api_version >= NULL_PROTOCOL_SINCE else then(reply, _without_null)


def error_response(context: RequestContext, request: JoinGroupRequest, error: ApiError) -> JoinGroupResponse:
    """The code, and the member id as it came."""
    response = JoinGroupResponse(error_code=error.code, member_id=request.member_id, protocol_name=None)
    return response if context.api_version >= NULL_PROTOCOL_SINCE else _without_null(response)


def _without_null(response: JoinGroupResponse) -> JoinGroupResponse:
    """A refused member has no protocol; its name could not be null before version 7."""
    if response.protocol_name is None:
        response.protocol_name = ""
    return response
