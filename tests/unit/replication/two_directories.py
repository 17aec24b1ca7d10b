"""A node with two data directories and a controller that takes down in which of them its replicas are."""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.log.log import Log
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.records.metadata import ConfigRecord, PartitionChangeRecord
from kbroker.protocol.records.batch import batches, read_records
from kbroker.types import TopicPartition, Uuid
from tests.sim.process import Process
from tests.unit.replication.one_node import NODE, OneNode

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class TwoDirectories(OneNode):
    """``told`` keeps what the controller was told, in order."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        before: TwoDirectories | None = None,
        directories: tuple[str, ...] = ("/one", "/two"),
    ) -> None:
        super().__init__(settings, before=before, directories=directories)
        self.told: list[tuple[int, str]] = []
        self.replicas.assignments.connect(self._take_down)

    async def _take_down(self, assignments: Mapping[tuple[Uuid, int], Uuid]) -> None:
        for (topic_id, index), directory_id in assignments.items():
            path = next(each.path for each in self.logs.directories if each.id == directory_id)
            self.told.append((index, path))
            topic = self.quorum.image.topics.by_id.get(topic_id)
            if topic is not None and topic.partitions[index].directory_of(NODE) != directory_id:
                self.apply(PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=[directory_id]))

    def restarted(self, *, lose_power: bool = False) -> TwoDirectories:
        """Kill this node and start the next on what it left."""
        self.process.kill()
        for service in (self.node.transactions, self.node.groups, self.replicas.moves):
            self.loop.run_until_complete(service.stop())
        if lose_power:
            self.disk.lose_power()
        return TwoDirectories(before=self)

    def close(self) -> None:
        if not self.loop.is_closed():  # a node that came later may have closed it
            self.loop.run_until_complete(self.replicas.moves.stop())
            super().close()

    # --- moves

    def alter(self, path: str, topic: str = "t", index: int = 0) -> ErrorCode:
        return self.replicas.moves.alter(TopicPartition(topic, index), path)

    def limit(self, rate: int) -> None:
        """Let moves copy so many bytes a second."""
        self.apply(ConfigRecord(resource_type=4, resource_name=str(NODE), name=RATE, value=str(rate)))

    def home(self, topic: str = "t", index: int = 0) -> str:
        directory = self.logs.directory_of(TopicPartition(topic, index))
        assert directory is not None
        return directory.path

    def other(self, topic: str = "t", index: int = 0) -> str:
        return next(path for path in self.directories if path != self.home(topic, index))

    def assigned(self, topic: str = "t", index: int = 0) -> str | None:
        """The directory that the cluster knows the replica to be in."""
        directory_id = self.replicas.directory_id(TopicPartition(topic, index))
        return next((each.path for each in self.logs.directories if each.id == directory_id), None)

    def log(self, topic: str = "t", index: int = 0) -> Log:
        log = self.partition(topic, index).log
        assert log is not None
        return log

    def future(self, topic: str = "t", index: int = 0) -> Log:
        return self.logs.futures[TopicPartition(topic, index)]

    def names(self, path: str, topic: str = "t") -> list[str]:
        """The directories of a topic's partitions in a data directory, without what makes moved ones unique."""
        found = [name for name in self.host.disk.list_dir(path) if name.startswith(f"{topic}-")]
        return sorted(
            f"{name.partition('.')[0]}{name[name.index('.') + 33 :]}" if "." in name else name for name in found
        )

    def offsets(self, topic: str = "t", index: int = 0) -> list[int]:
        """The offset of every record, read from the log's start to its end."""
        log = self.log(topic, index)
        found: list[int] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            records = log.read(offset, 1 << 20, at_least_one=True)
            for header, batch in batches(records if isinstance(records, bytes) else records.to_bytes()):
                found += [
                    each.offset for each in read_records(batch, max_decompressed=1 << 20) if each.offset >= offset
                ]
                offset = header.next_offset
        return found

    def append_is_refused(self) -> bool:
        """Whether there is no room for a record."""
        try:
            self.append("t")
        except ApiError as error:
            return error.code == ErrorCode.KAFKA_STORAGE_ERROR
        return False

    @staticmethod
    def spare_process() -> Process:
        """Somebody else who touches the disk."""
        return Process("spare")
