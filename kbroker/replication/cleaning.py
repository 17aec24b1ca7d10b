"""Retention and compaction of a broker's logs: when, which, and what the loop does of it.

Retention looks at every log each ``log.retention.check.interval.ms``, but for those that are compacted: they are the
cleaner's. Compaction (``log.cleaner.*``) takes the log with the largest dirty share, one after the other until none is
due, then rests for ``log.cleaner.backoff.ms``; so many at a time as ``log.cleaner.threads`` says. Reading and writing
is done apart from the loop (``kbroker.host.Apart``), in steps of some 50 ms between which the loop may slow it down or
end it; the loop alone puts new segments in the place of old ones. A log that is being cleaned is left alone by
retention. A log that cannot be cleaned is named in the broker's log and not tried again before the next start; it goes
on serving. A full disk is no such reason, and an I/O error is one to take the data directory offline, as anywhere
else. Follows Kafka's ``LogManager`` and ``LogCleaner``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kbroker.host import LostWorkerError
from kbroker.host.waiting import pause
from kbroker.log.cleanable import Cleanable, cleanable_part, cleaning_job
from kbroker.log.cleaner import clean
from kbroker.log.cleaning_job import Progress
from kbroker.log.errors import CorruptFileError, LogOfflineError, is_refusal
from kbroker.log.offset_map import keys_within
from kbroker.log.swapping import CleaningAbortedError, check_unchanged, swap_in
from kbroker.protocol.errors import ApiError
from kbroker.replication.throttle import Throttle

if TYPE_CHECKING:
    from kbroker.config import BrokerConfig
    from kbroker.host import Apart, Host, Steps
    from kbroker.log.log import Log
    from kbroker.log.manager import LogManager
    from kbroker.replication.partition import Partition
    from kbroker.replication.replicas import ReplicaManager

logger = logging.getLogger(__name__)

SEGMENTS_IN_A_SLICE = 16
LOGS_IN_A_SLICE = 64


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
        self._throttle = Throttle(host.clock)
        now_ms = host.clock.monotonic_ms()
        initial_delay_ms = config.integer("log.initial.task.delay.ms")
        if not config.is_set("log.initial.task.delay.ms"):
            initial_delay_ms = min(initial_delay_ms, self._retention_interval_ms)
        self._retention_due_ms = now_ms + initial_delay_ms
        self._compaction_due_ms = now_ms + config.integer("log.cleaner.backoff.ms")
        self._retention: asyncio.Task[None] | None = None
        self._compaction: asyncio.Task[None] | None = None
        self._cleaned: dict[Log, None] = {}
        """The logs that are being cleaned."""
        self._uncleanable: dict[Log, None] = {}
        self._stopped: asyncio.Future[None] = loop.create_future()
        """Done when the broker stops: nobody rests any more."""

    @property
    def _is_stopping(self) -> bool:
        return self._stopped.done()

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
        if not self._stopped.done():
            self._stopped.set_result(None)
        tasks = [task for task in (self._retention, self._compaction) if task is not None]
        if tasks:
            await asyncio.wait(tasks)

    # --- retention

    async def _retain_all(self) -> None:
        """Retention of what is not compacted: the rest is the cleaner's, as in Kafka's ``LogManager.cleanupLogs``."""
        for number, partition in enumerate(self._replicas.all()):
            if not partition.config.compact:
                await self._retain(partition)
            if number % LOGS_IN_A_SLICE == LOGS_IN_A_SLICE - 1:
                await asyncio.sleep(0)

    async def _retain(self, partition: Partition) -> None:
        while not self._is_stopping:
            log = partition.log
            if log is None or log in self._cleaned:
                return
            discarded = self._logs.take_old_segments(partition.name, partition.high_watermark, SEGMENTS_IN_A_SLICE)
            if discarded is None:
                return
            self._replicas.log_changed(partition.name)
            with suppress(LogOfflineError):
                await self._host.workers.run(partial(log.rename, discarded))
            self._logs.discard(log, discarded)

    # --- compaction

    async def _compact_all(self) -> None:
        for partition in self._replicas.all():
            if partition.config.compact and partition.log not in self._uncleanable:
                await self._retain(partition)
        count = self._replicas.config.integer("log.cleaner.threads")
        await asyncio.gather(*(self._compact_one_by_one(count) for _ in range(count)))

    async def _compact_one_by_one(self, count: int) -> None:
        """One of ``count`` that share what is due."""
        apart = self._host.workers.apart()
        try:
            while not self._is_stopping and (part := self._filthiest()) is not None:
                self._cleaned[part.log] = None
                try:
                    if not await self._compact(part, apart, count):
                        return
                finally:
                    del self._cleaned[part.log]
        finally:
            await apart.close()

    def _filthiest(self) -> Cleanable | None:
        """The log with the largest dirty share among those that are due."""
        now_ms = self._host.clock.wall_ms()
        parts = []
        for partition in self._replicas.all():
            log = partition.log
            if log is None or not partition.config.compact or log.offline_error is not None:
                continue
            if log in self._uncleanable or log in self._cleaned:
                continue
            try:
                part = cleanable_part(log, partition.last_stable_offset, partition.high_watermark, now_ms)
            except (CorruptFileError, OSError) as error:
                self._give_up(log, error)
                continue
            if part is not None and part.is_due:
                parts.append(part)
        return max(parts, key=lambda part: part.ratio, default=None)

    async def _compact(self, part: Cleanable, apart: Apart, count: int) -> bool:
        """Clean one log; whether there is room on the disk for more."""
        log = part.log
        started_ms = self._host.clock.monotonic_ms()
        try:
            done = await self._clean(part, apart, count)
            log.clean_end_offset = done.end_offset
            await self._host.workers.run(self._logs.cleaner_checkpoint_job())
        except (CleaningAbortedError, LogOfflineError) as error:
            logger.info("The cleaning of %s was dropped: %s", log.partition, error)
        except (CorruptFileError, OSError, ApiError, LostWorkerError) as error:
            if isinstance(error, OSError) and is_refusal(error):
                logger.warning("There is no room to clean %s; it is tried again later: %s", log.partition, error)
                return False
            self._give_up(log, error)
        except Exception as error:
            logger.exception("The cleaning of %s failed", log.partition)
            self._give_up(log, error)
        else:
            logger.info(
                "%s is clean up to offset %d: %d of %d records stay, %d of %d bytes, in %d ms",
                log.partition,
                done.end_offset,
                done.records_kept,
                done.records_read,
                done.bytes_written,
                done.bytes_read,
                self._host.clock.monotonic_ms() - started_ms,
            )
            if done.records_without_key:
                logger.warning("%d records of %s had no key and are gone", done.records_without_key, log.partition)
        return True

    async def _clean(self, part: Cleanable, apart: Apart, count: int) -> Progress:
        log, truncations = part.log, part.log.truncations
        config = self._replicas.config
        keys_max = keys_within(
            config.integer("log.cleaner.dedupe.buffer.size") // count,
            config.floating("log.cleaner.io.buffer.load.factor"),
        )
        # A start after a kill finds leader epochs in the batches past the recovery point: they must be there.
        await self._replicas.flusher.flush(log)
        check_unchanged(log, truncations)
        job = cleaning_job(part, self._host.clock.wall_ms(), keys_max)
        steps = apart.run(partial(clean, log.disk, job))
        try:
            return await self._follow(steps, log, truncations)
        except OSError as error:
            check_unchanged(log, truncations)  # its directory may be another by now
            raise error
        finally:
            await steps.close()

    async def _follow(self, steps: Steps[Progress], log: Log, truncations: int) -> Progress:
        """Let the cleaner work, put in place what it made; how far it came."""
        done = Progress()
        while (progress := await steps.next()) is not None:
            if progress.group:
                for job in swap_in(log, progress.group, truncations, partial(self._logs.discard, log)):
                    await self._host.workers.run(job)
            check_unchanged(log, truncations)
            await self._rest(progress.bytes_moved - done.bytes_moved)
            if self._is_stopping:
                raise CleaningAbortedError("the broker stops")
            done = progress
        return done

    async def _rest(self, moved: int) -> None:
        """Keep to the rate of all that is cleaned."""
        self._throttle.moved(moved, self._replicas.config.floating("log.cleaner.io.max.bytes.per.second"))
        wait_ms = self._throttle.wait_ms
        if wait_ms >= 1:
            await pause(self._host.clock, wait_ms, self._stopped)

    def _give_up(self, log: Log, error: Exception) -> None:
        if isinstance(error, OSError):
            with suppress(LogOfflineError):
                log.fail(error)
            return
        self._uncleanable[log] = None
        logger.error("%s cannot be cleaned and is left as it is until the next start: %s", log.partition, error)
