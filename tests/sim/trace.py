"""What happened in a run, in order: a hash to compare runs, and the last events to read after a failure."""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable

TAIL = 200
"""How many events a failure shows."""


class Trace:
    """The events of one run. Two runs with one seed must have one digest, whatever PYTHONHASHSEED is."""

    def __init__(self, now: Callable[[], float], *, keep_all: bool = False) -> None:
        self._now = now
        self._hash = hashlib.blake2b(digest_size=16)
        self._tail: deque[str] = deque(maxlen=None if keep_all else TAIL)
        self.count = 0

    def record(self, kind: str, *details: object) -> None:
        """Note an event; details must print the same in every run (no addresses, no sets)."""
        line = f"{self._now():.6f} {kind} {' '.join(map(str, details))}"
        self._hash.update(line.encode())
        self._hash.update(b"\n")
        self._tail.append(line)
        self.count += 1

    def digest(self) -> str:
        return self._hash.hexdigest()

    def tail(self) -> list[str]:
        return list(self._tail)


def fingerprint(data: bytes | bytearray | memoryview) -> str:
    """Enough of some bytes to see that they differ."""
    return f"{len(data)}:{zlib.crc32(data):08x}"
