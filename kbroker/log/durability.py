"""The fsyncs of one log, run in a worker while its owner goes on appending.

Segments are only ever added behind and removed in front or, by truncation, behind: a list taken at the start is safe to
walk, and a segment that was removed meanwhile needs no sync. Those that are not durable come last: a cleaner makes its
own durable before it puts them in the place of others. The recovery point is the owner's to move afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.host import Disk
from kbroker.log import partition_metadata
from kbroker.log.epochs import LeaderEpochs
from kbroker.log.producer_state import ProducerStates
from kbroker.log.segment import Segment


class SyncPoint(NamedTuple):
    """What a ``sync`` made durable: everything below ``offset``, unless the log was truncated meanwhile."""

    offset: int
    truncations: int


def sync_segments(segments: list[Segment], *, finished: bool) -> None:
    """Make durable what is not: batches, and of finished segments the indexes too.

    ``finished`` says that the last segment takes no more batches either. Before that its indexes are not needed:
    recovery reads the segment of the recovery point from its start. Raises ``OSError``.
    """
    here = tuple(segments)
    first = len(here)
    while first and not here[first - 1].durable:
        first -= 1
    for number, segment in enumerate(here[first:], first):
        try:
            segment.sync()
            if finished or number + 1 < len(here):
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
    epochs.save(sync=True)  # first: with a full disk it fails, and nothing was forgotten
    paths = []
    while producers.unsynced:
        paths.append(producers.snapshot_path(producers.unsynced.popleft()))
    if is_new:
        paths.append(f"{directory}/{partition_metadata.NAME}")
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
