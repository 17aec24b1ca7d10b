"""Taking records out of a batch, for compaction: which there are, and the batch that the kept ones make.

A record's bytes hold its offset and its time as differences to the batch's header, so that records which stay are
copied as they are, unparsed but for key and lengths. Offsets, sequences and what the batch spans never change: the
last sequence of a producer outlives its records (KIP-98). Times are written anew where the base timestamp changes: it
is that of the first record that stays, or the delete horizon (KIP-534). Codecs are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from kbroker.protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_BITS,
    DELETE_HORIZON_BIT,
    KNOWN_BITS,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    pack_batch,
)
from kbroker.protocol.records.compression import ReadableBuffer, compress, decompress
from kbroker.protocol.records.errors import InvalidRecordError

Span: TypeAlias = tuple[int, int, bytes | None, bool, int, int, int]
"""Offset delta, timestamp delta, key, whether it has a value, where the record starts, where what follows its
timestamp starts, and where it ends."""

_PREMATURE = "Incorrect declared batch size, premature EOF reached"


def records_of(header: BatchHeader, batch: ReadableBuffer, max_decompressed: int) -> bytes:
    """The decompressed records of a batch. Raises as ``decompress`` does."""
    payload = memoryview(batch)[BATCH_OVERHEAD : header.size]
    codec = header.compression
    return decompress(codec, payload, max_decompressed) if codec else bytes(payload)


def spans(data: bytes, count: int) -> Iterator[Span]:
    """The ``count`` records of ``data`` in order. InvalidRecordError where they are not what they should be."""
    position = 0
    length = len(data)
    try:
        for _ in range(count):
            start = position
            if (size := data[position]) < 0x80:
                size = size >> 1 ^ -(size & 1)
                position += 1
            else:
                size, position = _varint(data, position)
            end = position + size
            if (timestamp := data[position + 1]) < 0x80:
                timestamp = timestamp >> 1 ^ -(timestamp & 1)
                position += 2
            else:
                timestamp, position = _varint(data, position + 1)
            rest = position
            if (offset := data[position]) < 0x80:
                offset = offset >> 1 ^ -(offset & 1)
                position += 1
            else:
                offset, position = _varint(data, position)
            if (size := data[position]) < 0x80:
                size = size >> 1 ^ -(size & 1)
                position += 1
            else:
                size, position = _varint(data, position)
            key = None
            if size >= 0:
                key = data[position : position + size]
                position += size
            # The varint of a null value is 1, whatever follows.
            has_value = data[position] != 1
            if not position < end <= length:
                raise InvalidRecordError(f"Invalid record size: a record ends at byte {end} of {length}")
            yield offset, timestamp, key, has_value, start, rest, end
            position = end
    except IndexError:
        raise InvalidRecordError(_PREMATURE) from None
    if position != length:
        raise InvalidRecordError("Incorrect declared batch size, records still remaining in file")


def batch_of(header: BatchHeader, data: bytes, kept: Sequence[Span], delete_horizon: int | None = None) -> bytes:
    """The batch that is left of ``header``'s when only ``kept`` of its records, at least one, stay.

    ``delete_horizon`` sets one where there was none.
    """
    attributes = header.attributes & KNOWN_BITS
    was_based_on = base_timestamp = header.base_timestamp
    found = [span[1] for span in kept]
    if attributes & TIMESTAMP_TYPE_BIT:
        max_timestamp = header.max_timestamp
        deltas = [max_timestamp - was_based_on] * len(kept)
    else:
        max_timestamp = was_based_on + max(found)
        deltas = found
    if delete_horizon is not None:
        base_timestamp = delete_horizon
        attributes |= DELETE_HORIZON_BIT
    elif not attributes & DELETE_HORIZON_BIT:
        base_timestamp += deltas[0]
    if base_timestamp != was_based_on:
        deltas = [delta + was_based_on - base_timestamp for delta in deltas]
    body = _copied(data, kept) if deltas == found else _timed(data, kept, deltas)
    codec = header.compression
    payload = compress(codec, body) if codec else body
    return _in_place_of(header, attributes, base_timestamp, max_timestamp, len(kept), payload)


def empty_batch(header: BatchHeader) -> bytes:
    """A batch without records in the place of ``header``'s, which keeps its offsets and its producer's sequence."""
    attributes = header.attributes & KNOWN_BITS & ~(CODEC_BITS | DELETE_HORIZON_BIT)
    return _in_place_of(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _in_place_of(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, payload: bytes
) -> bytes:
    return pack_batch(
        header.base_offset,
        header.partition_leader_epoch,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
        payload,
    )


def _copied(data: bytes, kept: Sequence[Span]) -> bytes:
    pieces = []
    start, end = kept[0][4], kept[0][6]
    for span in kept:
        if span[4] > end:
            pieces.append(data[start:end])
            start = span[4]
        end = span[6]
    pieces.append(data[start:end])
    return b"".join(pieces)


def _timed(data: bytes, kept: Sequence[Span], deltas: Sequence[int]) -> bytes:
    """The records with other timestamp deltas."""
    out = bytearray()
    for (_, _, _, _, start, rest, end), delta in zip(kept, deltas, strict=True):
        _, attributes = _varint(data, start)
        stamp = _zigzag(delta)
        out += _zigzag(1 + len(stamp) + end - rest)
        out += data[attributes : attributes + 1]
        out += stamp
        out += data[rest:end]
    return bytes(out)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise InvalidRecordError("Found invalid record structure: a varint is longer than 10 bytes")


def _zigzag(value: int) -> bytes:
    encoded = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while encoded >= 0x80:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    out.append(encoded)
    return bytes(out)
