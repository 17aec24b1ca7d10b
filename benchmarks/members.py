"""Members of classic groups, by hand: what they send, and how many of them become stable groups."""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import wire
from kbroker.protocol import codec
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIND, JOIN, SYNC, HEARTBEAT, COMMIT, FETCH_OFFSETS = 2, 5, 3, 3, 7, 5
"""The version in which each request is sent; none is flexible."""
SESSION_MS, REBALANCE_MS = 45_000, 60_000
COMMITTED = 7
"""The offset that every commit brings."""
PATIENCE_S = 60
NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
_CommittedTopic = OffsetCommitRequest.OffsetCommitRequestTopic
_Committed = OffsetCommitRequest.OffsetCommitRequestPartition


def new_group(kind: str) -> str:
    """A name that no group had before."""
    return f"{kind}-{time.time_ns() // 1000}"


def find(connection: wire.Connection, group: str) -> None:
    """Return when there is a coordinator that knows its groups."""
    give_up = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up:
        found = connection.ask(FindCoordinatorRequest(key=group), FIND, FindCoordinatorResponse)
        if found.error_code == 0 and committed_offset(connection, group, "any") is not None:
            return
        time.sleep(0.001)
    raise wire.WireError(f"group {group} has no coordinator")


def committed_offset(connection: wire.Connection, group: str, topic: str, partition: int = 0) -> int | None:
    """What a group committed, -1 for nothing; None while its coordinator is not ready."""
    asked = [OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
    response = connection.ask(OffsetFetchRequest(group_id=group, topics=asked), FETCH_OFFSETS, OffsetFetchResponse)
    if response.error_code in NOT_YET:
        return None
    wire.check(response.error_code, "OffsetFetch")
    return response.topics[0].partitions[0].committed_offset


@dataclass(eq=False)
class Member:
    """A connection that is, or becomes, a member of a group."""

    connection: wire.Connection
    group: str
    joined: JoinGroupResponse = field(default_factory=JoinGroupResponse)

    def join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.joined.member_id,
            protocol_type="bench",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="p", metadata=bytes(50))],
        )

    def sync_request(self) -> SyncGroupRequest:
        """The leader's brings everybody's assignment."""
        joined = self.joined
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member.member_id, assignment=bytes(50))
                for member in joined.members
            ],
        )

    def heartbeat(self) -> bytes:
        joined = self.joined
        request = HeartbeatRequest(group_id=self.group, generation_id=joined.generation_id, member_id=joined.member_id)
        return wire.framed(request, HEARTBEAT)

    def commit(self, topic: str, partitions: int = 1) -> bytes:
        """A commit of the first partitions of a topic; of one that has not joined, as an outsider's."""
        offsets = [_Committed(partition_index=index, committed_offset=COMMITTED) for index in range(partitions)]
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.joined.generation_id,
            member_id=self.joined.member_id,
            topics=[_CommittedTopic(name=topic, partitions=offsets)],
        )
        return wire.framed(request, COMMIT)


class Assembly:
    """Members that join all at once, until each has its assignment of a generation with all of its group in it.

    As clients do, a member that has its assignment learns from a heartbeat that others came since.
    """

    QUIET_S = 0.02
    """How long nothing is answered before those who have their assignments send heartbeats."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._of_group: dict[str, list[Member]] = {}
        for member in members:
            self._of_group.setdefault(member.group, []).append(member)
        self._latest = dict.fromkeys(self._of_group, 0)
        self._lacking = {group: set(own) for group, own in self._of_group.items()}
        """By group that is not stable: who has no assignment of its latest generation."""
        self._asked: dict[Member, type[JoinGroupRequest | SyncGroupRequest | HeartbeatRequest]] = {}

    def run(self) -> None:
        """Raises ``WireError``."""
        heard = time.monotonic()
        with selectors.DefaultSelector() as selector:
            for own in self._of_group.values():
                for member in own:
                    selector.register(member.connection.socket, selectors.EVENT_READ, member)
                    self._join(member)
            while self._lacking or self._asked:
                ready = selector.select(self.QUIET_S)
                for key, _ in ready:
                    self._answered(key.data, key.data.connection.receive())
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() > heard + PATIENCE_S:
                    raise wire.WireError(f"{len(self._lacking)} groups are not stable, and nobody is answered")
                else:
                    self._send_heartbeats()

    def _join(self, member: Member) -> None:
        self._asked[member] = JoinGroupRequest
        member.connection.socket.sendall(wire.framed(member.join_request(), JOIN))

    def _send_heartbeats(self) -> None:
        for group in self._lacking:
            for member in self._of_group[group]:
                if member not in self._asked:
                    self._asked[member] = HeartbeatRequest
                    member.connection.socket.sendall(member.heartbeat())

    def _answered(self, member: Member, answer: bytes) -> None:
        asked = self._asked.pop(member)
        if asked is JoinGroupRequest:
            self._joined(member, codec.decode(JoinGroupResponse, JOIN, answer, 4))
            return
        if asked is SyncGroupRequest:
            code = codec.decode(SyncGroupResponse, SYNC, answer, 4).error_code
            if not code and member.joined.generation_id == self._latest[member.group]:
                self._settled(member)
        else:
            code = codec.decode(HeartbeatResponse, HEARTBEAT, answer, 4).error_code
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._join(member)
        else:
            wire.check(code, asked.__name__)

    def _joined(self, member: Member, joined: JoinGroupResponse) -> None:
        member.joined = joined
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._join(member)
            return
        wire.check(joined.error_code, "JoinGroup")
        group = member.group
        if joined.generation_id > self._latest[group]:
            self._latest[group] = joined.generation_id
            self._lacking[group] = set(self._of_group[group])
        self._asked[member] = SyncGroupRequest
        member.connection.socket.sendall(wire.framed(member.sync_request(), SYNC))

    def _settled(self, member: Member) -> None:
        lacking = self._lacking[member.group]
        lacking.discard(member)
        if not lacking:
            del self._lacking[member.group]
