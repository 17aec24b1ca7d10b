"""The fsyncs of one log, run in a worker while its owner goes on appending.

Segments are only ever added behind and removed in front or, by truncation, behind: a list taken at the start is safe to
walk, and a segment that was removed meanwhile needs no sync. The recovery point is the owner's to move afterwards.
"""

from __future__ import annotations

from kbroker.host import Disk
from kbroker.log.segment import Segment


def sync_segments(segments: list[Segment], recovery_point: int) -> None:
    """Make durable what lies past the recovery point: batches, and of finished segments the indexes too.

    Indexes of the active segment are not needed: recovery reads the segment of the recovery point from its start.
    Raises ``OSError``.
    """
    here = tuple(segments)
    for number, segment in enumerate(here):
        last = number + 1 == len(here)
        if not last and (segment.durable or here[number + 1].base_offset <= recovery_point):
            continue
        try:
            segment.sync()
            if not last:
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
