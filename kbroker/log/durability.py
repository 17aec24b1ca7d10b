"""The fsyncs of one log, run in a worker while its owner goes on appending.

Segments are only ever added behind and removed in front or, by truncation, behind: a list taken at the start is safe to
walk, and a segment that was removed meanwhile needs no sync. The recovery point is the owner's to move afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.host import Disk
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
    for number, segment in enumerate(here):
        if segment.durable:
            continue
        try:
            segment.sync()
            if finished or number + 1 < len(here):
                segment.sync_indexes()
                segment.durable = True
        except OSError:
            if segment in segments:
                raise


def sync_small_files(disk: Disk, directory: str, paths: list[str]) -> None:
    """Make small files durable that were written without waiting, and their names. Raises ``OSError``."""
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
