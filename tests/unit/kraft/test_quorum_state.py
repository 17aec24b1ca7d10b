"""``quorum-state``: what is remembered of elections, in Kafka's form."""

from random import Random

import pytest

from kbroker.host import Disk
from kbroker.kraft.raft.messages import ElectionState
from kbroker.kraft.raft.quorum_state import QuorumStateError, read_quorum_state, write_quorum_state
from kbroker.kraft.raft.voters import Voter, Voters
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Process

STATIC = Voters((Voter(1),))


@pytest.fixture
def disk() -> Disk:
    loop = SimLoop(Random(1))
    disk = SimDisk(Random(1), loop.trace)
    loop.close()
    return disk.mount(Process("node"))


def test_the_state_is_written_as_kafka_writes_it(disk: Disk) -> None:
    write_quorum_state(disk, "/meta", ElectionState(3, 1, 1), STATIC, sync=True)
    assert disk.read("/meta/quorum-state") == (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert read_quorum_state(disk, "/meta") == ElectionState(3, 1, -1)


def test_a_vote_is_remembered_while_no_leader_is_known(disk: Disk) -> None:
    write_quorum_state(disk, "/meta", ElectionState(3, -1, 2), Voters((Voter(1), Voter(2), Voter(3))), sync=True)
    assert read_quorum_state(disk, "/meta") == ElectionState(3, -1, 2)


def test_the_vote_in_a_dynamic_quorum_names_the_directory_of_its_candidate(disk: Disk) -> None:
    voters = Voters((Voter(1, b"\1" * 16), Voter(2, b"\2" * 16)), kraft_version=1)
    write_quorum_state(disk, "/meta", ElectionState(3, -1, 2), voters, sync=True)
    assert disk.read("/meta/quorum-state") == (
        b'{"leaderId":-1,"leaderEpoch":3,"votedId":2,"votedDirectoryId":"AgICAgICAgICAgICAgICAg","data_version":1}'
    )
    write_quorum_state(disk, "/meta", ElectionState(3, 2, 2), voters, sync=True)
    assert disk.read("/meta/quorum-state") == (
        b'{"leaderId":2,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )


def test_without_a_file_nobody_was_elected(disk: Disk) -> None:
    assert read_quorum_state(disk, "/meta") == ElectionState()


def test_the_state_of_a_dynamic_quorum_is_read(disk: Disk) -> None:
    text = '{"leaderId":2,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    disk.make_dirs("/meta")
    disk.write_atomically("/meta/quorum-state", text.encode())
    assert read_quorum_state(disk, "/meta") == ElectionState(7, 2, -1)


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"[]", b'{"data_version":0}'])
def test_garbage_is_an_error_among_voters_and_forgotten_by_a_lone_one(disk: Disk, content: bytes) -> None:
    disk.make_dirs("/meta")
    disk.write_atomically("/meta/quorum-state", content)
    with pytest.raises(QuorumStateError):
        read_quorum_state(disk, "/meta")
    assert read_quorum_state(disk, "/meta", alone=True) == ElectionState()


def test_a_later_data_version_is_refused(disk: Disk) -> None:
    disk.make_dirs("/meta")
    disk.write_atomically("/meta/quorum-state", b'{"data_version":9}')
    with pytest.raises(QuorumStateError, match="data version 9"):
        read_quorum_state(disk, "/meta", alone=True)
