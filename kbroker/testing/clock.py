"""The clock that a test holds in its hands: both of a broker's clocks, and every timer it set.

    wall        stamps records; decides retention, expiry of producer ids and of committed offsets
    timers      sessions, rebalances, waiting fetches, transactions: everything the broker does after a while

Each can be moved forward without the other. Untouched, this clock is the machine's.

Invariants: a timer fires at the earliest when its time has come by the timers' clock, and in the order of times; while
the clock is frozen only ``advance`` makes anything fire but what is due at that moment already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

STEPS_MAX = 5000
"""Firings of one ``advance`` that are gone through one by one; then the rest of the way is one jump."""
TURNS = 3
"""Turns of the loop after each step, in which what a timer set off goes on."""


class ClockState(NamedTuple):
    """Where the clocks stand, beside the machine's."""

    wall_offset_ms: float
    offset_ms: float
    frozen_wall_ms: float | None
    frozen_ms: float | None


class MovableTimer:
    """One callback that has not fired."""

    __slots__ = ("arguments", "callback", "clock", "due_ms", "handle")

    def __init__(
        self, clock: MovableClock, due_ms: float, callback: Callable[..., None], arguments: tuple[object, ...]
    ) -> None:
        self.clock = clock
        self.due_ms = due_ms
        self.callback = callback
        self.arguments = arguments
        self.handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        self.clock.forget(self)

    def fire(self) -> None:
        self.clock.forget(self)
        self.callback(*self.arguments)


class MovableClock:
    """Implements ``kbroker.host.Clock``. Owner: the engine; it outlives the broker that a kill takes away."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timers: dict[MovableTimer, None] = {}
        self._wall_offset_ms = 0.0
        self._offset_ms = 0.0
        self._frozen_wall_ms: float | None = None
        self._frozen_ms: float | None = None

    @property
    def is_frozen(self) -> bool:
        return self._frozen_ms is not None

    def wall_ms(self) -> int:
        if self._frozen_wall_ms is not None:
            return int(self._frozen_wall_ms)
        return int(time.time_ns() / 1e6 + self._wall_offset_ms)

    def monotonic_ms(self) -> int:
        return int(self._now_ms())

    def _now_ms(self) -> float:
        return self._frozen_ms if self._frozen_ms is not None else time.monotonic_ns() / 1e6 + self._offset_ms

    def call_later(self, delay_ms: float, callback: Callable[..., None], *arguments: object) -> MovableTimer:
        timer = MovableTimer(self, self._now_ms() + delay_ms, callback, arguments)
        self._timers[timer] = None
        if self._frozen_ms is None or delay_ms <= 0:
            timer.handle = self._loop.call_later(max(0.0, delay_ms) / 1000, timer.fire)
        return timer

    def forget(self, timer: MovableTimer) -> None:
        """The timer has fired or was cancelled."""
        if self._timers.pop(timer, self) is None and timer.handle is not None:
            timer.handle.cancel()
            timer.handle = None

    def drop_timers(self) -> None:
        """The process that set them is gone."""
        for timer in list(self._timers):
            self.forget(timer)

    def freeze(self) -> None:
        """Both clocks stand still, and what is not due yet does not fire until ``advance`` or ``resume``."""
        if self._frozen_ms is None:
            self._frozen_wall_ms = time.time_ns() / 1e6 + self._wall_offset_ms
            self._frozen_ms = self._now_ms()
            for timer in self._timers:
                if timer.handle is not None and timer.due_ms > self._frozen_ms:
                    timer.handle.cancel()
                    timer.handle = None

    def resume(self) -> None:
        """Both clocks go on from where they stand."""
        if self._frozen_ms is None or self._frozen_wall_ms is None:
            return
        self._offset_ms = self._frozen_ms - time.monotonic_ns() / 1e6
        self._wall_offset_ms = self._frozen_wall_ms - time.time_ns() / 1e6
        now_ms = self._frozen_ms
        self._frozen_ms = self._frozen_wall_ms = None
        for timer in self._timers:
            if timer.handle is None:
                timer.handle = self._loop.call_later(max(0.0, timer.due_ms - now_ms) / 1000, timer.fire)

    def state(self) -> ClockState:
        return ClockState(self._wall_offset_ms, self._offset_ms, self._frozen_wall_ms, self._frozen_ms)

    def take_up(self, state: ClockState) -> None:
        """Stand where another clock stood, before any timer is set."""
        self._wall_offset_ms, self._offset_ms, self._frozen_wall_ms, self._frozen_ms = state

    def set_right(self) -> None:
        """The wall clock is the machine's again and goes; the timers' clock goes on."""
        self.resume()
        self._wall_offset_ms = 0.0

    async def advance(self, wall_ms: float, timers_ms: float) -> None:
        """Move the clocks; every timer that comes due on the way has fired when this returns.

        Timers fire one after another, each at its own time, and may set others that fire on the way, too. The wall
        clock goes along evenly.
        """
        was_frozen = self.is_frozen
        self.freeze()
        try:
            await self._walk(wall_ms, timers_ms)
        finally:
            if not was_frozen:
                self.resume()

    async def _walk(self, wall_ms: float, timers_ms: float) -> None:
        assert self._frozen_ms is not None
        assert self._frozen_wall_ms is not None
        start_ms, wall_start_ms = self._frozen_ms, self._frozen_wall_ms
        end_ms = start_ms + timers_ms
        steps = 0
        while (timer := self._next(end_ms)) is not None:
            steps += 1
            now_ms = max(self._frozen_ms, timer.due_ms if steps <= STEPS_MAX else end_ms)
            self._frozen_ms = now_ms
            self._frozen_wall_ms = wall_start_ms + wall_ms * ((now_ms - start_ms) / timers_ms if timers_ms else 1)
            timer.fire()
            for _ in range(TURNS):
                await asyncio.sleep(0)
        self._frozen_ms, self._frozen_wall_ms = end_ms, wall_start_ms + wall_ms

    def _next(self, end_ms: float) -> MovableTimer | None:
        first = min(self._timers, key=lambda timer: timer.due_ms, default=None)
        return None if first is None or first.due_ms > end_ms else first
