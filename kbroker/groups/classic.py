"""Requests of members between joining and leaving: SyncGroup, Heartbeat; and the replay of a group's record."""

from __future__ import annotations

import logging

from kbroker.groups.classic_group import ClassicGroup, GroupState
from kbroker.groups.rebalance import Rebalances, assigned
from kbroker.protocol.coordinator_record import Decision, Deferred, Now
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.records.group import GroupMetadataKey, GroupMetadataValue
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)


class ClassicProtocol:
    """Owner: the shard."""

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    # --- SyncGroup

    def sync(self, request: SyncGroupRequest, now: Now) -> Decision[SyncGroupResponse]:
        """A member asks for its assignment; the leader's request brings everybody's."""
        group = self._rebalances.groups.get(request.group_id)
        if group is None or group.state is GroupState.EMPTY:
            return Decision(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except ApiError as error:
            return Decision(SyncGroupResponse(error_code=error.code))
        if request.generation_id != group.generation:
            return Decision(SyncGroupResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol):
            return Decision(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if group.state is GroupState.PREPARING_REBALANCE:
            return Decision(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        self._rebalances.sync_arrived(group, request.member_id)
        if group.state is GroupState.STABLE:
            return Decision(assigned(group, member))
        sync: Deferred[SyncGroupResponse] = Deferred()
        member.syncing = sync
        if group.leader != request.member_id:
            return Decision(sync)
        return self._assign(group, request, sync, now)

    def _assign(
        self, group: ClassicGroup, request: SyncGroupRequest, sync: Deferred[SyncGroupResponse], now: Now
    ) -> Decision[SyncGroupResponse]:
        """The leader's assignments are written; replaying the record makes the group stable and answers everybody."""
        assignments = {each.member_id: each.assignment for each in request.assignments}
        without = [member_id for member_id in group.members if member_id not in assignments]
        if without:
            logger.warning(
                "Group %s, generation %d: the leader assigned nothing to %s.",
                group.group_id,
                group.generation,
                ", ".join(without),
            )
        for member in group.members.values():
            if member.syncing is not None:
                self._rebalances.renew_session(group, member, now)

        def failed(error: ApiError, later: Now) -> None:
            self._rebalances.refuse_syncs(group, error.code, later)
            self._rebalances.rebalance_or_complete_join(
                group, f"The assignments could not be written ({error.code.name})", later
            )

        return Decision(sync, [group.record(assignments)], failed=failed)

    # --- Heartbeat

    def heartbeat(self, request: HeartbeatRequest, now: Now) -> Decision[HeartbeatResponse]:
        """A member lives. It learns here that a rebalance began."""
        group = self._rebalances.groups.get(request.group_id)
        if group is None:
            return Decision(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except ApiError as error:
            return Decision(HeartbeatResponse(error_code=error.code))
        if request.generation_id != group.generation:
            return Decision(HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
        self._rebalances.renew_session(group, member, now)
        if group.state is GroupState.PREPARING_REBALANCE:
            return Decision(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return Decision(HeartbeatResponse())

    # --- replay

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None, *, is_live: bool) -> None:
        """A group's record. While the shard is live it tells of a group that is here, unless it is the first."""
        groups = self._rebalances.groups
        group = groups.get(key.group)
        if value is None:
            if group is not None:
                self._rebalances.forget(group)
                group.state = GroupState.DEAD
                del groups[key.group]
        elif group is None or not is_live:
            groups[key.group] = ClassicGroup.of_record(key.group, value)
        elif group.adopt(value):
            self._rebalances.hand_out(group)


def _differs(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known
