"""Who may be connected: the limits of connections, and those who wait because the broker is full.

Kafka's ``ConnectionQuotas``. A connection beyond ``max.connections``, the broker's or its listener's own, stands but is
not served until another ends; one beyond the limit of its address is closed. Among several listeners that of the
brokers is not bound by the broker's number: for its sake, and where a number is lowered, connections of the others are
closed, those first that were unused for longest.
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
from kbroker.server.connection import Connection

logger = logging.getLogger(__name__)

UNLIMITED = 2**31 - 1
BACKLOG = 1024
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
    idle_ms_max: int = 600_000
    backlog: int = BACKLOG

    @classmethod
    def of(cls, config: BrokerConfig) -> Limits:
        """Raises ``ConfigError`` for an override of a host that has no address."""
        name = "max.connections"
        listeners = [listener.name for listener in config.broker_listeners]
        texts = config.texts()
        own = {each: texts.get(f"listener.name.{each.lower()}.{name}") for each in listeners}
        return cls(
            request_size_max=config.integer("socket.request.max.bytes"),
            connections_max=config.integer(name),
            connections_per_listener_max={each: int(text) for each, text in own.items() if text is not None},
            protected_listener=config.inter_broker_listener_name if len(listeners) > 1 else None,
            connections_per_ip_max=config.integer("max.connections.per.ip"),
            connections_per_ip_overrides=_by_address(tuple(config.connections_per_ip_overrides.items())),
            idle_ms_max=config.integer("connections.max.idle.ms"),
            # Kafka's own 50 makes a crowd of clients wait for a second; who sets the key gets what it says.
            backlog=config.integer(_BACKLOG_KEY) if config.is_set(_BACKLOG_KEY) else BACKLOG,
        )


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


class Admittance:
    """Counts the connections of one server, and lets them in when there is room. Owner: ``Server``."""

    __slots__ = ("_admitted", "_count_by_ip", "_count_by_listener", "_limits", "_waiting")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._admitted: dict[Connection, None] = {}
        """In the order in which they were let in."""
        self._waiting: dict[Connection, None] = {}
        self._count_by_ip: Counter[str] = Counter()
        self._count_by_listener: Counter[str] = Counter()

    def arrive(self, connection: Connection) -> str | None:
        """Let a new connection in, or have it wait; a reason when it must not stay."""
        if self._has_room(connection.listener):
            return self._let_in(connection)
        logger.info("%s waits: the broker has as many connections as max.connections allows", connection)
        connection.keep_waiting()
        self._waiting[connection] = None
        return None

    def leave(self, connection: Connection) -> None:
        """A connection has ended, whether it was let in or not."""
        self._waiting.pop(connection, None)
        if connection not in self._admitted:
            return
        del self._admitted[connection]
        self._count_by_listener[connection.listener] -= 1
        host = connection.peer_address[0]
        self._count_by_ip[host] -= 1
        if not self._count_by_ip[host]:
            del self._count_by_ip[host]
        self._fill()

    def change(self, limits: Limits) -> None:
        """Take other numbers; only who is too many for the broker as a whole has to go."""
        self._limits = limits
        self._close_excess()
        self._fill()

    def _has_room(self, listener: str) -> bool:
        limits = self._limits
        return self._count_by_listener[listener] < limits.connections_per_listener_max.get(
            listener, limits.connections_max
        ) and (listener == limits.protected_listener or len(self._admitted) < limits.connections_max)

    def _let_in(self, connection: Connection) -> str | None:
        host = connection.peer_address[0]
        count = self._count_by_ip[host]
        most = self._limits.connections_per_ip_overrides.get(host, self._limits.connections_per_ip_max)
        if count >= most:
            return f"{host} has {count} connections already, max.connections.per.ip allows {most}"
        self._admitted[connection] = None
        self._count_by_ip[host] = count + 1
        self._count_by_listener[connection.listener] += 1
        self._close_excess()
        return None

    def _fill(self) -> None:
        for connection in list(self._waiting):
            if not self._has_room(connection.listener):
                continue
            del self._waiting[connection]
            refusal = self._let_in(connection)
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
