"""Where clients put a record by its key: Java's default partitioner, which the others follow."""

from __future__ import annotations


def murmur2(data: bytes) -> int:
    """The hash by which Java's default partitioner places keys, so that all clients agree."""
    size = len(data)
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ size
    whole = size & ~3
    for position in range(0, whole, 4):
        part = int.from_bytes(data[position : position + 4], "little") * multiplier & mask
        part = (part ^ part >> 24) * multiplier & mask
        value = value * multiplier & mask ^ part
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * multiplier & mask
    value = (value ^ value >> 13) * multiplier & mask
    return value ^ value >> 15


def partition_of(key: bytes, count: int) -> int:
    """Where Java's default partitioner puts a key."""
    return (murmur2(key) & 0x7FFFFFFF) % count
