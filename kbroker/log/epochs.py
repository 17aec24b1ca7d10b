"""Which leader epoch began at which offset: ``leader-epoch-checkpoint`` and what is asked of it (KIP-101, KIP-279).

Follows Kafka's ``LeaderEpochFileCache``. Epochs and their start offsets both rise strictly. The file is written
without waiting for the disk: what lies past the recovery point is found again in the batches themselves, and
``Log.sync`` makes the file durable before the recovery point moves.
"""

from __future__ import annotations

import logging
from bisect import bisect_right

from kbroker.host import Disk
from kbroker.log.checkpoints import LEADER_EPOCH, format_lines, parse_lines
from kbroker.log.errors import CorruptFileError

logger = logging.getLogger(__name__)

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochs:
    """The leader epochs of one log. Owned by its ``Log``."""

    __slots__ = ("_disk", "_epochs", "_path", "_starts", "latest", "on_disk", "unsynced")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{LEADER_EPOCH}"
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = UNDEFINED_EPOCH
        self.on_disk = False
        """Whether the directory has been made; before that the file waits."""
        self.unsynced = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

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
            self._assign(epoch, start)
        self.unsynced = self.on_disk  # whether the last owner synced it is not known
        return bool(pairs)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Epoch ``epoch`` begins at ``start_offset``; conflicting later entries go."""
        if self._assign(epoch, start_offset):
            self.write()

    def replay(self, epoch: int, start_offset: int) -> None:
        """As ``assign``, during recovery: only a newer epoch counts, and the file is written once at the end."""
        if epoch > self.latest:
            self._assign(epoch, start_offset)

    def _assign(self, epoch: int, start_offset: int) -> bool:
        if epoch < 0 or start_offset < 0:
            return False
        if self._epochs and epoch == self._epochs[-1] and start_offset >= self._starts[-1]:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch at or below ``epoch`` and where it ends; (-1, -1) when this log cannot know."""
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return (self._epochs[higher - 1] if higher else epoch), self._starts[higher]

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at ``offset``, None before the first known epoch."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else None

    def earliest(self) -> tuple[int, int] | None:
        return (self._epochs[0], self._starts[0]) if self._epochs else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at or after ``end_offset``."""
        if end_offset < 0 or not self._starts or self._starts[-1] < end_offset:
            return
        while self._starts and self._starts[-1] >= end_offset:
            self._epochs.pop()
            self._starts.pop()
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies before ``start_offset``; the epoch it lies in then begins there."""
        passed = bisect_right(self._starts, start_offset)
        if passed == 0 or (passed == 1 and self._starts[0] == start_offset):
            return
        epoch = self._epochs[passed - 1]
        self._epochs[:passed] = [epoch]
        self._starts[:passed] = [start_offset]
        self.write()

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        self.latest = UNDEFINED_EPOCH
        self.write()

    def write(self) -> None:
        if not self.on_disk:
            return
        self.unsynced = True
        self._disk.write_atomically(self._path, format_lines(f"{e} {s}" for e, s in self.entries), sync=False)
