"""One partition's share of all groups: the fold of its log, the requests of its groups, and their timers.

The runtime hosts it: ``replay`` and ``replay_marker`` are called for every record, written or loaded; operations take
the time and return decisions; ``deadlines`` says when to come back. What is durable is in the groups' records and
``offsets``; what is volatile (sessions, waiting joins and syncs, histories) goes when the shard leaves this node.

Records of groups of other kinds stay in the log and are passed over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial

from kbroker.groups.classic import ClassicProtocol
from kbroker.groups.classic_group import ClassicGroup, ClassicMember, GroupState
from kbroker.groups.history import Rebalance
from kbroker.groups.membership import Chance, Membership
from kbroker.groups.offset_requests import OffsetRequests
from kbroker.groups.offsets import Offsets
from kbroker.groups.rebalance import Rebalances, Records
from kbroker.groups.settings import GroupSettings
from kbroker.protocol.coordinator_record import CoordinatorRecord, Deadlines, Decision, Now, Stamp
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.delete_groups import DeleteGroupsResponse
from kbroker.protocol.messages.describe_groups import DescribeGroupsResponse
from kbroker.protocol.messages.list_groups import ListGroupsResponse
from kbroker.protocol.messages.records.group import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kbroker.types import Uuid

logger = logging.getLogger(__name__)

CLASSIC = "classic"
EXPIRY_SLICE = 500
"""So many offsets and groups retention looks at before others have their turn: some milliseconds if all are deleted."""
GROUP_ID_NOT_FOUND_SINCE = 6
"""The version of DescribeGroups from which an unknown group is an error."""

_Described = DescribeGroupsResponse.DescribedGroup
_Deleted = DeleteGroupsResponse.DeletableGroupResult


class GroupShard:
    """Owner: the runtime."""

    def __init__(self, settings: GroupSettings, chance: Chance) -> None:
        self.deadlines = Deadlines()
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = Offsets()
        self._settings = settings
        self._rebalances = Rebalances(self.groups, self.deadlines, settings)
        self.membership = Membership(self._rebalances, chance)
        self.protocol = ClassicProtocol(self._rebalances)
        self.offset_requests = OffsetRequests(self._rebalances, self.offsets)
        self._is_live = False

    # --- the fold

    def replay(self, record: CoordinatorRecord, offset: int, stamp: Stamp | None) -> None:
        """One record of the log, at ``offset``."""
        self._rebalances.unwritten.clear()
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            if value is not None and not isinstance(value, OffsetCommitValue):
                raise TypeError(f"an offset's key has a {type(value).__name__}")
            self._replay_commit(key, value, offset, stamp)
        elif isinstance(key, GroupMetadataKey):
            if value is not None and not isinstance(value, GroupMetadataValue):
                raise TypeError(f"a group's key has a {type(value).__name__}")
            self.protocol.replay(key, value, is_live=self._is_live)
        elif isinstance(key, LegacyOffsetCommitKey):
            modern = None
            if isinstance(value, LegacyOffsetCommitValue):
                modern = OffsetCommitValue(
                    offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
                )
            key_ = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
            self._replay_commit(key_, modern, offset, stamp)
        else:
            logger.debug("Passing over a %s", type(key).__name__)

    def _replay_commit(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int, stamp: Stamp | None
    ) -> None:
        if value is not None and key.group not in self.groups:
            # A group without members begins with its first offset: it has no record of its own.
            self.groups[key.group] = ClassicGroup(key.group, value.commit_timestamp)
        self.offsets.replay(key, value, offset, None if stamp is None else stamp.producer_id)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """A transaction of this producer ended."""
        self._rebalances.unwritten.clear()
        self.offsets.replay_marker(producer_id, is_commit=is_commit)

    # --- life

    def loaded(self, now: Now) -> Decision[None]:
        """Everything is read: from now on this shard decides."""
        self._is_live = True
        records: Records = []
        for group in list(self.groups.values()):
            records += self._rebalances.loaded(group, now)
        self._schedule_expiry(now)
        return Decision(None, records)

    def unload(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """The shard leaves this node: nobody is left waiting."""
        self._is_live = False
        for group in self.groups.values():
            self._rebalances.abandon(group, code)

    def _schedule_expiry(self, now: Now) -> None:
        self.deadlines.set("expiry", now.monotonic_ms + self._settings.retention_check_interval_ms, self.expire)

    def expire(self, now: Now) -> Decision[None]:
        """Delete offsets whose time is over, and groups of which nothing is left: some of them now, the others soon."""
        self._schedule_expiry(now)
        return self._expire_of(list(self.groups), now)

    def _expire_of(self, group_ids: list[str], now: Now) -> Decision[None]:
        """Look at some of these groups, the last first, and come back for the others."""
        records: Records = []
        left = EXPIRY_SLICE
        while group_ids and left > 0:
            group = self.groups.get(group_ids.pop())
            if group is None:
                continue
            left -= 1 + self.offsets.count(group.group_id)
            gone, is_all = self.offsets.expired(group, now.wall_ms, self._settings.offsets_retention_ms)
            records += gone
            if is_all and group.state is GroupState.EMPTY:
                records.append(group.tombstone())
        if group_ids:
            self.deadlines.set("expiry goes on", now.monotonic_ms, partial(self._expire_of, group_ids))
        if records:
            logger.info("Retention deletes %d offsets and groups.", len(records))
        return Decision(None, records, atomic=False)

    def topics_deleted(self, wanted_id: Callable[[str], Uuid | None]) -> Decision[None]:
        """Offsets of topics that are gone go, too (``Offsets.deletions_of_topics``)."""
        return Decision(None, self.offsets.deletions_of_topics(wanted_id), atomic=False)

    # --- groups as a whole

    def delete_groups(self, group_ids: list[str]) -> Decision[list[_Deleted]]:
        """Delete groups without members, with their offsets."""
        results: list[_Deleted] = []
        records: Records = []
        for group_id in group_ids:
            group = self.groups.get(group_id)
            code, message = ErrorCode.NONE, None
            if group is None:
                code, message = ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found."
            elif group.state is not GroupState.EMPTY:
                code, message = ErrorCode.NON_EMPTY_GROUP, f"Group {group_id} has members."
            else:
                records += self.offsets.deletions_of_group(group_id)
                records.append(group.tombstone())
            results.append(_Deleted(group_id=group_id, error_code=code, error_message=message))
        return Decision(results, records)

    def list_groups(self, states: Collection[str], types: Collection[str]) -> list[ListGroupsResponse.ListedGroup]:
        """Groups in one of ``states`` and of one of ``types``, both in lower case; empty means any."""
        if types and CLASSIC not in types:
            return []
        return [
            ListGroupsResponse.ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC,
            )
            for group in self.groups.values()
            if (not states or group.state.value.lower() in states) and group.group_id not in self._rebalances.unwritten
        ]

    def describe(self, group_id: str, api_version: int) -> _Described:
        """One group. Protocol and members' metadata are told of a stable group only."""
        group = self.groups.get(group_id)
        if group is None or group_id in self._rebalances.unwritten:
            described = _Described(group_id=group_id, group_state=GroupState.DEAD.value)
            if api_version >= GROUP_ID_NOT_FOUND_SINCE:
                described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                described.error_message = f"Group {group_id} not found."
            return described
        is_stable = group.state is GroupState.STABLE
        return _Described(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol or "") if is_stable else "",
            members=[
                _described_member(member, member.metadata(group.protocol) if is_stable else b"")
                for member in group.members.values()
            ],
        )

    def history(self, group_id: str) -> list[Rebalance]:
        """Why the group's latest rebalances began, oldest first."""
        group = self.groups.get(group_id)
        return [] if group is None else list(group.history)


def _described_member(member: ClassicMember, metadata: bytes) -> DescribeGroupsResponse.DescribedGroupMember:
    return DescribeGroupsResponse.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=member.assignment,
    )
