"""Joining and leaving a classic group, as a dynamic and as a static member.

A join is answered at once (refused, or nothing changes), or waits in its member until the join phase ends. Kafka's
rules, in Kafka's order (``GroupMetadataManager.classicGroupJoin``, ``classicGroupLeave``; KIP-345, 394, 800, 814).
"""

from __future__ import annotations

import logging
from typing import NamedTuple, Protocol

from kbroker.groups.classic_group import ClassicGroup, ClassicMember, GroupState
from kbroker.groups.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, Rebalances, Records, joined
from kbroker.protocol.coordinator_record import Decision, Deferred, Now
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

logger = logging.getLogger(__name__)

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9
UNKNOWN_MEMBER = ""
PENDING_JOINS_MAX = 10_000
"""Ids that a group gives out and waits for; beyond that the oldest is forgotten, and its owner asks for another."""

METADATA_SIZE_MAX = 128 * 1024 * 1024
"""Bytes of what a group's members say of themselves, in all their protocols: whoever brings more is refused."""

Join = Deferred[JoinGroupResponse]


class Chance(Protocol):
    """Where random bytes come from."""

    def randbytes(self, n: int, /) -> bytes: ...


class Client(NamedTuple):
    """Who asks, and in which version of the API."""

    client_id: str
    client_host: str
    api_version: int


