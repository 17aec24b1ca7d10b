"""A classic group: its members, its generation, and the rebalance under way.

| state | means | leaves for |
|---|---|---|
| Empty | no members; perhaps offsets | PreparingRebalance (a join) |
| PreparingRebalance | members join | CompletingRebalance (all joined or time over), Empty (none joined) |
| CompletingRebalance | joined members ask for assignments | Stable (the leader's came), PreparingRebalance |
| Stable | every member has its assignment | PreparingRebalance |
| Dead | the shard left this node or the group was deleted | - |

What survives is what stands in the last ``GroupMetadataValue``: generation, protocol, leader, members and assignments
of the last finished rebalance. Sessions, waiting joins and syncs, and a generation that has no assignments yet are
volatile. Members are kept in the order in which they came.

Invariants: every static instance id names a member; ``protocol_counts`` counts each member's protocols once, and
``metadata_size`` their bytes; ``joining_count`` is the number of members whose join waits. Follows Kafka's
``ClassicGroup`` (KIP-345, KIP-394).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from kbroker.config.java_maps import in_map_order
from kbroker.groups.history import History
from kbroker.groups.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from kbroker.protocol.coordinator_record import CoordinatorRecord, Deferred
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.records.group import GroupMetadataKey, GroupMetadataValue
from kbroker.protocol.messages.sync_group import SyncGroupResponse

GROUP_METADATA_VERSION = 3
"""The version of the value that Kafka writes; older ones are read, too."""


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_BEFORE = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
    GroupState.DEAD: tuple(GroupState),
}
"""From where each state may be reached."""


class ClassicMember:
    """One member. Time-outs in milliseconds; ``protocols`` are names and metadata, the preferred first."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Sequence[tuple[str, bytes]],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = tuple(protocols)
        self.assignment = assignment
        self.is_new = False
        """It was not part of a generation yet: its session is not renewed by waiting."""
        self.joining: Deferred[JoinGroupResponse] | None = None
        self.syncing: Deferred[SyncGroupResponse] | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def waits(self) -> bool:
        """Whether it is alive because it waits for us."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """What it says under a protocol; empty where it does not speak it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""


