"""The orders in which the maps and sets of Java, Scala and Kafka itself give out what was put into them.

Apache Kafka keeps what a request names in such maps. Which of several errors is answered hangs on that order where it
stops at the first, and so does the order of many answers. Partitions of internal topics are found with the same hash
of a string.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeVar

E = TypeVar("E")
K = TypeVar("K", str, int)
P = TypeVar("P", bound=tuple[str, int])
"""A partition: its topic's name and its number."""

_SMALLEST_TABLE: Final = 16
_SMALL_SET: Final = 4
"""Up to so many elements Scala's immutable set is a list."""
_HASH_BITS: Final = 32
_INT: Final = 0xFFFFFFFF
_LONG: Final = 0xFFFFFFFFFFFFFFFF
_GOLDEN: Final = 0x9E3779B97F4A7C15
"""Knuth's multiplier for hashes of 64 bits."""


def java_hash(text: str) -> int:
    """``String.hashCode`` as an unsigned number of 32 bits."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        value = (31 * value + (data[position] << 8 | data[position + 1])) & _INT
    return value


def in_map_order(keys: Collection[K], table: int = _SMALLEST_TABLE) -> list[K]:
    """Distinct strings or longs in the order of a ``HashMap`` into which they were put one by one.

    ``table`` is the size of its table at the begin; a map that was copied from another has a smaller one.
    """

    def hash_of(key: str | int) -> int:
        return java_hash(key) if isinstance(key, str) else (key ^ key >> 32) & _INT

    return _by_slot(keys, hash_of, table)


def copied_table(entries: int) -> int:
    """The size that Java gives to the table of a map that is copied from one with so many entries."""
    return 1 << int(entries / 0.75).bit_length() if entries else _SMALLEST_TABLE


def partitions_in_map_order(partitions: Collection[P]) -> list[P]:
    """Distinct partitions in the order of a ``HashMap`` into which they were put one by one."""
    return _by_slot(partitions, _partition_hash, _SMALLEST_TABLE)


def _by_slot(keys: Collection[E], hash_of: Callable[[E], int], table: int) -> list[E]:
    size = table
    while len(keys) * 4 > size * 3:
        size *= 2
    return sorted(keys, key=lambda key: _spread(hash_of(key)) & (size - 1))


def in_timeline_order(keys: Collection[K]) -> list[K]:
    """Distinct strings or ints in the order of Kafka's ``TimelineHashMap`` into which they were put one by one."""
    bits = 1
    while len(keys) * 3 > 4 << bits:
        bits += 1

    def slot(key: str | int) -> int:
        value = key if isinstance(key, int) else _signed(java_hash(key))
        return (value * _GOLDEN & _LONG) >> 64 - bits

    newest_first = list(keys)[::-1]  # what shares a slot is given out from its end
    return sorted(newest_first, key=slot)


def in_set_order(names: Collection[str]) -> list[str]:
    """Distinct strings in the order of Scala's immutable ``Set``."""
    return list(names) if len(names) <= _SMALL_SET else _in_trie_order(names)


def grouped_by_topic(partitions: Collection[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """Distinct partitions in the order of Scala's mutable ``HashMap`` after ``groupBy``: each topic has its own."""
    topics: dict[str, list[tuple[str, int]]] = {}
    for partition in partitions:
        topics.setdefault(partition[0], []).append(partition)
    return [
        (topic, [number for _, number in partitions_in_scala_map_order(topics[topic])])
        for topic in _in_trie_order(topics)
    ]


def partitions_in_scala_map_order(partitions: Collection[P]) -> list[P]:
    """Distinct partitions in the order of Scala's mutable ``HashMap``."""
    size = _SMALLEST_TABLE
    while len(partitions) * 4 >= size * 3:
        size *= 2

    def place(partition: P) -> tuple[int, int]:
        """The slot, and the place among those that share it: there the signed hash decides."""
        value = _spread(_partition_hash(partition))
        return value & (size - 1), _signed(value)

    return sorted(partitions, key=place)


def _partition_hash(partition: tuple[str, int]) -> int:
    """``TopicPartition.hashCode``."""
    topic, number = partition
    return (31 * (31 + number) + java_hash(topic)) & _INT


def _signed(value: int) -> int:
    return value - (value >> 31 << 32)


def _spread(value: int) -> int:
    return value ^ value >> 16


def _in_trie_order(names: Collection[str]) -> list[str]:
    """The order of Scala's immutable ``HashMap``: nodes of 32 places, an entry before what has a node of its own."""
    hashes = {name: _improved(java_hash(name)) for name in names}

    def walk(names: Collection[str], shift: int) -> list[str]:
        if shift > _HASH_BITS:
            return list(names)
        places: dict[int, list[str]] = {}
        for name in names:
            places.setdefault(hashes[name] >> shift & 31, []).append(name)
        nodes = [places[place] for place in sorted(places)]
        entries = [node[0] for node in nodes if len(node) == 1]
        return entries + [name for node in nodes if len(node) > 1 for name in walk(node, shift + 5)]

    return walk(names, 0)


def _improved(value: int) -> int:
    """Scala's ``Hashing.improve``."""
    value = (value + ~(value << 9)) & _INT
    value ^= value >> 14
    value = (value + (value << 4)) & _INT
    return value ^ value >> 10
