"""A rate of bytes per second that nobody may exceed for long: ``log.cleaner.io.max.bytes.per.second``."""

from __future__ import annotations

import asyncio

from kbroker.host import Clock, Timer


class Throttle:
    """Shared by all whose bytes count together. What was moved at once is paid for by waiting afterwards."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._paid_ms = 0.0
        """Until when, by monotonic time, what was moved so far is enough."""
        self._waiting: dict[asyncio.Future[None], Timer] = {}
        self._is_stopped = False

    async def moved(self, size: int, rate_max: float) -> None:
        """``size`` bytes were moved: returns when more may be."""
        now_ms = self._clock.monotonic_ms()
        self._paid_ms = max(self._paid_ms, now_ms) + 1000 * size / rate_max
        delay_ms = self._paid_ms - now_ms
        if delay_ms < 1 or self._is_stopped:
            return
        over: asyncio.Future[None] = self._loop.create_future()
        self._waiting[over] = self._clock.call_later(delay_ms, over.set_result, None)
        try:
            await over
        finally:
            del self._waiting[over]

    def stop(self) -> None:
        """Nobody waits any more."""
        self._is_stopped = True
        for over, timer in self._waiting.items():
            timer.cancel()
            if not over.done():
                over.set_result(None)
