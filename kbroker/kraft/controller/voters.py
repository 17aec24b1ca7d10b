"""Changes of the quorum's voters (KIP-853), refused: they stand in the configuration (``kraft.version`` 0).

What is wrong with a request whatever the quorum could do is said first, as Kafka's ``KafkaRaftClient`` says it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kbroker.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kbroker.types import ZERO_UUID

KRAFT_VERSION = 0


def refuse_to_add(request: AddRaftVoterRequest, cluster_id: str, controller_listener: str) -> ApiError:
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
    return _not_supported("adding")


def refuse_to_remove(request: RemoveRaftVoterRequest, cluster_id: str) -> ApiError:
    """Why a voter is not removed."""
    return _refuse_voter(request, cluster_id, "Remove") or _not_supported("removing")


def _refuse_voter(
    request: AddRaftVoterRequest | RemoveRaftVoterRequest, cluster_id: str, wanted: str
) -> ApiError | None:
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        reason = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"'
        return ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, reason)
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return ApiError(ErrorCode.INVALID_REQUEST, f"{wanted} voter request didn't include a valid voter")
    return None


def _not_supported(what: str) -> ApiError:
    reason = f"Cluster doesn't support {what} voter because the kraft.version feature is {KRAFT_VERSION}"
    return ApiError(ErrorCode.UNSUPPORTED_VERSION, reason)


def _shown(listeners: Sequence[AddRaftVoterRequest.Listener]) -> str:
    addresses = [f"ListenerName({each.name.upper()})={each.host}/<unresolved>:{each.port}" for each in listeners]
    return f"Endpoints(endpoints={{{', '.join(addresses)}}})"
