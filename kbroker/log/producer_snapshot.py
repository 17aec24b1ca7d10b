"""``.snapshot`` files: the producers of a log at an offset, in the schema of Kafka's ``ProducerSnapshot`` version 1.

Version int16, CRC-32C uint32 of what follows it, count int32, then 46 bytes for each producer. Only the last batch of
a producer is kept, so that after a restart only that one is recognised as a duplicate, as in Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from kbroker.log.errors import CorruptFileError
from kbroker.protocol.records.checksum import crc32c

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1


class ProducerEntry(NamedTuple):
    """One producer; ``last_offset`` is -1 without a data batch, ``current_txn_first_offset`` outside a transaction."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode(path: str, data: bytes) -> list[ProducerEntry]:
    """Raises ``CorruptFileError``."""
    start = _HEAD.size + _COUNT.size
    if len(data) < start:
        raise CorruptFileError(path, len(data), f"{start} bytes are the least")
    version, crc = _HEAD.unpack_from(data)
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    if version != _VERSION:
        raise CorruptFileError(path, 0, f"version {version}, {_VERSION} is expected")
    if crc != crc32c(memoryview(data)[_HEAD.size :]):
        raise CorruptFileError(path, 2, "the CRC does not match")
    if len(data) != start + count * _ENTRY.size:
        raise CorruptFileError(path, _HEAD.size, f"{count} producers do not fit {len(data)} bytes")
    return [ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(data[start:])]
