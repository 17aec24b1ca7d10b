"""Each key that is read at the start and acts: a broker that has it does another thing than one that has not.

What a running broker's keys do, once they are changed, is in ``tests/unit/replication/test_config_effects.py``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import pytest

import kbroker.broker
from kbroker.__main__ import serve
from kbroker.cli.settings import Settings
from kbroker.config import BROKER_KEYS, TOPIC_KEYS, BrokerConfig, Effect
from kbroker.config.dynamic import GROUP_BOUNDS
from kbroker.groups.membership import Client
from kbroker.host import Host
from kbroker.host.real import RealDisk, RealWorkers
from kbroker.kraft.batches import data_batch
from kbroker.kraft.controller.result import ControllerResult
from kbroker.kraft.raft.metadata_log import PartitionMetadataLog
from kbroker.log import checkpoints
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.records.metadata import RegisterBrokerRecord, TopicRecord
from kbroker.protocol.records.batch import Record, build_batch, read_header, set_max_timestamp
from kbroker.server.limits import Limits
from kbroker.testing import Broker
from kbroker.types import GROUP_METADATA_TOPIC, StartupError
from tests.unit.kraft.world import World
from tests.unit.replication.one_node import NODE, OneNode, batch
from tests.unit.replication.test_cleaning import KeptHouse
from tests.unit.replication.two_directories import TwoDirectories
from tests.wire import WireClient

ROOT = Path(__file__).parents[3]
Configs = Mapping[str, str]


class Case(NamedTuple):
    """``look`` starts what it looks at with the configs it gets, and sees ``usually``; with ``value``, ``then``."""

    value: str
    look: Callable[[Configs], object]
    usually: object
    then: object
    configs: Mapping[str, str] = {}


# --- groups and transactions, as a client of a whole broker sees them


QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Served:
    """A broker and a client of it. Its time is the test's."""

    def __init__(self, configs: Configs) -> None:
        self.broker = Broker(topics={"t": 1}, configs={**QUICK, **configs}).start()
        self.broker.clock.freeze()
        self.client = WireClient(self.broker.bootstrap_servers)
        for kind in (0, 1):
            self.client.call(FindCoordinatorRequest(key="x", key_type=kind), 3)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.broker.stop()

    def join(self, *, session_ms: int = 10_000, version: int = 4) -> Any:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms,
            protocol_type="consumer",
            protocols=[protocol],
        )
        return ErrorCode(self.client.call(request, version).error_code).name

    def commit(self, metadata: str = "") -> str:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_metadata=metadata
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
        answer = self.client.call(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
        return ErrorCode(answer.topics[0].partitions[0].error_code).name

    def initialise(self, timeout_ms: int) -> Any:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=timeout_ms)
        return self.client.call(request, 4)

    def begin(self, timeout_ms: int) -> None:
        given = self.initialise(timeout_ms)
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="t", partitions=[0])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=[topic],
        )
        (result,) = self.client.call(request, 3).results_by_topic_v3_and_below
        assert result.results_by_partition[0].partition_error_code == 0


def second_member(configs: Configs) -> object:
    with Served(configs) as served:
        served.broker.clock.resume()
        assert served.join(version=3) == "NONE"
        return served.join()


def session_of_20_seconds(configs: Configs) -> object:
    with Served(configs) as served:
        return served.join(session_ms=20_000)


def commit_with_ten_letters(configs: Configs) -> object:
    with Served(configs) as served:
        return served.commit("ten" + "l" * 7)


def committed_after(seconds: int) -> Callable[[Configs], object]:
    def look(configs: Configs) -> object:
        with Served(configs) as served:
            assert served.commit() == "NONE"
            served.broker.clock.advance(seconds=seconds)
            return served.broker.committed("g", "t")

    return look


def transactional_ids_after(seconds: int) -> Callable[[Configs], object]:
    def look(configs: Configs) -> object:
        with Served(configs) as served:
            assert served.initialise(60_000).error_code == 0
            served.broker.clock.advance(seconds=seconds)
            return list(served.broker.transactions())

    return look


def transaction_of_2_seconds_after_5(configs: Configs) -> object:
    with Served(configs) as served:
        served.begin(2000)
        served.broker.clock.advance(seconds=5)
        return served.broker.transactions()["x"].state


def transaction_of_a_minute(configs: Configs) -> object:
    with Served(configs) as served:
        return ErrorCode(served.initialise(60_000).error_code).name


def rack_told_to_clients(configs: Configs) -> object:
    with Served(configs) as served:
        return served.client.call(MetadataRequest(topics=[]), 9).brokers[0].rack


def batch_whose_record_makes_no_sense(configs: Configs) -> object:
    now_ms = 1_700_000_000_000
    records = bytearray(build_batch([Record(0, now_ms, b"key", b"value")]))
    records[-7:] = b"\xff" * 7
    set_max_timestamp(records, 0, now_ms)  # the CRC is right again
    with Served(configs) as served:
        data = ProduceRequest.PartitionProduceData(index=0, records=bytes(records))
        topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
        answer = served.client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code).name


BRIEFLY = {"offsets.retention.minutes": "1"}
FORGOTTEN = {"transactional.id.expiration.ms": "60000"}
TRANSACTION = "transaction.{}.transaction.cleanup.interval.ms"
SERVED = {
    "broker.rack": Case("r1", rack_told_to_clients, None, "r1"),
    "group.max.session.timeout.ms": Case(
        "15000", session_of_20_seconds, "MEMBER_ID_REQUIRED", "INVALID_SESSION_TIMEOUT"
    ),
    "group.min.session.timeout.ms": Case(
        "25000", session_of_20_seconds, "MEMBER_ID_REQUIRED", "INVALID_SESSION_TIMEOUT"
    ),
    "group.max.size": Case("1", second_member, "MEMBER_ID_REQUIRED", "GROUP_MAX_SIZE_REACHED"),
    "kbroker.record.validation": Case("full", batch_whose_record_makes_no_sense, "NONE", "INVALID_RECORD"),
    "offset.metadata.max.bytes": Case("9", commit_with_ten_letters, "NONE", "OFFSET_METADATA_TOO_LARGE"),
    "offsets.retention.check.interval.ms": Case("1000", committed_after(90), 5, None, BRIEFLY),
    "offsets.retention.minutes": Case("1", committed_after(3600), 5, None),
    TRANSACTION.format("abort.timed.out"): Case("1000", transaction_of_2_seconds_after_5, "Ongoing", "CompleteAbort"),
    TRANSACTION.format("remove.expired"): Case("1000", transactional_ids_after(90), ["x"], [], FORGOTTEN),
    "transaction.max.timeout.ms": Case("59999", transaction_of_a_minute, "NONE", "INVALID_TRANSACTION_TIMEOUT"),
    "transactional.id.expiration.ms": Case("60000", transactional_ids_after(7200), ["x"], []),
}


# --- the data path and the controller, on a simulated disk


def checkpoints_after_4_seconds(configs: Configs) -> object:
    house = KeptHouse(dict(configs))
    house.node.create("t")
    house.put("t", b"k")
    house.node.turn(4)
    written = sum(
        house.node.host.disk.exists(f"/data/{name}")
        for name in (checkpoints.RECOVERY_POINT, checkpoints.LOG_START_OFFSET, checkpoints.HIGH_WATERMARK)
    )
    house.node.wait(house.housekeeping.stop())
    house.node.close()
    return written


def producers_after_10_seconds(configs: Configs) -> object:
    house = KeptHouse(dict(configs))
    house.node.create("t")
    now_ms = house.node.host.clock.wall_ms()
    records = batch(producer_id=9, producer_epoch=0, base_sequence=0, timestamp=now_ms)
    house.node.partition("t").append_as_leader(records, 1, now_ms)
    house.node.turn(10)
    known = list(house.log("t").active_producers())
    house.node.wait(house.housekeeping.stop())
    house.node.close()
    return known


def logs_moved_at_a_time(configs: Configs) -> object:
    node = TwoDirectories(configs)
    topics = ("t", "u", "v")
    for topic in topics:
        node.create(topic)
        for _ in range(30):
            node.append(topic, size=1000)
    node.limit(10_000)
    for topic in topics:
        node.alter(node.other(topic), topic)
    node.turn(0.1)
    under_way = sum(node.future(topic).size > 0 for topic in topics)
    node.close()
    return under_way


def commit_that_is_never_replicated_after_a_second(configs: Configs) -> object:
    node, reply = OneNode(configs), None
    node.create("t")
    node.create(GROUP_METADATA_TOPIC, replicas=[NODE, 2])
    reply = commit_on(node)
    node.turn(1)
    done: bool = reply.done()
    node.turn(10)
    assert isinstance(reply.exception(), Exception)
    node.close()
    return done


