"""The engine in a process of its own, at the other end of a pipe (``kbroker.testing.pipe``).

The child ends when its end of the pipe reports that nobody holds the other one: with the caller's process, however
that ended. Nothing of the broker is imported here.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from kbroker.testing.channel import KILLED, NOT_RUNNING, RESTART, START, START_TIMEOUT_S, STOP, STOP_TIMEOUT_S, kill
from kbroker.testing.folders import Folder
from kbroker.testing.operations import Operations
from kbroker.testing.options import Options
from kbroker.testing.pipe import Pipe

if TYPE_CHECKING:
    from kbroker.testing import fault_orders, memory
else:
    fault_orders, memory = map(Operations, ("fault_orders", "memory"))

_CHILD = (
    "import gc, sys; gc.disable(); sys.path[:] = {path!r}; from kbroker.testing.child import main; main({descriptor})"
)


class ProcessChannel:
    """One child process at a time: a ``kill`` ends it, a ``restart`` makes another on its port and data."""

    def __init__(self, options: Options) -> None:
        self.address = ""
        self.unused_when_killed: list[str] = []
        self._options = options
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe: Pipe | None = None
        self._reader: threading.Thread | None = None
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._folder: Folder | None = None
        self._is_killed = False
        self._is_gone = False
        """Whether the reader has met the end of what the child says."""
        self._memory: Any = None
        """What a child that was killed knew of the test."""

    @property
    def is_reachable(self) -> bool:
        return self._pipe is not None and not self._is_gone

    def open(self) -> None:
        if self._options.data_dir is None:
            self._folder = Folder()
        try:
            self._launch()
        except BaseException:
            self.close()
            raise

    def _launch(self) -> None:
        mine, other = socket.socketpair()
        with other:
            code = _CHILD.format(path=sys.path, descriptor=other.fileno())
            self._child = subprocess.Popen(
                [sys.executable, "-S", "-c", code],  # without site: the paths are given, and import hooks cost time
                pass_fds=(other.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        pipe = self._pipe = Pipe(mine)
        self._is_killed = self._is_gone = False
        pipe.send(pipe.encode((self._options, None if self._folder is None else self._folder.path)))
        self._reader = threading.Thread(target=self._read, args=(pipe,), name="kbroker-process", daemon=True)
        self._reader.start()
        if self._memory is not None:
            self.submit(memory.give, self._memory).result(START_TIMEOUT_S)
        self.address = self.submit(START).result(START_TIMEOUT_S)
        self._options = self._options._replace(port=int(self.address.rpartition(":")[2]))

    def submit(self, operation: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        pipe = self._pipe
        if pipe is None:
            raise RuntimeError(KILLED if self._is_killed else NOT_RUNNING)
        result: Future[Any] = Future()
        number = next(self._numbers)
        try:
            message = pipe.encode((number, operation, arguments, named))
        except ValueError as error:
            raise ValueError(
                f"this cannot be sent to a broker in another process ({error}): use mode='thread', or plain values"
            ) from error
        self._waiting[number] = result
        try:
            pipe.send(message)
        except OSError as error:
            self._waiting.pop(number, None)
            raise RuntimeError(f"the broker's process is gone: {error}") from error
        return result

    def _read(self, pipe: Pipe) -> None:
        """The reader's thread: outcomes and questions, until the child is gone. Whoever waits then is told."""
        try:
            while (message := pipe.receive()) is not None:
                number, *rest = message
                if number is None:
                    pipe.send(pipe.encode((None, pipe.is_set(*rest))))
                else:
                    self._settle(number, *rest)
        except OSError:
            pass  # the child is gone before it heard an answer
        finally:
            self._is_gone = True
            pipe.shut()
            for number in list(self._waiting):
                self._settle(number, False, RuntimeError("the broker's process ended meanwhile"))

    def _settle(self, number: int, succeeded: bool, outcome: Any) -> None:
        result = self._waiting.pop(number, None)
        if result is None or not result.set_running_or_notify_cancel():
            return
        if succeeded:
            result.set_result(outcome)
        else:
            result.set_exception(outcome)

    def check_caller(self) -> None:
        """No thread of this process is the engine's."""

    def close(self) -> None:
        try:
            if self.is_reachable:
                self.submit(STOP).result(STOP_TIMEOUT_S)
        finally:
            self._end()
            self._is_killed = False
            if self._folder is not None:
                self._folder.remove()
                self._folder = None

    def _end(self) -> None:
        """Let go of the child; it ends when it notices, or is ended."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.shut()
        child, self._child = self._child, None
        if child is not None:
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if self._reader is not None:
            self._reader.join()
            self._reader = None
        if pipe is not None:
            pipe.close()

    def kill(self, *, lose_unsynced: bool) -> None:
        child = self._child
        if child is None:
            raise RuntimeError(KILLED if self._is_killed else NOT_RUNNING)
        with contextlib.suppress(RuntimeError, TimeoutError):  # it is ended, whatever state it is in
            self._memory = self.submit(memory.take).result(STOP_TIMEOUT_S)
            self.unused_when_killed = self.submit(fault_orders.unused).result(STOP_TIMEOUT_S)
        if lose_unsynced:
            self.submit(kill(lose_unsynced=True)).result(STOP_TIMEOUT_S)
        child.send_signal(signal.SIGKILL)
        self._is_killed = True
        self._end()

    def restart(self) -> None:
        if self.is_reachable:
            self.submit(RESTART).result(START_TIMEOUT_S)
        else:
            self._end()
            self._launch()

    def forget_after_fork(self) -> None:
        if self._child is not None:
            self._child.poll()  # hears that it is no child of this process: nothing to wait for
        if self._pipe is not None:
            self._pipe.close()
        if self._folder is not None:
            os.close(self._folder.descriptor)
        self._pipe = self._child = self._reader = self._folder = self._memory = None
