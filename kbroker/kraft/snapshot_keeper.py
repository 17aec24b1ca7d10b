"""When the metadata image is written down beside its log, and how much of the past is kept then.

A snapshot is taken when so many bytes of records came since the last one, or so much time passed (``SnapshotRule``).
Each time the oldest ones are looked at: those that ``metadata.max.retention.bytes`` and ``metadata.max.retention.ms``
do not keep go, and with them the log's segments below the first that stays. The latest snapshot always stays, and all
of the log from there on. Follows Kafka's ``KafkaMetadataLog.maybeClean`` (KIP-630).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kbroker.config import BrokerConfig
from kbroker.host import Host, Timer
from kbroker.kraft import snapshots
from kbroker.kraft.image import MetadataImage
from kbroker.kraft.image_records import image_records
from kbroker.kraft.raft.driver import MetadataLog
from kbroker.kraft.raft.voters import Voters
from kbroker.kraft.snapshots import KeptSnapshot, SnapshotId, SnapshotRule
from kbroker.log.errors import is_refusal

logger = logging.getLogger(__name__)


class RetentionRule(NamedTuple):
    """``metadata.max.retention.bytes``, of both together, and ``metadata.max.retention.ms``; -1 keeps all."""

    size_max: int
    age_max_ms: int

    def first_to_keep(self, kept: Sequence[KeptSnapshot], log_size: int, now_ms: int) -> SnapshotId | None:
        """The oldest snapshot that stays; None when all do."""
        total = log_size + sum(snapshot.size for snapshot in kept)
        count = 0
        while count < len(kept) - 1 and 0 <= self.size_max < total:
            total -= kept[count].size
            count += 1
        while count < len(kept) - 1 and 0 <= self.age_max_ms < now_ms - kept[count].last_timestamp:
            count += 1
        return kept[count].id if count else None


class _DroppedError(Exception):
    """The snapshot is not wanted any more."""


class SnapshotKeeper:
    """Owner: the quorum, which calls ``on_committed`` after records, and ``stop`` before it closes the log."""

    def __init__(
        self,
        log: MetadataLog,
        directory: str,
        config: BrokerConfig,
        host: Host,
        state: Callable[[], tuple[MetadataImage, int, Voters]],
        failed: Callable[[BaseException], None],
    ) -> None:
        """``state`` gives the committed image, the timestamp of the last batch in it, and the voters."""
        self._log = log
        self._directory = directory
        self._host = host
        self._state = state
        self._failed = failed
        self._rule = SnapshotRule(
            config.integer("metadata.log.max.record.bytes.between.snapshots"),
            config.integer("metadata.log.max.snapshot.interval.ms"),
        )
        self._retention = RetentionRule(
            config.integer("metadata.max.retention.bytes"), config.integer("metadata.max.retention.ms")
        )
        self._bytes_then = 0
        """What was written when the last snapshot was taken."""
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False

    async def stop(self) -> None:
        """Returns when nothing is written any more. A snapshot under way is dropped: the log still has it all."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    def on_committed(self, elapsed_ms: int = 0) -> None:
        written_bytes = self._log.written_bytes - self._bytes_then
        if self._task is not None:
            return
        if self._rule.is_due(written_bytes, elapsed_ms):
            self._bytes_then = self._log.written_bytes
            self._task = asyncio.ensure_future(self._take())
            self._task.add_done_callback(self._on_taken)
        elif self._timer is None and self._rule.interval_ms > 0 and written_bytes > 0:
            self._timer = self._host.clock.call_later(self._rule.interval_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.on_committed(self._rule.interval_ms)

    async def _take(self) -> None:
        """Write the committed image beside the log and let go of what is not kept.

        It is synced even without ``kbroker.fsync``: it takes the place of a log that has long been on stable storage.
        """
        image, last_timestamp, voters = self._state()
        disk, directory = self._host.disk, self._directory
        snapshot = SnapshotId(image.offset + 1, image.epoch)
        now_ms = self._host.clock.wall_ms()

        def write() -> list[KeptSnapshot]:
            snapshots.write_snapshot(
                disk,
                directory,
                snapshot,
                self._records(image),
                last_timestamp=max(last_timestamp, 0),
                now_ms=now_ms,
                voters=voters.control_records(),
            )
            return snapshots.kept_snapshots(disk, directory)

        kept = await self._host.workers.run(write)
        logger.info("Wrote the metadata snapshot %s.", snapshot.file_name)
        first = self._retention.first_to_keep(kept, self._log.size, now_ms)
        if first is not None:
            remove_log = self._log.drop_before(first.end_offset)

            def remove() -> None:
                snapshots.delete_snapshots_before(disk, directory, first.end_offset)
                remove_log()

            await self._host.workers.run(remove)
            logger.info("The metadata log begins at the snapshot %s.", first.file_name)

    def _records(self, image: MetadataImage) -> Iterator[Any]:
        """In a worker. Raises ``_DroppedError`` once the broker stops."""
        for record in image_records(image):
            if self._is_stopping:
                raise _DroppedError
            yield record

    def _on_taken(self, task: asyncio.Task[None]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, _DroppedError):
            logger.info("A metadata snapshot was dropped: the broker stops.")
        elif isinstance(error, OSError) and is_refusal(error):
            # Nothing is lost: the log still has it all, and the next snapshot is due as if this had been taken.
            logger.warning("There is no room for a metadata snapshot: %s", error)
        elif error is not None:
            self._failed(error)
