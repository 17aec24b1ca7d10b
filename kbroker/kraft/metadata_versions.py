"""The levels of ``metadata.version`` (KIP-778): their names, and what came with which (Kafka's ``MetadataVersion``).

A cluster may be held at an older level than its software: then nothing is written that the older software could not
read. What else a level allows is decided where it is done, by the names below.
"""

from __future__ import annotations

from typing import Final

OLDEST: Final = 7
_NAMES: Final = (
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV1",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV1",
    "3.7-IV2",
    "3.7-IV3",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
    "4.0-IV0",
    "4.0-IV1",
    "4.0-IV2",
    "4.0-IV3",
    "4.1-IV0",
    "4.1-IV1",
    "4.2-IV0",
    "4.2-IV1",
    "4.3-IV0",
    "4.4-IV0",
    "4.4-IV1",
    "4.4-IV2",
)
LATEST: Final = OLDEST + len(_NAMES) - 1

TRANSACTIONS: Final = 13
"""Records of several batches that count together or not at all (KIP-868)."""
DIRECTORIES: Final = 17
"""In which of its directories a broker has a replica (KIP-858)."""
ELIGIBLE_REPLICAS: Final = 23
"""Records that can hold eligible leader replicas (KIP-966)."""
CORDONED_DIRECTORIES: Final = 30
"""Directories that take no new replicas (KIP-1066)."""

CHANGES: Final = frozenset({8, 11, TRANSACTIONS, 14, 15, DIRECTORIES, ELIGIBLE_REPLICAS, CORDONED_DIRECTORIES, 32, 33})
"""The levels that brought new records or fields: none of them can be gone back behind."""


def names() -> tuple[str, ...]:
    """Every level's name, oldest first."""
    return _NAMES


def name_of(level: int) -> str | None:
    """``4.4-IV2`` for 33; None for a level that this software does not know."""
    return _NAMES[level - OLDEST] if OLDEST <= level <= LATEST else None


def level_of(version: str) -> int | None:
    """The level of a name, or the newest of a release (``4.4``, ``4.4.0``); None when there is none."""
    wanted = ".".join(version.split(".")[:2])
    known = reversed(list(enumerate(_NAMES, OLDEST)))
    return next((level for level, name in known if wanted in (name, name.partition("-")[0])), None)