def codec_of_a_commit(configs: Configs) -> object:
    node = OneNode(configs)
    node.create("t")
    node.create(GROUP_METADATA_TOPIC)
    commit_on(node)
    log = node.partition(GROUP_METADATA_TOPIC).log
    assert log is not None
    found = log.read(0, 1 << 20)
    node.close()
    return read_header(found if isinstance(found, bytes) else found.to_bytes()).compression.name


def commit_on(node: OneNode) -> Any:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
    return node.node.groups.commit(Client("c", "/1.2.3.4", 9), OffsetCommitRequest(group_id="g", topics=[topic]))


def metadata_segments(configs: Configs, size: int, pause_s: float) -> int:
    """Those of ten batches of so many records."""
    world = World(settings=configs)
    log = PartitionMetadataLog.open("/data/__cluster_metadata-0", world.config, world.host)
    for _ in range(10):
        records = [TopicRecord(name="n" * 30_000, topic_id=b"i" * 16)] * size
        log.append(data_batch(records, log.end_offset, 1, world.clock.wall_ms()), 1)
        pass_time(world, pause_s)
    names = world.host.disk.list_dir("/data/__cluster_metadata-0")
    log.close()
    world.close()
    return sum(name.endswith(".log") for name in names)


def pass_time(world: World, seconds: float) -> None:
    world.loop.run_until_complete(asyncio.sleep(seconds))


def brokers_fenced_when_unheard_of_for_5_seconds(configs: Configs) -> object:
    world = World(settings=configs)
    world.start()
    other = RegisterBrokerRecord(broker_id=2, incarnation_id=b"2" * 16, fenced=False)
    world.get(lambda: world.quorum.decide(lambda _image, _config: ControllerResult(None, [other])))
    world.kill()
    world.restart()
    pass_time(world, 5)
    fenced = [broker.id for broker in world.quorum.image.cluster.brokers.values() if broker.fenced]
    world.close()
    return fenced


CHECKPOINT_KEYS = (
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "replica.high.watermark.checkpoint.interval.ms",
)
SIMULATED = {
    # One job writes all three, as often as the shortest interval of the three says.
    **{key: Case("2000", checkpoints_after_4_seconds, 0, 3) for key in CHECKPOINT_KEYS},
    "broker.session.timeout.ms": Case("3000", brokers_fenced_when_unheard_of_for_5_seconds, [], [2]),
    "metadata.log.segment.bytes": Case("8388608", lambda it: metadata_segments(it, 33, 0), 1, 2),
    "metadata.log.segment.ms": Case("5000", lambda it: metadata_segments(it, 1, 1), 1, 2),
    "num.replica.alter.log.dirs.threads": Case("1", logs_moved_at_a_time, 2, 1),
    "offsets.commit.timeout.ms": Case("500", commit_that_is_never_replicated_after_a_second, False, True),
    "offsets.topic.compression.codec": Case("1", codec_of_a_commit, "NONE", "GZIP"),
    "producer.id.expiration.check.interval.ms": Case(
        "3000", producers_after_10_seconds, [9], [], {"producer.id.expiration.ms": "5000"}
    ),
}


# --- what a process gives its broker


class Looker:
    """In place of a broker: looks at its host and ends. ``found``: the descriptors that the disk keeps of a hundred
    files, the threads that eight slow jobs get."""

    def __init__(self, config: BrokerConfig, host: Host, *_: object) -> None:
        assert isinstance(host.disk, RealDisk)
        assert isinstance(host.workers, RealWorkers)
        self.found = (0, 0)
        self.folder, self.disk, self.workers = config.log_dirs[0], host.disk, host.workers

    async def start(self) -> None:
        self.files = [self.disk.open(f"{self.folder}/{number}", create=True) for number in range(100)]
        may_end = threading.Event()
        jobs = [self.workers.run(may_end.wait) for _ in range(8)]
        threads = sum(thread.name.startswith("kbroker-worker") for thread in threading.enumerate())
        may_end.set()
        await asyncio.gather(*jobs)
        self.found = (self.disk.descriptor_count, threads)
        raise StartupError("enough")

    async def stop(self) -> None:
        self.workers.close()
        for file in self.files:
            file.close()


def host_of_a_process(configs: Configs) -> tuple[int, int]:
    loop, lookers = asyncio.new_event_loop(), list[Looker]()

    def looker(*arguments: Any) -> Looker:
        lookers.append(Looker(*arguments))
        return lookers[-1]

    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(kbroker.broker, "Broker", looker)
        with pytest.raises(StartupError, match="enough"):
            loop.run_until_complete(serve(Settings(BrokerConfig({**configs, "log.dirs": folder})), loop))
    loop.close()
    return lookers[0].found


