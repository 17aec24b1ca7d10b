"""Elections and commitment among voters, as a pure state machine (KIP-595)."""

from random import Random

import pytest

from kbroker.kraft.raft.core import Raft, Role
from kbroker.kraft.raft.log_state import LogState
from kbroker.kraft.raft.messages import (
    BeginQuorumEpochRequest,
    ElectionState,
    EndQuorumEpochRequest,
    Extent,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from tests.unit.kraft.raft_cluster import Cluster


def node(
    node_id: int = 1,
    voters: tuple[int, ...] = (1, 2, 3),
    election: ElectionState | None = None,
    log: LogState | None = None,
) -> Raft:
    return Raft(node_id, voters, election or ElectionState(), log or LogState(), Random(7), 0)


def role(raft: Raft) -> Role:
    return raft.role


def test_a_lone_voter_leads_at_its_first_tick() -> None:
    raft = node(voters=(1,))
    parcel = raft.tick(0)
    assert raft.is_leader
    assert raft.epoch == 1
    assert parcel.persist == ElectionState(1, 1, 1)
    assert parcel.leader_change is not None
    assert parcel.leader_change.granting_voters == (1,)
    assert parcel.send == []
    assert raft.wake_ms is None


def test_a_lone_voter_commits_what_is_flushed_and_nothing_else() -> None:
    raft = node(voters=(1,))
    raft.tick(0)
    raft.appended(1)
    assert raft.high_watermark == -1
    assert raft.flushed(1, 0).high_watermark == 1
    raft.appended(5)
    assert raft.flushed(3, 0).high_watermark == 3
    assert raft.flushed(5, 0).high_watermark == 5


def test_a_lone_voter_that_led_leads_again_in_the_next_epoch() -> None:
    raft = node(voters=(1,), election=ElectionState(4, 1, 1), log=LogState(9, [(4, 2)]))
    assert raft.role is Role.RESIGNED
    parcel = raft.tick(0)
    assert raft.is_leader
    assert parcel.persist == ElectionState(5, 1, 1)
    raft.appended(10)
    assert raft.flushed(10, 0).high_watermark == 10


def test_old_records_are_committed_only_with_one_of_the_new_epoch() -> None:
    raft = node(voters=(1,), log=LogState(9, [(1, 0)]))
    raft.tick(0)
    assert raft.flushed(9, 0).high_watermark is None
    raft.appended(10)
    assert raft.flushed(10, 0).high_watermark == 10


def test_the_election_time_out_asks_first_and_stands_only_with_a_majority() -> None:
    raft = node()
    parcel = raft.tick(2000)
    assert role(raft) is Role.PROSPECTIVE
    assert raft.epoch == 0
    assert [target for target, _ in parcel.send] == [2, 3]
    assert parcel.persist is None
    parcel = raft.step(VoteResponse(2, 0, -1, granted=True, pre_vote=True), 2001)
    assert role(raft) is Role.CANDIDATE
    assert parcel.persist == ElectionState(1, -1, 1)
    parcel = raft.step(VoteResponse(3, 1, -1, granted=True, pre_vote=False), 2002)
    assert raft.is_leader
    assert parcel.leader_change is not None
    assert parcel.leader_change.granting_voters == (1, 3)
    assert parcel.send == [(2, BeginQuorumEpochRequest(1, 1)), (3, BeginQuorumEpochRequest(1, 1))]


def test_a_vote_is_given_once_in_an_epoch_and_survives_a_restart() -> None:
    raft = node()
    parcel = raft.step(VoteRequest(2, 1, 0, 0, pre_vote=False), 0)
    assert parcel.persist == ElectionState(1, -1, 2)
    assert parcel.send == [(2, VoteResponse(1, 1, -1, granted=True, pre_vote=False))]
    assert parcel.persist is not None
    raft = node(election=parcel.persist)
    parcel = raft.step(VoteRequest(3, 1, 0, 0, pre_vote=False), 0)
    assert parcel.send == [(3, VoteResponse(1, 1, -1, granted=False, pre_vote=False))]
    parcel = raft.step(VoteRequest(2, 1, 0, 0, pre_vote=False), 0)
    assert parcel.send == [(2, VoteResponse(1, 1, -1, granted=True, pre_vote=False))]


def test_a_shorter_log_gets_no_vote() -> None:
    raft = node(log=LogState(5, [(1, 0), (2, 3)]))
    for last_epoch, last_offset, granted in ((1, 9, False), (2, 4, False), (2, 5, True)):
        parcel = raft.step(VoteRequest(2, 7, last_epoch, last_offset, pre_vote=False), 0)
        response = parcel.send[0][1]
        assert isinstance(response, VoteResponse)
        assert response.granted is granted


def test_a_follower_that_hears_its_leader_refuses_a_pre_vote() -> None:
    raft = node()
    parcel = raft.step(BeginQuorumEpochRequest(2, 3), 0)
    fetch = parcel.send[0][1]
    assert isinstance(fetch, FetchRequest)
    raft.step(FetchResponse(2, 3, fetch.correlation, 2, is_leader=True, high_watermark=0), 1)
    response = raft.step(VoteRequest(3, 3, 0, 0, pre_vote=True), 2).send[0][1]
    assert isinstance(response, VoteResponse)
    assert not response.granted
    assert raft.role is Role.FOLLOWER


def test_a_follower_truncates_to_where_the_logs_part() -> None:
    raft = node(log=LogState(8, [(1, 0), (2, 4)]))
    fetch = raft.step(BeginQuorumEpochRequest(2, 3), 0).send[0][1]
    assert isinstance(fetch, FetchRequest)
    diverging = FetchResponse(2, 3, fetch.correlation, 2, is_leader=True, diverging=Extent(1, 6))
    parcel = raft.step(diverging, 1)
    assert parcel.truncate_to == 4
    again = parcel.send[0][1]
    assert isinstance(again, FetchRequest)
    assert (again.fetch_offset, again.last_fetched_epoch) == (4, 1)


def test_a_late_answer_to_an_old_fetch_is_ignored() -> None:
    raft = node()
    fetch = raft.step(BeginQuorumEpochRequest(2, 3), 0).send[0][1]
    assert isinstance(fetch, FetchRequest)
    answer = FetchResponse(2, 3, fetch.correlation, 2, is_leader=True, records=["a"], extents=(Extent(3, 1),))
    assert raft.step(answer, 1).append == [["a"]]
    assert raft.step(answer, 2).append == []
    assert raft.log.end_offset == 1


def test_a_leader_without_a_majority_resigns() -> None:
    raft = node()
    raft.tick(2000)
    raft.step(VoteResponse(2, 0, -1, granted=True, pre_vote=True), 2000)
    raft.step(VoteResponse(2, 1, -1, granted=True, pre_vote=False), 2000)
    assert raft.is_leader
    parcel = raft.tick(5001)
    assert raft.role is Role.RESIGNED
    assert parcel.lost_leadership
    assert all(isinstance(message, EndQuorumEpochRequest) for _, message in parcel.send)


def test_two_leaders_of_one_epoch_are_an_error() -> None:
    raft = node()
    raft.step(BeginQuorumEpochRequest(2, 3), 0)
    with pytest.raises(AssertionError, match="two leaders"):
        raft.step(BeginQuorumEpochRequest(3, 3), 1)


def test_nothing_below_the_high_watermark_is_truncated() -> None:
    raft = node(log=LogState(8, [(1, 0)]))
    fetch = raft.step(BeginQuorumEpochRequest(2, 3), 0).send[0][1]
    assert isinstance(fetch, FetchRequest)
    parcel = raft.step(FetchResponse(2, 3, fetch.correlation, 2, is_leader=True, high_watermark=8), 1)
    assert parcel.high_watermark == 8
    fetch = parcel.send[0][1]
    assert isinstance(fetch, FetchRequest)
    with pytest.raises(AssertionError, match="below the high watermark"):
        raft.step(FetchResponse(2, 3, fetch.correlation, 2, is_leader=True, diverging=Extent(1, 5)), 2)


def test_three_voters_elect_a_leader_and_commit() -> None:
    cluster = Cluster(1, 3)
    cluster.run(3000)
    cluster.propose()
    cluster.run(200)
    assert len(cluster.committed) == 2
    assert all(each.entries == cluster.committed for each in cluster.nodes.values())


def test_an_observer_finds_the_leader_and_follows() -> None:
    cluster = Cluster(2, 4, voters=3)
    cluster.run(5000)
    cluster.propose()
    cluster.run(700)
    observer = cluster.nodes[4]
    assert observer.raft.role is Role.FOLLOWER
    assert observer.entries == cluster.committed
    assert len(observer.entries) == 2


def test_a_resigning_leader_hands_over_quickly() -> None:
    cluster = Cluster(3, 3)
    cluster.run(3000)
    leader = cluster.leader()
    assert leader is not None
    cluster.carry_out(leader, leader.raft.resign(cluster.now))
    cluster.run(1000)
    successor = cluster.leader()
    assert successor is not None
    assert successor is not leader


def test_a_cut_off_leader_gives_up_and_its_lone_writes_vanish() -> None:
    cluster = Cluster(4, 3)
    cluster.run(3000)
    old = cluster.leader()
    assert old is not None
    for other in cluster.nodes:
        cluster.cut |= {(old.node_id, other), (other, old.node_id)}
    cluster.write(old, "lost")
    cluster.run(8000)
    new = cluster.leader()
    assert new is not None
    assert new is not old
    assert old.raft.role is not Role.LEADER
    cluster.cut.clear()
    cluster.propose()
    cluster.run(3000)
    assert all("lost" not in value for _, value in old.entries)
    assert old.entries == new.entries == cluster.committed


@pytest.mark.parametrize("seed", range(60))
def test_faults_never_break_the_invariants_and_the_cluster_heals(seed: int) -> None:
    cluster = Cluster(seed, 3 if seed % 3 else 5)
    chance = cluster.random
    cluster.drop_chance = chance.choice((0.0, 0.05, 0.3))
    cluster.flush_chance = chance.choice((1.0, 0.3))
    for _ in range(60):
        match chance.randrange(5):
            case 0:
                victim = chance.choice(list(cluster.nodes.values()))
                if victim.alive:
                    victim.crash()
                else:
                    victim.start(cluster.now)
            case 1:
                side = {each for each in cluster.nodes if chance.random() < 0.5}
                ids = list(cluster.nodes)
                cluster.cut = {(a, b) for a in ids for b in ids if (a in side) != (b in side)}
                if chance.random() < 0.5:
                    cluster.cut = {(a, b) for a, b in cluster.cut if a in side}
            case 2:
                cluster.cut = set()
            case _:
                cluster.propose()
        cluster.run(chance.choice((20, 200, 1500)))
    cluster.check_logs_match()
    cluster.cut, cluster.drop_chance, cluster.flush_chance = set(), 0.0, 1.0
    for each in cluster.nodes.values():
        if not each.alive:
            each.start(cluster.now)
    cluster.run(15000)
    cluster.propose()
    cluster.run(2000)
    leader = cluster.leader()
    assert leader is not None
    assert leader.entries == cluster.committed
    assert all(each.entries == cluster.committed for each in cluster.nodes.values())
