"""The shards of one internal topic: one for each of its partitions that this node leads.

    elected -> loading -> active -> unloaded (resigned, deleted, stopped)
                  \\          \\
                   failed      failed: a record that cannot be replayed is our bug; the shard is dropped

The runtime follows the metadata image and knows which shard a key (a group, a transactional id) belongs to. What a
shard does with a request is in ``kbroker.coordinator.hosted_shard``, how it reads its past in
``kbroker.coordinator.loading``. Follows Kafka's ``CoordinatorRuntime``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Generic, TypeVar

from kbroker.config.java_maps import java_hash
from kbroker.coordinator.hosted_shard import HostedShard, S, ShardContext
from kbroker.coordinator.loading import Loader
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import NO_SEQUENCE
from kbroker.replies import Reply, then, together

if TYPE_CHECKING:
    from kbroker.host import Clock
    from kbroker.kraft.image import MetadataDelta, MetadataImage, PartitionImage
    from kbroker.protocol.coordinator_record import Decision, Now
    from kbroker.protocol.record_codec import RecordTypes
    from kbroker.replication.replicas import ReplicaManager

logger = logging.getLogger(__name__)

PARTITIONS_KEPT = 4096
"""Groups and transactional ids whose partition is remembered: Java's hash walks the string, at every request."""

T = TypeVar("T")


class CoordinatorRuntime(Generic[S]):
    """Owner: the coordinator that uses it.

    ``topic`` is the internal topic, ``types`` its records; ``default_partitions`` says how many the topic gets when it
    is made, ``make_shard`` makes an empty shard. ``on_loaded`` is told of each shard that has read its log,
    ``on_committed`` after records of a shard were committed.
    """

    def __init__(
        self,
        topic: str,
        types: RecordTypes,
        replicas: ReplicaManager,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        default_partitions: Callable[[], int],
        make_shard: Callable[[], S],
        *,
        on_loaded: Callable[[HostedShard[S]], None],
        on_committed: Callable[[HostedShard[S]], None] | None = None,
        base_sequence: int = NO_SEQUENCE,
    ) -> None:
        self.context: ShardContext[S] = ShardContext(clock, loop, on_committed, self._fail, base_sequence)
        self._topic = topic
        self._replicas = replicas
        self._default_partitions = default_partitions
        self._make_shard = make_shard
        self._on_loaded = on_loaded
        self._loader: Loader[S] = Loader(self.context, types, self._activate)
        self._partition_count = 0
        """As it was when the topic was first seen: keys stay where they are when it grows, until the next start."""
        self._hosted: dict[int, HostedShard[S]] = {}

    # --- which shards there are

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Elections of this node; a topic that was deleted."""
        topic = image.topics.by_name.get(self._topic)
        if any(deleted.name == self._topic for deleted in delta.deleted_topics.values()):
            self._resign_all()
            self._partition_count = 0
        if topic is not None and self._partition_count == 0:
            self._partition_count = len(topic.partitions)
        if topic is not None and topic.id in delta.changed_partitions:
            self._follow(delta.changed_partitions[topic.id])

    def _follow(self, partitions: Mapping[int, PartitionImage]) -> None:
        self._loader.begin_turn()
        for index in sorted(partitions):
            partition = self._replicas.get(self._topic, index)
            if partition is None or not partition.is_leader:
                self._resign(index)
                continue
            hosted = self._hosted.get(index)
            if hosted is None or hosted.partition is not partition:
                self._resign(index)
                hosted = self._hosted[index] = HostedShard(self.context, partition, self._make_shard())
                self._loader.load(hosted)

    def _activate(self, hosted: HostedShard[S]) -> None:
        """Everything is read. What the shard wants to write first is written."""
        hosted.is_active = True
        try:
            hosted.perform(lambda shard, now: shard.loaded(now), parks=False)
        except ApiError as error:
            logger.warning("%s: %s", hosted.partition.name, error)
        self._on_loaded(hosted)

    def _fail(self, hosted: HostedShard[S]) -> None:
        """Drop a shard that our own bug broke; its partition is coordinated by nobody until the next election."""
        index = hosted.partition.name.partition
        if self._hosted.get(index) is hosted:
            del self._hosted[index]
        hosted.end()

    def _resign(self, index: int) -> None:
        hosted = self._hosted.pop(index, None)
        if hosted is not None:
            hosted.end()

    def _resign_all(self) -> None:
        for index in list(self._hosted):
            self._resign(index)

    # --- life

    async def finish_loading(self) -> None:
        """Return when every shard that this node leads answers."""
        await self._loader.finish()

    async def stop(self) -> None:
        """Answer those who wait, and coordinate nothing any more."""
        self._resign_all()
        await self._loader.stop()

    # --- finding a shard

    def all(self) -> Iterator[HostedShard[S]]:
        """Every shard here, loading or active, by partition."""
        for index in sorted(self._hosted):
            yield self._hosted[index]

    def active(self) -> Iterator[HostedShard[S]]:
        """Every shard here that answers, by partition."""
        return (hosted for hosted in self.all() if hosted.is_active)

    @property
    def has_topic(self) -> bool:
        """Whether the internal topic was made yet."""
        return self._partition_count > 0

    def partition_of(self, key: str) -> int:
        """The partition of the topic that a key belongs to, or will belong to once the topic is made."""
        return partition_of(key, self._partition_count or self._default_partitions())

    def at(self, index: int) -> HostedShard[S]:
        """The shard that answers for a partition.

        Raises ``ApiError``: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        hosted = self._hosted.get(index)
        if hosted is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR, "This node does not coordinate that: find the coordinator.")
        return _answering(hosted)

    def of(self, key: str) -> HostedShard[S]:
        """The shard that answers for a key. Raises ``ApiError``: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        return self.at(self.partition_of(key))

    # --- operations

    def run(self, key: str, operation: Callable[[S, Now], Decision[T]], *, parks: bool = True) -> Reply[T]:
        """Perform an operation on a key's shard. Raises ``ApiError``."""
        return self.of(key).perform(operation, parks=parks)

    def query(self, key: str, question: Callable[[S], T]) -> Reply[T]:
        """Ask a key's shard; the answer waits until what it was read from is committed. Raises ``ApiError``."""
        hosted = self.of(key)
        return hosted.park(question(hosted.shard))

    def query_all(
        self,
        question: Callable[[S], Iterable[T]],
        in_order: Callable[[Collection[int]], Iterable[int]] = sorted,
    ) -> Reply[list[T]]:
        """What all shards here answer, one after the other, when what it was read from is committed.

        Raises ``ApiError``: COORDINATOR_LOAD_IN_PROGRESS while one of them still reads its log.
        """
        shards = [_answering(self._hosted[index]) for index in in_order(self._hosted)]
        return then(
            together([hosted.park(list(question(hosted.shard))) for hosted in shards]),
            lambda answers: list(chain.from_iterable(answers)),
        )


def _answering(hosted: HostedShard[S]) -> HostedShard[S]:
    if not hosted.is_active:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The coordinator reads its log: try again soon.")
    return hosted


@lru_cache(maxsize=PARTITIONS_KEPT)
def partition_of(key: str, count: int) -> int:
    """The partition of an internal topic that a key belongs to: Java's hash of the string (``Utils.abs``)."""
    value = java_hash(key)
    if value & 0x80000000:
        value = 0x100000000 - value
    return 0 if value == 0x80000000 else value % count
