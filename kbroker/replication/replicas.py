"""All replicas of one node: found by topic name or id, and kept in step with the metadata image.

``ReplicaManager`` follows the published image: topics that appear, disappear or change configuration, and partitions
whose leader or ISR changed. It runs in the turn in which the image is published, before any reply that depends on it
leaves, so that a produce right after CreateTopics finds its leader.

Invariants: what is hosted here is in the image; topic name and topic id lead to the same partitions; a partition that
never got a record has no log; the controller is told of the data directory that each replica is in. Replicas in a data
directory that failed are here no more, but known as offline (KIP-112). Follows Kafka's ``ReplicaManager``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kbroker.config import ConfigError, TopicConfig
from kbroker.config.dynamic import with_stored
from kbroker.kraft.image import RESOURCE_BROKER, RESOURCE_TOPIC
from kbroker.log.errors import LogOfflineError
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.replication.assignments import DirectoryAssignments
from kbroker.replication.fetching import Wakeups
from kbroker.replication.flushing import Flusher
from kbroker.replication.moves import LogMoves
from kbroker.replication.partition import Partition
from kbroker.types import LOST_DIRECTORY, StartupError, TopicPartition, Uuid

if TYPE_CHECKING:
    import asyncio
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Collection, Mapping

    from kbroker.config import BrokerConfig
    from kbroker.host import Clock, Workers
    from kbroker.kraft.image import MetadataDelta, MetadataImage, PartitionImage, TopicImage
    from kbroker.log.data_directory import DataDirectory
    from kbroker.log.log import Log
    from kbroker.log.manager import LogManager

logger = logging.getLogger(__name__)


class ReplicaManager:
    """The partitions that this node has a replica of. Owner: the broker; everything on its one event loop."""

    def __init__(
        self,
        node_id: int,
        config: BrokerConfig,
        logs: LogManager,
        clock: Clock,
        loop: AbstractEventLoop,
        image: MetadataImage,
        workers: Workers,
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.loop = loop
        self.image = image
        self.wakeups = Wakeups(loop.call_soon)
        self.flusher = Flusher(workers, clock, loop, self._on_synced)
        self._static_config = config
        self._logs = logs
        self._adopt(config)
        self.assignments = DirectoryAssignments(clock, loop)
        moves_max = config.optional_integer("num.replica.alter.log.dirs.threads") or len(logs.directories)
        self.moves = LogMoves(self, logs, workers, loop, moves_max)
        self.on_directory_failed: Callable[[DataDirectory], None] = lambda _: None
        """Told of a data directory that went offline, on the loop. Set by the owner."""
        logs.on_io_error = self._on_io_error
        self._offline: dict[TopicPartition, LogOfflineError] = {}
        """Replicas whose log could not be loaded, or whose data directory failed: everybody is told so, and nothing is
        made in its place."""
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[Uuid, dict[int, Partition]] = {}

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings as they are now, with what was changed while it runs."""
        return self._config

    # --- finding

    def get(self, topic: str, index: int) -> Partition | None:
        """The replica here, None when there is none."""
        partitions = self._by_name.get(topic)
        return None if partitions is None else partitions.get(index)

    def partition(self, topic: str, index: int) -> Partition:
        """The replica here.

        Raises ``ApiError``: KAFKA_STORAGE_ERROR when its log could not be loaded or its data directory failed,
        NOT_LEADER_OR_FOLLOWER when the partition lives elsewhere, else UNKNOWN_TOPIC_OR_PARTITION.
        """
        partitions = self._by_name.get(topic)
        if partitions is not None:
            partition = partitions.get(index)
            if partition is not None:
                return partition
        offline = self._offline.get(TopicPartition(topic, index)) if self._offline else None
        if offline is not None:
            raise offline
        if self.is_known(topic, index):
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Node {self.node_id} has no replica of {topic}-{index}: refresh the metadata.",
            )
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"There is no partition {topic}-{index}: create it, or check the name.",
        )

    def partition_by_id(self, topic_id: Uuid, index: int) -> Partition:
        """The replica here, by topic id.

        Raises ``ApiError``: UNKNOWN_TOPIC_ID, or as ``partition``.
        """
        partitions = self._by_id.get(topic_id)
        if partitions is not None:
            partition = partitions.get(index)
            if partition is not None:
                return partition
        topic = self.topic_name(topic_id)
        if topic is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_ID, "There is no topic with this id (any more): refresh the metadata."
            )
        return self.partition(topic, index)

    def topic_name(self, topic_id: Uuid) -> str | None:
        """The name of a topic, None when no topic has this id."""
        topic = self.image.topics.by_id.get(topic_id)
        return None if topic is None else topic.name

    def is_known(self, topic: str, index: int) -> bool:
        """Whether the cluster has this partition, here or elsewhere."""
        image = self.image.topics.by_name.get(topic)
        return image is not None and index in image.partitions

    def directory_id(self, name: TopicPartition) -> Uuid | None:
        """The id of the data directory that the cluster knows this node's replica to be in."""
        topic = self.image.topics.by_name.get(name.topic)
        state = None if topic is None else topic.partitions.get(name.partition)
        return None if state is None else state.directory_of(self.node_id)

    @property
    def offline(self) -> Collection[TopicPartition]:
        """The replicas that this node should have and cannot serve."""
        return self._offline.keys()

    def all(self) -> list[Partition]:
        """Every replica here."""
        return [partition for partitions in self._by_name.values() for partition in partitions.values()]

    # --- following the image

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Follow a published image: deletions first, so that a topic made again under its name starts anew."""
        self.image = image
        for topic_id, deleted in delta.deleted_topics.items():
            self._delete(deleted.name, topic_id)
        changed_topics = {name for kind, name in delta.changed_configs if kind == RESOURCE_TOPIC}
        if any(kind == RESOURCE_BROKER and name in ("", str(self.node_id)) for kind, name in delta.changed_configs):
            self._adopt_broker_config()
            changed_topics.update(self._by_name)
        for name in sorted(changed_topics):
            partitions = self._by_name.get(name)
            if partitions:
                config = self._topic_config(name)
                for partition in partitions.values():
                    partition.reconfigure(config)
        for topic_id, states in delta.changed_partitions.items():
            topic = image.topics.by_id.get(topic_id)
            if topic is not None:
                self._follow(topic, states)

    def _follow(self, topic: TopicImage, states: Mapping[int, PartitionImage]) -> None:
        partitions = self._by_id.get(topic.id)
        config: TopicConfig | None = None
        for index, state in states.items():
            partition = None if partitions is None else partitions.get(index)
            if self.node_id not in state.replicas:
                if partition is not None and partitions is not None:
                    del partitions[index]
                    self._retire(partition)
                continue
            if partition is None:
                if partitions is None:
                    partitions = self._by_name[topic.name] = self._by_id[topic.id] = {}
                if config is None:
                    config = self._topic_config(topic.name)
                directory_id = state.directory_of(self.node_id)
                partition = self._host_replica(TopicPartition(topic.name, index), topic.id, config, directory_id)
                if partition is None:
                    continue
                partitions[index] = partition
            if state.leader == self.node_id:
                partition.become_leader(state)
            else:
                partition.become_follower(state)

    def _host_replica(
        self, name: TopicPartition, topic_id: Uuid, config: TopicConfig, directory_id: Uuid
    ) -> Partition | None:
        """A replica with the log that it has on disk, if it has one; None when that cannot be loaded."""
        logs = self._logs
        try:
            log = logs.get_or_create(name, topic_id, config, directory_id=directory_id) if logs.has(name) else None
            home = logs.home_of(name, directory_id)
            home.check()
        except LogOfflineError as error:
            self._offline[name] = error
            return None
        self._offline.pop(name, None)
        partition = Partition(self, name, topic_id, config, log, logs.high_watermark(name))
        if name in logs.futures:
            self.moves.resume(partition)
        elif home.id not in (None, directory_id):
            self.assign_directory(partition, home)
        return partition

    def _delete(self, topic: str, topic_id: Uuid) -> None:
        for name in [name for name in self._offline if name.topic == topic]:
            del self._offline[name]
            self._logs.delete(name)
        partitions = self._by_id.pop(topic_id, None)
        if partitions is None:
            return
        if self._by_name.get(topic) is partitions:
            del self._by_name[topic]
        for partition in partitions.values():
            self._retire(partition)

    def _retire(self, partition: Partition) -> None:
        self.moves.cancel(partition.name)
        partition.retire()
        self._logs.delete(partition.name)

    def _topic_config(self, topic: str) -> TopicConfig:
        overrides = self.image.configs.of_topic(topic)
        try:
            return TopicConfig.resolve(self._config, overrides) if overrides else self._topic_defaults
        except ConfigError as error:
            raise StartupError(
                f"topic {topic} was given a value that is not taken any more, alter it with the version that took it: "
                f"{error}"
            ) from error

    def _adopt_broker_config(self) -> None:
        configs = self.image.configs
        default, own = configs.of(RESOURCE_BROKER, ""), configs.of(RESOURCE_BROKER, str(self.node_id))
        self._adopt(with_stored(self._static_config, default=default, own=own))

    def _adopt(self, config: BrokerConfig) -> None:
        self._config = config
        self._topic_defaults = TopicConfig.resolve(config, {})
        self.fetch_max_bytes = config.integer("fetch.max.bytes")
        self._logs.cordon(config.cordoned_log_dirs)
        self._logs.expire_producers_after(config.integer("producer.id.expiration.ms"))

    # --- data directories

    def assign_directory(self, partition: Partition, directory: DataDirectory) -> asyncio.Future[None]:
        """Tell the controller where the replica is; done when it knows."""
        return self.assignments.assign(partition.topic_id, partition.name.partition, directory.id or LOST_DIRECTORY)

    def _on_io_error(self, directory: DataDirectory, error: Exception) -> None:
        """An operation in a data directory failed, perhaps in a worker."""
        self.loop.call_soon_threadsafe(self._directory_failed, directory, error)

    def _directory_failed(self, directory: DataDirectory, error: Exception) -> None:
        """Stop serving the replicas in it; the others are not concerned."""
        if directory.error is not None:
            return
        self._logs.take_offline(directory, error)
        self.moves.drop_from(directory)
        lost = [each for each in self.all() if self._logs.directory_of(each.name) is directory]
        for partition in lost:
            name = partition.name
            self._offline[name] = LogOfflineError(f"{name} is offline: its data directory {directory.path} has failed")
            self._by_id[partition.topic_id].pop(name.partition)
            partition.retire(ErrorCode.KAFKA_STORAGE_ERROR)
        logger.error("%d replicas are offline with %s", len(lost), directory.path)
        self.on_directory_failed(directory)

    # --- services to partitions

    def open_log(self, partition: Partition) -> Log:
        """The log of a partition, made when its first record comes; its first epoch is the current one."""
        log = self._logs.get_or_create(
            partition.name, partition.topic_id, partition.config, directory_id=self.directory_id(partition.name)
        )
        log.begin_epoch(partition.leader_epoch)
        return log

    def log_changed(self, name: TopicPartition) -> None:
        """A log's start moved, or the log failed, without an append: those who watch it must look again."""
        partition = self.get(*name)
        if partition is not None:
            partition.progressed()

    def _on_synced(self, name: TopicPartition) -> None:
        partition = self.get(*name)
        if partition is not None:
            partition.on_synced()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """What the high-watermark checkpoint holds: every partition that has a log."""
        return {
            partition.name: partition.high_watermark
            for partitions in self._by_name.values()
            for partition in partitions.values()
            if partition.log is not None
        }
