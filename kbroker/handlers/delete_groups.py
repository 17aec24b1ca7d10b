"""DeleteGroups: groups without members go, with all their offsets (KIP-229)."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kbroker.replies import Reply, then


def handle(context: RequestContext, request: DeleteGroupsRequest) -> Reply[DeleteGroupsResponse]:
    """Ask the coordinator."""
    return then(
        context.node.groups.delete_groups(request.groups_names),
        lambda results: DeleteGroupsResponse(throttle_time_ms=context.throttle_time_ms, results=results),
    )


def error_response(_context: RequestContext, request: DeleteGroupsRequest, error: ApiError) -> DeleteGroupsResponse:
    """The code at every group."""
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(
                group_id=group_id, error_code=error.code, error_message=error.message
            )
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )
