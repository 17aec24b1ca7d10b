"""Changes of the quorum's voters (KIP-853), all refused: a quorum of one gets no second voter, and keeps its only one.

What is wrong with a request whatever the quorum could do is said first, as Kafka's ``KafkaRaftClient`` says it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.kraft.raft.voters import Voter, Voters
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kbroker.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kbroker.types import ZERO_UUID


def refuse_to_add(request: AddRaftVoterRequest, cluster_id: str, voters: Voters, controller_listener: str) -> ApiError:
    """Why a voter is not added. ``controller_listener`` is the one that controllers use among each other."""
    error = _refuse_voter(request, cluster_id, "Add")
    if error is not None:
        return error
    if controller_listener not in [each.name.upper() for each in request.listeners]:
        return ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Add voter request didn't include the endpoint ({_shown(request.listeners)}) for the default listener "
            f"ListenerName({controller_listener})",
        )
    if not voters.kraft_version:
        return _not_supported("adding", voters)
    voter = Voter(request.voter_id, request.voter_directory_id)
    if voters.find(voter.id) is not None:
        return ApiError(
            ErrorCode.DUPLICATE_VOTER,
            f"The voter id for {voter.key} is already part of the set of voters {_all(voters)}.",
        )
    # What Kafka answers for a node that it does not reach.
    reason = f"Aborted add voter operation for {voter.key} since kbroker runs a quorum of one."
    return ApiError(ErrorCode.REQUEST_TIMED_OUT, reason)


def refuse_to_remove(request: RemoveRaftVoterRequest, cluster_id: str, voters: Voters) -> ApiError:
    """Why a voter is not removed."""
    error = _refuse_voter(request, cluster_id, "Remove")
    if error is not None:
        return error
    if not voters.kraft_version:
        return _not_supported("removing", voters)
    voter = Voter(request.voter_id, request.voter_directory_id)
    reason = f"Cannot remove voter {voter.key} from the set of voters {_all(voters)}"
    return ApiError(ErrorCode.VOTER_NOT_FOUND, reason)


def _refuse_voter(
    request: AddRaftVoterRequest | RemoveRaftVoterRequest, cluster_id: str, wanted: str
) -> ApiError | None:
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        reason = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"'
        return ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, reason)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return ApiError(ErrorCode.INVALID_REQUEST, f"{wanted} voter request didn't include a valid voter")
    return None


def _not_supported(what: str, voters: Voters) -> ApiError:
    reason = f"Cluster doesn't support {what} voter because the kraft.version feature is {voters.kraft_version}"
    return ApiError(ErrorCode.UNSUPPORTED_VERSION, reason)


def _all(voters: Voters) -> str:
    return f"[{', '.join(voter.key for voter in voters.all)}]"


def _shown(listeners: Sequence[AddRaftVoterRequest.Listener]) -> str:
    addresses = [f"ListenerName({each.name.upper()})={each.host}/<unresolved>:{each.port}" for each in listeners]
    return f"Endpoints(endpoints={{{', '.join(addresses)}}})"
