"""Long computations apart from the loop: in a process of their own, or in a thread.

A thread shares the interpreter's lock with the loop: each time the loop has let it go, which every system call does, it
may wait a switch interval (5 ms) to have it again. A process does not, and its memory goes with it. The broker as a
program uses processes; one that lives inside somebody's Python starts none there.

Either way a thread waits for the computation, so that the loop learns of its end as of any other work. A process talks
over its standard input and output, in pickles: a command, an answer. It ends with its input, that is with its parent.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar

from kbroker.host import LostWorkerError

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

NICENESS = 5
"""Where there are fewer free cores than work, the broker comes first, and the computation is not starved."""
ENDING_S = 1
"""How long a process may take to see that it is not needed any more."""
_PROGRAM = "from kbroker.host.apart import serve; serve()"


class RealApart:
    """See ``kbroker.host.Apart``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, in_process: bool) -> None:
        self._loop = loop
        self._thread: ThreadPoolExecutor | None = None
        self._child = Child() if in_process else None

    def run(self, make: Callable[[], Generator[T, None, None]]) -> RealSteps[T]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="kbroker-apart")
        steps = make() if self._child is None else self._child.steps(make)
        return RealSteps(self._loop, self._thread, steps)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            if self._child is not None:
                await self._loop.run_in_executor(thread, self._child.end)
            thread.shutdown(wait=False)


class RealSteps(Generic[T]):
    """See ``kbroker.host.Steps``."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, thread: ThreadPoolExecutor, steps: Generator[T, None, None]
    ) -> None:
        self._loop = loop
        self._thread = thread
        self._steps = steps

    def next(self) -> Awaitable[T | None]:
        return self._loop.run_in_executor(self._thread, next, self._steps, None)

    def close(self) -> Awaitable[None]:
        return self._loop.run_in_executor(self._thread, self._steps.close)


class Child:
    """A process that computes for this one. Its methods block."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def steps(self, make: Callable[[], Generator[T, None, None]]) -> Generator[T, None, None]:
        """What the generator yields, computed there. Raises what it raises, and ``LostWorkerError``."""
        self._ask(("begin", make))
        is_over = False
        try:
            while True:
                outcome, value = self._ask(("next", None))
                is_over = outcome != "yields"
                if outcome == "raises":
                    raise value
                if is_over:
                    return
                yield value
        finally:
            if not is_over:
                with contextlib.suppress(LostWorkerError):
                    self._ask(("close", None))

    def _ask(self, command: tuple[str, object]) -> tuple[str, Any]:
        process = self._process
        if process is None:
            process = self._process = self._start()
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the process was started without pipes")
        try:
            pickle.dump(command, process.stdin)
            process.stdin.flush()
            outcome: tuple[str, Any] = pickle.load(process.stdout)  # noqa: S301 - from our own child
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            self.end()
            raise LostWorkerError(f"a worker process has ended with code {process.returncode}") from error
        return outcome

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )

    def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def serve() -> None:
    """The child's main program."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the parent decides
    os.nice(NICENESS)
    incoming = sys.stdin.buffer
    # What anybody prints goes to the log, not between the answers.
    outgoing = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(BrokenPipeError):
        converse(incoming, outgoing)
    # The parent is gone: what the generator would do at its end is no longer its business.
    os._exit(0)


def converse(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Answer commands until they end."""
    steps: Generator[object, None, None] = _nothing()
    while True:
        try:
            command, make = pickle.load(incoming)  # noqa: S301 - from our own parent
        except EOFError:
            return
        answer: tuple[str, object] = ("ends", None)
        try:
            if command == "begin":
                steps = make()
            elif command == "close":
                steps.close()
            else:
                answer = _advanced(steps)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where somebody waits
            answer = ("raises", _sendable(error))
        pickle.dump(answer, outgoing)
        outgoing.flush()


def _nothing() -> Generator[object, None, None]:
    yield from ()


def _advanced(steps: Iterator[object]) -> tuple[str, object]:
    try:
        return "yields", next(steps)
    except StopIteration:
        return "ends", None


def _sendable(error: Exception) -> Exception:
    """The error, if it survives the way; else one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - what was dumped just now
    except Exception:  # noqa: BLE001 - it does not survive, in whichever way
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
