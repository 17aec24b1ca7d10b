"""Retention and compaction of a broker's logs, in slices between which the loop serves everybody else.

Retention looks at every log each ``log.retention.check.interval.ms``, compaction (``log.cleaner.*``) takes the log with
the largest dirty share, one after the other until none is due, then rests for ``log.cleaner.backoff.ms``. A log that is
being cleaned is left alone by retention. A log that cannot be cleaned is named in the broker's log and not tried again
before the next start; it goes on serving. Follows Kafka's ``LogManager`` and ``LogCleaner``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING

from kbroker.log.cleanable import Cleanable, cleanable_part
from kbroker.log.cleaner import Cleaner, CleaningAbortedError
from kbroker.log.errors import CorruptFileError, LogOfflineError
from kbroker.log.offset_map import OffsetMap
from kbroker.protocol.errors import ApiError

if TYPE_CHECKING:
    from kbroker.config import BrokerConfig
    from kbroker.host import Host
    from kbroker.log.log import Log
    from kbroker.log.manager import LogManager
    from kbroker.replication.partition import Partition
    from kbroker.replication.replicas import ReplicaManager

logger = logging.getLogger(__name__)

INITIAL_DELAY_MS = 30_000
SEGMENTS_IN_A_SLICE = 16
LOGS_IN_A_SLICE = 64
PAUSE_MS = 50


class LogCleaning:
    """Owner: ``Housekeeping``, which calls ``turn`` every second."""

    def __init__(
        self,
        logs: LogManager,
        replicas: ReplicaManager,
        config: BrokerConfig,
        host: Host,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._host = host
        self._loop = loop
        self._retention_interval_ms = config.integer("log.retention.check.interval.ms")
        self._is_enabled = config.boolean("log.cleaner.enable")
        self._rate_max = config.floating("log.cleaner.io.max.bytes.per.second")
        now_ms = host.clock.monotonic_ms()
        self._retention_due_ms = now_ms + min(INITIAL_DELAY_MS, self._retention_interval_ms)
        self._compaction_due_ms = now_ms + config.integer("log.cleaner.backoff.ms")
        self._retention: asyncio.Task[None] | None = None
        self._compaction: asyncio.Task[None] | None = None
        self._cleaned: Log | None = None
        """The log that is being cleaned."""
        self._uncleanable: dict[Log, None] = {}
        self._is_stopping = False

    def turn(self) -> None:
        """Begin what is due."""
        now_ms = self._host.clock.monotonic_ms()
        if self._retention is None and now_ms >= self._retention_due_ms:
            self._retention_due_ms = now_ms + self._retention_interval_ms
            self._retention = self._start(self._retain_all())
        if self._compaction is None and self._is_enabled and now_ms >= self._compaction_due_ms:
            self._compaction = self._start(self._compact_all())

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if task is self._retention:
            self._retention = None
        if task is self._compaction:
            self._compaction = None
            backoff_ms = self._replicas.config.integer("log.cleaner.backoff.ms")
            self._compaction_due_ms = self._host.clock.monotonic_ms() + backoff_ms
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("Retention or compaction failed; it is tried again.", exc_info=error)

    async def stop(self) -> None:
        """Returns when no log is touched any more. A cleaning under way is dropped."""
        self._is_stopping = True
        tasks = [task for task in (self._retention, self._compaction) if task is not None]
        if tasks:
            await asyncio.wait(tasks)

    # --- retention ---------------------------------------------------------------------------------------------------

    async def _retain_all(self) -> None:
        for number, partition in enumerate(self._replicas.all()):
            await self._retain(partition)
            if number % LOGS_IN_A_SLICE == LOGS_IN_A_SLICE - 1:
                await asyncio.sleep(0)

    async def _retain(self, partition: Partition) -> None:
        while not self._is_stopping:
            log = partition.log
            if log is None or log is self._cleaned:
                return
            count = self._logs.delete_old_segments(partition.name, partition.high_watermark, SEGMENTS_IN_A_SLICE)
            if not count:
                return
            self._replicas.log_changed(partition.name)
            await asyncio.sleep(0)

    # --- compaction --------------------------------------------------------------------------------------------------

    async def _compact_all(self) -> None:
        for partition in self._replicas.all():
            if partition.config.compact and partition.config.delete:
                await self._retain(partition)
        while not self._is_stopping:
            part = self._filthiest()
            if part is None:
                return
            await self._compact(part)

    def _filthiest(self) -> Cleanable | None:
        """The log with the largest dirty share among those that are due."""
        now_ms = self._host.clock.wall_ms()
        parts = []
        for partition in self._replicas.all():
            log = partition.log
            if log is None or not partition.config.compact or log.offline_error is not None or log in self._uncleanable:
                continue
            try:
                part = cleanable_part(log, partition.last_stable_offset, now_ms)
            except (CorruptFileError, OSError) as error:
                self._give_up(log, error)
                continue
            if part is not None and part.is_due:
                parts.append(part)
        return max(parts, key=lambda part: part.ratio, default=None)

    async def _compact(self, part: Cleanable) -> None:
        log = part.log
        started_ms = self._host.clock.monotonic_ms()
        config = self._replicas.config
        self._rate_max = config.floating("log.cleaner.io.max.bytes.per.second")
        offset_map = OffsetMap(
            config.integer("log.cleaner.dedupe.buffer.size"), config.floating("log.cleaner.io.buffer.load.factor")
        )
        cleaner = Cleaner(
            part, offset_map, self._host.clock.wall_ms(), lambda discarded: self._logs.discard(log, discarded)
        )
        self._cleaned = log
        try:
            # A start after a kill finds leader epochs in the batches past the recovery point: they must be there.
            await self._replicas.flusher.flush(log)
            await self._run(cleaner, started_ms)
            log.clean_end_offset = cleaner.end_offset
            await self._host.workers.run(self._logs.cleaner_checkpoint_job())
        except CleaningAbortedError as error:
            logger.info("The cleaning of %s was dropped: %s", log.partition, error)
        except (CorruptFileError, OSError, LogOfflineError, ApiError) as error:
            self._give_up(log, error)
        except Exception as error:
            logger.exception("The cleaning of %s failed", log.partition)
            self._give_up(log, error)
        else:
            logger.info(
                "%s is clean up to offset %d: %d of %d records stay, %d of %d bytes, in %d ms",
                log.partition,
                cleaner.end_offset,
                cleaner.records_kept,
                cleaner.records_read,
                cleaner.bytes_written,
                cleaner.bytes_read,
                self._host.clock.monotonic_ms() - started_ms,
            )
        finally:
            self._cleaned = None

    async def _run(self, cleaner: Cleaner, started_ms: int) -> None:
        steps = cleaner.steps()
        try:
            for step in steps:
                if step is not None:
                    await self._host.workers.run(step)
                else:
                    await asyncio.sleep(0)
                while not self._is_stopping and self._is_too_fast(cleaner, started_ms):
                    await self._pause(PAUSE_MS)
                if self._is_stopping:
                    raise CleaningAbortedError("the broker stops")
        finally:
            steps.close()

    def _is_too_fast(self, cleaner: Cleaner, started_ms: int) -> bool:
        """Whether ``log.cleaner.io.max.bytes.per.second`` wants a rest: reading and writing both count."""
        moved = cleaner.bytes_mapped + cleaner.bytes_read + cleaner.bytes_written
        return moved / self._rate_max > (self._host.clock.monotonic_ms() - started_ms + PAUSE_MS) / 1000

    async def _pause(self, delay_ms: int) -> None:
        over: asyncio.Future[None] = self._loop.create_future()
        self._host.clock.call_later(delay_ms, over.set_result, None)
        await over

    def _give_up(self, log: Log, error: Exception) -> None:
        self._uncleanable[log] = None
        logger.error("%s cannot be cleaned and is left as it is until the next start: %s", log.partition, error)
