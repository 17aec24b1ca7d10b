"""The ``quorum-state`` file: what the node remembers of elections, in Kafka's JSON (``QuorumStateData``).

With static voters (``kraft.version`` 0) Kafka writes data version 0; version 1, of dynamic quorums, is read too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from kbroker.host import Disk
from kbroker.kraft.raft.messages import ElectionState

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
