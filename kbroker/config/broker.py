"""``BrokerConfig``: an immutable snapshot of a broker's configuration, and what several keys say together.

Values come in layers: what was set at start (static: file, environment, flags) and what was altered since, for the
whole cluster or for this broker (dynamic, KIP-226). The strongest that speaks of a subject wins; keys that say
the same in other units (``log.retention.hours``) are one subject.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

from kbroker.config.listeners import Listener, check_ports, parse_listeners, parse_protocol_map
from kbroker.config.registry import BROKER_KEYS, BROKER_SYNONYMS, TOPIC_KEYS, Effect, base_name, broker_synonyms
from kbroker.config.values import ConfigError, Value, convert, java_int, java_split, parse

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
UNITS_MS = {
    "log.retention.hours": HOUR_MS,
    "log.retention.minutes": MINUTE_MS,
    "log.roll.hours": HOUR_MS,
    "log.roll.jitter.hours": HOUR_MS,
}
"""Keys that say in other units what a key in milliseconds says."""
# Kafka has no default for these: a broker of Apache's own shipped file.
REQUIRED = {"process.roles": "broker,controller", "node.id": "1", "controller.listener.names": "CONTROLLER"}
# The places of values that nobody chose.
SHIPPED = "Apache Kafka's own server.properties"
PRESET = "the presets of kbroker dev"
SUBJECTS = (*BROKER_SYNONYMS, ("log.dirs", "log.dir"), ("node.id", "broker.id"))
_HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")
_SUBJECT_OF = {name: names for names in SUBJECTS for name in names}


class Source(IntEnum):
    """Where a value comes from, numbered as DescribeConfigs does."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Layer(NamedTuple):
    """Static values from one place; ``places`` says where each stands ("server.properties line 3")."""

    values: Mapping[str, str]
    place: str
    places: Mapping[str, str] = {}

    def place_of(self, name: str) -> str:
        return self.places.get(name, self.place)


