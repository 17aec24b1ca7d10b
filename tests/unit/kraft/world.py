"""A quorum of one on virtual time and a simulated disk: it can be stopped, killed, and robbed of its power."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from kbroker.config import BrokerConfig
from kbroker.kraft import snapshots
from kbroker.kraft.controller.features import bootstrap_records
from kbroker.kraft.controller.topics import CreatableTopic, CreatableTopicResult
from kbroker.kraft.image import Endpoint, MetadataDelta, MetadataImage
from kbroker.kraft.lifecycle import BrokerLifecycle
from kbroker.kraft.metadata_versions import LATEST
from kbroker.kraft.quorum import Quorum
from kbroker.kraft.raft.voters import Voters
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.replies import Reply, settled
from tests.sim.disk import SimDisk
from tests.sim.host import SimClock, SimWorkers, sim_host
from tests.sim.loop import SimLoop
from tests.sim.process import Process

T = TypeVar("T")

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
DIRECTORY = "/data"
DIRECTORY_ID = b"0123456789abcdef"
SETTINGS = {"log.dirs": DIRECTORY, "node.id": "1"}


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str | None] | None = None,
    assignments: Sequence[tuple[int, list[int]]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in assignments
        ],
    )


class World:
    """One node over several lives. ``fsync`` chooses between the synchronous road and the one through workers."""

    def __init__(
        self,
        *,
        fsync: bool = False,
        settings: Mapping[str, str] | None = None,
        seed: int = 1,
        metadata_version: int = LATEST,
        voters: Voters | None = None,
        is_formatted: bool = True,
    ) -> None:
        """``voters`` are those that formatting wrote down, for a dynamic quorum."""
        self.random = Random(seed)
        self.loop = SimLoop(self.random)
        self.disk = SimDisk(self.random, self.loop.trace)
        self.clock = SimClock(self.loop)
        self.workers = SimWorkers(self.loop, self.random)
        self.processes: list[Process] = []
        self.config = BrokerConfig({**SETTINGS, "kbroker.fsync": str(fsync).lower(), **(settings or {})})
        self.published: list[tuple[MetadataDelta, MetadataImage]] = []
        self.failures: list[BaseException] = []
        self.clean_epoch = -1
        self.boot()
        if is_formatted:
            records = bootstrap_records(metadata_version)
            controls = [] if voters is None else voters.control_records()
            snapshots.write_bootstrap(self.host.disk, DIRECTORY, records, self.host.clock.wall_ms(), controls)

    def boot(self) -> None:
        """A new process on the same disk; nothing is started."""
        self.process = Process("node")
        self.processes.append(self.process)
        self.host = sim_host(self.process, self.disk, self.clock, self.workers, self.random)
        self.published = []
        self.quorum = Quorum(
            config=self.config,
            cluster_id=CLUSTER_ID,
            directory_id=DIRECTORY_ID,
            host=self.host,
            failed=self.failures.append,
        )
        self.quorum.subscribe(lambda delta, image: self.published.append((delta, image)))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.process.start(self.loop, work)
        result: T = self.loop.run_until_complete(task)
        return result

    def start(self) -> None:
        """Start the quorum and let the broker serve."""
        self.run(self.quorum.start())
        self.enter()

    def enter(self) -> None:
        """Let the broker serve."""
        self.lifecycle = BrokerLifecycle(
            self.quorum,
            incarnation_id=self.random.randbytes(16),
            endpoints=[Endpoint("PLAINTEXT", "localhost", 9092, 0)],
            directories=[DIRECTORY_ID],
            previous_broker_epoch=self.clean_epoch,
        )
        patience_ms = self.config.integer("initial.broker.registration.timeout.ms")
        self.run(self.lifecycle.enter(self.host.clock, patience_ms))

    def stop(self) -> None:
        self.run(self.lifecycle.shut_down())
        self.run(self.quorum.stop())
        self.clean_epoch = self.lifecycle.broker_epoch
        self.process.kill()

    def kill(self, *, power: bool = False) -> None:
        self.process.kill()
        self.clean_epoch = -1
        if power:
            self.disk.lose_power()

    def restart(self) -> None:
        self.boot()
        self.start()

    def create(self, *topics: CreatableTopic) -> list[CreatableTopicResult]:
        return self.get(lambda: self.quorum.create_topics(topics))

    def get(self, operation: Callable[[], Reply[T]]) -> T:
        async def perform() -> T:
            return await settled(operation())

        return self.run(perform())

    def close(self) -> None:
        self.process.kill()
        self.loop.close()
        for process in self.processes:
            process.bury()
