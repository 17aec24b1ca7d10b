"""One simulated machine with a broker on it: starts it, kills it, takes its power away, starts it again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Protocol

from kbroker.host import Host
from kbroker.types import StartupError
from tests.sim.checkers import Checkers, Violation, all_checkers
from tests.sim.disk import SimDisk
from tests.sim.host import SimClock, SimWorkers, sim_host
from tests.sim.loop import SimLoop
from tests.sim.process import Process

PORT = 9092
START_MAX_S = 60.0
STOP_MAX_S = 60.0
RESTART_AFTER_S = 1.0
"""When whoever looks after the machine starts a broker again that ended itself."""


class BrokerUnderTest(Protocol):
    """What the world asks of a broker."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


OnFailure = Callable[[BaseException], None]
"""Told when a broker cannot go on."""

BrokerFactory = Callable[[Mapping[str, str], Host, asyncio.AbstractEventLoop, OnFailure], BrokerUnderTest]


def production_broker(
    values: Mapping[str, str], host: Host, loop: asyncio.AbstractEventLoop, on_failure: OnFailure
) -> BrokerUnderTest:
    """The whole production broker."""
    from kbroker.broker import Broker
    from kbroker.config import BrokerConfig

    broker: BrokerUnderTest = Broker(BrokerConfig(values), host, loop, on_failure)
    return broker


