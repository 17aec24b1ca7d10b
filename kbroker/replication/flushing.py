"""fsync of logs, in workers: for ``flush.messages``, ``flush.ms`` and rolled segments.

Kafka syncs inside an append; here the append returns at once, what it must not do before the sync (raise the high
watermark, answer the producer) waits in its ``Partition``, and the loop goes on. One sync of a log runs at a time, and
all that is appended while it runs shares the next one (group commit): the slower the disk, the more appends a sync
serves.

After a sync that failed nothing in the page cache may be trusted: the log is offline, and those who wait are told. One
that found no room for the small files is tried again after a while; those who wait go on waiting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from kbroker.log.errors import DISK_FULL_PAUSE_MS, DiskFullError, LogOfflineError

if TYPE_CHECKING:
    from kbroker.host import Clock, Workers
    from kbroker.log.log import Log
    from kbroker.types import TopicPartition

logger = logging.getLogger(__name__)


class Flusher:
    """All syncs of one broker's logs. Owner: ``ReplicaManager``. ``on_synced`` is told after each, good or bad."""

    def __init__(
        self,
        workers: Workers,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        on_synced: Callable[[TopicPartition], None],
    ) -> None:
        self._workers = workers
        self._clock = clock
        self._loop = loop
        self._on_synced = on_synced
        self._wanted: dict[Log, None] = {}
        self._running: dict[Log, asyncio.Task[None]] = {}
        self._is_stopping = False

    def request(self, log: Log) -> asyncio.Task[None]:
        """Sync everything that is in ``log`` now; the task is done when that, and what was asked meanwhile, is."""
        self._wanted[log] = None
        running = self._running.get(log)
        if running is None:
            running = self._running[log] = self._loop.create_task(self._run(log))
        return running

    async def flush(self, log: Log) -> None:
        """As ``request``, and wait."""
        await asyncio.wait([self.request(log)])

    async def stop(self) -> None:
        """Returns when no worker touches a log any more."""
        self._is_stopping = True
        while self._running:
            await asyncio.wait(list(self._running.values()))

    def _try_again(self, log: Log) -> None:
        if not self._is_stopping and log.offline_error is None:
            self.request(log)

    async def _run(self, log: Log) -> None:
        try:
            while log in self._wanted:
                del self._wanted[log]
                await self._sync(log)
        finally:
            self._wanted.pop(log, None)
            del self._running[log]

    async def _sync(self, log: Log) -> None:
        try:
            point = await self._workers.run(log.sync)
        except DiskFullError as error:
            logger.warning("%s is not synced: %s", log.partition, error)
            if not self._is_stopping:
                self._clock.call_later(DISK_FULL_PAUSE_MS, self._try_again, log)
            return
        except LogOfflineError as error:
            logger.error("%s goes offline: %s", log.partition, error)
        except Exception as error:
            logger.exception("The sync of %s failed", log.partition)
            with suppress(LogOfflineError):
                log.fail(error)
        else:
            log.mark_flushed(point, self._clock.wall_ms())
        self._on_synced(log.partition)
