"""The segments of one log in order, and finding bytes in them: the lower half of ``Log`` (Kafka's ``LocalLog``).

Readers at the tail are served from the positions of the latest batches, without a search. Invariant: ``all`` and
``_bases`` run in parallel; ``_recent`` holds batches of the active segment only.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from contextlib import suppress

from kbroker.host import Disk
from kbroker.log.file_records import FileRecords
from kbroker.log.paths import DELETED_SUFFIX, SNAPSHOT_SUFFIX, SWAP_SUFFIX
from kbroker.log.producer_state import ProducerStates
from kbroker.log.segment import RollRules, Segment
from kbroker.log.txn_index import AbortedTxn
from kbroker.protocol.records.batch import LOG_OVERHEAD

_BATCH_LENGTH = struct.Struct(">8xi")
_RECENT_MAX = 128
_WHOLE_FROM = 64 * 1024
"""Ranges from this size on may end with a whole batch instead of where a limit cuts them: what the index does not know
of are a few KiB at most."""


class Discarded:
    """Segments that a log let go of, still open for the fetches that read them: to be renamed now, removed later.

    Both block, and may run in a worker: nobody else has these segments any more.
    """

    __slots__ = ("_disk", "_paths", "_snapshots", "is_renamed", "segments")

    def __init__(self, disk: Disk, segments: list[Segment], snapshots: frozenset[int]) -> None:
        """``snapshots`` are the offsets of producer snapshots that go with them."""
        self._disk = disk
        self.segments = segments
        self._snapshots = snapshots
        self._paths: list[str] = []
        self.is_renamed = False

    def rename(self) -> None:
        """Give the files the suffix ``.deleted``. It may be called twice, even at the same time. Raises ``OSError``."""
        for segment in self.segments:
            if self.is_renamed:  # by somebody else meanwhile: the names may be those of other files by now
                return
            names = segment.names()
            if segment.base_offset in self._snapshots:
                names.append(f"{segment.prefix}{SNAPSHOT_SUFFIX}")
            for name in names:
                with suppress(FileNotFoundError):
                    self._disk.rename(name, name + DELETED_SUFFIX)
                    self._paths.append(name + DELETED_SUFFIX)
        self.is_renamed = True

    def remove(self) -> None:
        """Renames first what was not renamed. Raises ``OSError``."""
        if not self.is_renamed:
            self.rename()
        for segment in self.segments:
            segment.release()
        for path in self._paths:
            self._disk.remove(path)


class Segments:
    """Owned by its ``Log``."""

    __slots__ = ("_bases", "_directory", "_discarded", "_disk", "_end_position", "_recent", "active", "all")

    def __init__(self, disk: Disk, directory: str, segments: list[Segment]) -> None:
        self._disk = disk
        self._directory = directory
        self.all = segments
        self.active: Segment | None = segments[-1] if segments else None
        self._bases = [segment.base_offset for segment in segments]
        self._recent: dict[int, int] = {}
        """Base offset -> position of the latest batches of the active segment."""
        self._end_position = (-1, -1, -1)
        """The last end offset that was translated: offset, base offset of its segment, position."""
        self._discarded: list[Discarded] = []
        """What was let go of and may not be renamed yet."""

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
        self.rename_discarded()
        for segment in self.all:
            segment.remove()
        self.all.clear()
        self._bases.clear()
        self.active = None
        self._forget_positions()

    def take_first(self, count: int, producers: ProducerStates) -> Discarded:
        """Let go of the first segments: they are found no more, their files are the caller's."""
        taken = self.all[:count]
        del self.all[:count], self._bases[:count]
        return self._discard(taken, producers.forget_snapshots(segment.base_offset for segment in taken))

    def swap_in(self, base_offset: int, count: int, rules: RollRules, producers: ProducerStates) -> Discarded:
        """Put the segment whose files are named ``.swap`` in the place of ``count`` that are not active.

        The first of them begins where it does. Raises ``OSError``.
        """
        start = self.number_of(base_offset)
        old = self.all[start : start + count]
        created_ms = old[-1].created_ms
        new = Segment(self._disk, self._directory, base_offset, rules, created_ms, create=False, suffix=SWAP_SUFFIX)
        new.durable = True
        self.all[start : start + count] = [new]
        self._bases[start : start + count] = [base_offset]
        self._end_position = (-1, -1, -1)
        return self._discard(old, producers.forget_snapshots(segment.base_offset for segment in old[1:]))

    def finish_swap(self, base_offset: int) -> None:
        """Give the swapped segment its names, unless it has gone. Raises ``OSError``."""
        for segment in self.all:
            if segment.base_offset == base_offset and segment.suffix:
                segment.take_final_names()

    def move_to(self, directory: str) -> None:
        """The directory got another name."""
        self._directory = directory
        for segment in self.all:
            segment.move_to(directory)

    def _discard(self, segments: list[Segment], snapshots: frozenset[int]) -> Discarded:
        discarded = Discarded(self._disk, segments, snapshots)
        self._discarded = [each for each in self._discarded if not each.is_renamed] + [discarded]
        return discarded

    def rename_discarded(self) -> None:
        """Before others take the names of what was let go of, or the directory gets another one. Raises ``OSError``."""
        for discarded in self._discarded:
            discarded.rename()
        self._discarded.clear()

    def _forget_positions(self) -> None:
        self._recent.clear()
        self._end_position = (-1, -1, -1)
