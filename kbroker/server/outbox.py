"""The way out of one connection: answers in order, handed to the transport no faster than the client reads.

A part of an answer is ``bytes`` or a range of a file that is read when its turn comes, in pieces of at most 1 MiB: a
client that stops reading costs one piece, however much it asked for. Small parts are joined into one write, large ones
are written by themselves, because joining a large body to its header costs more than a second system call.

Invariant: what has been handed to the transport is a prefix of what was put in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol, TypeAlias, runtime_checkable

JOIN_MAX = 64 * 1024
"""Parts up to this size are joined into one write."""
PIECE_MAX = 1024 * 1024
"""A range of a file is read and written in pieces of at most this size."""


@runtime_checkable
class FileRange(Protocol):
    """Bytes that are still in a file (record batches of a Fetch answer)."""

    def __len__(self) -> int: ...

    def read(self, position: int, size: int) -> bytes:
        """``size`` bytes from ``position`` within the range. Raises ``OSError``."""


Part: TypeAlias = bytes | bytearray | memoryview | FileRange
"""Bytes must stay as they are until they have left: a view of a receive buffer does not."""


_PLAIN = (bytes, bytearray, memoryview)


class ByteSink(Protocol):
    """What the outbox needs of a transport."""

    def write(self, data: bytes | bytearray | memoryview) -> None: ...


class TornAnswerError(Exception):
    """A range could not be read to its end after its length had been announced: the connection cannot go on."""


class Outbox:
    """Owned by one connection. ``paused`` follows the transport's ``pause_writing`` and ``resume_writing``."""

    __slots__ = ("_parts", "_range_position", "_transport", "paused")

    def __init__(self, transport: ByteSink) -> None:
        self._transport = transport
        self._parts: deque[Part] | None = None
        self._range_position = 0
        self.paused = False

    @property
    def is_empty(self) -> bool:
        return self._parts is None

    def put(self, parts: Iterable[Part]) -> bool:
        """Add parts and hand over what the transport takes. True when nothing is left behind."""
        if self._parts is None:
            self._parts = deque(parts)
        else:
            self._parts.extend(parts)
        return self.pump()

    def pump(self) -> bool:
        """Hand over until the transport has enough. True when nothing is left. Raises ``TornAnswerError``."""
        parts = self._parts
        if parts is None:
            return True
        small: list[bytes | bytearray | memoryview] = []
        small_size = 0
        while parts and not self.paused:
            part = parts[0]
            size = len(part)
            if size <= JOIN_MAX and small_size < JOIN_MAX:
                small.append(whole(part))
                small_size += size
                parts.popleft()
            elif small:
                self._transport.write(b"".join(small))
                small.clear()
                small_size = 0
            elif isinstance(part, _PLAIN):
                self._transport.write(part)
                parts.popleft()
            else:
                self._write_piece(part, size)
        if small:
            self._transport.write(b"".join(small))
        if parts:
            return False
        self._parts = None
        return True

    def _write_piece(self, part: FileRange, size: int) -> None:
        position = self._range_position
        piece_size = min(PIECE_MAX, size - position)
        self._transport.write(_read(part, position, piece_size))
        if position + piece_size < size:
            self._range_position = position + piece_size
            return
        self._range_position = 0
        if self._parts is not None:
            self._parts.popleft()

    def clear(self) -> None:
        """Forget what was not handed over."""
        self._parts = None
        self._range_position = 0


def whole(part: Part) -> bytes | bytearray | memoryview:
    """The bytes of a part that is small enough to be read at once. Raises ``TornAnswerError``."""
    return part if isinstance(part, _PLAIN) else _read(part, 0, len(part))


def _read(part: FileRange, position: int, size: int) -> bytes:
    try:
        data = part.read(position, size)
    except OSError as error:
        raise TornAnswerError(f"{size} bytes of an answer could not be read: {error}") from error
    if len(data) != size:
        raise TornAnswerError(f"{len(data)} bytes of an answer could be read where {size} had been announced")
    return data
