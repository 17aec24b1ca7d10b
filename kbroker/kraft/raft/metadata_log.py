"""The log of ``__cluster_metadata-0`` as the quorum uses it, over an ordinary partition log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbroker.config import BrokerConfig, TopicConfig
from kbroker.host import Host
from kbroker.kraft.batches import BATCH_SIZE_MAX
from kbroker.log.log import Log
from kbroker.log.retention import delete_old_segments
from kbroker.protocol.records.validation import AppendOrigin
from kbroker.types import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition


class PartitionMetadataLog:
    """A ``MetadataLog``. Owner: the Raft driver."""

    def __init__(self, log: Log, host: Host) -> None:
        self._log = log
        self._host = host
        self.written_bytes = log.size

    @classmethod
    def open(cls, directory: str, config: BrokerConfig, host: Host) -> PartitionMetadataLog:
        """Load the log and recover all of it: the whole log is read anyway."""
        small = config.optional_integer("internal.metadata.log.segment.bytes")
        rules = TopicConfig.resolve(
            config,
            {
                "cleanup.policy": "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1",
                "max.message.bytes": str(BATCH_SIZE_MAX * 2),
                "segment.bytes": str(config.integer("metadata.log.segment.bytes")),
                **({} if small is None else {"internal.segment.bytes": str(small)}),
                "segment.ms": str(config.integer("metadata.log.segment.ms")),
                "compression.type": "producer",
                "message.timestamp.type": "CreateTime",
            },
        )
        log = Log.open(
            host.disk,
            directory,
            TopicPartition(METADATA_TOPIC, 0),
            METADATA_TOPIC_ID,
            rules,
            now_ms=host.clock.wall_ms(),
        )
        return cls(log, host)

    @property
    def start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    def epochs(self) -> Sequence[tuple[int, int]]:
        return self._log.epochs.entries

    def append(self, batch: bytes, epoch: int) -> None:
        self._log.append_as_leader(batch, epoch, self._host.clock.wall_ms(), origin=AppendOrigin.RAFT_LEADER)
        self.written_bytes += len(batch)

    def append_fetched(self, batches: bytes) -> None:
        self._log.append_as_follower(batches, self._host.clock.wall_ms())
        self.written_bytes += len(batches)

    def read(self, offset: int, max_bytes: int) -> bytes:
        if offset >= self._log.log_end_offset:
            return b""
        records = self._log.read(offset, max_bytes, at_least_one=True)
        return records if isinstance(records, bytes) else records.to_bytes()

    def sync(self) -> Callable[[], None]:
        point = self._log.sync()
        return lambda: self._log.mark_flushed(point, self._host.clock.wall_ms())

    def truncate(self, end_offset: int) -> None:
        self._log.truncate_to(end_offset, self._host.clock.wall_ms())

    def start_anew_at(self, offset: int) -> None:
        self._log.truncate_fully_and_start_at(offset, self._host.clock.wall_ms())

    @property
    def size(self) -> int:
        return self._log.size

    def drop_before(self, offset: int) -> Callable[[], None]:
        self._log.update_log_start_offset(offset)
        discarded = delete_old_segments(self._log, self._host.clock.wall_ms(), self._log.log_end_offset)

        def remove() -> None:
            if discarded is not None:
                discarded.remove()

        return remove

    def close(self) -> None:
        self._log.close()
