"""The real outside world: the clocks and threads of this machine, and ``real_host``, which puts a ``Host`` together.

The disk is ``kbroker.host.disk``.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TypeVar

from kbroker.host import Host, Timer
from kbroker.host.apart import RealApart
from kbroker.host.disk import RealDisk, RealFile

__all__ = ["RealClock", "RealDisk", "RealFile", "RealWorkers", "real_host"]

T = TypeVar("T")

WORKER_THREADS = 2
"""Enough for two fsyncs to overlap; what computes is held by the interpreter's lock anyway."""

DESCRIPTORS_MAX = 4096
"""More cached descriptors than this gain nothing."""


class RealClock:
    """This machine's clocks; timers run on the owner's loop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def call_later(self, delay_ms: float, callback: Callable[..., None], *arguments: object) -> Timer:
        return self._loop.call_later(delay_ms / 1000, callback, *arguments)


class RealWorkers:
    """Threads for slow work, made when the first work comes.

    ``processes`` allows to start processes for what computes for long: else it shares this one's interpreter lock.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, threads: int = WORKER_THREADS, *, processes: bool = False
    ) -> None:
        self._loop = loop
        self._threads = threads
        self._processes = processes and bool(sys.executable)
        self._pool: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], T]) -> Awaitable[T]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="kbroker-worker")
        return self._loop.run_in_executor(self._pool, work)

    def apart(self) -> RealApart:
        return RealApart(self._loop, in_process=self._processes)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None


def real_host(
    loop: asyncio.AbstractEventLoop,
    *,
    descriptors_max: int = 0,
    worker_threads: int = WORKER_THREADS,
    processes: bool = False,
) -> Host:
    """What a broker on ``loop`` gets; unless told, its disk takes a third of the descriptors this process may have.

    ``processes``: it may start some of its own.
    """
    return Host(
        clock=RealClock(loop),
        disk=RealDisk(descriptors_max or _descriptors_to_take()),
        random=Random(),
        workers=RealWorkers(loop, worker_threads, processes=processes),
    )


def _descriptors_to_take() -> int:
    """The rest is for sockets: at ``ulimit -n 256`` the disk takes 85 and leaves 171."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return DESCRIPTORS_MAX
    return max(16, min(DESCRIPTORS_MAX, soft // 3))
