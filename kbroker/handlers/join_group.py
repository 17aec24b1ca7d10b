"""JoinGroup: a member enters its group, or enters it again. The answer waits for the others (KIP-345, 394, 814)."""

from __future__ import annotations

from kbroker.groups.membership import Client
from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.replies import Reply, then

NULL_PROTOCOL_SINCE = 7


def handle(context: RequestContext, request: JoinGroupRequest) -> Reply[JoinGroupResponse]:
    """Ask the coordinator."""
    client = Client(context.client_id or "", f"/{context.client_host}", context.api_version)
    return then(context.node.groups.join(client, request), lambda response: _in_form_of(context, response))


def error_response(context: RequestContext, _request: JoinGroupRequest, error: ApiError) -> JoinGroupResponse:
    """The code, and nothing else."""
    return _in_form_of(context, JoinGroupResponse(error_code=error.code))


def _in_form_of(context: RequestContext, response: JoinGroupResponse) -> JoinGroupResponse:
    """A protocol without a name, or none at all: null in versions that have it, the empty string before."""
    if not response.protocol_name:
        response.protocol_name = None if context.api_version >= NULL_PROTOCOL_SINCE else ""
    return response
