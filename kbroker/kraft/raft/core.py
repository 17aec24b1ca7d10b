"""The Raft core: a pure machine that elects one leader and says how far the metadata log is committed.

Here lives every decision of KRaft's consensus: KIP-595 (pull-based replication), KIP-996 (pre-vote); the set of voters
is fixed (``controller.quorum.voters``), KIP-853's changes of it are not here. Not here either: disk, network, clock,
the records' bytes; the driver has them. ``step`` takes a message, ``tick`` the time; both return a ``Parcel`` that the
driver carries out in order, and nothing is sent before what it promises is durable.

    from         when                                                     to
    -----------  -------------------------------------------------------  -----------------------------------------
    any          a higher epoch without a leader                          unattached in that epoch
    any          a leader of a higher epoch, or of this one               follower
    unattached   the election time-out                                    prospective
    unattached   a standard vote is granted                               unattached, voted (same epoch)
    prospective  a majority would vote                                    candidate in the next epoch, voted for self
    prospective  a majority would not, or the time-out                    follower of the last leader, else unattached
    prospective  a standard vote is granted                               unattached, voted (same epoch)
    candidate    a majority votes                                         leader
    candidate    a majority refuses (after a pause), or the time-out      prospective (same epoch, vote kept)
    follower     no answer to a fetch within the fetch time-out           prospective
    follower     the leader resigns                                       prospective (successors by their order)
    leader       shutdown, or no majority fetches in 1.5 fetch time-outs  resigned
    resigned     the election time-out                                    unattached in the next epoch
    restart      was leader                                               resigned
    restart      otherwise                                                unattached or follower, as remembered

An observer (not a voter) is only ever unattached or follower. A lone voter takes the road from prospective to leader in
one step.

Invariants: an epoch never falls and has one leader; a node votes once in an epoch; a leader commits only offsets above
the first of its own epoch (Raft 5.4.2); the high watermark never falls and nothing below it is truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from kbroker.kraft.raft.log_state import LogState
from kbroker.kraft.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ElectionState,
    EndQuorumEpochRequest,
    Extent,
    FetchRequest,
    FetchResponse,
    LeaderChange,
    Message,
    Parcel,
    VoteRequest,
    VoteResponse,
)


class Role(Enum):
    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


class Chance(Protocol):
    """The part of ``random.Random`` that spreads time-outs."""

    def randrange(self, stop: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """``controller.quorum.*``, in milliseconds."""

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    fetch_max_wait_ms: int = 500


@dataclass(slots=True)
class Progress:
    """The leader's view of one replica; ``end_offset`` -1 until it fetched in this epoch."""

    end_offset: int = -1
    fetched_ms: int = -1
    parked: FetchRequest | None = None
    parked_until_ms: int = 0


