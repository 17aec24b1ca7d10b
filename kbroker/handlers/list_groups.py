"""ListGroups: the groups that this node coordinates, by state (KIP-518) and type (KIP-848)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.replies import Reply, then


def handle(context: RequestContext, request: ListGroupsRequest) -> Reply[ListGroupsResponse]:
    """Ask the coordinator."""
    groups = context.node.groups.list_groups(request.states_filter, request.types_filter)
    return then(groups, lambda listed: ListGroupsResponse(groups=listed))


def error_response(_context: RequestContext, _request: ListGroupsRequest, error: ApiError) -> ListGroupsResponse:
    """The code, and nothing else."""
    return ListGroupsResponse(error_code=error.code)
