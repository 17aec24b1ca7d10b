"""The orders in which Java's ``HashMap`` and Kafka's own ``TimelineHashMap`` give out their keys.

Apache Kafka keeps what a request names in such maps and stops at the first error: which of several errors is answered
hangs on that order, and so does the order of some answers. Partitions of internal topics are found with the same hash
of a string.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

_SMALLEST_TABLE: Final = 16
_GOLDEN: Final = 0x9E3779B97F4A7C15
"""Knuth's multiplier for hashes of 64 bits."""

T = TypeVar("T", bound="int | str")


def java_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned number of 32 bits."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        value = (31 * value + (data[position] << 8 | data[position + 1])) & 0xFFFFFFFF
    return value


def in_map_order(names: Collection[str]) -> list[str]:
    """Distinct strings in the order of a ``HashMap`` into which they were put one by one."""
    return _by_slot(names, java_hash)


def partitions_in_map_order(topic: str, partitions: Collection[int]) -> list[int]:
    """A topic's partitions in the order of a ``HashMap`` of ``TopicPartition`` into which they were put one by one."""
    name = java_hash(topic)
    return _by_slot(partitions, lambda partition: 31 * (31 + partition) + name & 0xFFFFFFFF)


def _by_slot(keys: Collection[T], hash_of: Callable[[T], int]) -> list[T]:
    size = _SMALLEST_TABLE
    while len(keys) * 4 > size * 3:
        size *= 2

    def slot(key: T) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & (size - 1)

    return sorted(keys, key=slot)


def in_timeline_order(keys: Collection[T]) -> list[T]:
    """Distinct keys in the order of a ``TimelineHashMap`` into which they were put one by one."""
    bits = 1
    while len(keys) * 3 > 4 << bits:
        bits += 1

    def slot(key: T) -> int:
        value = key if isinstance(key, int) else java_hash(key)
        if value >= 1 << 31:
            value -= 1 << 32
        return (value * _GOLDEN & (1 << 64) - 1) >> 64 - bits

    newest_first = list(keys)[::-1]  # what shares a slot is given out from its end
    return sorted(newest_first, key=slot)
