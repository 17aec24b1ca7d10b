"""Where bytes arrive: one receive buffer for all connections of a server, and buffers for frames that span reads.

A frame that lies whole in what one read brought is parsed where it lies. The buffer of a frame that does not grows with
what has arrived, so that the length in front of it alone claims no memory. Buffers are used again: a fresh megabyte
costs more in page faults than the copy into it.
"""

from __future__ import annotations

RECEIVE_SIZE = 256 * 1024
"""Measured: 64 KiB costs four times as much for pipelined large frames, 1 MiB falls out of the cache."""
SIZES = (64 * 1024, 256 * 1024, 1024 * 1024, 4 * 1024 * 1024)
"""The sizes of pooled buffers; beyond the last a buffer is made to measure and not kept."""
POOL_MAX = 8 * 1024 * 1024
"""Bytes kept for later use."""
GROWTH = 4
"""A frame's buffer may be this many times larger than what has arrived of it."""
RUBBISH = 0xDB


class BufferPool:
    """A free list of buffers, bounded in bytes. Owner: one server."""

    __slots__ = ("_free", "_overwrite", "kept")

    def __init__(self, *, overwrite: bool = False) -> None:
        self._free: dict[int, list[bytearray]] = {size: [] for size in SIZES}
        self._overwrite = overwrite
        self.kept = 0

    def take(self, wanted: int, arrived: int) -> bytearray:
        """A buffer for ``wanted`` bytes, or for as many of them as may be claimed when ``arrived`` are there."""
        size = min(wanted, max(SIZES[0], arrived * GROWTH))
        for pooled in SIZES:
            if size <= pooled:
                free = self._free[pooled]
                if free:
                    self.kept -= pooled
                    return free.pop()
                return bytearray(pooled)
        return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        """The buffer's content is no longer needed by anybody."""
        if self._overwrite:
            overwrite(memoryview(buffer))
        size = len(buffer)
        free = self._free.get(size)
        if free is not None and self.kept + size <= POOL_MAX:
            free.append(buffer)
            self.kept += size


def overwrite(view: memoryview) -> None:
    """Make what is left in a buffer useless, so that whoever still looks at it is found out."""
    view[:] = bytes((RUBBISH,)) * len(view)
