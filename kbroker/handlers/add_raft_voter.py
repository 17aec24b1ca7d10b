"""AddRaftVoter (KIP-853) on a quorum of one: refused."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.voters import refuse_to_add
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

CONTROLLER_LISTENER = "CONTROLLER"
"""The name that Kafka's own configuration gives to it, where this node's gives none."""


def handle(context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    named = context.node.config.controller_listener_names
    listener = named[0] if named else CONTROLLER_LISTENER
    raise refuse_to_add(request, context.node.cluster_id, context.node.quorum.voters, listener)


def error_response(context: RequestContext, _request: AddRaftVoterRequest, error: ApiError) -> AddRaftVoterResponse:
    return AddRaftVoterResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=error.code, error_message=error.message
    )
