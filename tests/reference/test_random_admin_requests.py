"""Random requests about topics, configurations, groups, offsets and transactions are answered alike by both brokers.

Both are asked the same requests in step; names that a broker makes up are compared as those of ``Conversation``. What
the order of Apache Kafka's hash maps decides is sorted before it is compared. Where a broker may answer a little later
than it says (metadata), a question that changes nothing is asked again before a difference counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kbroker.handlers import SERVED
from kbroker.protocol.apis import API_BY_KEY, ApiKey
from kbroker.protocol.declarations import Message, Struct
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker_process import BrokerProcess
from tests.patience import PATIENCE_S
from tests.reference.comparison import differences
from tests.reference.conversation import SILENT, Conversation
from tests.reference.deviations import sift
from tests.reference.random_requests import Drawing, Kept, Own, Pools, build
from tests.reference.settings import KBROKER_STANDING_STILL, STANDING_STILL, start_reference
from tests.toolchains import require

pytestmark = pytest.mark.all

SEEDS = range(12)
STEPS = 100
WAITING_SECONDS = 0.4
"""How long an answer may take that waits for other members of a group, unless the broker is busy."""
AGAIN_SECONDS = 0.3
FOR_EVER_MS = 600_000
"""Nothing ends by itself while a seed is asked."""
ONLY_ALIKE = (".documentation", ".log_dir", ".total_bytes", ".usable_bytes")
"""Fields that differ between any two brokers, or are each one's own words."""
TRANSIENT = {14, 15, 16, 51}
"""Answers that say: not yet."""

READING = (
    ApiKey.METADATA, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS,
    ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_CONFIG_RESOURCES, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_QUORUM, ApiKey.DESCRIBE_ACLS,
    ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_LOG_DIRS,
)  # fmt: skip
OF_TOPICS = (
    ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS,
)  # fmt: skip
OF_GROUPS = (
    ApiKey.JOIN_GROUP, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS,
)  # fmt: skip
OF_TRANSACTIONS = (
    ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT,
)  # fmt: skip
OTHERS = (
    ApiKey.DELETE_RECORDS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.UPDATE_FEATURES,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
)  # fmt: skip
OLDEST = {ApiKey.LIST_OFFSETS: 1, ApiKey.UPDATE_FEATURES: 1}
"""Versions that Apache Kafka 4 dropped are not asked; the first version that updates features cannot only validate."""
LATEST = {ApiKey.INIT_PRODUCER_ID: 5}


