"""Members of a classic group: they join, share partitions, commit, leave, and do what clients do on errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kbroker.types import TopicPartition
from tests.sim.actors import TRY_AGAIN, Actor
from tests.sim.client import Unavailable

if TYPE_CHECKING:
    from tests.sim.world import World

GROUP = "workers"
LATER = TRY_AGAIN | {ErrorCode.NOT_COORDINATOR}
"""The coordinator starts, stops or loads."""
EVICTED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
"""The member has to begin again without an id. (It can be fenced by a join of its own that came late.)"""
OUTDATED = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
"""The member has to join again."""
STATIC_SINCE = 5


class GroupMember(Actor):
    """One member. ``owned`` are the partitions of its present generation, None while it has none."""

    def __init__(self, world: World, name: str, partitions: list[TopicPartition]) -> None:
        super().__init__(world, name)
        self.partitions = partitions
        self.version = self.random.choice((2, 3, 4, 5, 7, 9))
        is_static = self.version >= STATIC_SINCE and self.random.random() < 0.5
        self.instance_id = name if is_static else None
        self.session_ms = self.random.choice((6_000, 10_000))
        self.rebalance_ms = self.random.choice((3_000, 10_000))
        self.member_id = ""
        self.generation = -1
        self.owned: list[int] | None = None
        world.on_loss.append(self._forget)

    def _forget(self) -> None:
        self.member_id = ""
        self.owned = None

    async def run(self) -> None:
        while not self.stopping:
            try:
                if self.owned is None:
                    await self._enter()
                else:
                    await self._work()
            except Unavailable:
                await self.pause(1)

    # --- entering

    async def _enter(self) -> None:
        """Join and ask for the assignment; what fails is tried again by ``run``."""
        floor = self.world.checkers.generation
        joined = await self.client.request(self._join_request(), self.version, JoinGroupResponse)
        code = joined.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return
        if await self._is_refused(code, "JoinGroup"):
            return
        self.member_id, self.generation = joined.member_id, joined.generation_id
        self.world.loop.trace.record("joined", self.name, self.member_id, self.generation)
        self.world.checkers.on_generation(self.name, self.generation, floor)
        sync = await self.client.request(self._sync_request(joined), 3, SyncGroupResponse)
        if await self._is_refused(sync.error_code, "SyncGroup"):
            return
        self.owned = list(sync.assignment)
        self.world.loop.trace.record("assigned", self.name, self.generation, self.owned)
        self.world.checkers.on_assignment(self.name, self.generation, self.owned)

    def _join_request(self) -> JoinGroupRequest:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="dealt", metadata=self.name.encode())
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="simulation",
            protocols=[protocol],
        )

    def _sync_request(self, joined: JoinGroupResponse) -> SyncGroupRequest:
        """The leader deals the partitions out."""
        members = sorted(member.member_id for member in joined.members)
        numbers = [partition.partition for partition in self.partitions]
        return SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=member, assignment=bytes(numbers[at :: len(members)])
                )
                for at, member in enumerate(members)
            ],
        )

    # --- working

    async def _work(self) -> None:
        """One heartbeat, commit or farewell."""
        await self.pause(1.5)
        chance = self.random.random()
        if chance < 0.02:
            await self._leave()
        elif chance < 0.5 and self.owned:
            await self._commit(TopicPartition(self.partitions[0].topic, self.random.choice(self.owned)))
        else:
            request = HeartbeatRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
            )
            answer = await self.client.request(request, 3, HeartbeatResponse)
            await self._is_refused(answer.error_code, "Heartbeat")

    async def _commit(self, partition: TopicPartition) -> None:
        offset = self.world.checkers.next_commit(partition)
        committed = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=partition.topic, partitions=[committed])],
        )
        answer = await self.client.request(request, 8, OffsetCommitResponse)
        code = answer.topics[0].partitions[0].error_code
        if await self._is_refused(code, "OffsetCommit"):
            self.world.checkers.on_commit_refused(partition, offset)
        else:
            self.world.loop.trace.record("committed", self.name, partition, offset)
            self.world.checkers.on_commit_acknowledged(partition, offset)

    async def _leave(self) -> None:
        identity = LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        self._forget()
        answer = await self.client.request(LeaveGroupRequest(group_id=GROUP, members=[identity]), 4, LeaveGroupResponse)
        await self._is_refused(answer.error_code, "LeaveGroup")
        await self.pause(5)

    async def _is_refused(self, code: int, what: str) -> bool:
        """Do what a client does with the code; whether there was one."""
        if code == ErrorCode.NONE:
            return False
        self.expect(code, LATER | EVICTED | OUTDATED, what)
        if code in EVICTED:
            self._forget()
        elif code in OUTDATED:
            self.owned = None
        else:
            await self.pause(0.5)
        return True


class GroupWitness(Actor):
    """Somebody outside: makes the group, and looks at what it has committed."""

    def __init__(self, world: World, name: str, partitions: list[TopicPartition]) -> None:
        super().__init__(world, name)
        self.partitions = partitions

    async def make_group(self) -> None:
        """See that there is a coordinator. Raises ``Unavailable``."""
        found = await self.client.request(FindCoordinatorRequest(coordinator_keys=[GROUP]), 4, FindCoordinatorResponse)
        self.expect(found.coordinators[0].error_code, {ErrorCode.NONE}, "the first FindCoordinator")

    async def check(self) -> None:
        """Raises ``Unavailable``."""
        wanted = OffsetFetchRequest.OffsetFetchRequestTopics(
            name=self.partitions[0].topic, partition_indexes=[each.partition for each in self.partitions]
        )
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])
        answer = await self.client.request(OffsetFetchRequest(groups=[group]), 8, OffsetFetchResponse)
        found = answer.groups[0]
        if found.error_code in LATER:
            raise Unavailable("the coordinator loads")
        self.expect(found.error_code, {ErrorCode.NONE}, "OffsetFetch")
        for slot in found.topics[0].partitions:
            partition = TopicPartition(self.partitions[0].topic, slot.partition_index)
            self.world.checkers.on_committed(partition, slot.committed_offset)


def is_settled(members: list[GroupMember]) -> bool:
    """All members have their share of one generation, and every partition has one owner."""
    if any(member.owned is None for member in members) or len({member.generation for member in members}) != 1:
        return False
    owned = sorted(number for member in members for number in member.owned or ())
    return owned == [partition.partition for partition in members[0].partitions]
