"""``.txnindex``: the aborted transactions that ended in a segment, which read_committed fetches name (KIP-98).

Entries of 34 bytes: version int16, producer id, first offset, last offset and the last stable offset after the abort,
int64 each. The file exists only where a transaction was aborted. Follows Kafka's ``TransactionIndex``.
"""

from __future__ import annotations

import logging
import struct
from typing import NamedTuple

from kbroker.host import Disk, File
from kbroker.log.errors import CorruptFileError, is_refusal

logger = logging.getLogger(__name__)

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction of one partition; ``last_offset`` is its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """The aborted transactions of one segment, in order of their markers. Owned by the segment."""

    __slots__ = ("_disk", "_entries", "_file", "_written", "base_offset", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._file: File | None = None
        self._entries: list[AbortedTxn] | None = None
        self._written = 0
        """How many of the entries the file has; with a full disk the others wait."""

    def _open(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def entries(self) -> list[AbortedTxn]:
        """All entries, read from the file the first time. Raises ``CorruptFileError``."""
        if self._entries is None:
            self._entries = self._load()
            self._written = len(self._entries)
        return self._entries

    def check(self) -> None:
        """Read the file and keep nothing of it. Raises ``CorruptFileError`` when it cannot be this segment's."""
        self._load()

    def _load(self) -> list[AbortedTxn]:
        try:
            data = self._disk.read(self.path)
        except FileNotFoundError:
            return []
        whole = len(data) - len(data) % _ENTRY.size
        if whole != len(data):
            raise CorruptFileError(self.path, whole, f"{len(data)} bytes are no multiple of {_ENTRY.size}")
        entries = []
        for number, (version, *fields) in enumerate(_ENTRY.iter_unpack(data)):
            if version != _VERSION:
                raise CorruptFileError(self.path, number * _ENTRY.size, f"version {version}, {_VERSION} is expected")
            entries.append(AbortedTxn(*fields))
            if entries[-1].last_offset < self.base_offset:
                raise CorruptFileError(self.path, number * _ENTRY.size, "a transaction ended before the segment")
        return entries

    def append(self, aborted: AbortedTxn) -> None:
        """Take an entry in; it is written at once if there is room, else with a later one. Raises ``OSError``."""
        self.entries().append(aborted)
        try:
            self.write()
        except OSError as error:
            if not is_refusal(error):
                raise
            logger.warning("%s: entries stay in memory until there is room: %s", self.path, error)

    def write(self) -> None:
        """Hand to the operating system what it has not got yet. Raises ``OSError``."""
        entries = self._entries
        if entries is not None and len(entries) > self._written:
            waiting = b"".join(_ENTRY.pack(_VERSION, *each) for each in entries[self._written :])
            self._open().pwrite(waiting, self._written * _ENTRY.size)
            self._written = len(entries)

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Those that touch the range, and whether later segments need not be asked."""
        found = []
        for aborted in self.entries():
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        entries = self.entries()
        count = next((n for n, aborted in enumerate(entries) if aborted.last_offset >= offset), len(entries))
        if count < len(entries):
            del entries[count:]
            self._written = min(self._written, count)
            self._open().truncate(self._written * _ENTRY.size)

    def clear(self) -> None:
        """Forget everything, whatever the file holds."""
        if self._disk.exists(self.path):
            self._open().truncate(0)
        self._entries = []
        self._written = 0

    def sync(self) -> None:
        """Make the entries durable. Called from a worker. Raises ``OSError``."""
        if self._file is not None or self._disk.exists(self.path):
            self._open().sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
