"""Stand-ins for what surrounds a connection: a transport in memory, a clock moved by hand, an echoing dispatch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kbroker.host import Timer
from kbroker.server.connection import Answered, Connection, Dispatch, Shared, Waiting


class MemoryTransport(asyncio.Transport):
    """Keeps what is written. With ``room`` it takes that many bytes and then asks the protocol to pause."""

    def __init__(self, room: int | None = None) -> None:
        super().__init__({"peername": ("10.0.0.1", 4000), "sockname": ("10.0.0.2", 9092)})
        self.writes: list[bytes] = []
        self.reading = True
        self.closed = False
        self.aborted = False
        self.room = room
        self.connection: Connection | None = None

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))
        if self.room is not None:
            self.room -= len(data)
            if self.room <= 0 and self.connection is not None:
                self.connection.pause_writing()

    def drained(self, room: int) -> None:
        """The client has read: there is room again."""
        self.room = room
        if self.connection is not None:
            self.connection.resume_writing()

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = self.closed = True


class ManualTimer:
    def __init__(self, at_ms: float, callback: Callable[..., None], arguments: tuple[object, ...]) -> None:
        self.at_ms = at_ms
        self.callback = callback
        self.arguments = arguments
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Time moves by ``move`` only."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.timers: list[ManualTimer] = []

    def wall_ms(self) -> int:
        return int(self.now_ms)

    def monotonic_ms(self) -> int:
        return int(self.now_ms)

    def call_later(self, delay_ms: float, callback: Callable[..., None], *arguments: object) -> Timer:
        timer = ManualTimer(self.now_ms + delay_ms, callback, arguments)
        self.timers.append(timer)
        return timer

    def move(self, by_ms: float) -> None:
        end_ms = self.now_ms + by_ms
        while True:
            due = [timer for timer in self.timers if timer.at_ms <= end_ms and not timer.cancelled]
            if not due:
                break
            timer = min(due, key=lambda each: each.at_ms)
            self.timers.remove(timer)
            self.now_ms = timer.at_ms
            timer.callback(*timer.arguments)
        self.now_ms = end_ms


class LoopClock:
    """Real time of the running loop."""

    def wall_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def call_later(self, delay_ms: float, callback: Callable[..., None], *arguments: object) -> Timer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback, *arguments)


class FileRangeOf:
    """A range of a file whose bytes are in memory; counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.data)

    def read(self, position: int, size: int) -> bytes:
        self.reads.append((position, size))
        return self.data[position : position + size]


class FailingRange(FileRangeOf):
    """A range of a file that cannot be read."""

    def read(self, position: int, size: int) -> bytes:
        raise OSError(f"{size} bytes at {position}: the disk is gone")


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def unframed(data: bytes) -> list[bytes]:
    bodies = []
    while data:
        size = int.from_bytes(data[:4], "big")
        bodies.append(data[4 : 4 + size])
        assert len(bodies[-1]) == size
        data = data[4 + size :]
    return bodies


def echo(_connection: Connection, frame: memoryview) -> Answered | Waiting:
    return framed(bytes(frame))


def shared(
    dispatch: Dispatch = echo,
    *,
    size_max: int = 100 * 1024 * 1024,
    clock: Any = None,
    admit: Callable[[Connection], str | None] = lambda _: None,
    forget: Callable[[Connection], None] = lambda _: None,
) -> Shared:
    return Shared(
        dispatch,
        clock or ManualClock(),
        request_size_max=size_max,
        admit=admit,
        forget=forget,
        overwrite_buffers=True,
    )


def connected(place: Shared, room: int | None = None) -> tuple[Connection, MemoryTransport]:
    transport = MemoryTransport(room)
    connection = Connection(place, "PLAINTEXT")
    transport.connection = connection
    connection.connection_made(transport)
    return connection, transport


def feed(connection: Connection, transport: MemoryTransport, data: bytes, chunk_size: int = 1 << 30) -> bytes:
    """Give bytes as a transport would, in chunks, as long as the connection reads. Returns what it would not take."""
    position = 0
    while position < len(data) and transport.reading and not transport.closed:
        buffer = connection.get_buffer(-1)
        size = min(len(buffer), chunk_size, len(data) - position)
        buffer[:size] = data[position : position + size]
        del buffer
        connection.buffer_updated(size)
        position += size
    return data[position:]
