"""The process of a broker in ``mode="process"``: an engine on the main thread, its caller at the other end of a socket.

It ends when the caller lets go of the socket, in whatever way that happened.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import pickle
import shutil
import signal
import socket
import struct
import threading
from concurrent.futures import Future
from functools import partial
from typing import Any

from kbroker.testing.channel import begin, new_event_loop
from kbroker.testing.engine import Engine
from kbroker.testing.process import receive, unpacked

_SIZE = struct.Struct(">Q")


class Child:
    """One engine and its caller. Messages are read in a thread, so that reading never waits for the loop's turn."""

    def __init__(self, connection: socket.socket, engine: Engine) -> None:
        self._connection = connection
        self._engine = engine
        self._sending = threading.Lock()
        self._loop = engine.loop

    def read(self) -> None:
        """The reader's thread."""
        while (message := receive(self._connection)) is not None:
            number, operation, arguments, named = unpacked(message)
            result: Future[Any] = Future()
            result.add_done_callback(partial(self._answer, number))
            self._loop.call_soon_threadsafe(begin, self._engine, result, operation, arguments, named)
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _answer(self, number: int, done: Future[Any]) -> None:
        error = done.exception()
        try:
            message = pickle.dumps((number, error is None, done.result() if error is None else error))
            if error is not None:
                unpacked(message)  # some exceptions can be written and not be read
        except Exception:  # noqa: BLE001 (an error that cannot travel goes as its text)
            message = pickle.dumps((number, False, RuntimeError(f"{type(error).__name__}: {error}")))
        try:
            with self._sending:
                self._connection.sendall(_SIZE.pack(len(message)) + message)
        except OSError:
            self._loop.stop()


def main(descriptor: int) -> None:
    """Serve until the caller is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test run, which then ends this process
    connection = socket.socket(fileno=descriptor)
    message = receive(connection)
    if message is None:
        os._exit(0)
    options, folder = unpacked(message)
    logging.basicConfig(level=options.log_level)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    engine = Engine(loop, options, folder)
    threading.Thread(target=Child(connection, engine).read, daemon=True).start()
    gc.freeze()  # it was off while modules were imported
    gc.enable()
    loop.run_forever()
    if folder is not None and engine.is_alive:  # the caller is gone without a word: nobody else cleans up
        shutil.rmtree(folder, ignore_errors=True)
    logging.shutdown()
    os._exit(0)