PROCESS = {
    "kbroker.open.files.max": Case("70", lambda configs: host_of_a_process(configs)[0], 100, 70),
    "kbroker.worker.threads": Case("2", lambda configs: host_of_a_process(configs)[1], 4, 2),
}


def listeners_of_clients(configs: Configs) -> object:
    return [listener.name for listener in BrokerConfig(configs).broker_listeners]


def listener_without_a_limit(configs: Configs) -> object:
    return Limits.of(BrokerConfig(configs)).protected_listener


TWO = {
    "listeners": "PLAINTEXT://:0,OTHER://:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
}
CASES = {
    **SERVED,
    **SIMULATED,
    **PROCESS,
    "controller.listener.names": Case("OTHER", listeners_of_clients, ["PLAINTEXT", "OTHER"], ["PLAINTEXT"], TWO),
    "inter.broker.listener.name": Case("OTHER", listener_without_a_limit, "PLAINTEXT", "OTHER", TWO),
}


@pytest.mark.parametrize("key", sorted(CASES))
def test_a_key_acts(key: str) -> None:
    case = CASES[key]
    assert case.look(case.configs) == case.usually
    assert case.look({**case.configs, key: case.value}) == case.then


ELSEWHERE = {
    "advertised.listeners": "config/test_broker_config.py",
    "auto.create.topics.enable": "handlers/test_metadata.py",
    "broker.id": "config/test_broker_config.py",
    "connections.max.idle.ms": "server/test_listeners.py",
    "controller.quorum.bootstrap.servers": "kraft/test_dynamic_quorum.py",
    "controller.quorum.voters": "cli/test_storage.py",
    "default.replication.factor": "kraft/test_topics.py",
    "delete.topic.enable": "handlers/test_topics.py",
    "fetch.max.bytes": "handlers/test_fetch.py",
    "group.initial.rebalance.delay.ms": "coordinator/test_runtime.py",
    "initial.broker.registration.timeout.ms": "kraft/test_quorum.py",
    "internal.metadata.log.segment.bytes": "kraft/test_quorum.py",
    "kbroker.cluster.id": "cli/test_start.py",
    "kbroker.fsync": "kraft/world.py",
    "kbroker.internal.topics.clamp.replication": "handlers/test_metadata.py",
    "kbroker.log.level": "cli/test_start.py",
    "kbroker.topics": "cli/test_settings.py",
    "log.cleaner.enable": "replication/test_cleaning.py",
    "log.dir": "config/test_broker_config.py",
    "log.dirs": "config/test_broker_config.py",
    "log.initial.task.delay.ms": "replication/test_cleaning.py",
    "log.retention.check.interval.ms": "replication/test_cleaning.py",
    "max.incremental.fetch.session.cache.slots": "replication/one_node.py",
    "max.request.partition.size.limit": "handlers/test_topics.py",
    "metadata.log.dir": "testing/test_broker.py",
    "metadata.log.max.record.bytes.between.snapshots": "kraft/test_quorum.py",
    "metadata.log.max.snapshot.interval.ms": "kraft/test_quorum.py",
    "metadata.max.retention.bytes": "kraft/test_quorum.py",
    "metadata.max.retention.ms": "kraft/test_quorum.py",
    "node.id": "config/test_broker_config.py",
    "num.partitions": "kraft/test_topics.py",
    "process.roles": "config/test_checks.py",
    "quota.window.num": "server/test_listeners.py",
    "quota.window.size.seconds": "server/test_listeners.py",
    "socket.listen.backlog.size": "server/test_listeners.py",
    "socket.request.max.bytes": "server/test_listeners.py",
}
"""Where each of the others is set and looked at, below ``tests/unit``."""
INTERNAL_TOPICS = ("offsets.topic.", "transaction.state.log.")
"""How those are made is in ``handlers/test_metadata.py``; what a broker bounds for its groups in ``test_dynamic``."""


def test_every_key_that_is_read_at_the_start_and_acts_is_seen_to_act() -> None:
    topics = {name for key in TOPIC_KEYS.all() for name in key.synonyms}
    groups = {key for bound in GROUP_BOUNDS for key in (bound.least, bound.most)}
    acting = {key.name for key in BROKER_KEYS.all() if key.effect is Effect.ACTS and key.read_only}
    left = acting - topics - groups - CASES.keys()
    assert {name for name in left if not name.startswith(INTERNAL_TOPICS)} == ELSEWHERE.keys()
    for key, path in ELSEWHERE.items():
        assert key in (ROOT / "tests" / "unit" / path).read_text()
