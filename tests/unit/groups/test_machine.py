"""A group under random events: joins, syncs, heartbeats, commits, leaves, time, lost writes, restarts."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from kbroker.protocol.coordinator_record import Deferred
from kbroker.protocol.errors import ApiError, ErrorCode
from tests.unit.groups.script import Script

PARTITIONS = 6


class GroupMachine(RuleBasedStateMachine):
    """Members follow the protocol, in any interleaving; the leader deals the partitions out among those it was told."""

    members = Bundle("members")

    def __init__(self) -> None:
        super().__init__()
        self.script = Script(seed=1)
        self.joins: dict[str, Any] = {}
        self.syncs: dict[str, Any] = {}
        self.told: dict[str, Any] = {}
        self.owned: dict[int, dict[int, str]] = {}
        self.acknowledged: int = -1
        self.generation = 0

    @rule(target=members, static=st.sampled_from([None, None, "one", "two"]))
    def comes(self, static: str | None) -> Any:
        try:
            answer = self.script.join(instance=static)
        except ApiError:
            return multiple()
        if isinstance(answer, Deferred) or answer.error_code == ErrorCode.NONE:
            member_id = next(reversed(self.script.shard.groups["g"].members))
            self.joins[member_id] = answer
            return (member_id, static)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return (answer.member_id, static)
        return multiple()

    @rule(member=members)
    def joins_again(self, member: tuple[str, str | None]) -> None:
        member_id, static = member
        try:
            self.joins[member_id] = self.script.join(member_id, instance=static)
        except ApiError:
            return

    @rule(member=members)
    def asks_for_its_assignment(self, member: tuple[str, str | None]) -> None:
        member_id, static = member
        told = self._reply(self.joins.get(member_id))
        if told is None or told.error_code != ErrorCode.NONE:
            return
        self.told[member_id] = told
        names = [each.member_id for each in told.members]
        dealt = {name: bytes(range(at, PARTITIONS, len(names))) for at, name in enumerate(names)}
        try:
            self.syncs[member_id] = self.script.sync(member_id, told.generation_id, dealt, instance=static)
        except ApiError:
            return

    @rule(member=members)
    def heartbeats(self, member: tuple[str, str | None]) -> None:
        told = self.told.get(member[0])
        self.script.heartbeat(member[0], 0 if told is None else told.generation_id, member[1])

    @rule(member=members, offset=st.integers(0, 1000))
    def commits(self, member: tuple[str, str | None], offset: int) -> None:
        told = self.told.get(member[0])
        if told is None:
            return
        try:
            code = self.script.commit(offset, member_id=member[0], generation=told.generation_id, instance=member[1])
        except ApiError:
            return
        if code == ErrorCode.NONE:
            self.acknowledged = offset

    @rule(member=consumes(members))
    def leaves(self, member: tuple[str, str | None]) -> None:
        self._run(lambda: self.script.leave(member))

    @rule(ms=st.sampled_from([1, 100, 3_000, 9_999, 60_000]))
    def time_passes(self, ms: int) -> None:
        self._run(lambda: self.script.pass_time(ms))

    @rule(refuses=st.sampled_from([None, None, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def the_disk_changes_its_mind(self, refuses: ErrorCode | None) -> None:
        self.script.refuses_writes = refuses

    @rule()
    def the_broker_restarts(self) -> None:
        self.script.refuses_writes = None
        self.script.restart()
        self.joins.clear()
        self.syncs.clear()
        group = self.script.shard.groups.get("g")
        self.generation = 0 if group is None else group.generation
        for generation in [each for each in self.owned if each > self.generation]:
            del self.owned[generation]  # it was never written: its number is used again

    @invariant()
    def a_partition_has_one_owner_in_a_generation(self) -> None:
        for member_id, answer in list(self.syncs.items()):
            sync = self._reply(answer)
            if sync is None:
                continue
            del self.syncs[member_id]
            if sync.error_code != ErrorCode.NONE or member_id not in self.told:
                continue
            owners = self.owned.setdefault(self.told[member_id].generation_id, {})
            for partition in sync.assignment:
                owner = owners.setdefault(partition, member_id)
                assert owner == member_id or self._is_gone(owner), (owner, member_id)
                owners[partition] = member_id

    @invariant()
    def generations_never_fall(self) -> None:
        group = self.script.shard.groups.get("g")
        if group is None:
            self.generation = 0
            self.owned.clear()  # nothing of it was left; another begins anew
        else:
            assert group.generation >= self.generation
            self.generation = group.generation

    @invariant()
    def an_acknowledged_commit_is_there(self) -> None:
        assert self.script.committed() == self.acknowledged

    @invariant()
    def the_books_balance(self) -> None:
        group = self.script.shard.groups.get("g")
        if group is None:
            return
        assert group.joining_count == sum(member.joining is not None for member in group.members.values())
        said = [len(data) for member in group.members.values() for _, data in member.protocols]
        assert group.metadata_size == sum(said)
        assert all(group.members[each].group_instance_id == name for name, each in group.static_members.items())
        assert (group.leader in group.members) == bool(group.members)
        if group.state.value == "CompletingRebalance":
            assert set(group.pending_syncs) <= set(group.members)
        assert not set(group.pending_joins) & set(group.members)
        if group.state.value in ("Empty", "Dead"):
            assert not group.members
        for member_id in [*group.members, *group.pending_joins]:
            member = group.members.get(member_id)
            has_session = ("session", "g", member_id) in self.script.shard.deadlines
            assert has_session or (member is not None and member.waits), member_id

    def _is_gone(self, member_id: str) -> bool:
        """A static member's successor has its assignment."""
        group = self.script.shard.groups.get("g")
        return group is None or member_id not in group.members

    @staticmethod
    def _reply(answer: Any) -> Any:
        if isinstance(answer, Deferred):
            return answer.reply if answer.is_done else None
        return answer

    @staticmethod
    def _run(operation: Any) -> None:
        try:
            operation()
        except ApiError:
            return


GroupMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestGroupMachine = GroupMachine.TestCase
