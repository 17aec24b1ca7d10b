"""One simulated connection: two transports and a pipe each way."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING

from tests.sim.process import PROCESS, Process
from tests.sim.trace import fingerprint

if TYPE_CHECKING:
    from tests.sim.network import Network

RETRANSMISSION_TIMEOUT_S = 924.0
"""How long Linux sends again to a peer that does not acknowledge (``tcp_retries2``)."""

HIGH_WATER_DEFAULT = 64 * 1024


class Pipe:
    """One direction: waiting to be sent -> under way -> arrived at the receiver's kernel -> its protocol."""

    def __init__(self, connection: Connection, sender: SimTransport, receiver: SimTransport) -> None:
        self.connection = connection
        self.sender = sender
        self.receiver = receiver
        self.unsent = bytearray()
        self.under_way: deque[bytes] = deque()  # an empty piece is the end of the stream
        self.arrived = bytearray()
        self.ending = False  # the end of the stream waits behind ``unsent``
        self.end_arrived = False
        self._under_way_size = 0
        self._arrival_last = 0.0
        self._delivery_due = False

    def send(self) -> None:
        """Put what the window allows under way."""
        window = self.connection.window
        while self.unsent and self._under_way_size + len(self.arrived) < window:
            size = min(len(self.unsent), window - self._under_way_size - len(self.arrived))
            piece = bytes(self.unsent[:size])
            del self.unsent[:size]
            self._dispatch(piece)
        if self.ending and not self.unsent:
            self.ending = False
            self._dispatch(b"")

    def _dispatch(self, piece: bytes) -> None:
        connection = self.connection
        if connection.is_half_open:
            connection.schedule_give_up(self.sender)
            return
        loop = connection.network.loop
        self.under_way.append(piece)
        self._under_way_size += len(piece)
        self._arrival_last = max(self._arrival_last, loop.time() + connection.latency, connection.stalled_until)
        loop.call_at(self._arrival_last, self._arrive, context=connection.network.nobody)

    def _arrive(self) -> None:
        if not self.under_way or self.connection.is_half_open:
            return
        loop = self.connection.network.loop
        if loop.time() < self.connection.stalled_until:
            loop.call_at(self.connection.stalled_until, self._arrive, context=self.connection.network.nobody)
            return
        piece = self.under_way.popleft()
        self._under_way_size -= len(piece)
        if self.receiver.is_gone:
            if piece:
                self.connection.reset_end(self.sender)
            return
        if piece:
            self.arrived += piece
        else:
            self.end_arrived = True
        self.wake()

    def wake(self) -> None:
        """Deliver soon: now, or a little later so that pieces join."""
        if self._delivery_due or not self.receiver.wants_data or not (self.arrived or self.end_arrived):
            return
        self._delivery_due = True
        loop = self.connection.network.loop
        loop.call_at(loop.time() + self.connection.draw_delay(), self._deliver, context=self.connection.network.nobody)

    def _deliver(self) -> None:
        self._delivery_due = False
        if not self.receiver.wants_data:
            return
        if self.arrived:
            size = self.connection.draw_cut(len(self.arrived))
            taken = self.receiver.deliver(memoryview(bytes(self.arrived[:size])))
            del self.arrived[:taken]
            self._let_sender_go_on()
        elif self.end_arrived:
            self.end_arrived = False
            self.receiver.deliver_end()
        self.wake()

    def _let_sender_go_on(self) -> None:
        self.sender.enter(self.sender.go_on)


