"""The fsyncs of one log, run in a worker while its owner goes on appending.

Segments are only ever added behind and removed in front or, by truncation, behind: a list taken at the start is safe to
walk, and a segment that was removed meanwhile needs no sync. The recovery point is the owner's to move afterwards.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import NamedTuple

from kbroker.host import Disk
from kbroker.log import partition_metadata
from kbroker.log.epochs import LeaderEpochs
from kbroker.log.producer_state import ProducerStates
from kbroker.log.segment import Segment

_base_offset = attrgetter("base_offset")


class SyncPoint(NamedTuple):
    """What a ``sync`` made durable: everything below ``offset``, unless the log was truncated meanwhile."""

    offset: int
    truncations: int


def sync_segments(segments: list[Segment], recovery_point: int, *, finished: bool) -> None:
    """Make durable what is not: batches, and of finished segments the indexes too.

    Everything before the recovery point is durable but for the indexes of the segment in which it lies, which may have
    been finished since; as many segments as there are before it cost nothing. ``finished`` says that the last segment
    takes no more batches either. Before that its indexes are not needed: recovery reads the segment of the recovery
    point from its start. Raises ``OSError``.
    """
    here = tuple(segments)
    first = max(bisect_left(here, recovery_point, key=_base_offset) - 1, 0)
    for segment in here[first:]:
        if segment.durable:
            continue
        try:
            segment.sync()
            if finished or segment is not here[-1]:
                segment.sync_indexes()
                segment.durable = True
        except OSError:
            if segment in segments:
                raise


def sync_small_files(
    disk: Disk, directory: str, producers: ProducerStates, epochs: LeaderEpochs, *, is_new: bool
) -> None:
    """Make the small files durable that were written without waiting, and their names. Raises ``OSError``.

    ``is_new`` says that segments, or the directory with its ``partition.metadata``, were made since the last time.
    """
    paths = []
    while producers.unsynced:
        paths.append(producers.snapshot_path(producers.unsynced.popleft()))
    if is_new:
        paths.append(f"{directory}/{partition_metadata.NAME}")
    epochs.save(sync=True)
    for path in paths:
        try:
            file = disk.open(path)
        except FileNotFoundError:
            continue
        try:
            file.sync()
        finally:
            file.close()
    if paths:
        disk.sync_dir(directory)
        disk.sync_dir(directory.rpartition("/")[0] or "/")
