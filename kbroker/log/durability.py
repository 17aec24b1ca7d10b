"""What of one log's files is on stable storage, and the fsyncs that put it there, run in a worker while its owner goes
on appending.

Segments are only ever added behind and removed in front or, by truncation, behind: a list taken at the start is safe to
walk, and a segment that was removed meanwhile needs no sync. Those that are not durable come last: a cleaner makes its
own durable before it puts them in the place of others. The recovery point is the owner's to move afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kbroker.host import Disk
from kbroker.log import partition_metadata
from kbroker.log.epochs import LeaderEpochs
from kbroker.log.health import Health
from kbroker.log.producer_state import ProducerStates
from kbroker.log.segment import Segment


class SyncPoint(NamedTuple):
    """What a ``sync`` made durable: everything below ``offset``, unless the log was truncated meanwhile."""

    offset: int
    truncations: int


class Durability:
    """Owned by its ``Log``, of whose parts it is a view."""

    __slots__ = ("_disk", "_epochs", "_health", "_producers", "_segments", "directory", "is_finished", "is_new")

    def __init__(
        self,
        disk: Disk,
        directory: str,
        segments: list[Segment],
        producers: ProducerStates,
        epochs: LeaderEpochs,
        health: Health,
    ) -> None:
        self._disk = disk
        self.directory = directory
        self._segments = segments
        self._producers = producers
        self._epochs = epochs
        self._health = health
        self.is_finished = False
        """Whether the last segment takes no more batches either. Before that its indexes are not needed: recovery
        reads the segment of the recovery point from its start."""
        self.is_new = False
        """Whether segments, or the directory with its ``partition.metadata``, were made since the last sync."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be synced."""
        if not self._segments:
            return True
        return self._segments[-1].durable and not (self.is_new or self._epochs.unsaved or self._producers.unsynced)

    # --- file by file

    def sync(self, is_cut: Callable[[], bool]) -> None:
        """Make everything durable. ``is_cut`` says whether the owner has cut the log, or moved it, since the call.

        Raises ``LogOfflineError``, ``DiskFullError``.
        """
        self._health.guarded(self._sync_segments)
        if self._segments:
            self._health.attempt(lambda: self._sync_small_files(is_cut))

    def _sync_segments(self) -> None:
        """Batches, and of finished segments the indexes too. Raises ``OSError``."""
        here = tuple(self._segments)
        first = len(here)
        while first and not here[first - 1].durable:
            first -= 1
        for number, segment in enumerate(here[first:], first):
            try:
                segment.sync()
                if self.is_finished or number + 1 < len(here):
                    segment.sync_indexes()
                    segment.durable = True
            except OSError:
                if segment in self._segments:
                    raise

    def _sync_small_files(self, is_cut: Callable[[], bool]) -> None:
        """What was written without waiting, and the names. Raises ``OSError``."""
        self.is_new, is_new = False, self.is_new
        try:
            staged = self._epochs.stage()  # first: with a full disk it fails, and nothing was forgotten
            paths = [] if staged is None else [staged]
            while self._producers.unsynced:
                paths.append(self._producers.snapshot_path(self._producers.unsynced.popleft()))
            if is_new:
                paths.append(f"{self.directory}/{partition_metadata.NAME}")
            for path in paths:
                self._sync_file(path)
            self._epochs.place()
            if paths:
                self._disk.sync_dir(self.directory)
            if is_new:
                self._disk.sync_dir(self.directory.rpartition("/")[0] or "/")
        except OSError as error:
            self.is_new |= is_new
            if not (isinstance(error, FileNotFoundError) and is_cut()):
                raise

    def _sync_file(self, path: str) -> None:
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            return
        try:
            file.sync()
        finally:
            file.close()

    # --- together with other logs, once the log is finished

    def stage_epochs(self) -> None:
        """Before everything is synced. Raises ``LogOfflineError``, ``DiskFullError``."""
        self._health.attempt(self._epochs.stage)

    def mark_synced(self) -> None:
        """Everything that was written has been synced."""
        for segment in self._segments:
            segment.durable = True
        self._producers.unsynced.clear()
        self.is_new = False

    def place_epochs(self) -> None:
        """Once what was staged is durable; its new name is not. Raises ``LogOfflineError``."""
        self.is_new |= self._health.guarded(self._epochs.place)
