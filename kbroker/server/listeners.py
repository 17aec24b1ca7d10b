"""The listeners of one broker: binding, admission of connections, the idle sweep, the end.

``localhost`` is 127.0.0.1 and ::1 on the same port, so that it is right whatever a client makes of the name. A listener
without a host listens on every interface. Nothing here runs while there is no connection.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import deque
from collections.abc import Iterable
from typing import Protocol, TypeAlias

from kbroker.host import Clock, Timer
from kbroker.host.waiting import pause
from kbroker.server.connection import Connection, Dispatch, Shared
from kbroker.server.limits import Admittance, Limits
from kbroker.types import StartupError

logger = logging.getLogger(__name__)

PORT_ATTEMPTS = 50
"""Ports tried until one is free on 127.0.0.1 and on ::1."""
TURNS_OF_AN_ARRIVAL = 4
"""Turns of the stock event loop from a client at the door to a connection (uvloop takes one)."""
SWEEPS = 8
"""Idle sweeps within ``connections.max.idle.ms``: a connection closes at most an eighth late."""
LOOPBACKS = ("127.0.0.1", "::1")
NO_SUCH_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})

Address: TypeAlias = tuple[str, int]


class Endpoint(Protocol):
    """A listener or an advertised listener as the configuration gives it (``kbroker.config.Listener``)."""

    @property
    def name(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class Server:
    """All sockets of one broker. ``start`` once, ``stop`` once.

    ``dispatch`` may be replaced while it runs (fault injection in tests).
    """

    def __init__(
        self,
        listeners: Iterable[Endpoint],
        dispatch: Dispatch,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        limits: Limits | None = None,
        *,
        overwrite_buffers: bool = False,
    ) -> None:
        self._listeners = list(listeners)
        self._clock = clock
        self._loop = loop
        self._limits = limits or Limits()
        self._shared = Shared(
            dispatch,
            clock,
            request_size_max=self._limits.request_size_max,
            admit=self._admit,
            forget=self._forget,
            overwrite_buffers=overwrite_buffers,
        )
        self._servers: list[asyncio.Server] = []
        self._bound: list[Endpoint] = []
        """The listener of each server."""
        self._addresses: dict[str, list[Address]] = {}
        self._admittance = Admittance(self._limits, clock)
        self._sweep_timer: Timer | None = None
        self._swept: deque[int] = deque(maxlen=SWEEPS + 1)
        """The shared count of uses at the last sweeps: what is not above the first was idle since."""
        self._stopping = False
        self.refusal: str | None = None
        """Why new connections are closed at once, while it is set (fault injection in tests)."""
        self._all_gone: asyncio.Future[None] | None = None

    def limit_connections(self, limits: Limits) -> None:
        """Take changed numbers of connections. Sizes and times are those of the start."""
        self._admittance.change(limits)

    @property
    def dispatch(self) -> Dispatch:
        return self._shared.dispatch

    @dispatch.setter
    def dispatch(self, dispatch: Dispatch) -> None:
        self._shared.dispatch = dispatch

    @property
    def addresses(self) -> dict[str, list[Address]]:
        """What each listener is bound to, by its name: host and port, real ports where 0 was asked for."""
        return self._addresses

    def port(self, listener: str) -> int:
        """The port of a listener that has started."""
        return self._addresses[listener][0][1]

    @property
    def connection_count(self) -> int:
        return len(self._shared.connections)

    # --- start

    async def start(self) -> None:
        """Bind every listener and take connections. Raises ``StartupError``; nothing stays bound then."""
        await self.bind()
        await self.listen()

    async def bind(self) -> None:
        """Take the ports, without listening: a client is refused until the broker can serve it."""
        try:
            for listener in self._listeners:
                self._addresses[listener.name] = await self._bind(listener)
        except BaseException:
            self._close_servers()
            raise

    async def listen(self) -> None:
        """Begin to take connections, on all listeners."""
        for server, listener in zip(self._servers, self._bound, strict=True):
            try:
                await server.start_serving()
            except OSError as error:
                self._close_servers()
                raise StartupError(_why_not(listener, error)) from error

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._bound.clear()

    async def _bind(self, listener: Endpoint) -> list[Address]:
        host = listener.host.strip("[]")
        try:
            if host == "localhost":
                return await self._bind_together(listener, LOOPBACKS)
            if host == "":
                return await self._bind_together(listener, ("0.0.0.0", "::"))  # noqa: S104 (asked for)
            return [await self._bind_one(listener, host, listener.port)]
        except OSError as error:
            raise StartupError(_why_not(listener, error)) from error

    async def _bind_together(self, listener: Endpoint, hosts: tuple[str, str]) -> list[Address]:
        """One port on both hosts; without the second where the machine has no IPv6."""
        for attempt in range(PORT_ATTEMPTS):
            first = await self._bind_one(listener, hosts[0], listener.port)
            try:
                return [first, await self._bind_one(listener, hosts[1], first[1])]
            except OSError as error:
                if error.errno in NO_SUCH_ADDRESS:
                    logger.debug("listener %s: no %s on this machine", listener.name, hosts[1])
                    return [first]
                if listener.port or attempt == PORT_ATTEMPTS - 1:
                    raise
                self._bound.pop()
                server = self._servers.pop()
                server.close()
                await server.wait_closed()
        raise AssertionError("the last attempt returns or raises")

    async def _bind_one(self, listener: Endpoint, host: str, port: int) -> Address:
        server = await self._loop.create_server(
            lambda: Connection(self._shared, listener.name),
            host,
            port,
            backlog=self._limits.backlog,
            reuse_address=True,
            start_serving=False,
        )
        sockets = server.sockets
        if not sockets:
            # The stock loop passes over addresses of a family that the machine lacks.
            raise OSError(errno.EAFNOSUPPORT, f"no socket for {host}")
        self._servers.append(server)
        self._bound.append(listener)
        return (host, int(sockets[0].getsockname()[1]))

    # --- connections

    def _admit(self, connection: Connection) -> str | None:
        """Take a new connection; a reason when it must not stay."""
        if self._stopping:
            return "the broker is stopping"
        if self.refusal is not None:
            return self.refusal
        refusal = self._admittance.arrive(connection)
        if refusal is None and self._sweep_timer is None:
            self._plan_sweep()
        return refusal

    def _forget(self, connection: Connection) -> None:
        self._admittance.leave(connection)
        if self._all_gone is not None and not self._shared.connections and not self._all_gone.done():
            self._all_gone.set_result(None)

    def _plan_sweep(self) -> None:
        if self._limits.idle_ms_max > 0:
            self._sweep_timer = self._clock.call_later(self._limits.idle_ms_max / SWEEPS, self._sweep)

    def _sweep(self) -> None:
        """Close the connections on which nothing has happened for ``connections.max.idle.ms``."""
        self._sweep_timer = None
        shared = self._shared
        swept = self._swept
        swept.append(shared.uses)
        oldest = swept[0] if len(swept) > SWEEPS else -1
        idle = [each for each in shared.connections if each.last_use <= oldest and not each.is_waiting]
        for connection in sorted(idle, key=lambda each: each.peer_address):
            logger.debug("%s closed: nothing came for connections.max.idle.ms=%d", connection, self._limits.idle_ms_max)
            connection.abort()
        if shared.connections and not self._stopping:
            self._plan_sweep()

    # --- stop

    def descriptors(self) -> list[int]:
        """Of every socket: what a forked child has inherited and should close."""
        listening = [each.fileno() for server in self._servers for each in server.sockets]
        return listening + [each.descriptor for each in self._shared.connections if each.descriptor >= 0]

    async def disconnect(self) -> None:
        """Abort every connection; the sockets stay and go on listening."""
        await self._arrivals()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for connection in list(self._shared.connections):
            connection.abort()

    async def _arrivals(self) -> None:
        """Let clients at the door become connections: asyncio forgets them, open, when it stops listening meanwhile."""
        for _ in range(TURNS_OF_AN_ARRIVAL):
            await asyncio.sleep(0)

    async def refuse_new(self) -> None:
        """Stop listening; what is connected stays."""
        await self._arrivals()
        self._stopping = True
        self._close_servers()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    async def stop(self, grace_ms: float = 300) -> None:
        """Answer what is in progress, at most for ``grace_ms``, then close everything.

        Who parks requests (waiting fetches) completes them before this call or during it, so that they are answered
        and not waited for.
        """
        await self.refuse_new()
        connections = self._shared.connections
        for let_go in (Connection.leave, Connection.abort):
            self._all_gone = self._loop.create_future()
            for connection in list(connections):
                let_go(connection)
            if connections:
                await pause(self._clock, grace_ms, self._all_gone)


def _why_not(listener: Endpoint, error: OSError) -> str:
    where = f"listener {listener.name} cannot use {listener.host or '*'}:{listener.port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: the port is in use. Stop the other program, or choose another port (port 0 takes a free one)."
    if error.errno == errno.EACCES:
        return f"{where}: not permitted. Choose a port above 1023."
    if error.errno in NO_SUCH_ADDRESS or isinstance(error, socket.gaierror):
        return f"{where}: this machine has no such address. Use localhost, 0.0.0.0 or an address of its own."
    return f"{where}: {error.strerror or error}. Choose an address and port that this machine offers."
