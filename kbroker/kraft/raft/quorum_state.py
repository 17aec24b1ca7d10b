"""The ``quorum-state`` file: what the node remembers of elections, in Kafka's JSON (``QuorumStateData``).

With static voters (``kraft.version`` 0) Kafka writes data version 0; version 1, of dynamic quorums, is read too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from kbroker.host import Disk
from kbroker.kraft.raft.messages import ElectionState

FILE_NAME = "quorum-state"


class QuorumStateError(Exception):
    """The file is there and does not say what it must."""


def read_quorum_state(disk: Disk, directory: str) -> ElectionState:
    """The remembered state, the initial one when there is no file. Raises ``QuorumStateError``."""
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return ElectionState()
    try:
        state = json.loads(disk.read(path))
        if state["data_version"] not in (0, 1):
            raise QuorumStateError(f"{path} has data version {state['data_version']}, only 0 and 1 are known")
        return ElectionState(int(state["leaderEpoch"]), int(state["leaderId"]), int(state["votedId"]))
    except (ValueError, KeyError, TypeError) as error:
        raise QuorumStateError(f"{path} is not a quorum state that Kafka would write: {error!r}") from error


def write_quorum_state(disk: Disk, directory: str, state: ElectionState, voters: Sequence[int], *, sync: bool) -> None:
    """Replace the file. Where the leader is known the vote no longer matters, and Kafka leaves it out."""
    data = {
        "clusterId": "",
        "leaderId": state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": -1 if state.leader_id >= 0 else state.voted_id,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in voters],
        "data_version": 0,
    }
    disk.make_dirs(directory)
    disk.write_atomically(f"{directory}/{FILE_NAME}", json.dumps(data, separators=(",", ":")).encode(), sync=sync)
