"""The ``quorum-state`` file: what the node remembers of elections, in Kafka's JSON (``QuorumStateData``).

Data version 0 is of static voters (``kraft.version`` 0), version 1 of a dynamic quorum.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from kbroker.host import Disk
from kbroker.kraft.raft.messages import ElectionState
from kbroker.kraft.raft.voters import Voters
from kbroker.types import ZERO_UUID, uuid_to_string

logger = logging.getLogger(__name__)

FILE_NAME = "quorum-state"


class QuorumStateError(Exception):
    """The file is there and does not say what it must."""


def read_quorum_state(disk: Disk, directory: str, *, alone: bool = False) -> ElectionState:
    """The remembered state, the initial one when there is no file. Raises ``QuorumStateError``.

    Without fsync a power failure may leave garbage. A node that forgot its vote must not vote again, so that is an
    error; but a voter that is ``alone`` has nobody to betray and begins anew after the epochs of its log.
    """
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return ElectionState()
    try:
        state = json.loads(disk.read(path))
        if state["data_version"] not in (0, 1):
            raise QuorumStateError(f"{path} has data version {state['data_version']}, only 0 and 1 are known")
        return ElectionState(int(state["leaderEpoch"]), int(state["leaderId"]), int(state["votedId"]))
    except (ValueError, KeyError, TypeError) as error:
        if alone:
            logger.warning("%s is not readable: the epochs are taken from the metadata log.", path)
            return ElectionState()
        raise QuorumStateError(f"{path} is not a quorum state that Kafka would write: {error!r}") from error


def write_quorum_state(disk: Disk, directory: str, state: ElectionState, voters: Voters, *, sync: bool) -> None:
    """Replace the file. Where the leader is known the vote no longer matters, and Kafka leaves it out."""
    voted_id = -1 if state.leader_id >= 0 else state.voted_id
    election = {"leaderId": state.leader_id, "leaderEpoch": state.epoch, "votedId": voted_id}
    data: dict[str, Any]
    if voters.kraft_version:
        voted = voters.find(voted_id)
        directory_id = uuid_to_string(ZERO_UUID if voted is None else voted.directory_id)
        data = {**election, "votedDirectoryId": directory_id, "data_version": 1}
    else:
        known = [{"voterId": voter} for voter in voters.ids]
        data = {"clusterId": "", **election, "appliedOffset": 0, "currentVoters": known, "data_version": 0}
    disk.make_dirs(directory)
    disk.write_atomically(f"{directory}/{FILE_NAME}", json.dumps(data, separators=(",", ":")).encode(), sync=sync)
