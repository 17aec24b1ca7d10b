"""A segment's sparse indexes, ``.index`` and ``.timeindex``: arrays in memory, exactly their entries on disk.

An offset entry is (relative last offset of a batch: int32, the batch's position: int32); a time entry is (largest
timestamp so far: int64, relative last offset of the batch that has it: int32); all big-endian. Unlike Kafka's, the
files are never longer than their entries, but such a zero tail is read over. Appending touches memory only, ``write``
hands the new entries to the operating system: until a segment is rolled its indexes are a copy of what recovery would
rebuild, so nothing is lost with them. A file is made at the first ``write``: thousands of partitions that hold a few
records each get theirs when they are closed.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import islice
from operator import le, lt

from kbroker.host import Disk, File
from kbroker.log.errors import CorruptFileError

RELATIVE_OFFSET_MAX = 2**31 - 1
NO_TIMESTAMP = -1

_OFFSET_ENTRY_SIZE = 8
_TIME_ENTRY_SIZE = 12


def fits(base_offset: int, last_offset: int) -> bool:
    """Whether the indexes of a segment at ``base_offset`` can name an offset."""
    return last_offset - base_offset <= RELATIVE_OFFSET_MAX


class _Index:
    """What both indexes share: the file, how much of it is written, and the limit on its size."""

    __slots__ = ("_disk", "_file", "_is_foreign", "_written", "base_offset", "path")

    entry_size: int

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._file: File | None = None
        self._written = 0
        self._is_foreign = True
        """Whether the file, if there is one, may hold what is not this index's."""

    def __len__(self) -> int:
        raise NotImplementedError

    def _bytes_from(self, entry: int) -> bytes:
        raise NotImplementedError

    @property
    def unwritten(self) -> int:
        """How many entries are in memory only."""
        return len(self) - self._written

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def write(self) -> None:
        """Hand to the operating system what was appended since the last time."""
        if self._is_foreign:
            self.file.truncate(0)
            self._is_foreign = False
        count = len(self)
        if count > self._written:
            self.file.pwrite(self._bytes_from(self._written), self._written * self.entry_size)
            self._written = count

    def _cut_file(self, count: int) -> None:
        if count < self._written:
            self.file.truncate(count * self.entry_size)
            self._written = count

    def _read(self) -> bytes:
        """The file's content, for loading. Raises ``CorruptFileError`` when it is no whole number of entries."""
        try:
            data = self._disk.read(self.path)
        except FileNotFoundError as error:
            raise CorruptFileError(self.path, 0, "the file is missing") from error
        if len(data) % self.entry_size:
            reason = f"{len(data)} bytes are no multiple of {self.entry_size}"
            raise CorruptFileError(self.path, len(data) - len(data) % self.entry_size, reason)
        # Apache Kafka fills the files up with zeros in advance, until a roll or a clean stop.
        count = -(-len(data.rstrip(b"\0")) // self.entry_size)
        self._is_foreign = count * self.entry_size < len(data)
        self._written = 0 if self._is_foreign else count
        return data[: count * self.entry_size]

    def _check_order(self, is_before: Callable[[int, int], object], *columns: array[int]) -> None:
        """Raises ``CorruptFileError`` for the first entry that does not follow the one before it."""
        for column in columns:
            if not all(map(is_before, column, islice(column, 1, None))):
                misfit = next(n for n in range(1, len(column)) if not is_before(column[n - 1], column[n]))
                raise CorruptFileError(self.path, misfit * self.entry_size, "an entry does not follow the one before")

    def sync(self) -> None:
        """Make the written entries durable. Called from a worker, for rolled segments only."""
        self.file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class OffsetIndex(_Index):
    """Finds the position to scan from for an offset. Invariant: offsets and positions both rise strictly."""

    __slots__ = ("_offsets", "_positions")

    entry_size = _OFFSET_ENTRY_SIZE

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, base_offset)
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    def load(self, log_size: int) -> None:
        """Read the file. Raises ``CorruptFileError`` when it cannot belong to a segment of ``log_size`` bytes."""
        both = array("i", self._read())
        if sys.byteorder == "little":
            both.byteswap()
        self._offsets, self._positions = both[0::2], both[1::2]
        if both and (self._offsets[0] < 0 or self._positions[0] < 0):
            raise CorruptFileError(self.path, 0, "the first entry lies before the segment")
        self._check_order(lt, self._offsets, self._positions)
        if both and self._positions[-1] >= log_size:
            raise CorruptFileError(
                self.path, len(both) * 4 - self.entry_size, "the last entry lies outside the segment"
            )

    def append(self, offset: int, position: int) -> None:
        self._offsets.append(offset - self.base_offset)
        self._positions.append(position)

    def is_full(self, index_size_max: int) -> bool:
        return len(self._offsets) >= index_size_max // _OFFSET_ENTRY_SIZE

    def lookup(self, offset: int) -> int:
        """A position at or before the batch that holds ``offset``."""
        slot = bisect_right(self._offsets, min(offset - self.base_offset, RELATIVE_OFFSET_MAX))
        return self._positions[slot - 1] if slot else 0

    def around(self, offset: int) -> tuple[int, int | None]:
        """As ``lookup``, and the position of the next entry: its batch is the first in the index not to end before."""
        positions = self._positions
        slot = bisect_right(self._offsets, min(offset - self.base_offset, RELATIVE_OFFSET_MAX))
        return positions[slot - 1] if slot else 0, positions[slot] if slot < len(positions) else None

    def offset_after(self, position: int) -> int | None:
        """The offset of the first entry at or after ``position``; None when the index does not reach so far.

        An entry at ``position`` itself does not count when it is the index's first: Kafka's search passes over it.
        """
        slot = bisect_left(self._positions, position)
        if slot == 0 and self._positions and self._positions[0] == position:
            slot = 1
        return self.base_offset + self._offsets[slot] if slot < len(self._positions) else None

    def position_up_to(self, position: int) -> int:
        """The last entry's position that is not past ``position``: a batch begins there. 0 when there is none."""
        slot = bisect_right(self._positions, position)
        return self._positions[slot - 1] if slot else 0

    def entries(self) -> list[tuple[int, int]]:
        return [(self.base_offset + o, p) for o, p in zip(self._offsets, self._positions, strict=True)]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or after ``offset``."""
        count = bisect_left(self._offsets, max(offset - self.base_offset, 0))
        del self._offsets[count:], self._positions[count:]
        self._cut_file(count)

    def clear(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")
        self._cut_file(0)

    def _bytes_from(self, entry: int) -> bytes:
        both = array("i", bytes((len(self._offsets) - entry) * _OFFSET_ENTRY_SIZE))
        both[0::2], both[1::2] = self._offsets[entry:], self._positions[entry:]
        if sys.byteorder == "little":
            both.byteswap()
        return both.tobytes()


class TimeIndex(_Index):
    """Finds the batch to scan from for a timestamp. Invariant: timestamps rise strictly, offsets never fall."""

    __slots__ = ("_offsets", "_timestamps")

    entry_size = _TIME_ENTRY_SIZE

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        super().__init__(disk, path, base_offset)
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    def load(self) -> None:
        """Read the file. Raises ``CorruptFileError`` when its entries cannot be a time index."""
        data = self._read()
        words = array("i", data)
        halves = array("i", bytes(len(data) // self.entry_size * 8))
        halves[0::2], halves[1::2] = words[0::3], words[1::3]
        times, offsets = array("q", halves.tobytes()), words[2::3]
        if sys.byteorder == "little":
            times.byteswap()
            offsets.byteswap()
        self._timestamps, self._offsets = times, offsets
        if times and offsets[0] < 0:
            raise CorruptFileError(self.path, 0, "the first entry lies before the segment")
        self._check_order(lt, times)
        self._check_order(le, offsets)

    def last(self) -> tuple[int, int]:
        """The largest timestamp and the offset beside it; (-1, base offset) when there is none."""
        if self._timestamps:
            return self._timestamps[-1], self.base_offset + self._offsets[-1]
        return NO_TIMESTAMP, self.base_offset

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry unless no later time has come since the last one (Kafka's ``maybeAppend``)."""
        if self._timestamps:
            if timestamp <= self._timestamps[-1]:
                return
        elif timestamp < 0:
            return
        self._timestamps.append(timestamp)
        self._offsets.append(offset - self.base_offset)

    def is_full(self, index_size_max: int) -> bool:
        return len(self._timestamps) >= index_size_max // _TIME_ENTRY_SIZE - 1

    def lookup(self, timestamp: int) -> int:
        """An offset such that every record of an earlier batch is older than ``timestamp``."""
        slot = bisect_right(self._timestamps, timestamp)
        return self.base_offset + self._offsets[slot - 1] if slot else self.base_offset

    def entries(self) -> list[tuple[int, int]]:
        return [(t, self.base_offset + o) for t, o in zip(self._timestamps, self._offsets, strict=True)]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or after ``offset``."""
        count = bisect_left(self._offsets, max(offset - self.base_offset, 0))
        del self._timestamps[count:], self._offsets[count:]
        self._cut_file(count)

    def clear(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")
        self._cut_file(0)

    def _bytes_from(self, entry: int) -> bytes:
        timestamps, offsets = self._timestamps[entry:], self._offsets[entry:]
        if sys.byteorder == "little":
            timestamps.byteswap()
            offsets.byteswap()
        halves = array("i", timestamps.tobytes())
        words = array("i", bytes(len(offsets) * self.entry_size))
        words[0::3], words[1::3], words[2::3] = halves[0::2], halves[1::2], offsets
        return words.tobytes()
