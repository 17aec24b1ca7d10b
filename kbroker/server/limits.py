"""Who may be connected: the limits of connections, and those who wait because the broker is full or too many come.

Kafka's ``ConnectionQuotas``. A connection beyond ``max.connections``, the broker's or its listener's own, stands but is
not served until another ends; where they come faster than ``max.connection.creation.rate`` (KIP-612), each waits until
the rate has fallen, in the order in which they came to the listener. One beyond the limit of its address is closed.
Among several listeners that of the brokers is not bound by the broker's numbers: for its sake, and where a number is
lowered, connections of the others are closed, those first that were unused for longest.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from kbroker.config import BrokerConfig
from kbroker.config.values import ConfigError
from kbroker.host import Clock, Timer
from kbroker.server.connection import Connection
from kbroker.server.rates import ConnectionRate

logger = logging.getLogger(__name__)

UNLIMITED = 2**31 - 1
BACKLOG = 1024
_CONNECTIONS_KEY = "max.connections"
_RATE_KEY = "max.connection.creation.rate"
_BACKLOG_KEY = "socket.listen.backlog.size"
_OVERRIDES_KEY = "max.connections.per.ip.overrides"


@dataclass(frozen=True, slots=True)
class Limits:
    """Kafka's keys for connections, with its defaults."""

    request_size_max: int = 100 * 1024 * 1024
    connections_max: int = UNLIMITED
    connections_per_listener_max: Mapping[str, int] = field(default_factory=dict)
    protected_listener: str | None = None
    """The listener that the broker's number does not bind."""
    connections_per_ip_max: int = UNLIMITED
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """By address."""
    connection_rate_max: int = UNLIMITED
    """New connections a second."""
    connection_rate_per_listener_max: Mapping[str, int] = field(default_factory=dict)
    rate_windows: int = 11
    rate_window_ms: int = 1000
    idle_ms_max: int = 600_000
    backlog: int = BACKLOG

    @classmethod
    def of(cls, config: BrokerConfig) -> Limits:
        """Raises ``ConfigError`` for an override of a host that has no address."""
        return cls(
            request_size_max=config.integer("socket.request.max.bytes"),
            connections_max=config.integer(_CONNECTIONS_KEY),
            connections_per_listener_max=_by_listener(config, _CONNECTIONS_KEY),
            protected_listener=config.inter_broker_listener_name if len(config.broker_listeners) > 1 else None,
            connections_per_ip_max=config.integer("max.connections.per.ip"),
            connections_per_ip_overrides=_by_address(tuple(config.connections_per_ip_overrides.items())),
            connection_rate_max=config.integer(_RATE_KEY),
            connection_rate_per_listener_max=_by_listener(config, _RATE_KEY),
            rate_windows=config.integer("quota.window.num"),
            rate_window_ms=1000 * config.integer("quota.window.size.seconds"),
            idle_ms_max=config.integer("connections.max.idle.ms"),
            # Kafka's own 50 makes a crowd of clients wait for a second; who sets the key gets what it says.
            backlog=config.integer(_BACKLOG_KEY) if config.is_set(_BACKLOG_KEY) else BACKLOG,
        )


def _by_listener(config: BrokerConfig, key: str) -> dict[str, int]:
    """What the listeners have of their own for a key of the broker."""
    texts = config.texts()
    own = {each.name: texts.get(f"listener.name.{each.name.lower()}.{key}") for each in config.broker_listeners}
    return {name: int(text) for name, text in own.items() if text is not None}


