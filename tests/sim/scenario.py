"""Scenarios: a workload under faults, then quiet, in which everything must converge.

A scenario names the faults it may draw and the configuration that promises to survive them; all else (how many
producers and readers, of which kind, for how long, which knobs of the log) comes from the seed. ``forgetful`` promises
nothing: acknowledged records may be lost with the power, but what is left must be whole, in order and stored once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.types import TopicPartition
from tests.sim.actors import Actor, IdempotentProducer, PlainProducer, Reader, TopicMaker, create_topic
from tests.sim.checkers import Violation
from tests.sim.client import Client, Unavailable
from tests.sim.copier import Copier, check_copies
from tests.sim.faults import FaultInjector
from tests.sim.groups import GroupMember, GroupWitness, is_settled
from tests.sim.ledger import WHOLE, CommittedReader, Ledger, TransactionalProducer, settle
from tests.sim.loop import Deadlock
from tests.sim.tables import CONFIGS as TABLE_CONFIGS
from tests.sim.tables import DELETE_RETENTION_MS, TABLE, Table, TableReader, TableWriter
from tests.sim.world import BrokerFactory, World, production_broker

CONVERGENCE_MAX_S = 600.0
"""After the faults: how long everything may take to settle. Half-open connections cost a request's time-out each."""

TOPIC = "orders"
LEDGER = "ledger"
COPIES = "copies"
COORDINATORS = {"__consumer_offsets": 3, "__transaction_state": 3}
"""Their own topics with their partitions: compacted in small segments where there are tables."""
SETTLING_READS = 600
SEGMENT_BYTES_MIN = "50000"
"""As small as can be: a batch may have 20 records of 2000 bytes."""

BASE_CONFIG = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": "/data",
    "auto.create.topics.enable": "false",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "100",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
}

DYNAMIC_QUORUM = {"controller.quorum.bootstrap.servers": "localhost:9093"}
"""The voters stand in the metadata log, in every other run."""


@dataclass(frozen=True)
class Scenario:
    """``faults`` are kinds of ``FaultInjector``; ``topic`` are configs of the topic that is written."""

    name: str
    faults: tuple[str, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    topic: Mapping[str, str] = field(default_factory=dict)
    may_lose: bool = False
    has_tables: bool = False
    """Whether there are compacted topics, which are cleaned all the time."""


CLEANED_OFTEN = {
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.threads": "2",
    "log.cleaner.min.cleanable.ratio": "0.1",
}
NETWORK = ("reset", "stall", "half-open", "latency")

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("calm", ()),
        Scenario("network", NETWORK),
        Scenario("crash", ("kill", *NETWORK, "wall jump")),
        Scenario("slow", ("kill", "slow disk", "stall", "wall jump")),
        Scenario("full", ("kill", "bad start", "full disk", "full disk", "stall")),
        Scenario("broken", ("kill", "bad start", "broken disk", "broken disk", "full disk", "reset")),
        Scenario("power", ("power", "kill", "reset"), config={"log.flush.interval.messages": "1"}),
        Scenario("forgetful", ("power", "kill", "reset"), may_lose=True),
        Scenario("compaction", ("kill", *NETWORK, "wall jump", "slow disk"), config=CLEANED_OFTEN, has_tables=True),
        Scenario(
            "compaction-power",
            ("power", "kill", "reset"),
            config={**CLEANED_OFTEN, "log.flush.interval.messages": "1"},
            has_tables=True,
        ),
    )
}


@dataclass(frozen=True)
class Outcome:
    """How a run went: ``failure`` is empty when nothing was found."""

    seed: int
    scenario: str
    digest: str
    events: int
    acknowledged: int
    virtual_s: float
    failure: str = ""
    tail: tuple[str, ...] = ()

    @property
    def replay(self) -> str:
        return f"python -m tests.sim --seed {self.seed} --scenario {self.scenario}"


def scenario_of(seed: int) -> str:
    """Each seed has its scenario, so that a range of seeds covers them all."""
    names = list(SCENARIOS)
    return names[seed % len(names)]


def run(
    seed: int, name: str | None = None, *, factory: BrokerFactory = production_broker, keep_trace: bool = False
) -> Outcome:
    """Run one seed to its end."""
    scenario = SCENARIOS[name or scenario_of(seed)]
    quorum = DYNAMIC_QUORUM if seed % 2 else {}
    world = World(seed, {**BASE_CONFIG, **quorum, **scenario.config}, factory=factory, keep_trace=keep_trace)
    world.may_lose = scenario.may_lose
    play = _Play(world, scenario)
    failure = ""
    try:
        world.run(play.run())
    except (Violation, Deadlock) as error:
        failure = f"{type(error).__name__}: {error}"
    finally:
        world.close()
    return Outcome(
        seed=seed,
        scenario=scenario.name,
        digest=world.loop.trace.digest(),
        events=world.loop.trace.count,
        acknowledged=play.acknowledged,
        virtual_s=world.loop.time(),
        failure=failure,
        tail=tuple(world.loop.trace.tail()) if failure or keep_trace else (),
    )


