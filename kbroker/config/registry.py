"""The registry: what every configuration key is. Not here: values (``values.py``), where they were set (``broker.py``).

Apache Kafka's keys come from the generated ``keys``; kbroker's own begin with ``kbroker.`` and stand in ``own.py``.
A key's effect is in ``effects.py``, its description in ``docs.py`` (imported when somebody asks).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, IntEnum

from kbroker.config import effects, own
from kbroker.config.keys import Row, broker, client_metrics, group, topic


class Scope(Enum):
    """What a key belongs to."""

    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


class ConfigType(IntEnum):
    """Types of values, numbered as DescribeConfigs does."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Effect(Enum):
    """What setting a key does here."""

    ACTS = "acts"
    NO_MEANING = "has no meaning here"
    NOT_SERVED = "not served"


READ_ONLY = "read-only"
PER_BROKER = "per-broker"
CLUSTER_WIDE = "cluster-wide"


class Key:
    """One key. ``valid`` is Kafka's own notation of the allowed values; ``default`` is text or None."""

    __slots__ = (
        "default",
        "flags",
        "importance",
        "name",
        "scope",
        "synonyms",
        "type",
        "update_mode",
        "valid",
    )

    def __init__(self, row: Row, scope: Scope) -> None:
        self.name, type_name, self.default, self.valid, self.importance, self.update_mode, synonyms, flags = row
        self.type = ConfigType[type_name]
        self.scope = scope
        self.synonyms = tuple(synonyms.split())
        self.flags = flags.split()

    def __repr__(self) -> str:
        return f"Key({self.name}, {self.scope.value})"

    @property
    def internal(self) -> bool:
        """Whether Kafka leaves the key out of DescribeConfigs and its documentation."""
        return "internal" in self.flags

    @property
    def required(self) -> bool:
        """Whether Kafka refuses to start without it. (kbroker has a default for each.)"""
        return "required" in self.flags

    @property
    def read_only(self) -> bool:
        return self.update_mode == READ_ONLY

    @property
    def sensitive(self) -> bool:
        """Whether its value is never shown."""
        return self.type is ConfigType.PASSWORD

    @property
    def broker_synonym(self) -> str | None:
        """The broker key that gives a topic or group its default (the first in precedence)."""
        return self.synonyms[0] if self.synonyms else None

    @property
    def effect(self) -> Effect:
        return Effect[effects.effect(self.scope.value, self.name)]

    @property
    def doc(self) -> str:
        """One line of description; empty where there is none yet."""
        from kbroker.config import docs

        return docs.describe(self.scope.value, self.name)


class Keys:
    """The keys of one scope by name, in order of definition; a row becomes a ``Key`` when it is first asked for."""

    def __init__(self, scope: Scope, *tables: Iterable[Row]) -> None:
        self.scope = scope
        self._rows = {row[0]: row for table in tables for row in table}
        self._made: dict[str, Key] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, name: str) -> Key:
        key = self._made.get(name)
        if key is None:
            key = self._made[name] = Key(self._rows[name], self.scope)
        return key

    def find(self, name: str) -> Key | None:
        return self[name] if name in self._rows else None

    def all(self) -> list[Key]:
        return [self[name] for name in self._rows]

    def nearest(self, name: str) -> str | None:
        """The known name that looks most like ``name``, if any does."""
        from difflib import get_close_matches

        found = get_close_matches(name, self._rows, n=1, cutoff=0.8)
        return found[0] if found else None


TOPIC_KEYS = Keys(Scope.TOPIC, topic.ROWS)
BROKER_KEYS = Keys(Scope.BROKER, broker.ROWS, own.KEYS)
GROUP_KEYS = Keys(Scope.GROUP, group.ROWS)
CLIENT_METRICS_KEYS = Keys(Scope.CLIENT_METRICS, client_metrics.ROWS)
RATE_KEYS = Keys(
    Scope.BROKER,
    [
        (name, "LONG", None, "[0,...]", "MEDIUM", CLUSTER_WIDE, "", "")
        for name in (
            "leader.replication.throttled.rate",
            "follower.replication.throttled.rate",
            "replica.alter.log.dirs.io.max.bytes.per.second",
        )
    ],
)
"""Rates of copying between replicas and data directories, which Kafka keeps apart: they are dynamic only."""
SCOPES = {each.scope: each for each in (TOPIC_KEYS, BROKER_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS)}

BROKER_SYNONYMS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_SYNONYMS_OF = {name: names for names in BROKER_SYNONYMS for name in names if name != "log.flush.scheduler.interval.ms"}


def base_name(name: str) -> str:
    """The key of which ``listener.name.<listener>.<key>`` is one listener's own value; other names as they are."""
    return name.split(".", 3)[-1] if name.startswith("listener.name.") else name


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The broker keys that say the same thing as ``name``, the strongest first (Kafka's ``DynamicBrokerConfig``)."""
    if name.startswith("listener.name."):
        return (name, base_name(name))
    return _SYNONYMS_OF.get(name, (name,))
