"""Changes of the quorum's voters are refused; the texts are those of a running Apache Kafka 4.4."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.kraft.controller.voters import refuse_to_add, refuse_to_remove
from kbroker.kraft.raft.voters import Voter, Voters
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kbroker.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kbroker.types import ZERO_UUID, uuid_to_string

VOTER: dict[str, Any] = {"cluster_id": "c", "voter_id": 9, "voter_directory_id": b"d" * 16}
STATIC = Voters((Voter(1),))
DYNAMIC = Voters((Voter(1, b"o" * 16),), kraft_version=1, in_log=True)
NOT_OURS = (ErrorCode.INCONSISTENT_CLUSTER_ID, 'The given id "other" doesn\'t match the cluster id "c"')


def invalid(wanted: str) -> tuple[ErrorCode, str]:
    return ErrorCode.INVALID_REQUEST, f"{wanted} voter request didn't include a valid voter"


def unsupported(what: str) -> tuple[ErrorCode, str]:
    reason = f"Cluster doesn't support {what} voter because the kraft.version feature is 0"
    return ErrorCode.UNSUPPORTED_VERSION, reason


@pytest.mark.parametrize(
    ("fields", "added", "removed"),
    [
        ({}, unsupported("adding"), unsupported("removing")),
        ({"cluster_id": None}, unsupported("adding"), unsupported("removing")),
        ({"cluster_id": "other", "voter_id": -1}, NOT_OURS, NOT_OURS),
        ({"voter_id": -1}, invalid("Add"), invalid("Remove")),
        ({"voter_directory_id": ZERO_UUID}, invalid("Add"), invalid("Remove")),
    ],
)
def test_what_is_wrong_with_the_request_is_said_first(
    fields: dict[str, Any], added: tuple[ErrorCode, str], removed: tuple[ErrorCode, str]
) -> None:
    listener = AddRaftVoterRequest.Listener(name="controller", host="h", port=9)
    refused = refuse_to_add(AddRaftVoterRequest(**{**VOTER, **fields}, listeners=[listener]), "c", STATIC, "CONTROLLER")
    assert (refused.code, refused.message) == added
    refused = refuse_to_remove(RemoveRaftVoterRequest(**{**VOTER, **fields}), "c", STATIC)
    assert (refused.code, refused.message) == removed


def test_a_voter_without_the_listener_of_controllers_is_none() -> None:
    listener = AddRaftVoterRequest.Listener(name="other", host="h", port=9)
    refused = refuse_to_add(AddRaftVoterRequest(**VOTER, listeners=[listener]), "c", STATIC, "CONTROLLER")
    assert refused.code is ErrorCode.INVALID_REQUEST
    assert refused.message == (
        "Add voter request didn't include the endpoint (Endpoints(endpoints={ListenerName(OTHER)=h/<unresolved>:9})) "
        "for the default listener ListenerName(CONTROLLER)"
    )


@pytest.mark.parametrize("directory", [b"d" * 16, b"o" * 16])
def test_the_only_voter_of_a_dynamic_quorum_is_not_added_again_and_stays(directory: bytes) -> None:
    listener = AddRaftVoterRequest.Listener(name="controller", host="h", port=9)
    fields: dict[str, Any] = {**VOTER, "voter_id": 1, "voter_directory_id": directory}
    key = f"ReplicaKey(id=1, directoryId={uuid_to_string(directory)})"
    only = "[ReplicaKey(id=1, directoryId=b29vb29vb29vb29vb29vbw)]"
    refused = refuse_to_add(AddRaftVoterRequest(**fields, listeners=[listener]), "c", DYNAMIC, "CONTROLLER")
    assert refused.code is ErrorCode.DUPLICATE_VOTER
    assert refused.message == f"The voter id for {key} is already part of the set of voters {only}."
    refused = refuse_to_remove(RemoveRaftVoterRequest(**fields), "c", DYNAMIC)
    assert refused.code is ErrorCode.VOTER_NOT_FOUND
    assert refused.message == f"Cannot remove voter {key} from the set of voters {only}"


def test_another_voter_is_not_reached_by_a_quorum_of_one() -> None:
    listener = AddRaftVoterRequest.Listener(name="controller", host="h", port=9)
    refused = refuse_to_add(AddRaftVoterRequest(**VOTER, listeners=[listener]), "c", DYNAMIC, "CONTROLLER")
    assert refused.code is ErrorCode.REQUEST_TIMED_OUT
    refused = refuse_to_remove(RemoveRaftVoterRequest(**VOTER), "c", DYNAMIC)
    assert refused.code is ErrorCode.VOTER_NOT_FOUND
