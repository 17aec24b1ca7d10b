"""How the caller reaches the engine: a function of it, run on its loop, its result back.

Two channels: the engine's loop in a thread of this process (here), or in a process of its own (``process``). Through
both go the same functions; those of a process must be picklable, functions of modules and plain arguments.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Protocol

from kbroker.testing.options import Options

if TYPE_CHECKING:
    import asyncio

    from kbroker.testing.engine import Engine

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
NOT_RUNNING = "the broker does not run: use it in a with statement, or call start()"
FORKED = "the broker belongs to the process that forked this one: ask there"
KILLED = "the broker was killed: call restart() first"

START = methodcaller("start")
STOP = methodcaller("stop")
RESTART = methodcaller("restart")


def kill(*, lose_unsynced: bool) -> Callable[[Engine], Any]:
    return methodcaller("kill", lose_unsynced=lose_unsynced)


class Channel(Protocol):
    """One engine. ``submit`` may be called from any thread but the engine's."""

    address: str
    unused_when_killed: list[str]
    """The faults that had not happened when a kill took the engine away."""

    @property
    def is_reachable(self) -> bool:
        """Whether there is an engine to talk to; in another process a kill takes it away."""

    def open(self) -> None:
        """Start the engine. Raises what went wrong, cleaned up."""

    def submit(self, operation: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]: ...

    def check_caller(self) -> None:
        """Raises ``RuntimeError`` in the engine's own thread."""

    def close(self) -> None:
        """Stop the engine. Harmless when it is not running."""

    def kill(self, *, lose_unsynced: bool) -> None: ...

    def restart(self) -> None: ...

    def forget_after_fork(self) -> None:
        """In a forked child: close what was inherited."""


class ThreadChannel:
    """The engine in a thread of its own."""

    def __init__(self, options: Options) -> None:
        self.address = ""
        self.unused_when_killed: list[str] = []
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._engine: Engine | None = None

    @property
    def is_reachable(self) -> bool:
        return self._engine is not None

    def open(self) -> None:
        from kbroker.testing.engine import Engine

        self._loop = new_event_loop()
        self._engine = Engine(self._loop, self._options)
        self._thread = threading.Thread(target=run_loop, args=(self._loop,), name="kbroker", daemon=True)
        self._thread.start()
        try:
            self.address = self.submit(START).result(START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    def submit(self, operation: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        loop, engine = self._loop, self._engine
        if loop is None or engine is None:
            raise RuntimeError(NOT_RUNNING)
        self.check_caller()
        result: Future[Any] = Future()
        loop.call_soon_threadsafe(begin, engine, result, operation, arguments, named)
        return result

    def check_caller(self) -> None:
        if self._thread is threading.current_thread():
            raise RuntimeError("the broker's own thread cannot wait for the broker: ask from another thread")

    def close(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        try:
            self.submit(STOP).result(STOP_TIMEOUT_S)
        finally:
            self._loop = self._thread = self._engine = None
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def kill(self, *, lose_unsynced: bool) -> None:
        self.submit(kill(lose_unsynced=lose_unsynced)).result(STOP_TIMEOUT_S)

    def restart(self) -> None:
        self.address = self.submit(RESTART).result(START_TIMEOUT_S)

    def forget_after_fork(self) -> None:
        engine = self._engine
        self._loop = self._thread = self._engine = None
        if engine is not None:
            engine.close_descriptors()


def begin(
    engine: Engine,
    result: Future[Any],
    operation: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    """On the loop: run an operation; its outcome, now or later, goes into ``result``."""
    if not result.set_running_or_notify_cancel():
        return
    try:
        outcome = operation(engine, *arguments, **named)
    except BaseException as error:  # noqa: BLE001 (it belongs to the caller, in the other thread)
        result.set_exception(error)
        return
    if not inspect.isawaitable(outcome):
        result.set_result(outcome)
        return
    import asyncio

    task = asyncio.ensure_future(outcome)
    engine.own_tasks.add(task)

    def finish(done: asyncio.Future[Any]) -> None:
        engine.own_tasks.discard(task)
        if done.cancelled():
            result.set_exception(RuntimeError("the broker was stopped meanwhile"))
        elif (error := done.exception()) is not None:
            result.set_exception(error)
        else:
            result.set_result(done.result())

    task.add_done_callback(finish)


def run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """The loop until it is stopped, then what asyncio wants done before a loop is closed."""
    import asyncio

    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's when it is installed; the process's policy stays as it is."""
    try:
        import uvloop
    except ImportError:
        import asyncio

        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
