"""A member of a consumer group, over the client commands' connections: the classic protocol with the range assignor.

``join`` gives partitions; ``beat`` keeps them until the coordinator says that the group rebalances (``must_rejoin``);
``commit`` and ``leave``. Eager: whoever rejoins has given up everything, so it commits before. Not here: reading
(``kbroker.cli.consume``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kbroker.cli.cluster_client import GROUP, ONE_GROUP_UNTIL, RETRY_S, Cluster, check
from kbroker.peer import PeerError
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.errors import ErrorCode, ProtocolError
from kbroker.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest

PROTOCOL_TYPE: Final = "consumer"
ASSIGNOR: Final = "range"
CONSUMER_PROTOCOL: Final = 0
"""The version of subscriptions and assignments: what every consumer reads."""
COMMIT_NAMES_UNTIL: Final = 9
LEAVE_LISTS_SINCE: Final = 3
_REJOIN: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)

Offsets = dict[tuple[str, int], int]
Assigned = dict[str, list[int]]


class Member:
    """Owner: one command. After ``start``: ``join``, ``beat`` while it reads, again until ``leave``."""

    def __init__(self, cluster: Cluster, group: str, topics: Sequence[str]) -> None:
        self.must_rejoin = asyncio.Event()
        self.coordinator = -1
        self._cluster = cluster
        self._session_ms = cluster.settings.number("session.timeout.ms")
        self._rebalance_ms = cluster.settings.number("max.poll.interval.ms")
        self._beat_s = cluster.settings.number("heartbeat.interval.ms") / 1000
        self._group = group
        self._topics = list(topics)
        self._member_id = ""
        self._generation = -1

    async def start(self) -> None:
        """Find the coordinator. Raises ``CommandError``."""
        self.coordinator = await self._cluster.coordinator(self._group, GROUP)

    async def join(self) -> Assigned:
        """Join, or join again; the partitions of this member. Raises ``CommandError``, ``PeerError``."""
        while True:
            self.must_rejoin.clear()
            joined = await self._join()
            shares = await self._shares(joined) if joined.leader == self._member_id else {}
            assignments = [
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=pack(share))
                for member_id, share in shares.items()
            ]
            request = SyncGroupRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=joined.protocol_name,
                assignments=assignments,
            )
            synced = await self._ask(request)
            if synced.error_code in _REJOIN:
                self._note(synced.error_code)
                continue
            check(f"group {self._group}", synced.error_code)
            return unpack(synced.assignment)

    async def beat(self) -> None:
        """Heartbeats until the group rebalances; ends with ``must_rejoin`` set, also when the connection is lost."""
        try:
            while not self.must_rejoin.is_set():
                await asyncio.sleep(self._beat_s)
                request = HeartbeatRequest(
                    group_id=self._group, generation_id=self._generation, member_id=self._member_id
                )
                answer = await self._ask(request)
                self._note(answer.error_code)
        finally:
            self.must_rejoin.set()

    async def committed(self) -> Offsets:
        return await committed_offsets(self._cluster, self.coordinator, self._group)

    async def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Nothing is committed, and no error raised, where others took the partitions over already."""
        if offsets:
            code = await commit_offsets(
                self._cluster, self.coordinator, self._group, offsets, self._generation, self._member_id
            )
            self._note(code)

    async def leave(self) -> None:
        """Say goodbye, if there is still somebody who hears it."""
        if not self._member_id:
            return
        identity = LeaveGroupRequest.MemberIdentity(member_id=self._member_id, reason="the command ends")
        request = LeaveGroupRequest(group_id=self._group, member_id=self._member_id, members=[identity])
        peer = await self._cluster.broker(self.coordinator)
        # Up to version 2 it is one member, later a list.
        if peer.version_of(request.api_key) < LEAVE_LISTS_SINCE:
            request.members = []
        else:
            request.member_id = ""
        try:
            await self._cluster.ask(request, broker=self.coordinator)
        except PeerError:
            return

    async def _join(self) -> JoinGroupResponse:
        subscription = ConsumerProtocolSubscription(topics=self._topics)
        metadata = CONSUMER_PROTOCOL.to_bytes(2, "big") + encode(subscription, CONSUMER_PROTOCOL)
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=self._session_ms,
                rebalance_timeout_ms=self._rebalance_ms,
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=ASSIGNOR, metadata=metadata)],
            )
            # The answer comes when the others have joined, too.
            joined: JoinGroupResponse = await self._ask(request, more_ms=self._rebalance_ms)
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = joined.member_id
            elif joined.error_code in _REJOIN:
                self._note(joined.error_code)
            else:
                check(f"group {self._group}", joined.error_code)
                self._member_id, self._generation = joined.member_id, joined.generation_id
                return joined

    async def _shares(self, joined: JoinGroupResponse) -> dict[str, Assigned]:
        """As leader: what each member is to read."""
        wanted = {
            each.member_id: decode(ConsumerProtocolSubscription, CONSUMER_PROTOCOL, each.metadata, 2).topics
            for each in joined.members
        }
        names = sorted({name for topics in wanted.values() for name in topics})
        found = (await self._cluster.metadata(names)).topics
        return assign(wanted, {each.name or "": len(each.partitions) for each in found})

    async def _ask(self, request: Any, *, more_ms: int = 0) -> Any:
        """An answer of the coordinator, asked again while it reads its log."""
        peer = await self._cluster.broker(self.coordinator)
        while True:
            answer = await peer.call(request, timeout_ms=self._cluster.timeout_ms + more_ms)
            if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return answer
            await asyncio.sleep(RETRY_S)

    def _note(self, code: int) -> None:
        """What an answer says about the membership. Raises ``CommandError`` for what joining again does not mend."""
        if code not in _REJOIN:
            check(f"group {self._group}", code)
            return
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        self.must_rejoin.set()