class ClassicGroup:
    """Owner: the shard. Changed by the named methods only."""

    def __init__(self, group_id: str, state_since_ms: int | None) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_since_ms = state_since_ms
        """Wall clock; None when an old record did not say."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: dict[str, None] = {}
        """Ids given out with MEMBER_ID_REQUIRED that have not come back yet."""
        self.pending_syncs: dict[str, None] = {}
        self.protocol_counts: dict[str, int] = {}
        self.joining_count = 0
        self.metadata_size = 0
        """Bytes of the metadata of all members, under every protocol."""
        self.new_member_added = False
        """Somebody came during the initial delay: it is prolonged."""
        self.subscribed_topics: frozenset[str] | None = None
        self.history = History()

    # --- what there is

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def have_all_joined(self) -> bool:
        return len(self.members) == self.joining_count and not self.pending_joins

    @property
    def can_rebalance(self) -> bool:
        return self.state in _BEFORE[GroupState.PREPARING_REBALANCE]

    def metadata_size_with(self, request: JoinGroupRequest) -> int:
        """What ``metadata_size`` were, had the member of the request joined."""
        known = self.members.get(request.member_id)
        before = 0 if known is None else sum(len(metadata) for _, metadata in known.protocols)
        return self.metadata_size - before + sum(len(each.metadata) for each in request.protocols)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read a topic; a consumer group whose topics are not known may read any."""
        return self.is_consumer_group if self.subscribed_topics is None else topic in self.subscribed_topics

    def supports(self, protocol_type: str, protocols: Sequence[str]) -> bool:
        """Whether somebody with these protocols may join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        count = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts.get(name, 0) == count for name in protocols
        )

    def check_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member, who must be who it says. Raises ``ApiError``: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"No member has the instance id {group_instance_id}.")
            if known != member_id:
                raise ApiError(
                    ErrorCode.FENCED_INSTANCE_ID, f"Another member took over the instance id {group_instance_id}."
                )
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"The group has no member {member_id!r}: join again.")
        return member

    def choose_protocol(self) -> str:
        """The protocol that most members like best among those that all speak; a tie is broken as a Java map does."""
        count = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            for name, _ in member.protocols:
                if self.protocol_counts[name] == count:
                    votes[name] = votes.get(name, 0) + 1
                    break
        return max(in_map_order(votes), key=lambda name: votes[name])

    # --- members

    def add(self, member: ClassicMember, joining: Deferred[JoinGroupResponse] | None) -> None:
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self._wait_for_join(member, joining)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Take a member or a pending id out; the oldest that is left becomes the leader if it was that."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            self._wait_for_join(member, None)
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def update(
        self,
        member: ClassicMember,
        protocols: Sequence[tuple[str, bytes]],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        joining: Deferred[JoinGroupResponse] | None,
    ) -> None:
        """A known member's new word."""
        self._count(member, -1)
        member.protocols = tuple(protocols)
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._wait_for_join(member, joining)

    def replace_static(self, group_instance_id: str, old_member_id: str, new_member_id: str) -> ClassicMember:
        """A static member comes back under a new id; whoever waits under the old one is fenced (KIP-345).

        A sync that the old one owes is still owed: nobody can bring it, so the sync phase ends in a rebalance, as in
        Kafka.
        """
        old = self.members.pop(old_member_id)
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self.answer_join(
            old, JoinGroupResponse(error_code=fenced, member_id=old_member_id, protocol_name=None, members=[])
        )
        self.answer_sync(old, SyncGroupResponse(error_code=fenced))
        new = ClassicMember(
            new_member_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        self.members[new_member_id] = new
        if self.leader == old_member_id:
            self.leader = new_member_id
        self.static_members[group_instance_id] = new_member_id
        return new

    def _count(self, member: ClassicMember, step: int) -> None:
        counts = self.protocol_counts
        for name, metadata in member.protocols:
            self.metadata_size += step * len(metadata)
            count = counts.get(name, 0) + step
            if count:
                counts[name] = count
            else:
                del counts[name]

    def _wait_for_join(self, member: ClassicMember, joining: Deferred[JoinGroupResponse] | None) -> None:
        self.joining_count += (joining is not None) - (member.joining is not None)
        member.joining = joining

    # --- those who wait

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse) -> None:
        joining = member.joining
        if joining is not None:
            self._wait_for_join(member, None)
            joining.complete(response)

    def answer_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """Whether it waited."""
        syncing = member.syncing
        if syncing is None:
            return False
        member.syncing = None
        syncing.complete(response)
        return True

    # --- the course of a rebalance

    def move_to(self, state: GroupState, wall_ms: int) -> None:
        if self.state not in _BEFORE[state]:
            raise RuntimeError(f"group {self.group_id} cannot go from {self.state.value} to {state.value}")
        self.previous_state = self.state
        self.state = state
        self.state_since_ms = wall_ms

    def elect_joined_leader(self) -> bool:
        """See that the leader is among those that joined; False when nobody did."""
        leader = None if self.leader is None else self.members.get(self.leader)
        if leader is None:
            return False
        if leader.joining is not None:
            return True
        for member in self.members.values():
            if member.joining is not None:
                self.leader = member.member_id
                return True
        return False

    def begin_generation(self, wall_ms: int) -> None:
        """All who wanted have joined."""
        self.generation += 1
        self.pending_syncs.clear()
        self.protocol = self.choose_protocol() if self.members else None
        self.learn_subscriptions()
        self.move_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, wall_ms)

    def learn_subscriptions(self) -> None:
        """Which topics the members of a consumer group read, if they tell."""
        if not self.is_consumer_group:
            self.subscribed_topics = None
        elif not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol is None:
            self.subscribed_topics = None
        else:
            self.subscribed_topics = subscribed_topics(
                member.metadata(self.protocol) for member in self.members.values()
            )

    # --- records

    def record(self, assignments: dict[str, bytes] | None = None) -> CoordinatorRecord:
        """What of the group is to be kept; assignments are the members' own unless given."""
        members = [
            GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(self.protocol),
                assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
            )
            for member in self.members.values()
        ]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=-1 if self.state_since_ms is None else self.state_since_ms,
            members=members,
        )
        return CoordinatorRecord(GroupMetadataKey(group=self.group_id), value, GROUP_METADATA_VERSION)

    def adopt(self, value: GroupMetadataValue) -> bool:
        """Take what was just written of this living group; True when that finished its rebalance.

        A record of a rebalance holds the leader's assignments: with it the group is stable. Other records only tell
        what is so already.
        """
        if self.state is not GroupState.COMPLETING_REBALANCE or value.generation != self.generation:
            return False
        for written in value.members:
            member = self.members.get(written.member_id)
            if member is not None:
                member.assignment = written.assignment
        self.move_to(GroupState.STABLE, value.current_state_timestamp)
        return True

    def tombstone(self) -> CoordinatorRecord:
        return CoordinatorRecord(GroupMetadataKey(group=self.group_id), None)

    @classmethod
    def of_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """The group that a record describes: Stable, or Empty when it has no members."""
        since_ms = value.current_state_timestamp
        group = cls(group_id, None if since_ms == -1 else since_ms)
        group.protocol_type = value.protocol_type or None
        group.generation = value.generation
        group.protocol = value.protocol
        group.leader = value.leader
        for member in value.members:
            timeout_ms = member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout
            group.add(
                ClassicMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    timeout_ms,
                    member.session_timeout,
                    value.protocol_type,
                    [(value.protocol or "", member.subscription)],
                    member.assignment,
                ),
                None,
            )
        if group.members:
            group.state = GroupState.STABLE
        group.learn_subscriptions()
        return group
