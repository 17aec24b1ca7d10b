"""The segment that a cleaner writes, and how its owner puts it in the place of those it was made of.

Its files have the suffix ``.cleaned`` until they are complete and durable, ``.swap`` until the old ones are out of the
way, and then none. A start that finds them goes back or forth by these names alone (``unfinished_swaps``):

=================================  ==================================================================
a ``.cleaned`` file is there       the swap had not begun: it and the ``.swap`` files from it on are removed
only ``.swap`` files               the swap had begun: the old segments in their range are removed, they get their names
=================================  ==================================================================

Old files get the suffix ``.deleted`` and are removed later, so that fetches under way go on reading them. Readers find
the new segment before its files have their final names, and the old ones are renamed in a worker: thousands of small
segments may become one. Follows Kafka's ``UnifiedLog.replaceSegments``.
"""

from __future__ import annotations

from kbroker.host import Disk, File
from kbroker.log.indexes import NO_TIMESTAMP, OffsetIndex, TimeIndex
from kbroker.log.paths import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from kbroker.log.segment import RollRules
from kbroker.log.txn_index import AbortedTxn, TxnIndex
from kbroker.protocol.records.batch import BatchHeader

_WRITE_SIZE = 256 * 1024


class CleanedSegment:
    """Owned by a cleaner. Written once, front to back."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, rules: RollRules) -> None:
        """Raises ``OSError``. What an earlier attempt left is written over."""
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self._interval = rules.index_interval_bytes
        prefix = f"{directory}/{offset_name(base_offset)}"
        for suffix in SEGMENT_SUFFIXES:
            disk.remove(prefix + suffix + CLEANED_SUFFIX)
        self._file: File = disk.open(prefix + LOG_SUFFIX + CLEANED_SUFFIX, create=True)
        self._offsets = OffsetIndex(disk, prefix + INDEX_SUFFIX + CLEANED_SUFFIX, base_offset)
        self._times = TimeIndex(disk, prefix + TIME_INDEX_SUFFIX + CLEANED_SUFFIX, base_offset)
        self._txns = TxnIndex(disk, prefix + TXN_INDEX_SUFFIX + CLEANED_SUFFIX, base_offset)
        self._pending: list[bytes | memoryview] = []
        self._pending_size = 0
        self.size = 0
        self._bytes_since_index = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset

    def append(self, batch: bytes | memoryview, header: BatchHeader, max_timestamp: int) -> None:
        """Take a batch that has the offsets of ``header``. Raises ``OSError``."""
        last_offset = header.last_offset
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
        if self._bytes_since_index > self._interval:
            self._offsets.append(last_offset, self.size)
            self._times.append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_index = 0
        size = len(batch)
        self._bytes_since_index += size
        self.size += size
        self._pending.append(batch)
        self._pending_size += size
        if self._pending_size >= _WRITE_SIZE:
            self._write()

    def append_unread(self, data: bytes) -> None:
        """Take bytes that are no batches behind all others."""
        self.size += len(data)
        self._pending.append(data)
        self._pending_size += len(data)

    def append_aborted(self, aborted: AbortedTxn) -> None:
        """A transaction stays of which a marker was kept."""
        self._txns.append(aborted)

    def _write(self) -> None:
        data = b"".join(self._pending)
        self._file.pwrite(data, self.size - len(data))
        self._pending.clear()
        self._pending_size = 0

    def finish(self) -> None:
        """Write what is held back. Raises ``OSError``."""
        self._write()
        self._times.append(self._max_timestamp, self._max_timestamp_offset)
        self._offsets.write()
        self._times.write()

    def sync(self) -> None:
        """Make it durable. Blocks: call it from a worker. Raises ``OSError``."""
        self._file.sync()
        self._offsets.sync()
        self._times.sync()
        self._txns.sync()
        self._disk.sync_dir(self.directory)

    def close(self) -> None:
        for part in (self._file, self._offsets, self._times, self._txns):
            part.close()

    def remove(self) -> None:
        """Give up. Raises ``OSError``."""
        self.close()
        remove_cleaned(self._disk, self.directory, self.base_offset)


def name_swap(disk: Disk, directory: str, base_offset: int) -> None:
    """From here on a start finishes the swap. The log's name changes last. Raises ``OSError``."""
    prefix = f"{directory}/{offset_name(base_offset)}"
    for suffix in reversed(SEGMENT_SUFFIXES):
        if disk.exists(prefix + suffix + CLEANED_SUFFIX):
            disk.rename(prefix + suffix + CLEANED_SUFFIX, prefix + suffix + SWAP_SUFFIX)
    disk.sync_dir(directory)


def remove_cleaned(disk: Disk, directory: str, base_offset: int) -> None:
    """Remove what was not put in any segment's place. Raises ``OSError``."""
    prefix = f"{directory}/{offset_name(base_offset)}"
    for ending in (SWAP_SUFFIX, CLEANED_SUFFIX):
        for suffix in SEGMENT_SUFFIXES:
            disk.remove(prefix + suffix + ending)
