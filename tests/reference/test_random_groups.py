"""Random lives of groups: several members come, wait, change, go, in step with both brokers, which answer alike.

Each member has connections of its own, so that a join or a sync may wait while others act. After every request both
brokers are given time until the same connections have their answers; what came is compared, and what waits, too.

Who leads after the leader left hangs on a hash map's order over random ids in Apache Kafka: a life ends there.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kbroker.protocol.apis import API_BY_KEY, ApiKey
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tests.broker_process import BrokerProcess
from tests.patience import PATIENCE_S
from tests.reference.comparison import differences
from tests.reference.conversation import Conversation
from tests.reference.deviations import sift
from tests.reference.questions.group_offsets import commit_request, delete_request, fetch_request
from tests.reference.questions.group_scenery import (
    RANGE,
    STICKY,
    heartbeat_request,
    join_request,
    leave_request,
    new_group,
    sync_request,
)
from tests.reference.questions.scenery import create_topic
from tests.reference.settings import KBROKER_STANDING_STILL, STANDING_STILL, start_reference
from tests.toolchains import require

pytestmark = pytest.mark.all

SEEDS = range(12)
STEPS = 60
MEMBERS = ("ann", "bob", "cid", "dan")
INSTANCES = {"cid": "i-cid", "dan": "i-dan"}
"""Two of the members are static."""
QUIET_SECONDS = 0.03
FOR_EVER_MS = 600_000
"""Sessions and rebalances do not end by themselves while a seed is asked."""
PROTOCOLS = (
    (RANGE,),
    (RANGE,),
    (RANGE, STICKY),
    (STICKY, RANGE),
    (STICKY,),
    (("range", b"\0\1\0\0\0\1\0\1u\xff\xff\xff\xff\0\0\0\0"),),
    (("range", b"nonsense"),),
    (("", b""),),
    (),
)
KINDS = ("consumer",) * 12 + ("connect", "")


class Side:
    """One broker, and what it told each member."""

    def __init__(self, bootstrap: str) -> None:
        self.c = Conversation(bootstrap)
        self.group = new_group(self.c)
        self.topic = create_topic(self.c, partitions=2)
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.protocols: dict[str, str | None] = {}
        self.leader = ""
        self.lost_its_leader = False
        self.asking: dict[str, tuple[str, Any]] = {}
        """The member behind each connection that waits for an answer, and its request."""

    def send(self, connection: str, member: str, request: Any, version: int) -> None:
        self.asking[connection] = member, request
        self.c.send(request, version, connection)

    def ready(self) -> list[str]:
        """The connections whose answers have come."""
        sockets = {self.c.client(connection).socket: connection for connection in self.asking}
        readable, _, _ = select.select(list(sockets), [], [], 0)
        return sorted(sockets[each] for each in readable)

    def take(self, connections: list[str]) -> list[Any]:
        """The answers, in their plain form."""
        taken = []
        for connection in connections:
            member, request = self.asking.pop(connection)
            answer = self.c.end(connection, unordered=True)
            if isinstance(answer, JoinGroupResponse):
                self._joined(member, answer)
            elif isinstance(answer, LeaveGroupResponse):
                self._left(request)
            taken.append((connection, self.c.transcript[-1][1]))
        return taken

    def _joined(self, member: str, answer: JoinGroupResponse) -> None:
        self.ids[member] = answer.member_id or self.ids.get(member, "")
        if not answer.error_code:
            self.leader = answer.leader
            self.generations[member], self.protocols[member] = answer.generation_id, answer.protocol_name

    def _left(self, request: LeaveGroupRequest) -> None:
        """Remember whether the leader may have left; who is named by an instance id alone may be it."""
        named = {request.member_id, *(each.member_id for each in request.members)}
        by_instance = any(each.group_instance_id and not each.member_id for each in request.members)
        self.lost_its_leader = by_instance or self.leader in named or self.leader not in self.ids.values()


class Life:
    """One seed's group."""

    def __init__(self, seed: int, reference: str, kbroker: str) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.sides = (Side(reference), Side(kbroker))

    def go(self) -> None:
        for step in range(STEPS):
            action = self.random.choice(ACTIONS)
            member = self.random.choice(MEMBERS)
            state = self.random.getstate()
            said = ""
            for side in self.sides:
                self.random.setstate(state)
                request, version = action(self, side, member)
                free = (f"{member}{n}" for n in range(STEPS))
                connection = next(each for each in free if each not in side.asking)
                side.send(connection, member, request, version)
                said = f"{connection}: {request} {version}"
            name = f"seed {self.seed}, step {step}"
            ready = self._come_to_rest(name, said)
            answers = [side.take(ready) for side in self.sides]
            if any(side.lost_its_leader for side in self.sides):
                return
            found, _ = sift(differences(name, answers[0], answers[1]))
            assert not found, "\n".join([*map(str, found), said])

    def _come_to_rest(self, name: str, said: str) -> list[str]:
        """Wait until both have answered the same connections, and nothing more comes."""
        deadline = time.monotonic() + PATIENCE_S
        before = None
        while True:
            left, right = (side.ready() for side in self.sides)
            if left == right == before:
                return left
            before = left
            assert time.monotonic() < deadline, f"{name}: Apache Kafka answers {left}, kbroker {right}\n{said}"
            time.sleep(QUIET_SECONDS)
            for side in self.sides:
                side.c.let_others_pass(side.group)

    def close(self) -> None:
        for side in self.sides:
            side.c.close()

    # --- what members do

    def _version(self, api: ApiKey) -> int:
        oldest, latest = {**API_VERSIONS}.get(api, (0, API_BY_KEY[api].latest_stable))
        return self.random.choice([latest, latest, self.random.randint(oldest, latest)])

    def _id(self, side: Side, member: str, strange: float = 0.1) -> str:
        draw = self.random.random()
        if draw < strange:
            return self.random.choice(["", "made up", side.ids.get(self.random.choice(MEMBERS), "")])
        return side.ids.get(member, "")

    def _instance(self, member: str) -> str | None:
        draw = self.random.random()
        if draw < 0.1:
            return self.random.choice([None, "", "i-cid", "i-dan", "i-new"])
        return INSTANCES.get(member)

    def _generation(self, side: Side, member: str) -> int:
        return side.generations.get(member, 0) + self.random.choice([0] * 12 + [1, -1, -5])

    def join(self, side: Side, member: str) -> tuple[Any, int]:
        version = self._version(ApiKey.JOIN_GROUP)
        instance = self._instance(member)
        request = join_request(
            side.group,
            self._id(side, member, 0.15 if instance is None else 0.6),
            protocols=self.random.choice(PROTOCOLS),
            protocol_type=self.random.choice(KINDS),
            session_ms=self.random.choice([FOR_EVER_MS] * 20 + [1]),
            rebalance_ms=FOR_EVER_MS,
            instance=instance if version >= 5 else None,
        )
        return request, version

    def sync(self, side: Side, member: str) -> tuple[Any, int]:
        version = self._version(ApiKey.SYNC_GROUP)
        some = [each for each in MEMBERS if self.random.random() < 0.8]
        instance = self._instance(member)
        request = sync_request(
            side.group,
            self._generation(side, member),
            self._id(side, member),
            {side.ids[each]: f"for {each}".encode() for each in some if each in side.ids},
            instance=instance if version >= 3 else None,
            protocol_type=self.random.choice(["consumer"] * 12 + ["connect", "", None]),
            protocol=self.random.choice([side.protocols.get(member) or "range"] * 12 + ["sticky", "", None]),
        )
        return request, version

    def heartbeat(self, side: Side, member: str) -> tuple[Any, int]:
        version = self._version(ApiKey.HEARTBEAT)
        instance = self._instance(member)
        request = heartbeat_request(
            side.group, self._generation(side, member), self._id(side, member), instance if version >= 3 else None
        )
        return request, version

    def leave(self, side: Side, member: str) -> tuple[Any, int]:
        version = self._version(ApiKey.LEAVE_GROUP)
        who = [member, *(each for each in MEMBERS if self.random.random() < 0.15)]
        members = [(self._id(side, each, 0.2), self._instance(each)) for each in who]
        return leave_request(side.group, *members, version=version), version

    def commit(self, side: Side, member: str) -> tuple[Any, int]:
        version = self._version(ApiKey.OFFSET_COMMIT)
        instance = self._instance(member)
        request = commit_request(
            side.group,
            side.topic,
            (self.random.randrange(3), self.random.randrange(9)),
            member_id=self._id(side, member),
            generation=self._generation(side, member),
            instance=instance if version >= 7 else None,
        )
        return request, version

    def fetch(self, side: Side, _member: str) -> tuple[Any, int]:
        version = self._version(ApiKey.OFFSET_FETCH)
        wanted = self.random.choice([[(side.topic, [0, 1])], None if version >= 2 else []])
        return fetch_request(version, side.group, wanted), version

    def forget(self, side: Side, _member: str) -> tuple[Any, int]:
        return delete_request(side.group, (side.topic[0], [0, 1])), 0

    def describe(self, side: Side, _member: str) -> tuple[Any, int]:
        return DescribeGroupsRequest(groups=[side.group]), self._version(ApiKey.DESCRIBE_GROUPS)

    def delete(self, side: Side, _member: str) -> tuple[Any, int]:
        return DeleteGroupsRequest(groups_names=[side.group]), self._version(ApiKey.DELETE_GROUPS)


API_VERSIONS = {ApiKey.OFFSET_COMMIT: (2, 10), ApiKey.OFFSET_FETCH: (1, 10)}
ACTIONS = (
    *[Life.join] * 10,
    *[Life.sync] * 8,
    *[Life.heartbeat] * 4,
    *[Life.leave] * 2,
    *[Life.commit] * 3,
    Life.fetch,
    Life.forget,
    *[Life.describe] * 4,
    Life.delete,
)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    require("java")
    folder: Path = tmp_path_factory.mktemp("random-groups")
    with (
        start_reference(folder, overrides=STANDING_STILL) as reference,
        BrokerProcess(folder / "kbroker", *KBROKER_STANDING_STILL) as broker,
    ):
        yield reference, broker.bootstrap


@pytest.mark.parametrize("seed", SEEDS)
def test_random_lives_of_groups_are_answered_alike(brokers: tuple[str, str], seed: int) -> None:
    life = Life(seed, *brokers)
    try:
        life.go()
    finally:
        life.close()
