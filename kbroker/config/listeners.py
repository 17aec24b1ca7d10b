"""Listeners as Kafka writes them: ``NAME://host:port``, and the protocol each name stands for (KIP-103, KIP-291)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kbroker.config.values import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENDPOINT = re.compile(r"(?P<name>.*)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]+)")


class Listener(NamedTuple):
    """One listener. An empty host is every address of the machine; port 0 is one that the system picks."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(key: str, entries: str) -> dict[str, str]:
    """``NAME:PROTOCOL,...`` with upper-case names. Raises ``ConfigError``."""
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in entries.split(","))):
        name, _, protocol = (part.strip().upper() for part in entry.rpartition(":"))
        if not name or protocol not in PROTOCOLS:
            raise ConfigError(key, entries, f"{entry} is not NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}")
        protocols[name] = protocol
    return protocols


def parse_listeners(key: str, endpoints: Sequence[str], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Raises ``ConfigError`` for what is no endpoint, has a name without a protocol, or comes twice."""
    found: list[Listener] = []
    for endpoint in endpoints:
        parts = _ENDPOINT.fullmatch(endpoint)
        if parts is None:
            raise ConfigError(key, endpoint, "Unable to parse it to an endpoint: NAME://host:port is expected")
        name, port = parts["name"].upper(), int(parts["port"])
        if not 0 <= port <= 65535:
            raise ConfigError(key, endpoint, "The port must be between 0 and 65535")
        if name not in protocols:
            reason = f"No security protocol defined for listener {name}: add it to listener.security.protocol.map"
            raise ConfigError(key, endpoint, reason)
        found.append(Listener(name, parts["host"], port, protocols[name]))
    names = [listener.name for listener in found]
    if len(set(names)) < len(names):
        raise ConfigError(key, ",".join(endpoints), "Each listener must have a different name")
    return tuple(found)


def check_ports(key: str, listeners: Sequence[Listener]) -> None:
    """Two listeners share a port only when one is an IPv4 and the other an IPv6 address. Raises ``ConfigError``."""
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        if len(sharing) > 1 and sorted(_family(listener.host) for listener in sharing) != [4, 6]:
            reason = (
                f"Each listener must have a different port unless exactly one listener has an IPv4 address and the "
                f"other IPv6 address; {port} is named by {' and '.join(map(str, sharing))}"
            )
            raise ConfigError(key, ",".join(map(str, listeners)), reason)


def _family(host: str) -> int:
    """4 or 6 for an address, 0 for a name."""
    from ipaddress import ip_address

    try:
        return ip_address(host).version
    except ValueError:
        return 0
