"""Changes of the quorum's voters are refused; the texts are those of a running Apache Kafka 4.4 with static voters."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.kraft.controller.voters import refuse_to_add, refuse_to_remove
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kbroker.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kbroker.types import ZERO_UUID

VOTER: dict[str, Any] = {"cluster_id": "c", "voter_id": 9, "voter_directory_id": b"d" * 16}
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
    refused = refuse_to_add(AddRaftVoterRequest(**{**VOTER, **fields}, listeners=[listener]), "c", "CONTROLLER")
    assert (refused.code, refused.message) == added
    refused = refuse_to_remove(RemoveRaftVoterRequest(**{**VOTER, **fields}), "c")
    assert (refused.code, refused.message) == removed


def test_a_voter_without_the_listener_of_controllers_is_none() -> None:
    listener = AddRaftVoterRequest.Listener(name="other", host="h", port=9)
    refused = refuse_to_add(AddRaftVoterRequest(**VOTER, listeners=[listener]), "c", "CONTROLLER")
    assert refused.code is ErrorCode.INVALID_REQUEST
    assert refused.message == (
        "Add voter request didn't include the endpoint (Endpoints(endpoints={ListenerName(OTHER)=h/<unresolved>:9})) "
        "for the default listener ListenerName(CONTROLLER)"
    )
