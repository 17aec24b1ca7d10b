"""What Raft nodes say to each other, and what the core asks of its driver.

The messages carry the meaning of KRaft's requests (Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch), without their
framing: the driver translates. Every message names its sender and the sender's epoch. ``records`` are opaque to the
core: it only learns which offsets and epochs they cover (``extents``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class ElectionState(NamedTuple):
    """What a node must remember of elections across a crash (Kafka's ``quorum-state`` file); -1 means nobody."""

    epoch: int = 0
    leader_id: int = -1
    voted_id: int = -1


class VoteRequest(NamedTuple):
    """``pre_vote`` asks "would you vote for me?" and changes nothing (KIP-996)."""

    source: int
    epoch: int
    last_epoch: int
    last_offset: int
    pre_vote: bool


class VoteResponse(NamedTuple):
    source: int
    epoch: int
    leader_id: int
    granted: bool
    pre_vote: bool


class BeginQuorumEpochRequest(NamedTuple):
    """The new leader introduces itself; repeated until the voter fetches."""

    source: int
    epoch: int


class BeginQuorumEpochResponse(NamedTuple):
    source: int
    epoch: int
    leader_id: int


class EndQuorumEpochRequest(NamedTuple):
    """The leader resigns; ``successors`` are the voters by how far their logs reach, best first."""

    source: int
    epoch: int
    successors: tuple[int, ...]


class FetchRequest(NamedTuple):
    """A follower asks for what comes after its log's end, and thereby acknowledges everything before it."""

    source: int
    epoch: int
    correlation: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int


class Extent(NamedTuple):
    """Records of one epoch that end before ``end_offset``."""

    epoch: int
    end_offset: int


@dataclass(slots=True)
class FetchResponse:
    """``is_leader`` false: ask ``leader_id`` instead. ``diverging``: the end of the last epoch that both may share.

    The core leaves ``records`` and ``extents`` empty and says with ``read_from`` where the driver shall read them
    (-1: nothing is to be read).
    """

    source: int
    epoch: int
    correlation: int
    leader_id: int
    is_leader: bool
    high_watermark: int = -1
    diverging: Extent | None = None
    read_from: int = -1
    records: object = None
    extents: tuple[Extent, ...] = ()


Message = (
    VoteRequest
    | VoteResponse
    | BeginQuorumEpochRequest
    | BeginQuorumEpochResponse
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchResponse
)


class LeaderChange(NamedTuple):
    """The driver shall append a LeaderChangeMessage as the first batch of the epoch and report it with ``appended``."""

    epoch: int
    granting_voters: tuple[int, ...]


@dataclass(slots=True)
class Parcel:
    """What one step asks of the driver, in the order of the fields; ``send`` only when all before it is durable."""

    persist: ElectionState | None = None
    truncate_to: int | None = None
    append: list[object] = field(default_factory=list)
    leader_change: LeaderChange | None = None
    lost_leadership: bool = False
    high_watermark: int | None = None
    send: list[tuple[int, Message]] = field(default_factory=list)