def new_member_id(stem: str, chance: Chance) -> str:
    """``stem``, a dash, and a random UUID of version 4 as Java prints it."""
    raw = bytearray(chance.randbytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{stem}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Membership:
    """Owner: the shard. ``rebalances`` holds the groups and their deadlines."""

    def __init__(self, rebalances: Rebalances, chance: Chance) -> None:
        self._rebalances = rebalances
        self._chance = chance

    # --- joining

    def join(self, client: Client, request: JoinGroupRequest, now: Now) -> Decision[JoinGroupResponse]:
        """The group is made by the first join without a member id; a member id needs a group that knows it."""
        member_id = request.member_id
        if client.api_version == 0:
            request.rebalance_timeout_ms = request.session_timeout_ms
        groups = self._rebalances.groups
        group = groups.get(request.group_id)
        first_record = None
        if group is None:
            if member_id != UNKNOWN_MEMBER:
                return Decision(refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            group = groups[request.group_id] = ClassicGroup(request.group_id, now.wall_ms)
            first_record = group.record()
        join: Join = Deferred()
        if not (self._has_room(group, member_id) and group.metadata_size_with(request) <= METADATA_SIZE_MAX):
            group.remove(member_id)
            self._rebalances.end_session(group, member_id)
            join.complete(refused(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER))
            return Decision(join)
        if member_id == UNKNOWN_MEMBER:
            decision = self._join_new(client, request, group, join, now)
        else:
            decision = self._join_known(client, request, group, join, now)
        if first_record is not None and not decision.records:
            # The group exists from here on, without members as yet, even when the join was refused.
            decision.records = [first_record]
            decision.failed = lambda _error, _now: self._unmake(group, join)
        return decision

    def _unmake(self, group: ClassicGroup, join: Join) -> JoinGroupResponse | None:
        """The group was never there; whoever had its answer before the write keeps it."""
        self._rebalances.forget(group)
        self._rebalances.groups.pop(group.group_id, None)
        return join.reply

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Members are accepted up to the maximal size; while a group rebalances, those who joined count."""
        size_max = self._rebalances.settings.max_size
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.joining is not None) or group.joining_count < size_max
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return member is not None or len(group.members) < size_max
        return True

    def _join_new(
        self, client: Client, request: JoinGroupRequest, group: ClassicGroup, join: Join, now: Now
    ) -> Decision[JoinGroupResponse]:
        if not group.supports(request.protocol_type, [each.name for each in request.protocols]):
            join.complete(refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER))
            return Decision(join)
        instance_id = request.group_instance_id
        member_id = new_member_id(client.client_id if instance_id is None else instance_id, self._chance)
        if instance_id is not None:
            old_member_id = group.static_members.get(instance_id)
            if old_member_id is not None:
                return self._replace_static(client, request, group, old_member_id, member_id, join, now)
        elif client.api_version >= MEMBER_ID_REQUIRED_SINCE:
            if len(group.pending_joins) >= PENDING_JOINS_MAX:
                oldest = next(iter(group.pending_joins))
                group.remove(oldest)
                self._rebalances.end_session(group, oldest)
            group.pending_joins[member_id] = None
            self._rebalances.set_session(group, member_id, request.session_timeout_ms, now)
            join.complete(refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return Decision(join)
        return Decision(join, self._add(client, request, group, member_id, join, now))

    def _add(
        self, client: Client, request: JoinGroupRequest, group: ClassicGroup, member_id: str, join: Join, now: Now
    ) -> Records:
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            client.client_id,
            client.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            protocols_of(request),
        )
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, join)
        self._rebalances.set_session(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS, now)
        kind = "Member" if member.group_instance_id is None else f"Static member {member.group_instance_id},"
        return self._rebalances.rebalance_or_complete_join(
            group, f"{kind} {member_id} joins{_because(request.reason)}", now
        )

    def _join_known(
        self, client: Client, request: JoinGroupRequest, group: ClassicGroup, join: Join, now: Now
    ) -> Decision[JoinGroupResponse]:
        member_id = request.member_id
        if not group.supports(request.protocol_type, [each.name for each in request.protocols]):
            join.complete(refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
            return Decision(join)
        if member_id in group.pending_joins:
            if request.group_instance_id is not None:
                join.complete(refused(ErrorCode.UNKNOWN_SERVER_ERROR, UNKNOWN_MEMBER))
                return Decision(join)
            return Decision(join, self._add(client, request, group, member_id, join, now))
        try:
            member = group.check_member(member_id, request.group_instance_id)
        except ApiError as error:
            join.complete(refused(error.code, member_id))
            return Decision(join)
        reason = self._reason_to_rebalance(group, member, request)
        if reason is None:
            if group.state is GroupState.EMPTY:
                join.complete(refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
            else:
                join.complete(joined(group, member_id))
            return Decision(join)
        # A second join of a member that waits takes the place of the first, which nobody can answer any more.
        group.update(member, protocols_of(request), request.rebalance_timeout_ms, request.session_timeout_ms, join)
        return Decision(join, self._rebalances.rebalance_or_complete_join(group, reason, now))

    def _reason_to_rebalance(self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest) -> str | None:
        """Why a known member's join moves the group; None when it only asks again for what it may have missed."""
        if group.state is GroupState.PREPARING_REBALANCE:
            return f"Member {member.member_id} joins{_because(request.reason)}"
        has_changed = member.protocols != protocols_of(request)
        if group.state is GroupState.STABLE and group.leader == member.member_id:
            return f"Leader {member.member_id} joins again{_because(request.reason)}"
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) and has_changed:
            return f"Member {member.member_id} joins again with other metadata{_because(request.reason)}"
        return None

    def _replace_static(
        self,
        client: Client,
        request: JoinGroupRequest,
        group: ClassicGroup,
        old_member_id: str,
        new_id: str,
        join: Join,
        now: Now,
    ) -> Decision[JoinGroupResponse]:
        """A static member comes back: it takes its predecessor's place, without a rebalance where that can be."""
        instance_id = request.group_instance_id or ""
        old_leader = group.leader or ""
        member = group.replace_static(instance_id, old_member_id, new_id)
        self._rebalances.end_session(group, old_member_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._rebalances.renew_session(group, member, now)
        group.update(member, protocols_of(request), request.rebalance_timeout_ms, request.session_timeout_ms, join)
        who = f"Static member {instance_id} comes back as {new_id}"
        if group.state is GroupState.STABLE:
            if group.protocol != group.choose_protocol():
                reason = f"{who} and the group's protocol changes{_because(request.reason)}"
                return Decision(join, self._rebalances.rebalance_or_complete_join(group, reason, now))
            logger.info("Group %s: %s, without a rebalance.", group.group_id, who)

            def take_back(error: ApiError, later: Now) -> JoinGroupResponse:
                group.update(member, *before, None)
                restored = group.replace_static(instance_id, new_id, old_member_id)
                self._rebalances.end_session(group, new_id)
                self._rebalances.renew_session(group, restored, later)
                return _told_of_leader(group, old_leader, UNKNOWN_MEMBER, error.code)

            group.answer_join(member, self._static_answer(client, group, member, old_leader))
            return Decision(join, [group.record()], failed=take_back)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id at this moment.
            reason = f"{who} while assignments are awaited{_because(request.reason)}"
            return Decision(join, self._rebalances.begin(group, reason, now))
        return Decision(join, self._rebalances.maybe_complete_join(group, now))

    @staticmethod
    def _static_answer(
        client: Client, group: ClassicGroup, member: ClassicMember, old_leader: str
    ) -> JoinGroupResponse:
        """Since version 9 a leader learns that it leads but need not assign; before, it is told its old id leads."""
        if client.api_version >= SKIP_ASSIGNMENT_SINCE:
            return joined(group, member.member_id, skip_assignment=group.leader == member.member_id)
        return _told_of_leader(group, old_leader, member.member_id, ErrorCode.NONE)

    # --- leaving

    def leave(self, request: LeaveGroupRequest, now: Now) -> Decision[LeaveGroupResponse]:
        """Each member leaves or is told why not; what follows for the group follows once."""
        group = self._rebalances.groups.get(request.group_id)
        answers: list[LeaveGroupResponse.MemberResponse] = []
        gone: list[str] = []
        for identity in request.members:
            code = ErrorCode.UNKNOWN_MEMBER_ID
            if group is not None:
                code = self._leave(group, identity, gone)
            answers.append(
                LeaveGroupResponse.MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
                )
            )
        records: Records = []
        if group is not None and any(answer.error_code == ErrorCode.NONE for answer in answers):
            if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                reason = f"{', '.join(gone) or 'A pending member'} left"
                records = self._rebalances.rebalance_or_complete_join(group, reason, now)
            elif group.state is GroupState.PREPARING_REBALANCE:
                records = self._rebalances.maybe_complete_join(group, now)
        return Decision(LeaveGroupResponse(members=answers), records)

    def _leave(self, group: ClassicGroup, identity: LeaveGroupRequest.MemberIdentity, gone: list[str]) -> ErrorCode:
        """An administrator names a static member by its instance id alone."""
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if member_id == UNKNOWN_MEMBER:
            known = None if instance_id is None else group.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in group.pending_joins:
            group.remove(member_id)
            self._rebalances.end_session(group, member_id)
            return ErrorCode.NONE
        else:
            try:
                group.check_member(member_id, instance_id)
            except ApiError as error:
                return error.code
        member = group.members[member_id]
        self._rebalances.end_session(group, member_id)
        group.answer_join(member, refused(ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER))
        group.remove(member_id)
        gone.append(f"{member_id}{_because(identity.reason)}")
        return ErrorCode.NONE


def refused(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


def _told_of_leader(group: ClassicGroup, leader: str, member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader,
        member_id=member_id,
    )


def protocols_of(request: JoinGroupRequest) -> tuple[tuple[str, bytes], ...]:
    """Names and metadata; of a name that comes twice the first counts, as in Kafka's collection."""
    return tuple({each.name: (each.name, each.metadata) for each in reversed(request.protocols)}.values())[::-1]


def _because(reason: str | None) -> str:
    """A client's own words, for the history."""
    return f" (it says: {reason})" if reason else ""
