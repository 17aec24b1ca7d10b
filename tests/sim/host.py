"""What a simulated broker gets of the outside world: a ``Host`` that obeys the seed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from random import Random
from typing import Generic, TypeVar

from kbroker.host import Host, Timer
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Process

T = TypeVar("T")

EPOCH_MS = 1_750_000_000_000
"""The wall clock when a world begins."""


class SimClock:
    """Virtual time. The wall clock may be moved (``wall_offset_ms``); the monotonic clock may not."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.wall_offset_ms = 0

    def wall_ms(self) -> int:
        return EPOCH_MS + self.wall_offset_ms + int(self._loop.time() * 1000)

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def call_later(self, delay_ms: float, callback: Callable[..., None], *arguments: object) -> Timer:
        return self._loop.call_later(delay_ms / 1000, callback, *arguments)


class SimWorkers:
    """Slow work takes virtual time: it takes effect at one moment, its result is seen at a later one.

    Both moments come from the seed, so works that run at the same time overtake each other, and a process may be killed
    before the effect, or between the effect and its result.
    """

    def __init__(self, loop: SimLoop, random: Random) -> None:
        self._loop = loop
        self._random = random
        self.delay_max_s = 0.01  # each of the two moments; a slow disk raises it

    def run(self, work: Callable[[], T]) -> Awaitable[T]:
        future: Awaitable[T] = self._loop.create_task(self._run(work))
        return future

    async def _run(self, work: Callable[[], T]) -> T:
        await self._wait()
        try:
            return work()
        finally:
            await self._wait()

    async def _wait(self) -> None:
        done = self._loop.create_future()
        delay = round(self._random.uniform(0.00001, self.delay_max_s), 6)
        self._loop.call_later(delay, done.set_result, None)
        await done

    def apart(self) -> SimApart:
        return SimApart(self)

    def close(self) -> None:
        """There are no threads to end."""


class SimApart:
    """Long computations: each step is a work of the workers, so that everything may happen between two of them."""

    def __init__(self, workers: SimWorkers) -> None:
        self._workers = workers

    def run(self, make: Callable[[], Generator[T, None, None]]) -> SimSteps[T]:
        return SimSteps(self._workers, make())

    async def close(self) -> None:
        """There is no process to end."""


class SimSteps(Generic[T]):
    """The steps of one generator."""

    def __init__(self, workers: SimWorkers, steps: Generator[T, None, None]) -> None:
        self._workers = workers
        self._steps = steps

    def next(self) -> Awaitable[T | None]:
        return self._workers.run(lambda: next(self._steps, None))

    def close(self) -> Awaitable[None]:
        return self._workers.run(self._steps.close)


def sim_host(process: Process, disk: SimDisk, clock: SimClock, workers: SimWorkers, random: Random) -> Host:
    """The host of one incarnation of a process. Clock and workers belong to the machine and outlive it."""
    return Host(clock=clock, disk=disk.mount(process), random=Random(random.getrandbits(64)), workers=workers)
