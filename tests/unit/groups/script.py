"""A shard in a script: operations are run, their records replayed, replies and log lines kept as text."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from kbroker.groups.membership import Client
from kbroker.groups.settings import GroupSettings
from kbroker.groups.shard import GroupShard
from kbroker.protocol.coordinator_record import CoordinatorRecord, Decision, Deferred, Now
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kbroker.protocol.record_codec import (
    GROUP,
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)

T = TypeVar("T")
WALL_MS = 1_700_000_000_000
GROUP_ID = "g"


class Script:
    """One shard, its log and its time."""

    def __init__(self, settings: GroupSettings | None = None, seed: int = 0) -> None:
        self.settings = settings or GroupSettings(initial_rebalance_delay_ms=100)
        self.random = Random(seed)
        self.time_ms = 0
        self.log: list[tuple[bytes, bytes | None, int | None]] = []
        self.refuses_writes: ErrorCode | None = None
        self.shard = GroupShard(self.settings, self.random)
        self.run(self.shard.loaded(self.now))

    @property
    def now(self) -> Now:
        return Now(WALL_MS + self.time_ms, self.time_ms)

    # --- what the runtime does

    def run(self, decision: Decision[T]) -> T | Deferred[T]:
        if decision.records and self.refuses_writes is not None:
            error = ApiError(self.refuses_writes)
            told = None if decision.failed is None else decision.failed(error, self.now)
            if told is not None:
                return told
            raise error
        for record in decision.records:
            self._append(record, decision)
        reply = decision.reply
        if isinstance(reply, Deferred) and reply.is_done:
            return reply.reply  # type: ignore[return-value]  # it is there when it is done
        return reply

    def _append(self, record: CoordinatorRecord, decision: Decision[Any]) -> None:
        value = None if record.value is None else encode_coordinator_value(record.value, record.version)
        producer_id = None if decision.stamp is None else decision.stamp.producer_id
        self.log.append((encode_coordinator_key(record.key), value, producer_id))
        self.shard.replay(record, len(self.log) - 1, decision.stamp)

    def pass_time(self, ms: int) -> None:
        """Let time pass, deadline by deadline."""
        end = self.time_ms + ms
        while True:
            at = self.shard.deadlines.next_ms()
            if at is None or at > end:
                break
            self.time_ms = max(self.time_ms, at)
            action = self.shard.deadlines.pop_due(self.time_ms)
            if action is not None:
                self.run(action(self.now))
        self.time_ms = end

    def restart(self) -> None:
        """The shard is gone and read anew from its log."""
        self.shard.unload()
        self.shard = GroupShard(self.settings, self.random)
        for offset, (key_bytes, value_bytes, _) in enumerate(self.log):
            key = decode_coordinator_key(GROUP, key_bytes)
            value = None if value_bytes is None else decode_coordinator_value(GROUP, key.api_key, value_bytes)
            self.shard.replay(CoordinatorRecord(key, value), offset, None)
        self.run(self.shard.loaded(self.now))

    # --- requests

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"),),
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        group: str = GROUP_ID,
        protocol_type: str = "consumer",
        client: str = "c",
        reason: str | None = None,
    ) -> Any:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols
            ],
            reason=reason,
        )
        return self.run(self.shard.membership.join(Client(client, "/1.2.3.4", version), request, self.now))

    def join_known(self, **options: Any) -> tuple[str, Any]:
        """Both steps of a dynamic member's join: its id, and the reply or what will be one."""
        first = self.join(**options)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED, first
        return first.member_id, self.join(first.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol: str | None = None,
    ) -> Any:
        request = SyncGroupRequest(
            group_id=GROUP_ID,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in (assignments or {}).items()
            ],
        )
        return self.run(self.shard.protocol.sync(request, self.now))

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP_ID, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return ErrorCode(self.run(self.shard.protocol.heartbeat(request, self.now)).error_code)  # type: ignore[union-attr]  # never deferred

    def leave(self, *members: tuple[str, str | None], reason: str | None = None) -> list[ErrorCode]:
        request = LeaveGroupRequest(
            group_id=GROUP_ID,
            members=[
                LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance, reason=reason)
                for member_id, instance in members
            ],
        )
        reply = self.run(self.shard.membership.leave(request, self.now))
        assert isinstance(reply, LeaveGroupResponse)
        return [ErrorCode(each.error_code) for each in reply.members]

    def commit(
        self,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        topic: str = "t",
        partition: int = 0,
        version: int = 9,
        metadata: str | None = "",
        retention_ms: int = -1,
        group: str = GROUP_ID,
    ) -> ErrorCode:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        try:
            decision = self.shard.offset_requests.commit(Client("c", "/1.2.3.4", version), request, self.now)
            reply: Any = self.run(decision)
        except ApiError as error:
            return error.code
        return ErrorCode(reply.topics[0].partitions[0].error_code)

    def committed(
        self, topic: str = "t", partition: int = 0, *, stable: bool = False, group: str = GROUP_ID
    ) -> int | ErrorCode:
        wanted = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=group,
            topics=[OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])],
        )
        found = self.shard.offset_requests.fetch(wanted, require_stable=stable).topics[0].partitions[0]
        return ErrorCode(found.error_code) if found.error_code else found.committed_offset

    # --- looking

    @property
    def state(self) -> str:
        return self.shard.describe(GROUP_ID, 5).group_state

    @property
    def reasons(self) -> list[str]:
        return [rebalance.reason for rebalance in self.shard.history(GROUP_ID)]

    def stable(self, count: int = 1, **options: Any) -> list[str]:
        """A stable group of ``count`` new dynamic members; the first leads."""
        joins = [self.join_known(**options) for _ in range(count)]
        self.pass_time(self.settings.initial_rebalance_delay_ms)
        while any(isinstance(join, Deferred) and not join.is_done for _, join in joins):
            self.pass_time(self.settings.initial_rebalance_delay_ms)
        members = [member_id for member_id, _ in joins]
        generation = reply(joins[0][1]).generation_id
        for member_id in reversed(members):
            self.sync(member_id, generation, {each: each.encode() for each in members})
        assert self.state == "Stable"
        return members


def reply(answer: Any) -> Any:
    """The reply itself; fails when it has not come."""
    if isinstance(answer, Deferred):
        assert answer.is_done, "no reply yet"
        return answer.reply
    assert isinstance(answer, JoinGroupResponse | SyncGroupResponse), answer
    return answer


def waits(answer: Any) -> bool:
    return isinstance(answer, Deferred) and not answer.is_done


def code(answer: Any) -> ErrorCode:
    return ErrorCode(reply(answer).error_code)
