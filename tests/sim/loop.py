"""A deterministic asyncio event loop: virtual time, the simulated network, processes that can be killed.

Built on asyncio's own ``BaseEventLoop``, so callbacks, tasks and timers behave as they do in production: ``call_soon``
is first in, first out, timers fire in order of their time. Only the selector differs: where the real one would wait,
this one moves the clock. Nothing here is shuffled; what real life leaves open (when bytes arrive, how they are cut,
how long a worker takes) is drawn from the seed by ``network`` and ``workers``.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import base_events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from random import Random
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from tests.sim.network import Network
from tests.sim.process import PROCESS, Killed
from tests.sim.trace import Trace

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TURNS_MAX = 200_000
"""More turns of the loop than this without time passing are a livelock."""


class Deadlock(Exception):  # noqa: N818 # what happened, not an error of the caller
    """Nothing is scheduled, so nothing will ever happen."""


class Livelock(Exception):  # noqa: N818 # what happened, not an error of the caller
    """The loop turns and turns, and time does not pass."""


class SimLoop(base_events.BaseEventLoop):
    """The loop. ``trace`` and ``network`` belong to it; ``failures`` collects what no code handled."""

    def __init__(self, random: Random, *, keep_trace: bool = False) -> None:
        super().__init__()
        self._clock_resolution = 1e-9
        self._now = 0.0
        self._turns = 0
        self._selector = _VirtualWait(self)
        self.random = random
        self.trace = Trace(self.time, keep_all=keep_trace)
        self.network = Network(self, random)
        self.failures: list[str] = []
        self.set_exception_handler(self._on_exception)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock: the loop waited, or something held it (a slow disk)."""
        if seconds > 0:
            self._now += seconds
            self._turns = 0

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        context = context if context is not None else copy_context()
        process = context.get(PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(process.run, callback, args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = context if context is not None else copy_context()
        process = context.get(PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, process.run, callback, args, context=context)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **rest: Any,
    ) -> asyncio.Task[T]:
        if self.is_closed():
            coro.close()  # what a dead process still wanted: nobody waits for it
        task = super().create_task(coro, name=name, context=context, **rest)
        process = (context or copy_context()).get(PROCESS)
        if process is not None:
            process.adopt(task)
        return task

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **rest: Any) -> Any:
        _refuse_sockets(rest)
        return self.network.listen(protocol_factory, host, port or 0, serving=rest.get("start_serving", True))

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **rest: Any) -> Any:
        _refuse_sockets(rest)
        return await self.network.connect(protocol_factory, host, port)

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in self.network.addresses_of(host)
        ]

    def run_in_executor(self, *_: object) -> NoReturn:
        raise RuntimeError("a real thread in a simulated world: slow work goes through host.workers")

    def add_signal_handler(self, *_: object) -> NoReturn:
        raise RuntimeError("signals are the business of the process, not of a broker")

    def _process_events(self, event_list: list[object]) -> None:
        """No file descriptors, no events."""

    def _write_to_self(self) -> None:
        """No other thread, nobody to wake."""

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Killed):
            return
        self.failures.append(f"{context['message']}: {error!r}")
        self.trace.record("unhandled", context["message"], type(error).__name__)

    def waited(self, timeout: float | None) -> None:
        """What the selector does instead of waiting."""
        if timeout is None:
            raise Deadlock("nothing is scheduled: whatever is awaited will never come")
        self._turns += 1
        if self._turns > TURNS_MAX:
            self._turns = 0
            raise Livelock(f"{TURNS_MAX} turns of the loop at {self._now:.6f} s without time passing")
        self.advance(timeout)


class _VirtualWait:
    """In the place of the selector."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        self._loop.waited(timeout)
        return []


def _refuse_sockets(options: dict[str, Any]) -> None:
    for name in ("sock", "ssl"):
        if options.get(name) is not None:
            raise NotImplementedError(f"the simulated network has no {name}")
