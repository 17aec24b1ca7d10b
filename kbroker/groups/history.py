"""Why rebalances began: the latest of each group, kept in volatile state for people who ask."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

REMEMBERED_MAX = 50
"""Rebalances that a group remembers."""


class Rebalance(NamedTuple):
    """One rebalance: when it began, the generation it ended, how many members there were, and why, in words."""

    wall_ms: int
    generation: int
    members: int
    reason: str


class History:
    """The latest rebalances of one group, oldest first."""

    __slots__ = ("_rebalances",)

    def __init__(self) -> None:
        self._rebalances: deque[Rebalance] = deque(maxlen=REMEMBERED_MAX)

    def add(self, rebalance: Rebalance) -> None:
        self._rebalances.append(rebalance)

    def __iter__(self) -> Iterator[Rebalance]:
        return iter(self._rebalances)
