"""The process of a broker in ``mode="process"``: an engine on the main thread, its caller at the other end of a pipe.

It ends when the caller lets go of the pipe, in whatever way that happened.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import signal
import socket
import threading
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any

from kbroker.testing.channel import begin, new_event_loop
from kbroker.testing.engine import Engine
from kbroker.testing.pipe import Pipe


class Child:
    """One engine and its caller. Messages are read in a thread, so that reading never waits for the loop's turn."""

    def __init__(self, connection: socket.socket) -> None:
        self.pipe = Pipe(connection, self._ask)
        self._answers: SimpleQueue[bool] = SimpleQueue()

    def read(self, engine: Engine) -> None:
        """The reader's thread."""
        loop = engine.loop
        while (message := self.pipe.receive()) is not None:
            number, *rest = message
            if number is None:
                self._answers.put(rest[0])
                continue
            operation, arguments, named = rest
            result: Future[Any] = Future()
            result.add_done_callback(partial(self._answer, number))
            loop.call_soon_threadsafe(begin, engine, result, operation, arguments, named)
        self._answers.put(True)
        loop.call_soon_threadsafe(loop.stop)

    def _ask(self, event: int) -> bool:
        """On the loop: whether an event of the caller's is set. The loop waits, as it would for a lock."""
        try:
            self.pipe.send(self.pipe.encode((None, event)))
        except OSError:
            return True  # the caller is gone, and this process soon
        return self._answers.get()

    def _answer(self, number: int, done: Future[Any]) -> None:
        error = done.exception()
        try:
            message = self.pipe.encode((number, error is None, done.result() if error is None else error))
            if error is not None:
                self.pipe.decode(message)  # some exceptions can be written and not be read
        except Exception:  # noqa: BLE001 (an error that cannot travel goes as its text)
            message = self.pipe.encode((number, False, RuntimeError(f"{type(error).__name__}: {error}")))
        try:
            self.pipe.send(message)
        except OSError:
            asyncio.get_running_loop().stop()


def main(descriptor: int) -> None:
    """Serve until the caller is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test run, which then ends this process
    child = Child(socket.socket(fileno=descriptor))
    message = child.pipe.receive()
    if message is None:
        os._exit(0)
    options, folder = message
    logging.basicConfig(level=options.log_level)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    engine = Engine(loop, options, folder)
    threading.Thread(target=child.read, args=(engine,), daemon=True).start()
    gc.freeze()  # it was off while modules were imported
    gc.enable()
    loop.run_forever()
    if folder is not None and engine.is_alive:  # the caller is gone without a word: nobody else cleans up
        shutil.rmtree(folder, ignore_errors=True)
    logging.shutdown()
    os._exit(0)