def pools(seed: int) -> Pools:
    """The values that the requests of one seed are made of."""
    topics = [f"r{seed}-a", f"r{seed}-b", f"r{seed}-c"]
    topic = [*topics * 4, f"r{seed}-unknown", "bad name!", ""]
    topic_id = [*(Own(f"id {name}", b"\x09" * 16) for name in topics * 4), b"\x09" * 16, bytes(16)]
    group = [*[f"g{seed}-1", f"g{seed}-2"] * 4, f"g{seed}-unknown", ""]
    txn = [*[f"x{seed}-1", f"x{seed}-2"] * 4, f"x{seed}-unknown", ""]
    member = [*(Own(f"member {number}", "nobody") for number in (0, 0, 0, 1, 1, 2)), "", "made up"]
    producer = [*(Own(f"producer {name}", 999_999) for name in txn[:8]), -1, 4711]
    config = ["retention.ms", "cleanup.policy", "max.message.bytes", "min.insync.replicas", "no.such.key", ""]
    value = ["5", "-1", "compact", "compact,delete", "", "x", "100000", " 7 "]
    partition = [0, 0, 0, 1, 1, 2, 7, -1]
    resource_type = [2, 2, 2, 2, 4, 8, 16, 32, 0, 99]
    resource_name = [*topics, *topics, "1", "", "7", f"g{seed}-1", "x"]
    return Pools(
        {
            "topic": topic,
            "topic_name": topic,
            "topic_names": topic,
            "topic_id": topic_id,
            "name": topic,
            "CreatableTopicConfig.name": config,
            "AlterableConfig.name": config,
            "configuration_keys": config,
            "value": value,
            "config_operation": [0, 0, 1, 2, 3, 4, -1],
            "resource_type": resource_type,
            "resource_types": [2, 4, 8, 16, 32, 0, 99],
            "resource_name": resource_name,
            "partition_index": partition,
            "partition": partition,
            "partitions": partition,
            "partition_indexes": partition,
            "num_partitions": [1, 1, 2, -1, 0],
            "replication_factor": [1, 1, 1, -1, 2, 0],
            "broker_ids": [1, 1, 1, 2, -1],
            "replicas": [1, 1, 1, 2, -1],
            "count": [1, 2, 3, 4, 0, -1],
            "timeout_ms": [10_000],
            "group_id": group,
            "groups": group,
            "groups_names": group,
            "key": [*group, *txn],
            "coordinator_keys": [*group, *txn],
            "key_type": [0, 0, 1, 1, 2, 3],
            "member_id": member,
            "group_instance_id": [None, None, None, None, "i", "j", ""],
            "session_timeout_ms": [FOR_EVER_MS] * 8 + [0, 5, 10_000_000],
            "rebalance_timeout_ms": [FOR_EVER_MS] * 8 + [-1],
            "protocol_type": ["consumer"] * 6 + ["connect", ""],
            "protocol_name": ["range"] * 4 + ["sticky", ""],
            "JoinGroupRequestProtocol.name": ["range", "range", "sticky"],
            "JoinGroupRequestProtocol.metadata": [b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"],
            "generation_id": [1, 1, 2, 3, 0, -1],
            "generation_id_or_member_epoch": [-1, -1, 1, 2, 3],
            "member_epoch": [-1, -1, 0, 1],
            "committed_offset": [0, 5, 100, -1, -5],
            "committed_leader_epoch": [-1, 0, 3],
            "committed_metadata": ["", "m", "m" * 4096, "m" * 4097],
            "commit_timestamp": [-1],
            "retention_time_ms": [-1, -1, 3_600_000],
            "transactional_id": txn,
            "transactional_ids": txn,
            "v3_and_below_transactional_id": txn,
            "producer_id": producer,
            "v3_and_below_producer_id": producer,
            "producer_id_filters": producer,
            "producer_epoch": [0, 0, 0, 1, 1, 2, 3, -1],
            "v3_and_below_producer_epoch": [0, 0, 0, 1, 1, 2, 3, -1],
            "transaction_timeout_ms": [FOR_EVER_MS] * 5 + [0, -1, 10_000_000],
            "transactional_id_pattern": [f"x{seed}.*", f"x{seed}-1", "", "["],
            "state_filters": ["Ongoing", "Empty", "CompleteCommit", "nonsense", ""],
            "states_filter": ["Stable", "Empty", "stable", "nonsense", ""],
            "types_filter": ["classic", "Classic", "consumer", "nonsense", ""],
            "duration_filter": [-1, 0],
            "endpoint_type": [1, 1, 0, 2, 3],
            "election_type": [0, 1, 2],
            "response_partition_limit": [2000, 1, 2, 0, -1],
            "timestamp": [-1, -2, -3, -4, -5, 0, 1000],
            "replica_id": [-1],
            "OffsetForLeaderEpochRequest.replica_id": [-1, -2],
            "leader_epoch": [0, -1, 1],
            "current_leader_epoch": [-1, -1, 0, 1],
            "offset": [0, -1, 1],
            "feature": ["transaction.version", "group.version", "nonsense", ""],
            "max_version_level": [1, 2, 3, 0, -1, 99],
            "upgrade_type": [1, 2, 3, 0, 4],
            "UpdateFeaturesRequest.validate_only": [True],
            "path": ["/nowhere", ""],
            "allow_auto_topic_creation": [False],
            "resource_name_filter": ["x", ""],
            "operation": [0, *[1, 2, 3, 15] * 4],
            "permission_type": [0, *[1, 2, 3] * 5],
            "pattern_type_filter": [0, *[1, 3, 4] * 5],
            "resource_pattern_type": [0, *[1, 3, 4] * 5],
            "resource_type_filter": [1, 2, 3, 99],
            "principal": ["User:a", "x", ""],
        },
        # Never answered: no transaction, a protocol or a resource that stands twice. All there is differs by nature.
        lengths={
            "AddPartitionsToTxnRequest.transactions": [1],
            "AlterConfigsRequest.resources": [0, 1, 1, 1],
            "DescribeConfigsResource.configuration_keys": [1, 1, 2],
            "DescribeLogDirsRequest.topics": [0, 1, 2],
            "DescribeTopicPartitionsRequest.topics": [1, 1, 2, 3],
            "JoinGroupRequest.protocols": [0, 1, 1, 1, 1],
        },
    )


class Side:
    """One of the two brokers: its conversation and what it gave out."""

    def __init__(self, bootstrap: str) -> None:
        self.conversation = Conversation(bootstrap)
        self.kept: Kept = {}
        self.members = 0

    def ask(self, request: Any, version: int, *, may_wait: bool = False) -> Any:
        """The plain answer. What says "not yet" is asked again, what waits for others is given up."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._answer(request, version, may_wait=may_wait)
            if not _codes(answer) & TRANSIENT or time.monotonic() > deadline:
                break
            self.conversation.transcript.pop()
            time.sleep(0.05)
        self._keep(request, answer)
        return self.conversation.transcript[-1][1]

    def _answer(self, request: Any, version: int, *, may_wait: bool) -> Any:
        c = self.conversation
        if not may_wait:
            return c.ask(request, version, unordered=True)
        c.send(request, version, "main")
        if not c.is_waited_for("main", WAITING_SECONDS):
            return c.end("main", unordered=True)
        c.hang_up()
        c.note("waits", SILENT)
        return None

    def _keep(self, request: Any, answer: Any) -> None:
        if isinstance(request, InitProducerIdRequest) and answer is not None and answer.error_code == 0:
            self.kept[f"producer {request.transactional_id}"] = answer.producer_id
        member_id = getattr(answer, "member_id", "")
        if member_id and member_id != "made up" and member_id not in self.kept.values():
            self.kept[f"member {self.members % 3}"] = member_id
            self.members += 1
        for topic in getattr(answer, "topics", None) or ():
            if (
                isinstance(request, CreateTopicsRequest)
                and topic.error_code == 0
                and any(getattr(topic, "topic_id", b""))
            ):
                self.kept[f"id {topic.name}"] = topic.topic_id
                self.conversation.know(topic.topic_id)


def _codes(value: Any) -> set[int]:
    if isinstance(value, list):
        return set().union(*map(_codes, value))
    if not isinstance(value, Struct):
        return set()
    own = {getattr(value, "error_code", 0)}
    return own.union(*(_codes(getattr(value, name)) for name in value.fields))


LISTED = ("groups", "topics", "transaction_states", "config_resources", "results", "replica_election_results")
WHOLE = {
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.METADATA,
    ApiKey.ELECT_LEADERS,
}


class Run:
    """One seed's conversation with both."""

    def __init__(self, seed: int, reference: str, kbroker: str) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.sides = (Side(reference), Side(kbroker))
        self.drawing = Drawing(self.random, pools(seed))
        self.step = 0
        self.found: list[str] = []

    def go(self) -> None:
        for side in self.sides:
            self._prepare(side)
        for self.step in range(STEPS):
            kind = self.random.choice(
                [READING, READING, OF_TOPICS, OF_GROUPS, OF_GROUPS, OF_TRANSACTIONS, OF_TRANSACTIONS, OTHERS]
            )
            api = self.random.choice(kind)
            served = SERVED[api]
            oldest, latest = max(OLDEST.get(api, 0), API_BY_KEY[api].oldest), LATEST.get(api, served.latest)
            self.one(api, self.random.choice([oldest, latest, self.random.randint(oldest, latest)]))

    def _prepare(self, side: Side) -> None:
        """Coordinators that answer, and topics whose leaders do."""
        made = [
            CreateTopicsRequest.CreatableTopic(name=f"r{self.seed}-{letter}", num_partitions=2, replication_factor=1)
            for letter in "ab"
        ]
        side.ask(CreateTopicsRequest(topics=made, timeout_ms=10_000), 7)
        for topic in made:
            side.conversation.await_leaders(topic.name, 2)
        side.ask(FindCoordinatorRequest(coordinator_keys=[f"g{self.seed}-1"], key_type=0), 4)
        side.ask(FindCoordinatorRequest(coordinator_keys=[f"x{self.seed}-1"], key_type=1), 4)
        # So that no producer id is 0 later, which stands for "none" in some answers.
        first = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        side.conversation.await_answer(first, 4, lambda answer: bool(answer.error_code == 0))

    def one(self, api: ApiKey, version: int) -> None:
        message: type[Message] = API_BY_KEY[api].request_class()
        plan = self.drawing.request(message, version)
        may_wait = api in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
        name = f"seed {self.seed}, step {self.step}: {message.__name__} {version}"
        for attempt in range(4 if api in READING else 1):
            if attempt:
                time.sleep(AGAIN_SECONDS * attempt)
            answers = [
                self._mine(api, side.ask(build(plan, side.kept), version, may_wait=may_wait)) for side in self.sides
            ]
            found, _ = sift(each for each in differences(name, *answers) if not each.path.endswith(ONLY_ALIKE))
            if not found:
                break
        if api is ApiKey.FIND_COORDINATOR:
            found = [each for each in found if not each.path.endswith("error_message")]
        if api in OF_TOPICS:
            for side in self.sides:
                side.conversation.follow()
        if api is ApiKey.END_TXN:
            self._settle()
        assert not found, "\n".join([*map(str, found), repr(build(plan, self.sides[1].kept))])

    def _mine(self, api: ApiKey, answer: Any) -> Any:
        """An answer about everything there is, without what other seeds made."""
        if api not in WHOLE or not isinstance(answer, dict):
            return answer
        mine = (f"r{self.seed}-", f"g{self.seed}-", f"x{self.seed}-")
        strange = ("r", "g", "x", "_", "t-", "m-", "a")

        def is_mine(each: dict[str, Any]) -> bool:
            name = next(
                (
                    each[key]
                    for key in ("group_id", "transactional_id", "resource_name", "topic", "name")
                    if key in each
                ),
                "",
            )
            return name is None or name.startswith(mine) or not name.startswith(strange)

        return {
            key: []
            if api is ApiKey.LIST_CONFIG_RESOURCES
            else [each for each in value if not isinstance(each, dict) or is_mine(each)]
            if key in LISTED and value
            else value
            for key, value in answer.items()
        }

    def _settle(self) -> None:
        ids = [f"x{self.seed}-1", f"x{self.seed}-2"]
        for side in self.sides:
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                answer = side.conversation.ask(DescribeTransactionsRequest(transactional_ids=ids), 0, note=False)
                if not any(each.transaction_state.startswith("Prepare") for each in answer.transaction_states):
                    break
                time.sleep(0.02)

    def close(self) -> None:
        for side in self.sides:
            side.conversation.close()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    require("java")
    folder: Path = tmp_path_factory.mktemp("random-admin")
    with (
        start_reference(folder, overrides=STANDING_STILL) as reference,
        BrokerProcess(folder / "kbroker", *KBROKER_STANDING_STILL) as broker,
    ):
        yield reference, broker.bootstrap


@pytest.mark.parametrize("seed", SEEDS)
def test_random_admin_requests_are_answered_alike(brokers: tuple[str, str], seed: int) -> None:
    run = Run(seed, *brokers)
    try:
        run.go()
    finally:
        run.close()
