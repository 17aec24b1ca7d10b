"""The course of a rebalance: who is waited for, how long, and what happens when time is over.

Every function that may end a generation returns the records to write (often none). Deadlines of a group: the session of
each member, the join phase, the sync phase.

| deadline | set | when it is over |
|---|---|---|
| session of a member | at its signs of life, and when a wait ends | the member is removed, a rebalance begins |
| join phase | a rebalance begins | dynamic members that did not join are removed, a generation begins |
| join phase of an Empty group | the first join | prolonged while members come, up to the rebalance time-out |
| sync phase | a generation begins | members that did not ask for their assignment are removed, a rebalance begins |

Follows Kafka's ``GroupMetadataManager`` (KIP-134, KIP-394, KIP-800).
"""

from __future__ import annotations

import logging

from kbroker.groups.classic_group import ClassicGroup, ClassicMember, GroupState
from kbroker.groups.history import Rebalance
from kbroker.groups.settings import GroupSettings
from kbroker.protocol.coordinator_record import NOTHING, CoordinatorRecord, Deadlines, Decision, Now
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60_000
"""How long a new member's join waits: it has no session yet (Kafka's ``group.new.member.join.timeout``)."""

Records = list[CoordinatorRecord]


class Rebalances:
    """Owner: the shard, which shares its groups and deadlines."""

    def __init__(self, groups: dict[str, ClassicGroup], deadlines: Deadlines, settings: GroupSettings) -> None:
        self.groups = groups
        self.unwritten: set[str] = set()
        """Groups without a record. Whoever only reads sees them from the shard's next record on, as in Kafka."""
        self.deadlines = deadlines
        self.settings = settings

    # --- sessions

    def renew_session(self, group: ClassicGroup, member: ClassicMember, now: Now) -> None:
        self.set_session(group, member.member_id, member.session_timeout_ms, now)

    def set_session(self, group: ClassicGroup, member_id: str, timeout_ms: int, now: Now) -> None:
        self.deadlines.set(
            ("session", group.group_id, member_id),
            now.monotonic_ms + timeout_ms,
            lambda later: self._session_expired(group, member_id, timeout_ms, later),
        )

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self.deadlines.cancel(("session", group.group_id, member_id))

    def _session_expired(self, group: ClassicGroup, member_id: str, timeout_ms: int, now: Now) -> Decision[None]:
        if self.groups.get(group.group_id) is not group:
            return NOTHING
        if member_id in group.pending_joins:
            logger.info("Group %s: %s never joined with the id it was given.", group.group_id, member_id)
            group.remove(member_id)
            return Decision(None, self.complete_join_if_all_joined(group, now))
        member = group.members.get(member_id)
        if member is None or member.waits:
            return NOTHING
        return Decision(
            None, self._remove(group, member, f"Member {member_id} was not heard of for {timeout_ms} ms", now)
        )

    def _remove(self, group: ClassicGroup, member: ClassicMember, reason: str, now: Now) -> Records:
        group.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, protocol_name=None))
        group.remove(member.member_id)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self.rebalance_or_complete_join(group, reason, now)
        return self.complete_join_if_all_joined(group, now)

    # --- the join phase

    def rebalance_or_complete_join(self, group: ClassicGroup, reason: str, now: Now) -> Records:
        """Begin a rebalance, or bring the one under way to its end if this was the last thing it waited for."""
        return self.begin(group, reason, now) if group.can_rebalance else self.maybe_complete_join(group, now)

    def begin(self, group: ClassicGroup, reason: str, now: Now) -> Records:
        """The group goes to PreparingRebalance, for ``reason``."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now)
        group.pending_syncs.clear()
        self.deadlines.cancel(("sync", group.group_id))
        is_initial = group.state is GroupState.EMPTY
        group.history.add(Rebalance(now.wall_ms, group.generation, len(group.members), reason))
        logger.info(
            "Group %s rebalances from %s, generation %d, with %d members: %s.",
            group.group_id,
            group.state.value,
            group.generation,
            len(group.members),
            reason,
        )
        group.move_to(GroupState.PREPARING_REBALANCE, now.wall_ms)
        if is_initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now)
            return []
        if group.have_all_joined:
            return self.complete_join(group, now)
        self._limit_join(group, now)
        return []

    def maybe_complete_join(self, group: ClassicGroup, now: Now) -> Records:
        """End the join phase if everybody is there; an initial one waits for its delay instead."""
        if group.previous_state is GroupState.EMPTY:
            return []
        return self.complete_join_if_all_joined(group, now)

    def complete_join_if_all_joined(self, group: ClassicGroup, now: Now) -> Records:
        """The same, but an initial join phase ends early, too: somebody it waited for is gone."""
        if group.state is GroupState.PREPARING_REBALANCE and group.have_all_joined:
            return self.complete_join(group, now)
        return []

    def complete_join(self, group: ClassicGroup, now: Now) -> Records:
        """The join phase is over: a generation begins with those who joined, and static members who did not."""
        self.deadlines.cancel(("join", group.group_id))
        missing = [each for each in group.members.values() if each.joining is None and not each.is_static]
        for member in missing:
            group.remove(member.member_id)
            self.end_session(group, member.member_id)
        if missing:
            names = ", ".join(member.member_id for member in missing)
            logger.info("Group %s goes on without %s, who did not join again in time.", group.group_id, names)
        if not group.elect_joined_leader() and group.members:
            logger.error("Group %s cannot end its rebalance: no member joined again.", group.group_id)
            self._limit_join(group, now)
            return []
        group.begin_generation(now.wall_ms)
        if group.state is GroupState.EMPTY:
            logger.info("Group %s is empty as of generation %d.", group.group_id, group.generation)
            return [group.record({})]
        logger.info(
            "Group %s is at generation %d with %d members.", group.group_id, group.generation, len(group.members)
        )
        for member in list(group.members.values()):
            group.answer_join(member, joined(group, member.member_id))
            self.renew_session(group, member, now)
            member.is_new = False
            group.pending_syncs[member.member_id] = None
        generation = group.generation
        self.deadlines.set(
            ("sync", group.group_id),
            now.monotonic_ms + group.rebalance_timeout_ms,
            lambda later: self._syncs_expired(group, generation, later),
        )
        return []

    def _limit_join(self, group: ClassicGroup, now: Now) -> None:
        self.deadlines.set(
            ("join", group.group_id),
            now.monotonic_ms + group.rebalance_timeout_ms,
            lambda later: self._join_expired(group, later),
        )

    def _join_expired(self, group: ClassicGroup, now: Now) -> Decision[None]:
        if self.groups.get(group.group_id) is not group:
            return NOTHING
        return Decision(None, self.complete_join(group, now))

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, remaining_ms: int, now: Now) -> None:
        self.deadlines.set(
            ("join", group.group_id),
            now.monotonic_ms + delay_ms,
            lambda later: self._waited_for_more(group, delay_ms, remaining_ms, later),
        )

    def _waited_for_more(self, group: ClassicGroup, delay_ms: int, remaining_ms: int, now: Now) -> Decision[None]:
        if self.groups.get(group.group_id) is not group:
            return NOTHING
        if group.new_member_added and remaining_ms > 0:
            group.new_member_added = False
            next_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_more(group, next_ms, max(remaining_ms - delay_ms, 0), now)
            return NOTHING
        return Decision(None, self.complete_join(group, now))

    # --- the sync phase

    def sync_arrived(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_syncs.pop(member_id, None)
        if not group.pending_syncs:
            self.deadlines.cancel(("sync", group.group_id))

    def _syncs_expired(self, group: ClassicGroup, generation: int, now: Now) -> Decision[None]:
        is_due = (
            self.groups.get(group.group_id) is group
            and group.generation == generation
            and group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
            and group.pending_syncs
        )
        if not is_due:
            return NOTHING
        late = list(group.pending_syncs)
        for member_id in late:
            group.remove(member_id)
            self.end_session(group, member_id)
        reason = f"{', '.join(late)} did not ask for an assignment in time"
        return Decision(None, self.begin(group, reason, now))

    def refuse_syncs(self, group: ClassicGroup, code: ErrorCode, now: Now) -> None:
        """No assignments in this generation."""
        for member in group.members.values():
            member.assignment = b""
            if group.answer_sync(member, SyncGroupResponse(error_code=code)):
                self.renew_session(group, member, now)

    def hand_out(self, group: ClassicGroup) -> None:
        """Everybody who waits gets the assignment that was written."""
        for member in group.members.values():
            group.answer_sync(member, assigned(group, member))

    # --- life of a group

    def loaded(self, group: ClassicGroup, now: Now) -> Records:
        """The group was read from the log: its members have to show up."""
        for member in group.members.values():
            self.renew_session(group, member, now)
        if len(group.members) > self.settings.max_size:
            reason = f"The group has {len(group.members)} members, group.max.size is {self.settings.max_size}"
            return self.begin(group, reason, now)
        return []

    def forget(self, group: ClassicGroup) -> None:
        """The group is gone from here: none of its deadlines act any more."""
        self.deadlines.cancel(("join", group.group_id))
        self.deadlines.cancel(("sync", group.group_id))
        for member_id in [*group.members, *group.pending_joins]:
            self.end_session(group, member_id)

    def abandon(self, group: ClassicGroup, code: ErrorCode) -> None:
        """The shard leaves this node: who waits is sent elsewhere."""
        for member in group.members.values():
            group.answer_join(
                member, JoinGroupResponse(member_id=member.member_id, error_code=code, protocol_name=None)
            )
            group.answer_sync(member, SyncGroupResponse(error_code=code))
        group.state = GroupState.DEAD


def joined(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """What a member is told of the generation; the leader alone learns the members."""
    members = []
    if group.leader == member_id:
        members = [
            JoinGroupResponse.JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                metadata=each.metadata(group.protocol),
            )
            for each in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def assigned(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