class BrokerConfig:
    """One broker's configuration. ``BrokerConfig({})`` is Kafka's defaults with the roles of a lone node.

    Values are checked when the snapshot is made: ``ConfigError`` for the first that cannot be.
    """

    def __init__(
        self,
        values: Mapping[str, str] | None = None,
        *,
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
        places: Mapping[str, str] | None = None,
    ) -> None:
        self.static = _with_node_id(dict(values or {}))
        self.dynamic_default = dict(dynamic_default or {})
        self.dynamic_broker = dict(dynamic_broker or {})
        self.places = dict(places or {})
        self._texts = dict(self.static)
        for dynamic in (self.dynamic_default, self.dynamic_broker):
            _lay_over(self._texts, dynamic)
        self._values: dict[str, Value] = {}
        for name, text in self._texts.items():
            key = BROKER_KEYS.find(name)
            if key is not None:
                self._values[name] = parse(key, text)

    @classmethod
    def from_layers(cls, layers: Sequence[Layer]) -> BrokerConfig:
        """Of static layers, the strongest first."""
        values: dict[str, str] = {}
        places: dict[str, str] = {}
        for layer in reversed(layers):
            _lay_over(values, layer.values)
            places.update({name: layer.place_of(name) for name in layer.values})
        return cls(values, places={name: places[name] for name in values if name in places})

    def with_dynamic(self, *, default: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """The same with these dynamic values, cluster-wide and this broker's, in place of the former ones."""
        return BrokerConfig(self.static, dynamic_default=default, dynamic_broker=broker, places=self.places)

    def value(self, name: str) -> Value:
        """The typed value. Raises ``KeyError`` for a key that does not exist."""
        try:
            return self._values[name]
        except KeyError:
            key = BROKER_KEYS[name]
            value = convert(key, REQUIRED.get(name, key.default))
            self._values[name] = value
            return value

    def boolean(self, name: str) -> bool:
        value = self.value(name)
        if not isinstance(value, bool):
            raise TypeError(f"{name} is not a boolean")
        return value

    def integer(self, name: str) -> int:
        value = self.value(name)
        if not isinstance(value, int):
            raise TypeError(f"{name} is no integer, or has no value")
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self.value(name) is None else self.integer(name)

    def floating(self, name: str) -> float:
        value = self.value(name)
        if not isinstance(value, float):
            raise TypeError(f"{name} is no floating-point number")
        return value

    def string(self, name: str) -> str | None:
        value = self.value(name)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is no string")
        return value

    def strings(self, name: str) -> list[str]:
        value = self.value(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise TypeError(f"{name} is no list")
        return value

    def source(self, name: str) -> Source:
        """Where the value of ``name`` (not of a synonym) comes from."""
        if name in self.dynamic_broker:
            return Source.DYNAMIC_BROKER
        if name in self.dynamic_default:
            return Source.DYNAMIC_DEFAULT_BROKER
        return Source.STATIC_BROKER if name in self.static else Source.DEFAULT

    def is_set(self, name: str) -> bool:
        return name in self._texts

    def place(self, name: str) -> str:
        """Where a static value was set, in words; empty when nobody said."""
        return self.places.get(name, "")

    def is_chosen(self, name: str) -> bool:
        """Whether somebody has set a value, rather than the command for want of a file."""
        return name in self.static and self.place(name) not in (SHIPPED, PRESET)

    def texts(self) -> Mapping[str, str]:
        """Everything that was set, as it was written, unknown names too."""
        return self._texts

    def unknown_names(self) -> list[str]:
        """Static names that no key has (and that are no ``listener.name.*`` override of a key)."""
        return [name for name in self.static if base_name(name) not in BROKER_KEYS]

    def not_served(self) -> list[str]:
        """Static names whose key kbroker does not serve and whose value is not the default."""
        found = []
        for name in self.static:
            key = BROKER_KEYS.find(base_name(name))
            if key is not None and key.effect is Effect.NOT_SERVED and self.static[name] != (key.default or ""):
                found.append(name)
        return found

    # What several keys say together.

    @property
    def node_id(self) -> int:
        return self.integer("node.id")

    @cached_property
    def log_dirs(self) -> tuple[str, ...]:
        return tuple(self.strings("log.dirs") or self.strings("log.dir"))

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """The data directories that take no new replicas (KIP-1066)."""
        cordoned = tuple(self.strings("cordoned.log.dirs"))
        return self.log_dirs if cordoned == ("*",) else cordoned

    @property
    def metadata_log_dir(self) -> str:
        return self.string("metadata.log.dir") or self.log_dirs[0]

    @property
    def log_retention_ms(self) -> int:
        """-1 for unlimited. Kafka takes any negative number for that."""
        return max(self._milliseconds("log.retention.ms"), -1)

    @property
    def log_roll_ms(self) -> int:
        return self._milliseconds("log.roll.ms")

    @property
    def log_roll_jitter_ms(self) -> int:
        return self._milliseconds("log.roll.jitter.ms")

    @property
    def log_flush_interval_ms(self) -> int:
        return self._milliseconds("log.flush.interval.ms")

    def _milliseconds(self, name: str) -> int:
        """What a key says, or the first of those that say the same and have a value; the last has a default."""
        return next(
            number * UNITS_MS.get(each, 1)
            for each in broker_synonyms(name)
            if (number := self.optional_integer(each)) is not None
        )

    @cached_property
    def protocols(self) -> dict[str, str]:
        """Listener name -> security protocol."""
        name = "listener.security.protocol.map"
        protocols = parse_protocol_map(name, self.string(name) or "")
        if not self.is_set(name):
            # As Kafka does for a lone node that says nothing: controllers speak plaintext.
            for controller in self.controller_listener_names:
                protocols.setdefault(controller, "PLAINTEXT")
        return protocols

    @cached_property
    def controller_listener_names(self) -> tuple[str, ...]:
        return tuple(name.upper() for name in self.strings("controller.listener.names"))

    @cached_property
    def listeners(self) -> tuple[Listener, ...]:
        """Every listener, those of the controller too."""
        listeners = parse_listeners("listeners", self.strings("listeners"), self.protocols)
        check_ports("listeners", listeners)
        return listeners

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners that clients and other brokers use."""
        return tuple(each for each in self.listeners if each.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        return tuple(each for each in self.listeners if each.name in self.controller_listener_names)

    @cached_property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """What clients are told, one for each broker listener. Empty host, port 0: nobody said; whatever was bound."""
        endpoints = self.strings("advertised.listeners")
        if not endpoints:
            return self.broker_listeners
        listeners = parse_listeners("advertised.listeners", endpoints, self.protocols)
        return tuple(each for each in listeners if each.name not in self.controller_listener_names)

    @property
    def leaves_voters_to_the_log(self) -> bool:
        """Whether the quorum is to be found by ``controller.quorum.bootstrap.servers``: its voters stand in its log."""
        servers, voters = "controller.quorum.bootstrap.servers", "controller.quorum.voters"
        return self.is_chosen(servers) and bool(self.strings(servers)) and not self.strings(voters)

    @cached_property
    def controller_endpoints(self) -> tuple[Listener, ...]:
        """What is told of this node as a voter: where the quorum's voters have it, else what is advertised."""
        name = "controller.quorum.voters"
        own = [each.partition("@")[2] for each in self.strings(name) if each.startswith(f"{self.node_id}@")]
        if own and self.controller_listener_names:
            return parse_listeners(name, [f"{self.controller_listener_names[0]}://{own[0]}"], self.protocols)
        key = "advertised.listeners"
        advertised = {each.name: each for each in parse_listeners(key, self.strings(key), self.protocols)}
        return tuple(advertised.get(each.name, each) for each in self.controller_listeners)

    @property
    def inter_broker_listener_name(self) -> str:
        name = self.string("inter.broker.listener.name")
        return (name or self.string("security.inter.broker.protocol") or "PLAINTEXT").upper()

    @cached_property
    def connections_per_ip_overrides(self) -> Mapping[str, int]:
        """The limits of connections that single hosts have, by host. Raises ``ConfigError`` in Kafka's words."""
        name = "max.connections.per.ip.overrides"
        text = self.string(name) or ""
        counts: dict[str, int] = {}
        for entry in map(str.strip, java_split(text) if text else ()):
            host, colon, count = (part.strip() for part in entry.rpartition(":"))
            if not colon:
                reason = f"begin 0, end -1, length {len(entry)}"
                message = f"Error parsing configuration property '{name}': {reason}"
                raise ConfigError(name, text, f"{entry} is not host:number", message=message)
            try:
                counts[host] = java_int(count)
            except ValueError as error:
                raise ConfigError(name, text, str(error), message=f'For input string: "{count}"') from error
        strange = [host for host in counts if not _HOST.fullmatch(host)]
        if strange:
            message = f"{name} contains invalid addresses : {','.join(strange)}"
            raise ConfigError(name, text, f"{strange[0]} is no host", message=message)
        return counts

    @cached_property
    def topic_defaults(self) -> Mapping[str, Value]:
        """What this configuration says for every topic key, typed, in the order of definition."""
        joined: dict[str, Value] = {
            "segment.ms": self.log_roll_ms,
            "segment.jitter.ms": self.log_roll_jitter_ms,
            "flush.ms": self.log_flush_interval_ms,
            "retention.ms": self.log_retention_ms,
        }
        defaults: dict[str, Value] = {}
        for key in TOPIC_KEYS.all():
            if key.name in joined:
                defaults[key.name] = joined[key.name]
            elif key.broker_synonym is not None:
                defaults[key.name] = self.value(key.broker_synonym)
            else:
                defaults[key.name] = convert(key, key.default)
        return defaults


def _lay_over(values: dict[str, str], stronger: Mapping[str, str]) -> None:
    for name in stronger:
        for other in _SUBJECT_OF.get(name, ()):
            values.pop(other, None)
    values.update(stronger)


def _with_node_id(values: dict[str, str]) -> dict[str, str]:
    """``broker.id`` is an older name of ``node.id``: whoever sets one has set the other (Kafka's populateSynonyms)."""
    node, broker = values.get("node.id"), values.get("broker.id")
    if node is None and broker is not None:
        values["node.id"] = broker
    elif broker is None and node is not None:
        values["broker.id"] = node
    return values