class Raft:
    """One node's part in the quorum. Owner: the driver, which alone calls it."""

    def __init__(
        self,
        node_id: int,
        voters: Sequence[int],
        election: ElectionState,
        log: LogState,
        chance: Chance,
        now: int,
        config: RaftConfig | None = None,
    ) -> None:
        self.node_id = node_id
        self.voters = tuple(sorted(voters))
        self.config = config or RaftConfig()
        self.log = log
        self.high_watermark = -1
        self.epoch = max(election.epoch, log.last_epoch)
        self.leader_id = -1
        self.voted_id = election.voted_id if self.epoch == election.epoch else -1
        self.flushed_offset = log.end_offset
        self._chance = chance
        self._votes: dict[int, bool] = {}
        self._lost = False
        self._progress: dict[int, Progress] = {}
        self._epoch_start = -1
        self._quorum_check_ms = 0
        self._begin_ms = 0
        self._has_fetched = False
        self._correlation = chance.randrange(1 << 30)
        self._fetch_target = -1
        self._fetch_retry_ms = now
        self._parcel = Parcel()
        self.role = Role.UNATTACHED
        self._deadline = now + self._election_timeout()
        if self.epoch == election.epoch and election.leader_id >= 0:
            self.leader_id = election.leader_id
            if election.leader_id == node_id:
                self.role = Role.RESIGNED
            else:
                self.role = Role.FOLLOWER
                self._deadline = now + self.config.fetch_timeout_ms

    # --- the four inputs

    def step(self, message: Message, now: int) -> Parcel:
        """Take a message of another node."""
        self._observe_epoch(message, now)
        match message:
            case VoteRequest():
                self._on_vote_request(message, now)
            case VoteResponse():
                self._on_vote_response(message, now)
            case BeginQuorumEpochRequest():
                self._on_begin_quorum_epoch(message, now)
            case BeginQuorumEpochResponse():
                pass
            case EndQuorumEpochRequest():
                self._on_end_quorum_epoch(message, now)
            case FetchRequest():
                self._on_fetch_request(message, now)
            case FetchResponse():
                self._on_fetch_response(message, now)
        return self._take_parcel()

    def tick(self, now: int) -> Parcel:
        """Let time-outs act; call it no later than ``wake_ms``."""
        if self._is_only_voter and self.role is not Role.LEADER:
            self._become_candidate(now)
        match self.role:
            case Role.LEADER:
                self._tick_leader(now)
            case Role.RESIGNED:
                if now >= self._deadline:
                    self._become_unattached(self.epoch + 1, now)
            case Role.UNATTACHED:
                if self._is_voter and now >= self._deadline:
                    self._become_prospective(now)
            case Role.PROSPECTIVE:
                if now >= self._deadline:
                    self._lose_pre_vote(now)
            case Role.CANDIDATE:
                if now >= self._deadline:
                    self._become_prospective(now)
            case Role.FOLLOWER:
                if now >= self._deadline:
                    self._on_fetch_timeout(now)
        self._maybe_fetch(now)
        return self._take_parcel()

    def progress_of(self, voter: int) -> Progress:
        """What the leader knows of another voter."""
        return self._progress.get(voter) or Progress()

    def appended(self, end_offset: int) -> None:
        """The leader's driver wrote records of the current epoch; they are not durable yet."""
        if self.role is not Role.LEADER:
            raise AssertionError(f"a {self.role.value} appended to the metadata log")
        self.log.append(self.epoch, end_offset)

    def flushed(self, end_offset: int, now: int) -> Parcel:
        """Everything below ``end_offset`` is durable here: it counts towards the high watermark."""
        self.flushed_offset = max(self.flushed_offset, end_offset)
        if self.role is Role.LEADER:
            self._advance_high_watermark()
            self._answer_parked(now)
        return self._take_parcel()

    def resign(self, now: int) -> Parcel:
        """Give up leadership, as a clean shutdown does."""
        if self.role is Role.LEADER:
            self._become_resigned(now)
        return self._take_parcel()

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    @property
    def wake_ms(self) -> int | None:
        """When ``tick`` is due; None when only a message can change anything."""
        if self._is_only_voter:
            return None if self.role is Role.LEADER else 0
        if self.role is Role.LEADER:
            parked = [each.parked_until_ms for each in self._progress.values() if each.parked is not None]
            return min([self._quorum_check_ms, self._begin_ms, *parked])
        deadlines = [self._deadline] if self._is_voter or self.role is Role.FOLLOWER else []
        if self._fetches:
            deadlines.append(self._fetch_retry_ms)
        return min(deadlines) if deadlines else None

    # --- roles

    @property
    def _is_voter(self) -> bool:
        return self.node_id in self.voters

    @property
    def _is_only_voter(self) -> bool:
        return self.voters == (self.node_id,)

    @property
    def _majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def _fetches(self) -> bool:
        return self.role is Role.FOLLOWER or (self.role is Role.UNATTACHED and not self._is_voter)

    def _observe_epoch(self, message: Message, now: int) -> None:
        """A higher epoch, or a leader we did not know of, changes the role before the message itself is read."""
        if isinstance(message, BeginQuorumEpochRequest | EndQuorumEpochRequest):
            leader_id = message.source
        elif isinstance(message, VoteResponse | BeginQuorumEpochResponse | FetchResponse):
            leader_id = message.leader_id
        else:
            leader_id = -1
        if message.epoch > self.epoch:
            if leader_id >= 0 and leader_id != self.node_id:
                self._become_follower(message.epoch, leader_id, now)
            else:
                self._become_unattached(message.epoch, now)
        elif message.epoch == self.epoch and leader_id >= 0 and leader_id != self.leader_id:
            if self.leader_id >= 0 or self.role is Role.LEADER:
                raise AssertionError(f"epoch {self.epoch} has two leaders, {self.leader_id} and {leader_id}")
            if leader_id != self.node_id:
                self._become_follower(self.epoch, leader_id, now)

    def _leave_role(self) -> None:
        if self.role is Role.LEADER:
            self._parcel.lost_leadership = True
        self._votes = {}
        self._lost = False
        self._progress = {}
        self._has_fetched = False
        self._fetch_target = -1

    def _become_unattached(self, epoch: int, now: int) -> None:
        self._leave_role()
        if epoch > self.epoch:
            self.epoch, self.voted_id = epoch, -1
        self.leader_id = -1
        self.role = Role.UNATTACHED
        self._deadline = now + self._election_timeout()
        self._fetch_retry_ms = now
        self._persist()

    def _become_follower(self, epoch: int, leader_id: int, now: int) -> None:
        self._leave_role()
        if epoch > self.epoch:
            self.epoch, self.voted_id = epoch, -1
        self.leader_id = leader_id
        self.role = Role.FOLLOWER
        self._deadline = now + self.config.fetch_timeout_ms
        self._fetch_retry_ms = now
        self._persist()
        self._maybe_fetch(now)

    def _become_prospective(self, now: int) -> None:
        self._leave_role()
        self.role = Role.PROSPECTIVE
        self._votes = {self.node_id: True}
        self._deadline = now + self._election_timeout()
        if len(self._votes) >= self._majority:
            self._become_candidate(now)
        else:
            self._ask_for_votes(pre_vote=True)

    def _become_candidate(self, now: int) -> None:
        self._leave_role()
        self.role = Role.CANDIDATE
        self.epoch += 1
        self.leader_id, self.voted_id = -1, self.node_id
        self._votes = {self.node_id: True}
        self._deadline = now + self._election_timeout()
        self._persist()
        if len(self._votes) >= self._majority:
            self._become_leader(now)
        else:
            self._ask_for_votes(pre_vote=False)

    def _become_leader(self, now: int) -> None:
        granting = tuple(voter for voter in self.voters if self._votes.get(voter))
        self._leave_role()
        self.role = Role.LEADER
        self.leader_id = self.node_id
        self._epoch_start = self.log.end_offset
        self._progress = {voter: Progress(fetched_ms=now) for voter in self.voters if voter != self.node_id}
        self._quorum_check_ms = now + self.config.fetch_timeout_ms * 3 // 2
        self._begin_ms = now
        self._persist()
        self._parcel.leader_change = LeaderChange(self.epoch, granting)
        self._tick_leader(now)

    def _become_resigned(self, now: int) -> None:
        by_progress = sorted(self._progress, key=lambda each: (-self._progress[each].end_offset, each))
        successors = tuple(each for each in by_progress if each in self.voters)
        message = EndQuorumEpochRequest(self.node_id, self.epoch, successors)
        self._leave_role()
        self.role = Role.RESIGNED
        self._deadline = now + self._election_timeout()
        for voter in successors:
            self._parcel.send.append((voter, message))

    # --- elections

    def _ask_for_votes(self, *, pre_vote: bool) -> None:
        request = VoteRequest(self.node_id, self.epoch, self.log.last_epoch, self.log.end_offset, pre_vote)
        for voter in self.voters:
            if voter != self.node_id:
                self._parcel.send.append((voter, request))

    def _on_vote_request(self, request: VoteRequest, now: int) -> None:
        granted = request.epoch == self.epoch and self._would_vote_for(request)
        if granted and not request.pre_vote and self.voted_id != request.source:
            # Granting moves a prospective back: two nodes that pre-vote for each other would both stand otherwise.
            self._become_unattached(self.epoch, now)
            self.voted_id = request.source
            self._persist()
        response = VoteResponse(self.node_id, self.epoch, self.leader_id, granted, request.pre_vote)
        self._parcel.send.append((request.source, response))

    def _would_vote_for(self, request: VoteRequest) -> bool:
        if (request.last_epoch, request.last_offset) < (self.log.last_epoch, self.log.end_offset):
            return False
        if request.pre_vote:
            return self.role is not Role.LEADER and not (self.role is Role.FOLLOWER and self._has_fetched)
        if self.role is Role.UNATTACHED or self.role is Role.PROSPECTIVE:
            if self.voted_id >= 0:
                return self.voted_id == request.source
            return self.leader_id < 0
        return False

    def _on_vote_response(self, response: VoteResponse, now: int) -> None:
        expected = Role.PROSPECTIVE if response.pre_vote else Role.CANDIDATE
        if response.epoch != self.epoch or self.role is not expected or response.source not in self.voters:
            return
        self._votes[response.source] = response.granted
        granted = sum(self._votes.values())
        if granted >= self._majority:
            if response.pre_vote:
                self._become_candidate(now)
            else:
                self._become_leader(now)
        elif len(self._votes) - granted > len(self.voters) - self._majority and not self._lost:
            self._lost = True
            if response.pre_vote:
                self._lose_pre_vote(now)
            else:
                self._deadline = min(
                    self._deadline, now + self._chance.randrange(max(1, self.config.election_backoff_max_ms))
                )

    def _lose_pre_vote(self, now: int) -> None:
        if self.leader_id >= 0:
            self._become_follower(self.epoch, self.leader_id, now)
        else:
            self._become_unattached(self.epoch, now)

    def _on_begin_quorum_epoch(self, request: BeginQuorumEpochRequest, now: int) -> None:
        if request.epoch == self.epoch and self.role is Role.PROSPECTIVE:
            self._become_follower(self.epoch, request.source, now)
        response = BeginQuorumEpochResponse(self.node_id, self.epoch, self.leader_id)
        self._parcel.send.append((request.source, response))

    def _on_end_quorum_epoch(self, request: EndQuorumEpochRequest, now: int) -> None:
        if request.epoch != self.epoch or self.role is not Role.FOLLOWER or not self._is_voter:
            return
        self._has_fetched = False
        place = request.successors.index(self.node_id) if self.node_id in request.successors else len(self.voters)
        delay = 0 if place == 0 else self._chance.randrange(max(1, self.config.election_backoff_max_ms)) + 50 * place
        self._deadline = min(self._deadline, now + delay)

    def _on_fetch_timeout(self, now: int) -> None:
        if self._is_voter:
            self._become_prospective(now)
        else:
            self._become_unattached(self.epoch, now)

    def _election_timeout(self) -> int:
        return self.config.election_timeout_ms + self._chance.randrange(max(1, self.config.election_timeout_ms))

    # --- the leader

    def _tick_leader(self, now: int) -> None:
        if self._is_only_voter:
            return
        if now >= self._quorum_check_ms:
            window = self.config.fetch_timeout_ms * 3 // 2
            voters = [self._progress[voter] for voter in self.voters if voter != self.node_id]
            heard = 1 + sum(each.fetched_ms > now - window for each in voters)
            if heard < self._majority:
                self._become_resigned(now)
                return
            self._quorum_check_ms = now + window // 4 + 1
        if now >= self._begin_ms:
            for voter in self.voters:
                progress = self._progress.get(voter)
                if progress is None:
                    continue
                if progress.end_offset < 0 or progress.fetched_ms <= now - self.config.fetch_timeout_ms // 2:
                    request = BeginQuorumEpochRequest(self.node_id, self.epoch)
                    self._parcel.send.append((voter, request))
            self._begin_ms = now + self.config.fetch_timeout_ms // 2
        self._answer_parked(now)

    def _on_fetch_request(self, request: FetchRequest, now: int) -> None:
        if self.role is not Role.LEADER or request.epoch != self.epoch:
            self._respond(request, is_leader=False)
            return
        shared = self.log.end_of(request.last_fetched_epoch)
        agrees = shared.epoch == request.last_fetched_epoch and request.fetch_offset <= shared.end_offset
        if request.fetch_offset > 0 and not agrees:
            self._respond(request, diverging=shared)
            return
        progress = self._progress.setdefault(request.source, Progress())
        progress.end_offset = request.fetch_offset
        progress.fetched_ms = now
        progress.parked = request
        progress.parked_until_ms = now + self.config.fetch_max_wait_ms
        self._advance_high_watermark()
        self._answer_parked(now)

    def _advance_high_watermark(self) -> None:
        ends = [
            self.flushed_offset if voter == self.node_id else self._progress[voter].end_offset for voter in self.voters
        ]
        ends.sort(reverse=True)
        committed = ends[self._majority - 1]
        if committed > self._epoch_start and committed > self.high_watermark:
            self.high_watermark = committed
            self._parcel.high_watermark = committed

    def _answer_parked(self, now: int) -> None:
        for progress in self._progress.values():
            request = progress.parked
            if request is None:
                continue
            # Unflushed records are not sent: a follower must not hold what the leader could still lose.
            has_news = request.fetch_offset < self.flushed_offset or request.high_watermark < self.high_watermark
            if has_news or now >= progress.parked_until_ms:
                progress.parked = None
                self._respond(request, read_from=request.fetch_offset)

    def _respond(
        self, request: FetchRequest, *, is_leader: bool = True, diverging: Extent | None = None, read_from: int = -1
    ) -> None:
        response = FetchResponse(
            self.node_id,
            self.epoch,
            request.correlation,
            self.leader_id,
            is_leader,
            high_watermark=self.high_watermark,
            diverging=diverging,
            read_from=read_from if read_from < self.flushed_offset else -1,
        )
        self._parcel.send.append((request.source, response))

    # --- the follower

    def _maybe_fetch(self, now: int) -> None:
        if not self._fetches or now < self._fetch_retry_ms:
            return
        if self.role is Role.FOLLOWER:
            self._fetch_target = self.leader_id
        else:
            self._fetch_target = self.voters[self._chance.randrange(len(self.voters))]
        self._correlation += 1
        self._fetch_retry_ms = now + self.config.request_timeout_ms
        request = FetchRequest(
            self.node_id,
            self.epoch,
            self._correlation,
            self.log.end_offset,
            self.log.last_epoch,
            self.high_watermark,
        )
        self._parcel.send.append((self._fetch_target, request))

    def _on_fetch_response(self, response: FetchResponse, now: int) -> None:
        if response.correlation != self._correlation or response.source != self._fetch_target:
            return
        if not response.is_leader or self.role is not Role.FOLLOWER or response.epoch != self.epoch:
            # Whom to ask instead was learnt from the epoch; without news, ask again after a while.
            self._fetch_retry_ms = min(self._fetch_retry_ms, now + self.config.fetch_max_wait_ms)
            return
        self._has_fetched = True
        self._deadline = now + self.config.fetch_timeout_ms
        if response.diverging is not None:
            self._truncate(response.diverging)
        elif response.extents:
            self._parcel.append.append(response.records)
            for extent in response.extents:
                self.log.append(extent.epoch, extent.end_offset)
            self.flushed_offset = self.log.end_offset
        committed = min(response.high_watermark, self.log.end_offset)
        if response.diverging is None and committed > self.high_watermark:
            self.high_watermark = committed
            self._parcel.high_watermark = committed
        self._fetch_retry_ms = now
        self._maybe_fetch(now)

    def _truncate(self, diverging: Extent) -> None:
        ours = self.log.end_of(diverging.epoch)
        end_offset = min(diverging.end_offset, ours.end_offset)
        if end_offset < self.high_watermark:
            raise AssertionError(
                f"the leader asks to truncate the metadata log to offset {end_offset}, below the high watermark "
                f"{self.high_watermark}"
            )
        self.log.truncate(end_offset)
        self.flushed_offset = min(self.flushed_offset, end_offset)
        self._parcel.truncate_to = end_offset

    # --- the parcel

    def _persist(self) -> None:
        self._parcel.persist = ElectionState(self.epoch, self.leader_id, self.voted_id)

    def _take_parcel(self) -> Parcel:
        parcel, self._parcel = self._parcel, Parcel()
        return parcel