class _Play:
    """The course of one run."""

    def __init__(self, world: World, scenario: Scenario) -> None:
        self.world = world
        self.scenario = scenario
        self.random = world.random
        count = self.random.randint(1, 4)
        self.partitions = [TopicPartition(TOPIC, number) for number in range(count)]
        self.producers: list[Actor] = []
        self.readers: list[Reader] = []
        self.topics = TopicMaker(world, "topics")
        # Who may lose what was acknowledged loses ends of transactions, too.
        has_no_ledger = scenario.may_lose or self.random.random() < 0.3 or not world.has_groups
        self.ledger = None if has_no_ledger else Ledger()
        self.ledger_partitions = [TopicPartition(LEDGER, number) for number in range(2)]
        self.ledger_readers: list[CommittedReader] = []
        self.copies = Ledger()
        self.copier: Copier | None = None
        self.table = Table() if scenario.has_tables and world.has_groups else None
        self.table_partitions = [TopicPartition(TABLE, number) for number in range(2)]
        self.table_readers: list[TableReader] = []
        self.members: list[GroupMember] = []
        self.witness = GroupWitness(world, "witness", self.partitions) if world.has_groups else None

    @property
    def acknowledged(self) -> int:
        return self.world.checkers.acknowledged_count

    async def run(self) -> None:
        world = self.world
        world.start_broker()
        await world.wait_started()
        await self._create_topic()
        self._make_actors()
        producing = [world.spawn(actor.run()) for actor in (*self.producers, self.topics)]
        readers = (*self.readers, *self.ledger_readers, *self.table_readers)
        reading = [world.spawn(reader.run()) for reader in readers]
        working = [world.spawn(member.run()) for member in self.members]
        seconds = self.random.uniform(2, 25)
        faults = FaultInjector(world, self.scenario.faults, mean_pause_s=self.random.choice((0.5, 2, 8)))
        await faults.run(seconds)
        world.loop.trace.record("quiet")
        await self._converge(producing)
        await self._settle_group()
        for member in self.members:
            member.stopping = True
        await asyncio.wait_for(asyncio.gather(*working), CONVERGENCE_MAX_S)
        await self._verify()
        for reader in readers:
            reader.stopping = True
        await asyncio.wait_for(asyncio.gather(*reading), CONVERGENCE_MAX_S)
        await world.stop_broker()
        world.start_broker()
        await world.wait_started()
        await self._verify()
        await world.stop_broker()

    def _make_actors(self) -> None:
        for number in range(self.random.randint(1, 2)):
            self.producers.append(IdempotentProducer(self.world, f"idempotent-{number}", self.partitions))
        for number in range(self.random.randint(0, 2)):
            acks = self.random.choice((0, 1, -1))
            self.producers.append(PlainProducer(self.world, f"plain-{number}", self.partitions, acks))
        for number in range(self.random.randint(1, 2)):
            self.readers.append(Reader(self.world, f"reader-{number}", self.partitions))
        if self.ledger is not None:
            for number in range(self.random.randint(1, 3)):
                name = f"transactional-{number}"
                self.producers.append(TransactionalProducer(self.world, name, self.ledger, self.ledger_partitions))
            reader_of = CommittedReader(self.world, "committed-reader", self.ledger, self.ledger_partitions)
            self.ledger_readers.append(reader_of)
            if self.random.random() < 0.6:
                self.copier = Copier(self.world, "copier", self.ledger, self.copies, self.ledger_partitions, COPIES)
                self.producers.append(self.copier)
        if self.table is not None:
            for number in range(self.random.randint(1, 3)):
                writer = TableWriter(self.world, f"table-writer-{number}", self.table, self.table_partitions)
                self.producers.append(writer)
                self.table_readers.append(
                    TableReader(self.world, f"table-reader-{number}", self.table, self.table_partitions)
                )
        for number in range(self.random.choice((0, 1, 2, 4)) if self.witness else 0):
            self.members.append(GroupMember(self.world, f"member-{number}", self.partitions))

    async def _create_topic(self) -> None:
        client = Client(self.world.loop, "setup", self.world.port)
        configs = {"internal.segment.bytes": self.random.choice((SEGMENT_BYTES_MIN, "1048576"))}
        if self.random.random() < 0.5:
            configs["index.interval.bytes"] = "100"
        code = await create_topic(client, TOPIC, len(self.partitions), {**configs, **self.scenario.topic})
        if code != ErrorCode.NONE:
            raise Violation(f"the first topic was answered with {ErrorCode(code).name}")
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)])
        answer = await client.request(request, 12, MetadataResponse)
        self.world.topic_ids[TOPIC] = answer.topics[0].topic_id
        if self.ledger is not None:
            code = await create_topic(client, LEDGER, len(self.ledger_partitions), configs)
            if code != ErrorCode.NONE:
                raise Violation(f"the ledger was answered with {ErrorCode(code).name}")
            code = await create_topic(client, COPIES, len(self.ledger_partitions), configs)
            if code != ErrorCode.NONE:
                raise Violation(f"the copies were answered with {ErrorCode(code).name}")
        if self.table is not None:
            own = {"cleanup.policy": "compact", "internal.segment.bytes": "5000"}
            for name, configs in ((TABLE, TABLE_CONFIGS), *((topic, own) for topic in COORDINATORS)):
                code = await create_topic(client, name, COORDINATORS.get(name, len(self.table_partitions)), configs)
                if code != ErrorCode.NONE:
                    raise Violation(f"{name} was answered with {ErrorCode(code).name}")
        client.close()
        if self.witness is not None:
            await self.witness.make_group()

    async def _settle_group(self) -> None:
        """Members that live find each other, and share everything."""
        end = self.world.loop.time() + CONVERGENCE_MAX_S
        while self.members and not is_settled(self.members):
            if self.world.loop.time() > end:
                raise Violation(f"Liveness: the group is not settled {CONVERGENCE_MAX_S} s after the faults")
            await asyncio.sleep(0.1)

    async def _converge(self, producing: list[asyncio.Task[None]]) -> None:
        """Producers get everything acknowledged, readers get to the end."""
        for actor in (*self.producers, self.topics):
            actor.stopping = True
        _, late = await asyncio.wait(producing, timeout=CONVERGENCE_MAX_S)
        if late:
            raise Violation(f"Liveness: {len(late)} producers are not done {CONVERGENCE_MAX_S} s after the faults")
        end = self.world.loop.time() + CONVERGENCE_MAX_S
        whole = await self._read_whole("judge")
        for reader in self.readers:
            while any(reader.positions[partition] < len(whole.logs[partition]) for partition in self.partitions):
                if self.world.loop.time() > end:
                    raise Violation(f"Liveness: {reader.name} is not at the end {CONVERGENCE_MAX_S} s after the faults")
                await asyncio.sleep(0.1)

    async def _verify(self) -> None:
        whole = await self._read_whole("witness")
        for partition in self.partitions:
            self.world.checkers.on_whole_log(partition, whole.logs[partition])
        await self._until_answered(self.topics.check)
        if self.witness is not None:
            await self._until_answered(self.witness.check)
        if self.ledger is not None:
            await self._verify_ledger(self.ledger)
        if self.table is not None:
            await self._verify_table(self.table)

    async def _verify_table(self, table: Table) -> None:
        auditor = TableReader(
            self.world, f"auditor of tables at {self.world.loop.time():.3f}", table, self.table_partitions
        )
        await settle(auditor, SETTLING_READS, lambda: asyncio.sleep(1))  # first: nothing is open any more
        while True:
            began = self.world.loop.time()
            await auditor.read_once()
            if (self.world.loop.time() - began) * 1000 < DELETE_RETENTION_MS:
                break
        auditor.client.close()
        for partition in self.table_partitions:
            table.check_whole(partition, auditor.seen[partition])

    async def _verify_ledger(self, ledger: Ledger) -> None:
        """A producer that was stopped in a transaction leaves it open until it is timed out."""
        name = f"auditor at {self.world.loop.time():.3f}"
        reader = CommittedReader(self.world, name, ledger, self.ledger_partitions)
        await settle(reader, SETTLING_READS, lambda: asyncio.sleep(1))
        reader.client.close()
        for partition in self.ledger_partitions:
            ledger.check_whole(partition, reader.seen[partition])
        if self.copier is not None:
            await self.copier.finish(SETTLING_READS)
            targets = list(self.copier.targets.values())
            auditor = CommittedReader(self.world, f"{name} of copies", self.copies, targets)
            await settle(auditor, SETTLING_READS, lambda: asyncio.sleep(1))
            auditor.client.close()
            for partition, target in self.copier.targets.items():
                self.copies.check_whole(target, auditor.seen[target])
                check_copies(reader.seen[partition], auditor.seen[target], partition)

    async def _read_whole(self, name: str) -> Reader:
        """A reader of its own, from 0 to the end."""
        reader = Reader(self.world, f"{name} at {self.world.loop.time():.3f}", self.partitions)
        reader.max_bytes = WHOLE
        end = self.world.loop.time() + CONVERGENCE_MAX_S
        while not all(reader.is_at_end(partition) for partition in self.partitions):
            await self._until_answered(reader.fetch_once)
            if self.world.loop.time() > end:
                raise Violation(f"Liveness: {reader.name} found no end of the log in {CONVERGENCE_MAX_S} s")
        reader.client.close()
        return reader

    async def _until_answered(self, ask: Callable[[], Awaitable[None]]) -> None:
        for _ in range(10):
            try:
                await ask()
            except Unavailable:
                await asyncio.sleep(1)
            else:
                return
        raise Violation("Liveness: ten requests without an answer, after the faults")
