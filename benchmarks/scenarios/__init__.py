"""What is measured. A scenario is a module with ``CASES``; the order here is the order of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

SCENARIOS = (
    "throughput",
    "requests",
    "latency",
    "startup",
    "memory",
    "partitions",
    "groups",
    "transactions",
    "flatness",
    "logs",
    "cleaning",
    "testing",
)

Figures: TypeAlias = dict[str, float]
"""By name; the unit is the last word of the name."""


@dataclass(frozen=True)
class Effort:
    """How much is done: ``scale`` shrinks counts and times. ``round_number`` 0 does not count: it warms up."""

    scale: float
    round_number: int

    def of(self, count: int, least: int = 1) -> int:
        return max(least, int(count * self.scale))


@dataclass(frozen=True)
class Case:
    """One row of the table. ``run`` takes a running ``Target``, or a ``Launcher`` where ``is_fresh``."""

    name: str
    run: Callable[[Any, Effort], Figures]
    rounds: int = 3
    warm_up: bool = True
    is_fresh: bool = False
