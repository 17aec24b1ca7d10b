"""The private pair of sockets between a test's process and its broker's: sized messages, pickled.

    caller  -- (number, operation, arguments, named) -->  child
            <-- (number, succeeded, outcome) ----------
            <-- (None, event) -------------------------   is it set?
            -- (None, yes or no) --------------------->

Operations travel by name. An event that a test gives (``until(event)``) stays in the test's process: a number goes in
its place (``DistantEvent``), and the child asks.
"""

from __future__ import annotations

import contextlib
import io
import logging
import pickle
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from kbroker.testing.events import DistantEvent

logger = logging.getLogger(__name__)

_SIZE = struct.Struct(">Q")


def as_it_was(kind: type[BaseException], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    """An exception, without what its ``__init__`` does."""
    error = kind.__new__(kind, *arguments)
    vars(error).update(attributes)
    return error


class EventPickler(pickle.Pickler):
    """Leaves events where they are: ``events`` gets them, their places are their numbers.

    What came through the same pipe, and is asked for by ``ask``, goes back as the number it has at the other end.
    """

    def __init__(self, file: io.BytesIO, events: list[Any], ask: Callable[[int], bool]) -> None:
        super().__init__(file)
        self._events = events
        self._ask = ask

    def reducer_override(self, given: Any) -> Any:
        if isinstance(given, BaseException) and type(given).__module__.startswith("kbroker."):
            return as_it_was, (type(given), given.args, vars(given))
        if isinstance(given, type) or not callable(getattr(given, "is_set", None)):
            return NotImplemented
        if isinstance(given, DistantEvent) and given.ask == self._ask:
            return DistantEvent, (given.number,)
        self._events.append(given)
        return DistantEvent, (len(self._events) - 1,)


class EventUnpickler(pickle.Unpickler):
    """Gives distant events the way to ask."""

    def __init__(self, file: io.BytesIO, ask: Callable[[int], bool]) -> None:
        super().__init__(file)
        self._ask = ask

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return partial(DistantEvent, self._ask) if found is DistantEvent else found


class Pipe:
    """One end. Any thread may send; one receives. ``ask`` is how the child learns whether an event is set."""

    def __init__(self, connection: socket.socket, ask: Callable[[int], bool] | None = None) -> None:
        self._connection = connection
        self._ask = ask or self.is_set
        self._sending = threading.Lock()
        self._events: list[Any] = []

    def send(self, data: bytes) -> None:
        """What ``encode`` gave. Raises ``OSError`` when the other side is gone."""
        with self._sending:
            self._connection.sendall(_SIZE.pack(len(data)) + data)

    def receive(self) -> Any:
        """One message; None when the other side is gone."""
        head = self._receive_exactly(_SIZE.size)
        data = None if head is None else self._receive_exactly(_SIZE.unpack(head)[0])
        return None if data is None else self.decode(data)

    def encode(self, message: Any) -> bytes:
        """Raises ``ValueError`` for what cannot travel."""
        buffer = io.BytesIO()
        try:
            EventPickler(buffer, self._events, self._ask).dump(message)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(str(error)) from error
        return buffer.getvalue()

    def decode(self, data: bytes | bytearray) -> Any:
        return EventUnpickler(io.BytesIO(data), self._ask).load()

    def is_set(self, event: int) -> bool:
        """What the child asks. An event that cannot say is over, as one that is set."""
        try:
            return bool(self._events[event].is_set())
        except Exception:
            logger.exception("%r does not say whether it is set", self._events[event])
            return True

    def _receive_exactly(self, size: int) -> bytearray | None:
        pieces = bytearray()
        while len(pieces) < size:
            try:
                piece = self._connection.recv(size - len(pieces))
            except OSError:
                return None
            if not piece:
                return None
            pieces += piece
        return pieces

    def shut(self) -> None:
        """Nothing more is sent: the other side notices. What it has sent can still be read."""
        with contextlib.suppress(OSError):  # the other side has gone already
            self._connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._connection.close()