class SimTransport(asyncio.Transport):
    """One end of a connection, as asyncio's socket transport behaves."""

    def __init__(
        self, connection: Connection, context: Context, own_name: tuple[str, int], peer_name: tuple[str, int]
    ) -> None:
        super().__init__({"sockname": own_name, "peername": peer_name})
        self.connection = connection
        self.context = context.copy()
        self.outgoing: Pipe
        self.incoming: Pipe
        self._protocol: asyncio.BaseProtocol | None = None
        self._closing = False
        self._reading_paused = False
        self._writing_paused = False
        self._end_written = False
        self._low, self._high = HIGH_WATER_DEFAULT // 4, HIGH_WATER_DEFAULT
        self._error: Exception | None = None
        self.is_gone = False  # nobody reads here any more: closed, reset, or the process is dead

    @property
    def process(self) -> Process | None:
        return self.context.get(PROCESS)

    @property
    def wants_data(self) -> bool:
        return self._protocol is not None and not (self._reading_paused or self._closing or self.is_gone)

    def enter(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call into the process at this end, if it lives."""
        if self._is_alive():
            self.context.copy().run(callback, *arguments)

    def _is_alive(self) -> bool:
        process = self.process
        return process is None or process.alive

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        if self.is_gone:  # lost before it was made at this end
            self.connection.network.loop.call_soon(self._lost, self._error, context=self.context.copy())
        self.incoming.wake()

    def deliver(self, data: memoryview) -> int:
        """Hand bytes to the protocol; returns how many it took."""
        connection = self.connection
        trace = connection.network.loop.trace
        trace.record("deliver", connection.id, connection.side_of(self), fingerprint(data))
        taken: list[int] = []
        self.enter(self._hand_over, data, taken)
        return taken[0] if taken else len(data)

    def _hand_over(self, data: memoryview, taken: list[int]) -> None:
        protocol = self._protocol
        try:
            if isinstance(protocol, asyncio.BufferedProtocol):
                buffer = memoryview(protocol.get_buffer(len(data))).cast("B")
                size = min(len(buffer), len(data))
                if size == 0:
                    raise RuntimeError("get_buffer() returned an empty buffer")
                buffer[:size] = data[:size]
                taken.append(size)
                protocol.buffer_updated(size)
            elif isinstance(protocol, asyncio.Protocol):
                protocol.data_received(bytes(data))
        except Exception as error:  # noqa: BLE001 # as asyncio: the protocol's error ends its connection
            self._fail(error, "Fatal error: the protocol's data callback failed.")

    def deliver_end(self) -> None:
        self.connection.network.loop.trace.record("end", self.connection.id, self.connection.side_of(self))
        self.enter(self._hand_over_end)

    def _hand_over_end(self) -> None:
        protocol = self._protocol
        keep_open = False
        if isinstance(protocol, (asyncio.Protocol, asyncio.BufferedProtocol)):
            keep_open = bool(protocol.eof_received())
        if not keep_open:
            self.close()

    def _fail(self, error: Exception, message: str) -> None:
        self.connection.network.loop.call_exception_handler({"message": message, "exception": error})
        self.abort()

    def go_on(self) -> None:
        """The pipe has room again. Runs inside the process."""
        self.outgoing.send()
        if self._writing_paused and len(self.outgoing.unsent) <= self._low and self._protocol is not None:
            self._writing_paused = False
            self._protocol.resume_writing()
        self._maybe_lost()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_gone or self._closing or not self._is_alive():
            return
        if self._end_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        self.connection.network.on_write()
        self.outgoing.unsent += data
        self.outgoing.send()
        if len(self.outgoing.unsent) > self._high and not self._writing_paused and self._protocol is not None:
            self._writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not (self._end_written or self._closing):
            self._end_written = True
            self.outgoing.ending = True
            self.outgoing.send()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if self._closing or not self._is_alive():
            return
        self._closing = True
        if not self._end_written:
            self._end_written = True
            self.outgoing.ending = True
        self.outgoing.send()
        self._maybe_lost()

    def abort(self) -> None:
        if self._is_alive():
            self.lose(None, tell_peer=True)

    def _maybe_lost(self) -> None:
        if self._closing and not self.outgoing.unsent:
            self.lose(None, tell_peer=False)

    def lose(self, error: Exception | None, *, tell_peer: bool) -> None:
        """The connection is over at this end; ``connection_lost`` comes in the next turn."""
        if self.is_gone:
            return
        self.is_gone = True
        self._closing = True
        self._error = error
        self.outgoing.unsent.clear()
        self.incoming.arrived.clear()
        loop = self.connection.network.loop
        if tell_peer:
            self.connection.reset_end(self.outgoing.receiver)
        loop.call_soon(self._lost, error, context=self.context.copy())
        self.connection.end_gone()

    def _lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        self._reading_paused = False
        self.incoming.wake()

    def is_reading(self) -> bool:
        return not (self._reading_paused or self._closing)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_DEFAULT if low is None else 4 * low
        self._high = high
        self._low = high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return len(self.outgoing.unsent)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        if self._protocol is None:
            raise RuntimeError("the connection is over")
        return self._protocol


class Connection:
    """Both ends, the weather between them, and the faults."""

    def __init__(self, network: Network, number: int, latency: float) -> None:
        random = network.random
        self.network = network
        self.id = number
        self.latency = latency
        self.window = random.choice((4 * 1024, 64 * 1024, 256 * 1024, 1024 * 1024))
        self.cuts = random.choice(("whole", "whole", "halves", "crumbs"))
        self.joins = random.random() < 0.5
        self.stalled_until = 0.0
        self.is_half_open = False
        self._crumbs_left = 60  # then whole again, or a megabyte would take a million events
        self._client: SimTransport
        self._server: SimTransport

    def join(self, client: SimTransport, server: SimTransport) -> None:
        self._client, self._server = client, server
        client.outgoing = server.incoming = Pipe(self, client, server)
        server.outgoing = client.incoming = Pipe(self, server, client)

    def side_of(self, transport: SimTransport) -> str:
        return "client" if transport is self._client else "server"

    def end_of(self, process: Process) -> SimTransport | None:
        for end in (self._client, self._server):
            if end.process is process:
                return end
        return None

    def draw_delay(self) -> float:
        """How long arrived bytes lie in the kernel: longer delays join pieces."""
        return round(self.network.random.uniform(0, 0.001), 6) if self.joins else 0.0

    def draw_cut(self, size: int) -> int:
        """How many of the arrived bytes come out in one piece."""
        random = self.network.random
        if self.cuts == "halves" and random.random() < 0.5:
            return random.randint(1, size)
        if self.cuts == "crumbs" and self._crumbs_left:
            self._crumbs_left -= 1
            return min(size, random.randint(1, 7))
        return size

    def stall(self, seconds: float) -> None:
        """Nothing arrives for a while, then everything does."""
        loop = self.network.loop
        loop.trace.record("stall", self.id, seconds)
        self.stalled_until = max(self.stalled_until, loop.time() + seconds)

    def reset(self) -> None:
        """Something between the ends tears the connection down: both see ECONNRESET."""
        self.network.loop.trace.record("reset", self.id)
        for end in (self._client, self._server):
            self.reset_end(end)

    def half_open(self) -> None:
        """What is sent from now on, and what is under way, arrives nowhere; only a sender's time-out ends it."""
        self.network.loop.trace.record("half-open", self.id)
        self.is_half_open = True
        for end in (self._client, self._server):
            if end.outgoing.under_way or end.outgoing.unsent:
                self.schedule_give_up(end)
            end.outgoing.under_way.clear()

    def schedule_give_up(self, end: SimTransport) -> None:
        """A sender to a silent peer learns it after the retransmission time-out."""
        loop = self.network.loop
        error = TimeoutError(errno.ETIMEDOUT, "the peer does not answer")
        loop.call_at(loop.time() + RETRANSMISSION_TIMEOUT_S, self._give_up, end, error, context=self.network.nobody)

    def _give_up(self, end: SimTransport, error: Exception) -> None:
        end.lose(error, tell_peer=False)

    def reset_end(self, end: SimTransport) -> None:
        """A reset travels to one end."""
        if not self.is_half_open:
            loop = self.network.loop
            error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            loop.call_at(loop.time() + self.latency, self._give_up, end, error, context=self.network.nobody)

    def orphan(self, process: Process, *, reset: bool) -> None:
        """The process at one end was killed; the kernel ends the connection for it."""
        end = self.end_of(process)
        if end is None or end.is_gone:
            return
        self.network.loop.trace.record("orphan", self.id, "reset" if reset else "end")
        end.is_gone = True
        if reset:
            end.outgoing.unsent.clear()
            end.outgoing.under_way.clear()
            self.reset_end(end.outgoing.receiver)
        else:
            end.outgoing.unsent.clear()  # it was in the process's memory; what the kernel had still arrives
            end.outgoing.ending = True
            end.outgoing.send()
        self.end_gone()

    def cut(self) -> None:
        """Both ends see a reset at once, and nothing of what is under way."""
        for end in (self._client, self._server):
            end.lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), tell_peer=False)

    def forsake(self, process: Process) -> None:
        """The process at one end is no more, and nobody tells the other."""
        end = self.end_of(process)
        if end is not None:
            end.is_gone = True
            self.end_gone()

    def refuse(self, delay: float) -> None:
        """The machine of one end is back without this connection; the other end learns it when it sends."""
        loop = self.network.loop
        error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        for end in (self._client, self._server):
            if not end.is_gone:
                loop.call_at(loop.time() + delay, self._give_up, end, error, context=self.network.nobody)

    def end_gone(self) -> None:
        if self._client.is_gone and self._server.is_gone:
            self.network.forget(self)
