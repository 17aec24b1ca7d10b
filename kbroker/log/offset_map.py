"""Which offset each key was seen at last, for the cleaner: bounded in memory by the number of its keys.

Kafka's ``SkimpyOffsetMap`` keeps 24 bytes for a key, an MD5 and the offset; a Python dictionary takes some 200, but is
ten times as fast as a table of bytes that Python would search. So the same ``log.cleaner.dedupe.buffer.size`` holds
fewer keys here; a log with more of them takes several rounds, as in Kafka. Keys longer than a digest are held as
BLAKE2b of 33 bytes, a length that no key held as itself has.
"""

from __future__ import annotations

from hashlib import blake2b

BYTES_PER_KEY = 200
KEY_SIZE_MAX = 32
_DIGEST_SIZE = KEY_SIZE_MAX + 1


def name_of(key: bytes) -> bytes:
    """What stands for a key in the map."""
    return key if len(key) <= KEY_SIZE_MAX else blake2b(key, digest_size=_DIGEST_SIZE).digest()


def keys_within(size_max: int, load_factor: float) -> int:
    """How many keys a map may hold that takes at most ``size_max`` bytes and is not to be full."""
    return max(1, int(size_max * load_factor) // BYTES_PER_KEY)


class OffsetMap:
    """Made for one round of cleaning. ``latest`` is the last offset that the map speaks for, -1 for none."""

    __slots__ = ("capacity", "latest", "offsets")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.offsets: dict[bytes, int] = {}
        self.latest = -1

    def has_room_for(self, count: int) -> bool:
        """Whether ``count`` more keys fit; one batch always does, or a large one would stop the cleaner for good."""
        return not self.offsets or len(self.offsets) + count <= self.capacity
