"""What a broker does for its logs while nobody asks: flush, checkpoint, clean, remove and forget what is over.

One timer, a turn a second: most turns find nothing to do. Blocking work (fsync, checkpoint files) runs in a worker over
what the loop has picked; the loop applies the result. Follows the scheduled tasks of Kafka's ``LogManager``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kbroker.config import BrokerConfig
from kbroker.host import Host, Timer
from kbroker.log.log import Log
from kbroker.log.manager import LogManager
from kbroker.replication.cleaning import LogCleaning
from kbroker.replication.replicas import ReplicaManager

logger = logging.getLogger(__name__)

TURN_MS = 1000


class Housekeeping:
    """Owner: the composition root. ``start`` once, ``stop`` once."""

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
        self._cleaning = LogCleaning(logs, replicas, config, host, loop)
        # One job writes the three checkpoints: as often as the most impatient of them wants.
        self._checkpoint_interval_ms = min(
            config.integer("log.flush.offset.checkpoint.interval.ms"),
            config.integer("log.flush.start.offset.checkpoint.interval.ms"),
            config.integer("replica.high.watermark.checkpoint.interval.ms"),
        )
        self._expiry_interval_ms = config.integer("producer.id.expiration.check.interval.ms")
        now_ms = host.clock.monotonic_ms()
        self._checkpoint_due_ms = now_ms + self._checkpoint_interval_ms
        self._expiry_due_ms = now_ms + self._expiry_interval_ms
        self._timer: Timer | None = None
        self._work: asyncio.Task[None] | None = None
        self._is_stopping = False

    def start(self) -> None:
        self._timer = self._host.clock.call_later(TURN_MS, self._turn)

    async def stop(self) -> None:
        """Returns when no worker touches a log any more. What is due is left to the clean stop of the logs."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._cleaning.stop()
        await self._replicas.moves.stop()
        if self._work is not None:
            await asyncio.wait([self._work])
        await self._replicas.flusher.stop()

    def _turn(self) -> None:
        self._timer = self._host.clock.call_later(TURN_MS, self._turn)
        now_ms = self._host.clock.monotonic_ms()
        if now_ms >= self._expiry_due_ms:
            self._expiry_due_ms = now_ms + self._expiry_interval_ms
            self._logs.remove_expired_producers()
        self._cleaning.turn()
        if self._work is None:
            removal = self._logs.removal_job()
            due = self._logs.due_for_sync()
            checkpoint = now_ms >= self._checkpoint_due_ms
            if due or checkpoint or removal is not None:
                self._work = self._loop.create_task(self._flush(due, removal, checkpoint=checkpoint))
                self._work.add_done_callback(self._on_flushed)

    async def _flush(self, due: list[Log], removal: Callable[[], None] | None, *, checkpoint: bool) -> None:
        if removal is not None:
            await self._host.workers.run(removal)
        for log in due:
            if self._is_stopping:
                return
            await self._replicas.flusher.flush(log)
        if checkpoint and not self._is_stopping:
            self._checkpoint_due_ms = self._host.clock.monotonic_ms() + self._checkpoint_interval_ms
            await self._host.workers.run(self._logs.checkpoint_job(self._replicas.high_watermarks()))

    def _on_flushed(self, work: asyncio.Task[None]) -> None:
        self._work = None
        error = None if work.cancelled() else work.exception()
        if error is not None:
            logger.error("The checkpoints were not written; the next start may have more to recover.", exc_info=error)
