"""The order in which Java's ``HashMap`` gives out strings.

Apache Kafka keeps what a request names in such maps and stops at the first error: which of several errors is answered
hangs on that order. Partitions of internal topics are found with the same hash of a string.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_SMALLEST_TABLE: Final = 16


def java_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned number of 32 bits."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        value = (31 * value + (data[position] << 8 | data[position + 1])) & 0xFFFFFFFF
    return value


def in_map_order(names: Collection[str]) -> list[str]:
    """Distinct strings in the order of a ``HashMap`` into which they were put one by one."""
    size = _SMALLEST_TABLE
    while len(names) * 4 > size * 3:
        size *= 2

    def slot(name: str) -> int:
        value = java_hash(name)
        return (value ^ value >> 16) & (size - 1)

    return sorted(names, key=slot)
