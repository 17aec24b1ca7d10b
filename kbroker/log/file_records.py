"""A range of a log file that travels to a fetcher without being parsed."""

from __future__ import annotations

from kbroker.host import File


class FileRecords:
    """Records that lie in a log file, to be read in pieces as a socket drains.

    ``size`` bytes from ``position``; small ones that finding them has read already come along in ``data``. Appends do
    not change the range. ``base_offset`` is that of its first batch, which may be below the offset that was asked
    for. Where a reader's limit cuts the range inside of a batch, ``whole_size`` says where a batch before that ends.
    """

    __slots__ = ("_data", "base_offset", "file", "position", "size", "whole_size")

    def __init__(
        self,
        file: File,
        position: int,
        size: int,
        base_offset: int,
        data: bytes | None = None,
        whole_size: int | None = None,
    ) -> None:
        self.file = file
        self.position = position
        self.size = size
        self.base_offset = base_offset
        self.whole_size = size if whole_size is None else whole_size
        self._data = data

    def leave_out_cut_batch(self) -> None:
        """End where a whole batch ends: no reader can use the begin of the next one, and each asks for it again."""
        self.size = self.whole_size

    def __len__(self) -> int:
        return self.size

    def read(self, position: int, size: int) -> bytes:
        """At most ``size`` bytes from ``position`` within the range. Raises ``OSError``."""
        size = min(size, self.size - position)
        if self._data is not None:
            return self._data[position : position + size]
        return self.file.pread(size, self.position + position)

    def to_bytes(self) -> bytes:
        """The whole range. Raises ``OSError``."""
        if self._data is not None:
            return self._data
        return self.file.pread(self.size, self.position)
