"""Random requests made from their declarations: every field from a small pool of interesting values.

A request is drawn once as a plan and built for each broker from it: what differs between two brokers by nature (topic
ids, member ids, producer ids) stands in the plan as the name under which each side keeps its own. Which requests are
asked, and how the answers are compared, is in ``test_random_admin_requests``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kbroker.protocol.declarations import Field, Message, Struct

Kept = dict[str, Any]
"""What one broker gave out, by the names that plans use."""


@dataclass(frozen=True)
class Own:
    """A value that each side has of its own; ``instead`` where it has none yet."""

    name: str
    instead: Any


@dataclass
class Pools:
    """Values by ``Struct.field``, ``Message.field`` or ``field``, the first that is there; then by type."""

    by_field: dict[str, list[Any]]
    lengths: dict[str, list[int]] = field(default_factory=dict)
    """Of arrays, by ``Message.field``, where not every length is to be asked."""
    by_type: dict[str, list[Any]] = field(
        default_factory=lambda: {
            "bool": [False, True],
            "int8": [0, 1, -1],
            "int16": [0, 1, -1],
            "int32": [0, 1, -1, 1000],
            "int64": [0, 1, -1, 1000],
            "string": ["", "x"],
            "bytes": [b"", b"x"],
        }
    )

    def values(self, owner: type[Struct], name: str, kind: str) -> list[Any]:
        for key in (f"{owner.__name__}.{name}", f"{owner.outer.__name__}.{name}", name):
            if key in self.by_field:
                return self.by_field[key]
        return self.by_type[kind]


class Drawing:
    """Draws plans; a plan of a struct is its class and the plans of its fields."""

    def __init__(self, random: Random, pools: Pools) -> None:
        self.random = random
        self.pools = pools

    def request(self, message: type[Message], version: int) -> tuple[type[Struct], dict[str, Any]]:
        return self._struct(message, version)

    def _struct(self, owner: type[Struct], version: int) -> tuple[type[Struct], dict[str, Any]]:
        fields = {
            name: self._field(owner, name, declared, version)
            for name, declared in owner.fields.items()
            if declared.versions.includes(version)
        }
        return owner, fields

    def _field(self, owner: type[Struct], name: str, declared: Field, version: int) -> Any:
        random = self.random
        lengths = self.pools.lengths.get(f"{owner.__name__}.{name}")
        if declared.nullable.includes(version) and lengths is None and random.random() < 0.1:
            return None
        if declared.is_array:
            lengths = lengths or [0, 1, 1, 1, 1, 2, 2, 3]
            count = random.choice(lengths)
            return [self._value(owner, name, declared.element, version) for _ in range(count)]
        return self._value(owner, name, declared.kind, version)

    def _value(self, owner: type[Struct], name: str, kind: str, version: int) -> Any:
        if kind[0].isupper():
            return self._struct(owner.struct(kind), version)
        return self.random.choice(self.pools.values(owner, name, kind))


def build(plan: Any, kept: Kept) -> Any:
    """A plan with one side's values."""
    if isinstance(plan, Own):
        return kept.get(plan.name, plan.instead)
    if isinstance(plan, list):
        return [build(each, kept) for each in plan]
    if isinstance(plan, tuple):
        make: Callable[..., Any] = plan[0]
        return make(**{name: build(each, kept) for name, each in plan[1].items()})
    return plan