@lru_cache(maxsize=1)
def _by_address(overrides: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """The overrides by address. Hosts are looked up when the overrides change, not at every change of the rest."""
    counts = {}
    for host, count in overrides:
        try:
            counts[str(ipaddress.ip_address(host))] = count
        except ValueError:
            try:
                found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except OSError as error:
                raise ConfigError(_OVERRIDES_KEY, host, f"this host has no address ({error.strerror})") from error
            counts |= {str(address[0]): count for *_, address in found}
    return counts


class _Door:
    """One listener's: who waits there, in order. Kafka's acceptor thread, which sees to one connection at a time."""

    __slots__ = ("count", "is_reckoned", "listener", "rate", "timer", "waiting")

    def __init__(self, listener: str, rate: ConnectionRate) -> None:
        self.listener = listener
        self.rate = rate
        self.count = 0
        """Of the connections that came in here and have not ended."""
        self.waiting: dict[Connection, None] = {}
        self.is_reckoned = False
        """Whether the first in the row was counted, and so the time it has to wait for the rate's sake."""
        self.timer: Timer | None = None
        """Set during that time."""

    def next(self) -> None:
        """The first in the row has gone: the one behind it has its own time to wait."""
        self.is_reckoned = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Admittance:
    """Counts the connections of one server, and lets them in when there is room. Owner: ``Server``."""

    __slots__ = ("_admitted", "_clock", "_count_by_ip", "_doors", "_limits", "_rate")

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._admitted: dict[Connection, None] = {}
        """In the order in which they were let in."""
        self._count_by_ip: Counter[str] = Counter()
        self._rate = self._new_rate()
        self._doors: dict[str, _Door] = {}

    def arrive(self, connection: Connection) -> str | None:
        """Let a new connection in, or have it wait; a reason when it must not stay."""
        door = self._door(connection.listener)
        if not door.waiting and self._is_open(door):
            return self._let_in(connection, door)
        logger.info("%s waits: more connections, or more a second, than the limits allow", connection)
        connection.keep_waiting()
        door.waiting[connection] = None
        return None

    def leave(self, connection: Connection) -> None:
        """A connection has ended, whether it was let in or not."""
        door = self._door(connection.listener)
        if connection in door.waiting:
            is_first = next(iter(door.waiting)) is connection
            del door.waiting[connection]
            if is_first:
                door.next()
                self._fill(door)
        elif connection in self._admitted:
            del self._admitted[connection]
            door.count -= 1
            host = connection.peer_address[0]
            self._count_by_ip[host] -= 1
            if not self._count_by_ip[host]:
                del self._count_by_ip[host]
            self._fill_all()

    def change(self, limits: Limits) -> None:
        """Take other numbers; only who is too many for the broker as a whole has to go.

        Who waits for the rate's sake does so for as long as was reckoned.
        """
        self._limits = limits
        self._close_excess()
        self._fill_all()

    def _door(self, listener: str) -> _Door:
        door = self._doors.get(listener)
        if door is None:
            door = self._doors[listener] = _Door(listener, self._new_rate())
        return door

    def _new_rate(self) -> ConnectionRate:
        return ConnectionRate(self._limits.rate_windows, self._limits.rate_window_ms)

    def _is_open(self, door: _Door) -> bool:
        """Whether the first in the row may come in. If only its time has not come, it will be seen to then."""
        if not door.is_reckoned:
            door.is_reckoned = True
            wait_ms = self._reckon(door)
            if wait_ms:
                door.timer = self._clock.call_later(wait_ms, self._open, door)
        if door.timer is not None or not self._has_room(door):
            return False
        door.next()
        return True

    def _open(self, door: _Door) -> None:
        door.timer = None
        self._fill(door)

    def _reckon(self, door: _Door) -> float:
        """Count the first in the row; how many milliseconds it has to wait for the rate's sake."""
        now_ms = self._clock.monotonic_ms()
        limits = self._limits
        rates = [(door.rate, limits.connection_rate_per_listener_max.get(door.listener, limits.connection_rate_max))]
        if door.listener != limits.protected_listener:
            rates.append((self._rate, limits.connection_rate_max))
        for rate, _ in rates:
            rate.arrived(now_ms)
        return max(rate.wait_ms(rate_max, now_ms) for rate, rate_max in rates)

    def _has_room(self, door: _Door) -> bool:
        limits = self._limits
        own = limits.connections_per_listener_max.get(door.listener, limits.connections_max)
        return door.count < own and (
            door.listener == limits.protected_listener or len(self._admitted) < limits.connections_max
        )

    def _let_in(self, connection: Connection, door: _Door) -> str | None:
        host = connection.peer_address[0]
        count = self._count_by_ip[host]
        most = self._limits.connections_per_ip_overrides.get(host, self._limits.connections_per_ip_max)
        if count >= most:
            return f"{host} has {count} connections already, max.connections.per.ip allows {most}"
        self._admitted[connection] = None
        self._count_by_ip[host] = count + 1
        door.count += 1
        self._close_excess()
        return None

    def _fill_all(self) -> None:
        for door in self._doors.values():
            self._fill(door)

    def _fill(self, door: _Door) -> None:
        while door.waiting and self._is_open(door):
            connection = next(iter(door.waiting))
            del door.waiting[connection]
            refusal = self._let_in(connection, door)
            if refusal is None:
                connection.begin()
            else:
                connection.refuse(refusal)

    def _close_excess(self) -> None:
        excess = len(self._admitted) - self._limits.connections_max
        if excess <= 0:
            return
        closable = [each for each in self._admitted if each.listener != self._limits.protected_listener]
        for connection in sorted(closable, key=lambda each: each.last_use)[:excess]:
            connection.refuse("max.connections is exceeded, and it was unused for longest")
