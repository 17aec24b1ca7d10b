"""Which of a broker's numbers must stand in which order: bounds, and what lies between them (Kafka's group configs)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kbroker.config.broker import BrokerConfig
from kbroker.config.values import ConfigError

LESS: Final = "less than"
AT_MOST: Final = "less than or equal to"
AT_LEAST: Final = "greater than or equal to"
_HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {LESS: operator.lt, AT_MOST: operator.le, AT_LEAST: operator.ge}


class Relation(NamedTuple):
    """``left`` must be ``how`` than ``right``, both names of keys."""

    left: str
    how: str
    right: str


def _between(kind: str, what: str) -> Iterator[Relation]:
    """A value between its bounds, which are in order."""
    value, least, most = (f"group.{kind}.{bound}{what}" for bound in ("", "min.", "max."))
    yield Relation(most, AT_LEAST, least)
    yield Relation(value, AT_LEAST, least)
    yield Relation(value, AT_MOST, most)


def _of_groups(kind: str) -> Iterator[Relation]:
    heartbeat, session = "heartbeat.interval.ms", "session.timeout.ms"
    yield from _between(kind, heartbeat)
    yield from _between(kind, session)
    yield Relation(f"group.{kind}.{heartbeat}", LESS, f"group.{kind}.{session}")
    yield from _between(kind, "assignment.interval.ms")


def _of_shares(what: str) -> Iterator[Relation]:
    value, least, most = (f"group.share.{bound}{what}" for bound in ("", "min.", "max."))
    yield Relation(value, AT_LEAST, least)
    yield Relation(most, AT_LEAST, value)


RELATIONS: Final = (
    *(relation for kind in ("consumer", "share", "streams") for relation in _of_groups(kind)),
    *(
        relation
        for what in ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")
        for relation in _of_shares(what)
    ),
    Relation("group.share.max.share.sessions", AT_LEAST, "group.share.max.size"),
    Relation("group.streams.num.standby.replicas", AT_MOST, "group.streams.max.standby.replicas"),
    Relation("group.streams.num.warmup.replicas", AT_MOST, "group.streams.max.warmup.replicas"),
    Relation("group.streams.task.offset.interval.ms", AT_LEAST, "group.streams.min.task.offset.interval.ms"),
)


def check_relations(config: BrokerConfig) -> None:
    """Raises ``ConfigError`` for the first that does not hold."""
    for left, how, right in RELATIONS:
        value = config.integer(left)
        if not _HOLDS[how](value, config.integer(right)):
            message = f"{left} must be {how} {right}"
            raise ConfigError(left, value, message, message=message)
