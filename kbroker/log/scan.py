"""Walking the batches of a log file by their headers, without holding more than a chunk of it.

What stands where a batch should begin is judged only as far as walking needs it: magic and length. The CRC is the
business of recovery, which asks for whole batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kbroker.host import File
from kbroker.log.errors import CorruptFileError, CutBatchError
from kbroker.protocol.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD, MAGIC, BatchHeader, read_header

_LOCATOR = struct.Struct(">qi4xb4x2xi")
"""Base offset, length, magic, last offset delta."""
SEARCH_CHUNK = 8 * 1024
_SCAN_CHUNK = 1024 * 1024


def check_frame(path: str, position: int, batch_length: int, magic: int, available: int) -> int:
    """The size of a batch by its header's first fields. Raises ``CorruptFileError`` when none can begin there."""
    size = batch_length + LOG_OVERHEAD
    if size < BATCH_OVERHEAD:
        raise CorruptFileError(path, position, f"a batch of {size} bytes, {BATCH_OVERHEAD} are the least")
    if magic != MAGIC:
        raise CorruptFileError(path, position, f"a batch of format {magic}, {MAGIC} is expected")
    if size > available:
        raise CutBatchError(path, position, f"a batch of {size} bytes, the file has {available} left")
    return size


class FoundBatch(NamedTuple):
    """A batch, and the chunk of the file (at ``chunk_position``) it was seen in: often the whole answer of a fetch."""

    position: int
    size: int
    base_offset: int
    chunk: bytes
    chunk_position: int


def find_batch(file: File, position: int, end: int, offset: int) -> FoundBatch | None:
    """The first batch from ``position`` on whose last offset is not below ``offset``; None when the file ends first.

    Raises ``CorruptFileError``.
    """
    locate = _LOCATOR.unpack_from
    chunk, start = b"", position
    chunk_end = position - 1
    while end - position >= BATCH_OVERHEAD:
        if chunk_end - position < BATCH_OVERHEAD:
            start = position
            chunk = file.pread(min(SEARCH_CHUNK, end - position), position)
            chunk_end = position + len(chunk)
            if len(chunk) < BATCH_OVERHEAD:
                break
        at = position - start
        base_offset, length, magic, delta = locate(chunk, at)
        size = length + LOG_OVERHEAD
        if magic != MAGIC or not BATCH_OVERHEAD <= size <= end - position:
            check_frame(file.path, position, length, magic, end - position)
        if base_offset + delta >= offset:
            return FoundBatch(position, size, base_offset, chunk, start)
        position += size
    if end > position:
        raise CutBatchError(file.path, position, f"{end - position} bytes are too few for a batch")
    return None


def scan_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch. Raises ``CorruptFileError`` where no whole batch can begin."""
    chunk, start = b"", position
    while position < end:
        at = position - start
        if len(chunk) - at < BATCH_OVERHEAD:
            start, at = position, 0
            chunk = file.pread(min(SEARCH_CHUNK, end - position), position)
            if len(chunk) < BATCH_OVERHEAD:
                raise CutBatchError(file.path, position, f"{end - position} bytes are too few for a batch")
        header = read_header(chunk, at)
        size = check_frame(file.path, position, header.batch_length, header.magic, end - position)
        yield position, header
        position += size


def scan_batches(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of every batch. Raises ``CorruptFileError`` where no whole batch can begin."""
    chunk, start, chunk_size = memoryview(b""), position, 0
    while position < end:
        at = position - start
        if chunk_size - at < BATCH_OVERHEAD:
            start, at = position, 0
            chunk = memoryview(file.pread(min(_SCAN_CHUNK, end - position), position))
            chunk_size = len(chunk)
            if chunk_size < BATCH_OVERHEAD:
                raise CutBatchError(file.path, position, f"{end - position} bytes are too few for a batch")
        header = read_header(chunk, at)
        size = header.batch_length + LOG_OVERHEAD
        if header.magic != MAGIC or not BATCH_OVERHEAD <= size <= end - position:
            check_frame(file.path, position, header.batch_length, header.magic, end - position)
        if chunk_size - at < size:
            start, at = position, 0
            chunk = memoryview(file.pread(max(size, min(_SCAN_CHUNK, end - position)), position))
            chunk_size = len(chunk)
            if chunk_size < size:
                raise CutBatchError(file.path, position, f"a batch of {size} bytes, the file ends before")
        yield position, header, chunk[at : at + size]
        position += size


def is_reserved(file: File, position: int) -> bool:
    """Whether nothing but zeros stands from ``position`` on: room that ``preallocate`` of Apache Kafka took, and that a
    broker which was killed did not give back.
    """
    size = file.size()
    while position < size:
        chunk = file.pread(min(_SCAN_CHUNK, size - position), position)
        if chunk.strip(b"\0"):
            return False
        position += len(chunk)
    return True
