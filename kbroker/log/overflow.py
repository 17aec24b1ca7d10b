"""Segments whose offsets lie too far from their base for the indexes, and how a start splits them (KAFKA-6264).

Relative offsets are 32 bits wide. No append and no cleaner makes such a segment; old versions of Apache Kafka did, out
of compacted logs with large gaps. A start that meets one writes its batches into several segments, whose files go the
way of a cleaned one's (``cleaned_segment``), and begins anew. Follows Kafka's ``LocalLog.splitOverflowedSegment``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing

from kbroker.host import Disk, File
from kbroker.log.cleaned_segment import CleanedSegment, name_swap
from kbroker.log.errors import CorruptFileError, OffsetOverflowError
from kbroker.log.indexes import fits
from kbroker.log.paths import LOG_SUFFIX, TXN_INDEX_SUFFIX, offset_name
from kbroker.log.scan import scan_batches, scan_headers
from kbroker.log.segment import RollRules, Segment
from kbroker.log.txn_index import TxnIndex
from kbroker.log.unfinished_swaps import settle_swaps

logger = logging.getLogger(__name__)


def check_offsets(segments: Sequence[Segment], end_offset: int | None = None) -> None:
    """Raises ``OffsetOverflowError`` for the first segment with offsets too large for it.

    Read are only those behind which the next one, or ``end_offset``, lies far enough away. The last is not looked at
    without an ``end_offset``.
    """
    ends = [segment.base_offset for segment in segments[1:]] + ([] if end_offset is None else [end_offset])
    for segment, end in zip(segments, ends, strict=False):
        if not fits(segment.base_offset, end - 1):
            for _, header in scan_headers(segment.file, 0, segment.size):
                if not fits(segment.base_offset, header.last_offset):
                    raise OffsetOverflowError(segment.base_offset)


def split_segment(disk: Disk, directory: str, base_offset: int, rules: RollRules) -> None:
    """Put several segments in the place of one. Nobody may have it open. Raises ``CorruptFileError``, ``OSError``."""
    prefix = f"{directory}/{offset_name(base_offset)}"
    aborted = TxnIndex(disk, prefix + TXN_INDEX_SUFFIX, base_offset).entries()
    with closing(disk.open(prefix + LOG_SUFFIX)) as file:
        parts = _write_parts(disk, directory, base_offset, rules, file)
    ends = [part.base_offset for part in parts[1:]] + [None]
    for part, end in zip(parts, ends, strict=True):
        for entry in aborted:
            if entry.last_offset >= part.base_offset and (end is None or entry.last_offset < end):
                part.append_aborted(entry)
        part.finish()
        part.sync()
        part.close()
    for part in reversed(parts):  # the first one last: until it has its name, a start drops them all
        name_swap(disk, directory, part.base_offset)
    settle_swaps(disk, directory, disk.list_dir(directory))
    logger.warning(
        "%s held offsets too far from its first one, it became %d segments, at %s",
        *(prefix + LOG_SUFFIX, len(parts), ", ".join(str(part.base_offset) for part in parts)),
    )


def _write_parts(disk: Disk, directory: str, base_offset: int, rules: RollRules, file: File) -> list[CleanedSegment]:
    parts = [CleanedSegment(disk, directory, base_offset, rules)]
    position, size = 0, file.size()
    try:
        for at, header, batch in scan_batches(file, 0, size):
            if not fits(parts[-1].base_offset, header.last_offset):
                parts.append(CleanedSegment(disk, directory, header.base_offset, rules))
            parts[-1].append(bytes(batch), header, header.max_timestamp)
            position = at + header.size
    except CorruptFileError:
        # What it is, recovery will say: it shall find what was there.
        parts[-1].append_unread(file.pread(size - position, position))
    return parts