def assign(wanted: Mapping[str, Sequence[str]], partitions: Mapping[str, int]) -> dict[str, Assigned]:
    """Kafka's range assignor: topic by topic, consecutive partitions for members in the order of their ids."""
    shares: dict[str, Assigned] = {member_id: {} for member_id in wanted}
    for topic, count in partitions.items():
        members = sorted(member_id for member_id, topics in wanted.items() if topic in topics)
        if not members:
            continue
        each, more = divmod(count, len(members))
        begin = 0
        for index, member_id in enumerate(members):
            end = begin + each + (index < more)
            if end > begin:
                shares[member_id][topic] = list(range(begin, end))
            begin = end
    return shares


def pack(share: Mapping[str, Sequence[int]]) -> bytes:
    """An assignment in the words of the consumer protocol."""
    partition = ConsumerProtocolAssignment.TopicPartition
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[partition(topic=topic, partitions=list(numbers)) for topic, numbers in share.items()]
    )
    return CONSUMER_PROTOCOL.to_bytes(2, "big") + encode(assignment, CONSUMER_PROTOCOL)


def unpack(data: bytes) -> Assigned:
    """What a consumer was given; empty for members that are no consumers."""
    if len(data) < 2:
        return {}
    version = min(int.from_bytes(data[:2], "big"), 3)
    try:
        assignment = decode(ConsumerProtocolAssignment, version, data, 2)
    except ProtocolError:
        return {}
    return {each.topic: each.partitions for each in assignment.assigned_partitions}


async def committed_offsets(cluster: Cluster, coordinator: int, group: str) -> Offsets:
    """Where a group is. Raises ``CommandError``."""
    request = OffsetFetchRequest(group_id=group, topics=None)
    answer = await cluster.ask(request, broker=coordinator, at_most=ONE_GROUP_UNTIL)
    check(f"group {group}", answer.error_code)
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE and each.committed_offset >= 0
    }


async def commit_offsets(
    cluster: Cluster,
    coordinator: int,
    group: str,
    offsets: Mapping[tuple[str, int], int],
    generation: int = -1,
    member_id: str = "",
) -> int:
    """Move a group: as its member, or from outside. The code that concerns the membership; others are raised."""
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, []).append(
            OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )
    answer = await cluster.ask(request, broker=coordinator, at_most=COMMIT_NAMES_UNTIL)
    for told in answer.topics:
        for each in told.partitions:
            if member_id and each.error_code in _REJOIN:
                return int(each.error_code)
            check(f"group {group}, {told.name}-{each.partition_index}", each.error_code)
    return ErrorCode.NONE