class World:
    """The machine, its broker, and what the checkers know.

    Invariant: ``process`` is the newest incarnation of the broker's process, alive or dead; at most one is alive.
    """

    def __init__(
        self,
        seed: int,
        config: Mapping[str, str],
        *,
        factory: BrokerFactory = production_broker,
        keep_trace: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.loop = SimLoop(Random(self.random.getrandbits(64)), keep_trace=keep_trace)
        self.disk = SimDisk(Random(self.random.getrandbits(64)), self.loop.trace, on_blocked=self.loop.advance)
        self.disk.syncs_together = seed % 2 == 0
        self.clock = SimClock(self.loop)
        self.workers = SimWorkers(self.loop, Random(self.random.getrandbits(64)))
        self.checkers: Checkers = all_checkers()
        self.config = dict(config)
        self.port = PORT
        self.has_groups = factory is production_broker  # stand-ins have none
        self.may_lose = False  # a power loss may lose what was acknowledged
        self.on_loss: list[Callable[[], None]] = [self.checkers.on_loss]
        self.topic_ids: dict[str, bytes] = {}
        self.process = Process("broker-0")
        self.process.kill()
        self.failure: asyncio.Future[None] = self.loop.create_future()
        self._factory = factory
        self._processes: list[Process] = []
        self._broker: BrokerUnderTest
        self._started: asyncio.Future[None] = self.loop.create_future()
        self._failures_before = 0

    def start_broker(self) -> None:
        """Begin to start a new incarnation; ``wait_started`` waits for it, or for the one that has to follow it."""
        if self.process.alive:
            raise RuntimeError("the broker runs already")
        process = self.process = Process(f"broker-{len(self._processes) + 1}")
        self._processes.append(process)
        self.loop.trace.record("start", process.name)
        self.loop.network.return_machine()
        if self._started.done():
            self._started = self.loop.create_future()
        self._failures_before = self.disk.failures
        process.start(self.loop, self._run_broker(process))

    async def _run_broker(self, process: Process) -> None:
        try:
            host = sim_host(process, self.disk, self.clock, self.workers, self.random)
            self._broker = self._factory(self.config, host, self.loop, lambda error: self._cannot_go_on(process, error))
            async with asyncio.timeout(START_MAX_S):
                await self._broker.start()
        except TimeoutError:
            self.fail(Violation(f"{process.name} did not start within {START_MAX_S} s"))
        except StartupError as error:
            self._cannot_go_on(process, error)
        except Exception as error:  # noqa: BLE001 # whatever it is, the run ends with it
            violation = Violation(f"{process.name} did not start: {error!r}")
            violation.__cause__ = error
            self.fail(violation)
        else:
            self.loop.trace.record("started", process.name)
            self._started.set_result(None)

    def _cannot_go_on(self, process: Process, error: BaseException) -> None:
        """The broker ends itself, which only a disk that failed is a reason for, and is started again."""
        if self.disk.failures == self._failures_before:
            violation = Violation(f"{process.name} ended itself: {error!r}")
            violation.__cause__ = error
            self.fail(violation)
        elif not process.is_ending:
            process.is_ending = True
            self.loop.trace.record("ends itself", process.name)
            self._watch(process.start(self.loop, self._end_itself(process)))

    async def _end_itself(self, process: Process) -> None:
        try:
            async with asyncio.timeout(STOP_MAX_S):
                await self._broker.stop()
        except TimeoutError:
            raise Violation(f"{process.name} did not end itself within {STOP_MAX_S} s") from None
        except Exception:  # noqa: BLE001 # as the production process does: it ends all the same
            self.loop.trace.record("stop failed", process.name)
        self.loop.call_soon(self._start_again, process, context=self.loop.network.nobody)

    def _start_again(self, process: Process) -> None:
        if process.alive:
            process.kill()
            self.loop.network.end_process(process)
            self.loop.call_later(RESTART_AFTER_S, self._start_after, process, context=self.loop.network.nobody)

    def _start_after(self, process: Process) -> None:
        if self.process is process:
            self.start_broker()

    async def wait_started(self) -> None:
        await self._started

    def kill_broker(self) -> None:
        """``kill -9``: the page cache survives."""
        self.loop.trace.record("kill", self.process.name)
        self.process.kill()
        self.loop.network.end_process(self.process)

    def end_in(self, operations: int, end: Callable[[], None]) -> asyncio.Future[None]:
        """Kill the broker in the middle of a disk operation, so many from now; ``end`` says how. Done when it was."""
        done: asyncio.Future[None] = self.loop.create_future()

        def on_kill_due() -> None:
            end()
            done.set_result(None)

        self.disk.kill_in = operations
        self.disk.on_kill_due = on_kill_due
        return done

    def lose_power(self) -> None:
        """The machine goes dark; its peers hear nothing."""
        self.process.kill()
        self.loop.network.lose_machine(self.process)
        self.loop.call_soon(self.disk.lose_power, context=self.loop.network.nobody)  # a write may be under way
        if self.may_lose:
            for connection in list(self.loop.network.connections):
                connection.cut()
            # What a client has heard by now it may still tell the checkers.
            self.loop.call_later(0.000_001, self._tell_loss, context=self.loop.network.nobody)

    def _tell_loss(self) -> None:
        self.loop.trace.record("loss")
        for listener in self.on_loss:
            listener()

    async def stop_broker(self) -> None:
        """An orderly stop, as by SIGTERM. Raises ``Violation`` when it takes too long."""
        self.loop.trace.record("stop", self.process.name)
        stopped: asyncio.Future[None] = self.loop.create_future()

        async def stop() -> None:
            await self._broker.stop()
            stopped.set_result(None)

        self._watch(self.process.start(self.loop, stop()))
        try:
            await asyncio.wait_for(stopped, STOP_MAX_S)
        except TimeoutError:
            raise Violation(f"{self.process.name} did not stop within {STOP_MAX_S} s") from None
        self.process.kill()
        self.loop.network.end_process(self.process)

    def fail(self, error: Exception) -> None:
        """End the run with this error."""
        if not self.failure.done():
            self.failure.set_exception(error)

    def spawn(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """Run an actor; its error ends the run."""
        return self._watch(asyncio.ensure_future(work, loop=self.loop))

    def _watch(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        def on_done(task: asyncio.Task[Any]) -> None:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                self.fail(error)

        task.add_done_callback(on_done)
        return task

    def run(self, main: Awaitable[None]) -> None:
        """Run to the end. Raises what went wrong: ``Violation``, ``Deadlock``, ``Livelock``, or a bug of ours."""

        async def guarded() -> None:
            task = asyncio.ensure_future(main)
            await asyncio.wait((task, self.failure), return_when=asyncio.FIRST_COMPLETED)
            if self.failure.done():
                self.failure.result()
            await task

        self.loop.run_until_complete(guarded())
        if self.loop.failures:
            raise Violation("nothing handled: " + "; ".join(self.loop.failures))

    def close(self) -> None:
        """End the world. What still runs is dropped without a word."""
        self.process.kill()
        rest = Process("rest")
        rest.tasks = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
        self.loop.close()
        for process in (*self._processes, rest):
            process.bury()
        if self.failure.done():
            self.failure.exception()
