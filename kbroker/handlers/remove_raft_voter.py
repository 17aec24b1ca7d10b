"""RemoveRaftVoter (KIP-853) on a quorum of one: refused."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.voters import refuse_to_remove
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


def handle(context: RequestContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    raise refuse_to_remove(request, context.node.cluster_id, context.node.quorum.voters)


def error_response(
    context: RequestContext, _request: RemoveRaftVoterRequest, error: ApiError
) -> RemoveRaftVoterResponse:
    return RemoveRaftVoterResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=error.code, error_message=error.message
    )
