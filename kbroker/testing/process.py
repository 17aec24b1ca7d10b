"""The engine in a process of its own, over a private pair of sockets.

    caller  -- (number, operation, arguments) -->  child
            <-- (number, succeeded, result) ------

Operations are functions of modules, pickled by name. The child ends when its end of the pair reports that nobody holds
the other one: with the caller's process, however that ended.
"""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from kbroker.testing.engine import Engine, Options

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
_SIZE = struct.Struct(">Q")
_CHILD = (
    "import gc, sys; gc.disable(); sys.path[:] = {path!r}; from kbroker.testing.child import main; main({descriptor})"
)


class ProcessChannel:
    """One child process at a time: a ``kill`` ends it, a ``restart`` makes another on its port and data."""

    def __init__(self, options: Options) -> None:
        self.address = ""
        self._options = options
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._reader: threading.Thread | None = None
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._folder: Any = None
        self._is_killed = False

    @property
    def is_reachable(self) -> bool:
        return self._socket is not None

    def open(self) -> None:
        if self._options.data_dir is None:
            from kbroker.testing.folders import Folder

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
                [sys.executable, "-c", code],
                pass_fds=(other.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._socket = mine
        self._is_killed = False
        folder = None if self._folder is None else self._folder.path
        _send(mine, (self._options, folder))
        self._reader = threading.Thread(target=self._read, args=(mine,), name="kbroker-process", daemon=True)
        self._reader.start()
        self.address = self.submit(Engine.start).result(START_TIMEOUT_S)
        self._options = replace(self._options, port=int(self.address.rpartition(":")[2]))

    def submit(self, operation: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        connection = self._socket
        if connection is None:
            if self._is_killed:
                raise RuntimeError("the broker was killed: call restart() first")
            raise RuntimeError("the broker does not run: use it in a with statement, or call start()")
        result: Future[Any] = Future()
        number = next(self._numbers)
        try:
            message = pickle.dumps((number, operation, arguments, named))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(
                f"this cannot be sent to a broker in another process ({error}): use mode='thread', or plain values"
            ) from error
        self._waiting[number] = result
        try:
            with self._sending:
                connection.sendall(_SIZE.pack(len(message)) + message)
        except OSError as error:
            self._waiting.pop(number, None)
            raise RuntimeError(f"the broker's process is gone: {error}") from error
        return result

    def _read(self, connection: socket.socket) -> None:
        """The reader's thread: outcomes, until the child is gone."""
        while True:
            message = receive(connection)
            if message is None:
                break
            number, succeeded, outcome = unpacked(message)
            result = self._waiting.pop(number, None)
            if result is None or not result.set_running_or_notify_cancel():
                continue
            if succeeded:
                result.set_result(outcome)
            else:
                result.set_exception(outcome)
        gone = list(self._waiting.values())
        self._waiting.clear()
        for result in gone:
            if result.set_running_or_notify_cancel():
                result.set_exception(RuntimeError("the broker's process ended meanwhile"))

    def close(self) -> None:
        try:
            if self._socket is not None and self._child is not None and self._child.poll() is None:
                self.submit(Engine.stop).result(STOP_TIMEOUT_S)
        finally:
            self._end()
            self._is_killed = False
            if self._folder is not None:
                self._folder.remove()
                self._folder = None

    def _end(self) -> None:
        """Let go of the child; it ends when it notices, or is ended."""
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.shutdown(socket.SHUT_WR)
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
        if connection is not None:
            connection.close()

    def kill(self, *, lose_unsynced: bool) -> None:
        child = self._child
        if child is None:
            raise RuntimeError("the broker was killed: call restart() first" if self._is_killed else "it does not run")
        if lose_unsynced:
            self.submit(Engine.kill, lose_unsynced=True).result(STOP_TIMEOUT_S)
        child.send_signal(signal.SIGKILL)
        self._is_killed = True
        self._end()

    def restart(self) -> None:
        if self._child is not None:
            self.submit(Engine.restart).result(START_TIMEOUT_S)
        else:
            self._launch()

    def forget_after_fork(self) -> None:
        if self._socket is not None:
            os.close(self._socket.detach())
        if self._folder is not None:
            os.close(self._folder.descriptor)
        self._socket = self._child = self._reader = self._folder = None


def _send(connection: socket.socket, value: Any) -> None:
    message = pickle.dumps(value)
    connection.sendall(_SIZE.pack(len(message)) + message)


def unpacked(message: bytes) -> Any:
    """What the other process, which this one started or was started by, has sent."""
    return pickle.loads(message)  # noqa: S301 (nobody else holds the other end of the pair)


def receive(connection: socket.socket) -> bytes | None:
    """One message; None when the other side is gone."""
    head = _receive_exactly(connection, _SIZE.size)
    return None if head is None else _receive_exactly(connection, _SIZE.unpack(head)[0])


def _receive_exactly(connection: socket.socket, size: int) -> bytes | None:
    pieces = bytearray()
    while len(pieces) < size:
        try:
            piece = connection.recv(size - len(pieces))
        except OSError:
            return None
        if not piece:
            return None
        pieces += piece
    return bytes(pieces)
