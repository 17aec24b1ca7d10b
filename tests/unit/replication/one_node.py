"""A node with replicas and handlers but without sockets and quorum: what the tests of the data path stand on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kbroker.config import BrokerConfig
from kbroker.coordinator.group_coordinator import GroupCoordinator
from kbroker.coordinator.producer_ids import ProducerIds
from kbroker.coordinator.transaction_coordinator import TransactionCoordinator
from kbroker.handlers.context import ConnectionInfo, Node, RequestContext
from kbroker.handlers.fetch_sessions import FetchSessions
from kbroker.kraft.image import EMPTY, MetadataDelta, MetadataImage
from kbroker.log.manager import LogManager
from kbroker.protocol.messages.records import metadata
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.replication.partition import Partition
from kbroker.replication.replicas import ReplicaManager
from kbroker.types import Uuid
from tests.sim.disk import SimDisk
from tests.sim.host import SimClock, SimWorkers, sim_host
from tests.sim.loop import SimLoop
from tests.sim.process import Process

if TYPE_CHECKING:
    from kbroker.kraft.quorum import Quorum

T = TypeVar("T")
NODE = 1


class FixedQuorum:
    """A quorum that only shows an image."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY


class OneNode:
    """One broker's data path on virtual time."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        before: OneNode | None = None,
        directories: Sequence[str] = ("/data",),
    ) -> None:
        """A new node, or the next run of ``before`` on the same disk."""
        self.directories: Sequence[str] = directories if before is None else before.directories
        random = Random(1)
        self.loop: SimLoop = before.loop if before is not None else SimLoop(random)
        self.disk: SimDisk = before.disk if before is not None else SimDisk(random, self.loop.trace)
        self.clock = SimClock(self.loop)
        self.process = Process("node")
        self.host = sim_host(self.process, self.disk, self.clock, SimWorkers(self.loop, random), random)
        self.config = BrokerConfig(settings or {})
        self.logs = LogManager(self.host, self.directories, fsync=len(self.directories) > 1)
        self.logs.open(NODE)
        if len(self.directories) > 1:
            self.logs.format("cluster", NODE)
        self.quorum = FixedQuorum()
        self.replicas = ReplicaManager(
            NODE, self.config, self.logs, self.host.clock, self.loop, self.quorum.image, self.host.workers
        )
        if before is not None:
            self.quorum.image = before.quorum.image
            self.replicas.on_metadata(MetadataDelta.of_everything(self.quorum.image), self.quorum.image)
        self.blocks: list[tuple[int, int]] = [(1000, 10)]
        producer_ids = ProducerIds(self._allocate, self.loop)
        groups = GroupCoordinator(self.replicas, self.config, self.host.clock, self.host.random, self.loop)
        transactions = TransactionCoordinator(
            self.replicas, groups, producer_ids, lambda: self.replicas.config, self.host.clock, self.loop
        )
        self.node = Node(
            node_id=NODE,
            cluster_id="cluster",
            config=self.config,
            host=self.host,
            quorum=cast("Quorum", self.quorum),
            logs=self.logs,
            replicas=self.replicas,
            fetch_sessions=FetchSessions(
                self.config.integer("max.incremental.fetch.session.cache.slots"), self.host.clock, self.host.random
            ),
            producer_ids=producer_ids,
            groups=groups,
            transactions=transactions,
        )
        if before is not None:
            everything = MetadataDelta.of_everything(self.quorum.image)
            groups.on_metadata(everything, self.quorum.image)
            transactions.on_metadata(everything, self.quorum.image)

    def restart(self) -> OneNode:
        """Kill this node and start the next on what it left."""
        self.process.kill()
        # A dead process has no timers.
        self.loop.run_until_complete(self.node.transactions.stop())
        self.loop.run_until_complete(self.node.groups.stop())
        self.loop.run_until_complete(self.replicas.moves.stop())
        return OneNode(before=self)

    async def _allocate(self) -> tuple[int, int]:
        await asyncio.sleep(0.001)
        return self.blocks.pop(0)

    # --- metadata

    def apply(self, *records: Any) -> None:
        """Publish metadata records."""
        image, delta = self.quorum.image.apply(records, self.quorum.image.offset + 1, 1)
        self.quorum.image = image
        self.replicas.on_metadata(delta, image)
        self.node.groups.on_metadata(delta, image)
        self.node.transactions.on_metadata(delta, image)

    def register(self, node_id: int, *, port: int = 9092, rack: str | None = None) -> None:
        record = metadata.RegisterBrokerRecord
        self.apply(
            record(
                broker_id=node_id,
                broker_epoch=1,
                end_points=[record.BrokerEndpoint(name="PLAINTEXT", host=f"node{node_id}", port=port)],
                rack=rack,
            )
        )

    def create(
        self,
        topic: str,
        partitions: int = 1,
        *,
        replicas: Iterable[int] = (NODE,),
        isr: Iterable[int] | None = None,
        leader: int = NODE,
        configs: Mapping[str, str] | None = None,
        topic_id: Uuid | None = None,
    ) -> Uuid:
        """Make a topic; its id."""
        topic_id = topic_id or (topic.encode() * 16)[:16]
        ids = list(replicas)
        self.apply(
            metadata.TopicRecord(name=topic, topic_id=topic_id),
            *(
                metadata.ConfigRecord(resource_type=2, resource_name=topic, name=name, value=value)
                for name, value in (configs or {}).items()
            ),
            *(
                metadata.PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=ids,
                    isr=ids if isr is None else list(isr),
                    leader=leader,
                    leader_epoch=0,
                    partition_epoch=0,
                )
                for index in range(partitions)
            ),
        )
        return topic_id

    def change(self, topic: str, index: int = 0, *, isr: list[int] | None = None, leader: int = -2) -> None:
        """Change a partition's ISR or leader; -2 leaves the leader."""
        self.apply(
            metadata.PartitionChangeRecord(
                partition_id=index, topic_id=self.quorum.image.topics.by_name[topic].id, isr=isr, leader=leader
            )
        )

    def delete(self, topic: str) -> None:
        self.apply(metadata.RemoveTopicRecord(topic_id=self.quorum.image.topics.by_name[topic].id))

    # --- data

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.replicas.partition(topic, index)

    def append(self, topic: str, index: int = 0, *, count: int = 1, size: int = 10, acks: int = 1) -> int:
        """Append one batch; its first offset."""
        info = self.partition(topic, index).append_as_leader(
            batch(count=count, size=size), acks, self.host.clock.wall_ms()
        )
        return info.first_offset

    def context(self, api_key: int, version: int, *, client_id: str | None = "test") -> RequestContext:
        return RequestContext(
            self.node, ConnectionInfo("PLAINTEXT", "127.0.0.1"), api_key, version, client_id=client_id
        )

    def wait(self, answer: Awaitable[T], *, at_most_s: float = 60) -> T:
        """The answer, when it comes."""

        async def wait() -> T:
            return await asyncio.wait_for(answer, at_most_s)

        return self.loop.run_until_complete(wait())

    def turn(self, seconds: float = 0.0) -> None:
        """Let the loop run what is due, and time pass."""
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.loop.run_until_complete(asyncio.sleep(0))

    def close(self) -> None:
        assert not self.loop.failures
        self.loop.close()


def batch(*, count: int = 1, size: int = 10, timestamp: int = 1_750_000_000_000, **settings: Any) -> bytearray:
    """A batch as a producer sends it, in a buffer that may be written to."""
    records = [Record(offset, timestamp + offset, b"k", b"v" * size, []) for offset in range(count)]
    return bytearray(build_batch(records, **settings))
