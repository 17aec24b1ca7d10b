"""An in-memory TCP: listeners, connections, and what can happen to them.

Bytes of a connection arrive once, in order, cut and joined at places the seed picks, after a latency the seed picks. A
sender keeps at most a window of bytes under way; the rest waits in its transport's buffer, which calls
``pause_writing`` and ``resume_writing`` as asyncio's transports do. The faults are those that exist: a connection
stalls, resets, or stays half-open (the other side is gone and nobody says so). TCP never reorders, and neither does
this.

The network is no process: its events run whatever was killed, and enter a process only to call its protocol.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextvars import Context, copy_context
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.sim.process import PROCESS, Process
from tests.sim.transport import Connection, SimTransport

if TYPE_CHECKING:
    from tests.sim.loop import SimLoop

ProtocolFactory: TypeAlias = Callable[[], asyncio.BaseProtocol]

EPHEMERAL_PORT_FIRST = 49152
RETRANSMISSION_MAX_S = 5.0
"""How soon a sender tries again after a few tries were not answered."""


class Network:
    """All listeners and connections of a world."""

    def __init__(self, loop: SimLoop, random: Random) -> None:
        self.loop = loop
        self.random = random
        self.nobody = Context()  # the context of the network's own events
        self.connections: list[Connection] = []
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._port_next = EPHEMERAL_PORT_FIRST
        self._connection_count = 0
        self.latency_max_s = 0.002
        self.on_write: Callable[[], None] = lambda: None
        """Called before anybody's bytes are taken; may raise ``Killed``."""
        self._unreachable: list[Connection] = []  # their server's machine lost its power

    def addresses_of(self, host: str | None) -> list[str]:
        if host in (None, "", "localhost"):
            return ["127.0.0.1", "::1"]
        return [str(host)]

    def listen(self, factory: ProtocolFactory, host: Any, port: int, *, serving: bool = True) -> SimServer:
        """Raises ``OSError`` (EADDRINUSE) as ``loop.create_server`` does. Not ``serving``, it refuses connections."""
        hosts = host if isinstance(host, (list, tuple)) else [host]
        server = SimServer(self.loop)
        for address in [address for name in hosts for address in self.addresses_of(name)]:
            own_port = port or self.free_port()
            if (address, own_port) in self._listeners:
                server.close()
                text = f"error while attempting to bind on address {(address, own_port)!r}: address already in use"
                raise OSError(errno.EADDRINUSE, text)
            listener = Listener(self, factory, address, own_port, serving=serving)
            self._listeners[address, own_port] = listener
            server.add(listener)
        process = PROCESS.get()
        if process is not None:
            process.on_kill(server.close)
        return server

    def free_port(self) -> int:
        self._port_next += 1
        return self._port_next - 1

    def unlisten(self, listener: Listener) -> None:
        if self._listeners.get((listener.address, listener.port)) is listener:
            del self._listeners[listener.address, listener.port]

    async def connect(
        self, factory: ProtocolFactory, host: Any, port: int
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        """Raises ``ConnectionRefusedError`` where nobody listens."""
        latency = self.draw_latency()
        await asyncio.sleep(latency)
        for address in self.addresses_of(host):
            listener = self._listeners.get((address, port))
            if listener is not None and listener.serving:
                break
        else:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"connect to {host}:{port}: connection refused")
        self._connection_count += 1
        connection = Connection(self, self._connection_count, latency)
        client_name = ("127.0.0.1" if "." in address else "::1", self.free_port())
        server_name = (address, port)
        client = SimTransport(connection, copy_context(), client_name, server_name)
        server = SimTransport(connection, listener.context, server_name, client_name)
        connection.join(client, server)
        self.connections.append(connection)
        self.loop.trace.record("connect", connection.id, port)
        self.loop.call_soon(listener.accept, server, context=listener.context.copy())
        protocol = factory()
        await asyncio.sleep(latency)
        client.begin(protocol)
        return client, protocol

    def draw_latency(self) -> float:
        return round(self.random.uniform(0.00002, self.latency_max_s), 6)

    def forget(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)

    def connections_of(self, process: Process) -> list[Connection]:
        """The connections that have an end in a process."""
        return [connection for connection in self.connections if connection.end_of(process) is not None]

    def end_process(self, process: Process) -> None:
        """The kernel closes the sockets of a killed process: its peers see the end, or a reset, by seed."""
        for connection in self.connections_of(process):
            connection.orphan(process, reset=self.random.random() < 0.5)

    def lose_machine(self, process: Process) -> None:
        """Power loss: the peers hear nothing at all."""
        for connection in self.connections_of(process):
            connection.half_open()
            connection.forsake(process)
            self._unreachable.append(connection)

    def return_machine(self) -> None:
        """It is back and knows nothing of its former connections: who still sends to it gets a reset."""
        connections, self._unreachable = self._unreachable, []
        for connection in connections:
            connection.refuse(round(self.random.uniform(0, RETRANSMISSION_MAX_S), 6))


class Listener:
    """One address where connections are accepted."""

    def __init__(self, network: Network, factory: ProtocolFactory, address: str, port: int, *, serving: bool) -> None:
        self.network = network
        self.factory = factory
        self.address = address
        self.port = port
        self.serving = serving
        self.context = copy_context()

    def accept(self, transport: SimTransport) -> None:
        transport.begin(self.factory())


class _Socket:
    """What code asks of ``server.sockets``."""

    def __init__(self, name: tuple[str, int]) -> None:
        self._name = name

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def setsockopt(self, *_: object) -> None:
        """There is nothing to set."""


class SimServer(asyncio.AbstractServer):
    """What ``create_server`` returns."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._listeners: list[Listener] = []

    @property
    def sockets(self) -> tuple[_Socket, ...]:
        return tuple(_Socket((listener.address, listener.port)) for listener in self._listeners)

    def add(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def close(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.network.unlisten(listener)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return any(listener.serving for listener in self._listeners)

    async def start_serving(self) -> None:
        for listener in self._listeners:
            listener.serving = True

    async def serve_forever(self) -> None:
        await self._loop.create_future()

    async def wait_closed(self) -> None:
        """Connections live on, as they do when a real listener closes."""
