"""What a start does with the files of a cleaner that was interrupted: back, or forth (see ``cleaned_segment``)."""

from __future__ import annotations

import logging
from contextlib import closing

from kbroker.host import Disk
from kbroker.log.errors import CorruptFileError
from kbroker.log.paths import CLEANED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, SWAP_SUFFIX, offset_name, offset_of
from kbroker.log.scan import scan_headers

logger = logging.getLogger(__name__)


def settle_swaps(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Undo or finish what a cleaner had begun; the names in the directory afterwards.

    Raises ``OSError``, and ``CorruptFileError`` when nothing can be read of what was to take others' place.
    """
    swaps = {offset for name in names if name.endswith(SWAP_SUFFIX) and (offset := offset_of(name)) is not None}
    cleaned = {offset for name in names if name.endswith(CLEANED_SUFFIX) and (offset := offset_of(name)) is not None}
    if not swaps and not cleaned:
        return names
    for offset in sorted(cleaned):
        _remove(disk, directory, offset, CLEANED_SUFFIX)
    for offset in sorted(swaps):
        if cleaned and offset >= min(cleaned):
            _remove(disk, directory, offset, SWAP_SUFFIX)
        else:
            _finish(disk, directory, offset, names)
    disk.sync_dir(directory)
    return disk.list_dir(directory)


def _remove(disk: Disk, directory: str, offset: int, ending: str) -> None:
    for suffix in SEGMENT_SUFFIXES:
        disk.remove(f"{directory}/{offset_name(offset)}{suffix}{ending}")
    logger.info("%s: an unfinished cleaning from offset %d on is dropped", directory, offset)


def _finish(disk: Disk, directory: str, base_offset: int, names: list[str]) -> None:
    prefix = f"{directory}/{offset_name(base_offset)}"
    if disk.exists(prefix + LOG_SUFFIX + SWAP_SUFFIX):
        # The log gets its name first: while it has not, every file with a final name in its range is an old one.
        end = max(_end_offset(disk, prefix + LOG_SUFFIX + SWAP_SUFFIX), base_offset + 1)
        for name in names:
            offset = offset_of(name)
            if offset is not None and base_offset <= offset < end and name.endswith(SEGMENT_SUFFIXES):
                disk.remove(f"{directory}/{name}")
    finish_names(disk, directory, base_offset)
    logger.info("%s: the cleaned segment at offset %d takes its place", directory, base_offset)


def _end_offset(disk: Disk, path: str) -> int:
    end = -1
    with closing(disk.open(path)) as file:
        try:
            for _, header in scan_headers(file, 0, file.size()):
                end = header.next_offset
        except CorruptFileError:
            if end < 0:
                raise  # else its end is recovery's to judge: that of a segment that was split may have been torn
    return end


def finish_names(disk: Disk, directory: str, base_offset: int) -> None:
    """Take the suffix ``.swap`` away, from the log first. Raises ``OSError``."""
    prefix = f"{directory}/{offset_name(base_offset)}"
    for suffix in SEGMENT_SUFFIXES:
        if disk.exists(prefix + suffix + SWAP_SUFFIX):
            disk.rename(prefix + suffix + SWAP_SUFFIX, prefix + suffix)
