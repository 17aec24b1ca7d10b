"""What the Raft core knows of the log: its end, and where each leader epoch began.

The records themselves stay with the driver. Invariant: epochs and their start offsets both rise.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.kraft.raft.messages import Extent


class LogState:
    """Owned by ``Raft``; follows the log through ``append`` and ``truncate``."""

    __slots__ = ("_epochs", "end_offset")

    def __init__(self, end_offset: int = 0, epochs: Iterable[tuple[int, int]] = ()) -> None:
        self.end_offset = end_offset
        self._epochs = list(epochs)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, 0 when the log never held one."""
        return self._epochs[-1][0] if self._epochs else 0

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of epoch and its first offset, in order."""
        return tuple(self._epochs)

    def append(self, epoch: int, end_offset: int) -> None:
        """Records of ``epoch`` now reach to ``end_offset``."""
        if end_offset <= self.end_offset or epoch < self.last_epoch:
            raise AssertionError(
                f"the metadata log cannot go from offset {self.end_offset} in epoch {self.last_epoch} "
                f"to {end_offset} in epoch {epoch}"
            )
        if not self._epochs or epoch > self._epochs[-1][0]:
            self._epochs.append((epoch, self.end_offset))
        self.end_offset = end_offset

    def truncate(self, end_offset: int) -> None:
        """Forget everything from ``end_offset`` on."""
        while self._epochs and self._epochs[-1][1] >= end_offset:
            self._epochs.pop()
        self.end_offset = min(self.end_offset, end_offset)

    def end_of(self, epoch: int) -> Extent:
        """The largest epoch that is not above ``epoch``, and where it ends (KIP-101)."""
        end_offset = self.end_offset
        for known, start in reversed(self._epochs):
            if known <= epoch:
                return Extent(known, end_offset)
            end_offset = start
        return Extent(0, end_offset if self._epochs else 0)
