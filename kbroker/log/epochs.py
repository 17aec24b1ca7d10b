"""Which leader epoch began at which offset: ``leader-epoch-checkpoint`` and what is asked of it (KIP-101, KIP-279).

Follows Kafka's ``LeaderEpochFileCache``. Epochs and their start offsets both rise strictly. The file is written by
``Log.sync``, before the recovery point moves, and at a stop: what lies past the recovery point is found again in the
batches themselves. It is never replaced by one that has not been synced, as that could lose what the old file had for
sure: the new one is staged beside it, synced by the log, and placed.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from contextlib import suppress

from kbroker.host import Disk
from kbroker.log.checkpoints import LEADER_EPOCH, format_lines, parse_lines
from kbroker.log.errors import CorruptFileError

logger = logging.getLogger(__name__)

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    """The leader epochs of one log. Owned by its ``Log``."""

    __slots__ = ("_disk", "_entries", "_path", "_saved", "_staged", "latest")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{LEADER_EPOCH}"
        self._entries: list[tuple[int, int]] = []
        self.latest = UNDEFINED_EPOCH
        self._saved: list[tuple[int, int]] = []
        """What the file says."""
        self._staged: tuple[str, list[tuple[int, int]]] | None = None
        """The file that is to take the place of the old one, and what it says."""

    @property
    def unsaved(self) -> bool:
        """Whether the file does not say what is known."""
        return self._saved != self._entries

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Epochs and their start offsets. A copy: a worker may ask for it."""
        return self._entries.copy()

    def move_to(self, directory: str) -> None:
        self._path = f"{directory}/{LEADER_EPOCH}"

    def load(self) -> bool:
        """Read the file; False when it is absent, empty or corrupt: the epochs are to be found in the batches again."""
        try:
            entries = parse_lines(self._path, self._disk.read(self._path), 2)
            pairs = [(int(epoch), int(start)) for epoch, start in entries]
        except FileNotFoundError:
            pairs = []
        except (CorruptFileError, ValueError) as error:
            logger.warning("%s: read as empty, the epochs are taken from the batches", error)
            pairs = []
        for epoch, start in pairs:
            self.assign(epoch, start)
        self._saved = pairs
        return bool(pairs)

    def replay(self, epoch: int, start_offset: int) -> None:
        """As ``assign``, during recovery: only a newer epoch counts."""
        if epoch > self.latest:
            self.assign(epoch, start_offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Epoch ``epoch`` begins at ``start_offset``; conflicting later entries go."""
        if epoch < 0 or start_offset < 0:
            return
        entries = self._entries
        if entries and epoch == entries[-1][0] and start_offset >= entries[-1][1]:
            return
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start_offset):
            entries.pop()
        entries.append((epoch, start_offset))
        self._changed()

    def _changed(self) -> None:
        self.latest = self._entries[-1][0] if self._entries else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch at or below ``epoch`` and where it ends; (-1, -1) when this log cannot know."""
        if epoch == UNDEFINED_EPOCH or not self._entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self._entries, epoch, key=_epoch)
        if higher == len(self._entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return (self._entries[higher - 1][0] if higher else epoch), self._entries[higher][1]

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at ``offset``, None before the first known epoch."""
        index = bisect_right(self._entries, offset, key=_start)
        return self._entries[index - 1][0] if index else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at or after ``end_offset``."""
        if end_offset >= 0 and self._entries and self._entries[-1][1] >= end_offset:
            while self._entries and self._entries[-1][1] >= end_offset:
                self._entries.pop()
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies before ``start_offset``; the epoch it lies in then begins there."""
        passed = bisect_right(self._entries, start_offset, key=_start)
        if passed == 0 or (passed == 1 and self._entries[0][1] == start_offset):
            return
        self._entries[:passed] = [(self._entries[passed - 1][0], start_offset)]
        self._changed()

    def clear(self) -> None:
        self._entries.clear()
        self._changed()

    def take_over(self, other: LeaderEpochs) -> None:
        """Know what ``other`` knows."""
        self._entries = other.entries
        self._changed()

    def stage(self) -> str | None:
        """Write what is known beside the file, if that does not say it: where, to be synced before it is placed.

        Called from a worker, or at a stop. Raises ``OSError``.
        """
        self._staged = None
        if not self.unsaved:
            return None
        path, entries = f"{self._path}.tmp", self.entries
        lines = format_lines(f"{epoch} {start}" for epoch, start in entries)
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            file.pwrite(lines, 0)
        except OSError:
            with suppress(OSError):  # where there was no room, what was written of it must not take more
                self._disk.remove(path)
            raise
        finally:
            file.close()
        self._staged = path, entries
        return path

    def place(self) -> bool:
        """Let what was staged take the place of the file; whether anything was. Raises ``OSError``."""
        if self._staged is None:
            return False
        (path, entries), self._staged = self._staged, None
        self._disk.rename(path, self._path)
        self._saved = entries
        return True


def _epoch(entry: tuple[int, int]) -> int:
    return entry[0]


def _start(entry: tuple[int, int]) -> int:
    return entry[1]
