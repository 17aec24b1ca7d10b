"""The segments of one log in order, and finding bytes in them: the lower half of ``Log`` (Kafka's ``LocalLog``).

Readers at the tail are served from the positions of the latest batches, without a search. Invariant: ``all`` and
``_bases`` run in parallel; ``_recent`` holds batches of the active segment only.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import NamedTuple

from kbroker.host import Disk
from kbroker.log.file_records import FileRecords
from kbroker.log.segment import Segment
from kbroker.log.txn_index import AbortedTxn
from kbroker.protocol.records.batch import LOG_OVERHEAD

_BATCH_LENGTH = struct.Struct(">8xi")
_RECENT_MAX = 128
_WHOLE_FROM = 64 * 1024
"""Ranges from this size on may end with a whole batch instead of where a limit cuts them: what the index does not know
of are a few KiB at most."""


class Discarded(NamedTuple):
    """Segments that a log let go of, still open for the fetches that read them, and the files to remove later."""

    segments: list[Segment]
    paths: list[str]

    def remove(self, disk: Disk) -> None:
        """Raises ``OSError``."""
        for segment in self.segments:
            segment.release()
        for path in self.paths:
            disk.remove(path)


class Segments:
    """Owned by its ``Log``."""

    __slots__ = ("_bases", "_end_position", "_recent", "active", "all")

    def __init__(self, segments: list[Segment]) -> None:
        self.all = segments
        self.active: Segment | None = segments[-1] if segments else None
        self._bases = [segment.base_offset for segment in segments]
        self._recent: dict[int, int] = {}
        """Base offset -> position of the latest batches of the active segment."""
        self._end_position = (-1, -1, -1)
        """The last end offset that was translated: offset, base offset of its segment, position."""

    def add(self, segment: Segment) -> None:
        self.all.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        self._recent.clear()

    def remember(self, base_offset: int, position: int) -> None:
        """A batch was appended to the active segment."""
        if len(self._recent) >= _RECENT_MAX:
            self._recent.clear()
        self._recent[base_offset] = position

    def number_of(self, offset: int) -> int:
        """Which segment ``offset`` lies in; the first when it lies before all."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def read(
        self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, *, at_least_one: bool
    ) -> FileRecords | bytes:
        """See ``Log.read``. Raises ``CorruptFileError`` and ``OSError``."""
        position = self._recent.get(offset)
        active = self.active
        if position is not None and active is not None:
            segment, base_offset, first_size, chunk, start = active, offset, 0, b"", position
        else:
            number = self.number_of(offset)
            found = None
            while found is None:
                if number == len(self.all):
                    return b""
                segment = self.all[number]
                found = segment.find(offset)
                number += 1
            position, first_size, base_offset, chunk, start = found
        limit = segment.size if end_offset == log_end_offset else self._limit(segment, end_offset)
        size = limit - position
        whole_size = None
        if size > max_bytes:
            size = max_bytes
            if at_least_one:
                if not first_size:
                    header = segment.file.pread(LOG_OVERHEAD, position)
                    first_size = LOG_OVERHEAD + int(_BATCH_LENGTH.unpack(header)[0])
                size = max(size, first_size)
            if size >= _WHOLE_FROM:
                whole_size = segment.offset_index.position_up_to(position + size) - position
                if whole_size <= 0:
                    whole_size = None
        if size <= 0:
            return b""
        at = position - start
        data = chunk[at : at + size] if at + size <= len(chunk) else None
        return FileRecords(segment.file, position, size, base_offset, data, whole_size)

    def _limit(self, segment: Segment, end_offset: int) -> int:
        """The position in ``segment`` that reads below ``end_offset`` may not pass."""
        if segment is self.active:
            recent = self._recent.get(end_offset)
            if recent is not None:
                return recent
        if self._end_position[:2] == (end_offset, segment.base_offset):
            return self._end_position[2]
        found = segment.find(end_offset)
        if found is None:
            return segment.size
        self._end_position = (end_offset, segment.base_offset, found.position)
        return found.position

    def aborted_transactions(self, offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        result: list[AbortedTxn] = []
        for segment in self.all[self.number_of(offset) :]:
            found, complete = segment.txn_index.collect(offset, upper_bound_offset)
            result += found
            if complete:
                break
        return result

    def upper_bound_of(self, records: FileRecords, log_end_offset: int) -> int:
        """An offset that ``records`` do not reach past, from the index, as Kafka takes it."""
        number = self.number_of(records.base_offset)
        segment = self.all[number]
        if segment.file is records.file:
            after = segment.offset_index.offset_after(records.position + records.size)
            if after is not None:
                return after
        return self._bases[number + 1] if number + 1 < len(self._bases) else log_end_offset

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Cut at ``offset``, which lies in or behind the first segment."""
        while self.all[-1].base_offset > offset:
            self.all.pop().remove()
            self._bases.pop()
        self.active = active = self.all[-1]
        self._forget_positions()
        found = active.find(offset)
        if found is not None:
            active.truncate_to(found.position, offset, now_ms)

    def remove_all(self) -> None:
        for segment in self.all:
            segment.remove()
        self.all.clear()
        self._bases.clear()
        self.active = None
        self._forget_positions()

    def take_first(self, count: int) -> list[Segment]:
        """Let go of the first segments: they are found no more, their files are the caller's."""
        taken = self.all[:count]
        del self.all[:count], self._bases[:count]
        return taken

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put one segment in the place of several neighbours that are not active."""
        start = self.all.index(old[0])
        end = start + len(old)
        self.all[start:end] = [new]
        self._bases[start:end] = [new.base_offset]
        self._end_position = (-1, -1, -1)

    def _forget_positions(self) -> None:
        self._recent.clear()
        self._end_position = (-1, -1, -1)
