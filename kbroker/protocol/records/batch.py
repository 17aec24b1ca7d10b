"""One record batch of format version 2: its header, its records, and the fields a broker patches in place.

The header is 61 bytes. Base offset, length, partition leader epoch and magic lie before the CRC and what it covers, so
that a leader assigns offset and epoch without touching it; maximum timestamp and timestamp type lie behind it. Records
are varint-coded deltas to the header, compressed as one block. Formats: KIP-98 (version 2), KIP-82 (headers), KIP-534
(delete horizon). The rules for a producer's batch are in ``validation``; here only what cannot be read is refused.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from kbroker.protocol.records.checksum import crc32c
from kbroker.protocol.records.compression import (
    MAX_DECOMPRESSED,
    Compression,
    ReadableBuffer,
    compress,
    decompress,
    unknown_codec,
)
from kbroker.protocol.records.errors import (
    CorruptRecordError,
    DecompressionError,
    InvalidRecordError,
    PrematureEndError,
)

BATCH_OVERHEAD: Final = 61
LOG_OVERHEAD: Final = 12
"""Base offset and length: what a batch's length does not count."""
MAGIC: Final = 2
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21
"""The CRC covers everything from here."""
ATTRIBUTE_BITS_OFFSET: Final = 22
"""Of the two bytes of attributes the one whose bits have a meaning."""

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

CODEC_BITS: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
KNOWN_BITS: Final = 0x7F

_HEADER = struct.Struct(">qiibIhiqqqhii")
_UINT32 = struct.Struct(">I")
_ATTRIBUTES_TO_MAX_TIMESTAMP = struct.Struct(">hiqq")
_CODECS = tuple(Compression)
_MAX_SEQUENCE = 2**31 - 1

WritableBuffer: TypeAlias = bytearray | memoryview


class TimestampType(IntEnum):
    """Who set the timestamps of a batch's records: ``message.timestamp.type``."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before a batch's records, as they stand there."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        try:
            return _CODECS[self.attributes & CODEC_BITS]
        except IndexError:
            raise unknown_codec(self.attributes & CODEC_BITS) from None

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon(self) -> int | None:
        """When the cleaner may drop the batch's tombstones; it takes the place of the base timestamp (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequences go from 0 again after the largest int32."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, increment: int) -> int:
    if sequence > _MAX_SEQUENCE - increment:
        return increment - (_MAX_SEQUENCE - sequence) - 1
    return sequence + increment


def read_header(data: ReadableBuffer, position: int = 0) -> BatchHeader:
    """The header at ``position``, unjudged. CorruptRecordError when fewer than 61 bytes are there."""
    try:
        # What BatchHeader._make does, three times as fast.
        return tuple.__new__(BatchHeader, _HEADER.unpack_from(data, position))
    except struct.error:
        raise CorruptRecordError(
            f"Record batch is corrupt (the size {len(data) - position} is smaller than the minimum allowed overhead "
            f"{BATCH_OVERHEAD})"
        ) from None


def batches(data: ReadableBuffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches in ``data``; a cut one at the end is left out. CorruptRecordError where no batch can begin."""
    view = memoryview(data)
    position = 0
    while len(view) - position >= BATCH_OVERHEAD:
        header = read_header(view, position)
        if header.magic != MAGIC:
            raise CorruptRecordError(f"Invalid magic found in record: {header.magic}")
        if header.size < BATCH_OVERHEAD:
            raise CorruptRecordError(
                f"Record batch is corrupt (the size {header.size} is smaller than the minimum allowed overhead "
                f"{BATCH_OVERHEAD})"
            )
        end = position + header.size
        if end > len(view):
            return
        yield header, view[position:end]
        position = end


def crc_is_right(batch: ReadableBuffer) -> bool:
    """Hold the CRC-32C of one batch (all of it and nothing behind it) against the one in its header."""
    view = memoryview(batch)
    if len(view) < BATCH_OVERHEAD:
        return False
    stored: int = _UINT32.unpack_from(view, CRC_OFFSET)[0]
    return crc32c(view[ATTRIBUTES_OFFSET:]) == stored


def set_max_timestamp(
    buffer: WritableBuffer, position: int, max_timestamp: int, timestamp_type: TimestampType = TimestampType.CREATE_TIME
) -> None:
    """Set maximum timestamp and timestamp type, then the CRC. As in Kafka, unknown attribute bits do not survive."""
    header = read_header(buffer, position)
    attributes = header.attributes & KNOWN_BITS & ~TIMESTAMP_TYPE_BIT
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_BIT
    start = position + ATTRIBUTES_OFFSET
    _ATTRIBUTES_TO_MAX_TIMESTAMP.pack_into(
        buffer, start, attributes, header.last_offset_delta, header.base_timestamp, max_timestamp
    )
    crc = crc32c(memoryview(buffer)[start : position + header.size])
    _UINT32.pack_into(buffer, position + CRC_OFFSET, crc)


class Record(NamedTuple):
    """One record. Bytes of a header's key that are no UTF-8 are kept as surrogates, so that it is written as it was."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def read_records(
    batch: ReadableBuffer, *, max_decompressed: int, max_record: int = MAX_DECOMPRESSED, partially: bool = False
) -> Iterator[Record]:
    """The records of one batch.

    ``partially``: in a compressed batch nobody looks whether a record is as long as it says.

    InvalidRecordError for a wrong structure or, in a compressed batch, a record of more than ``max_record`` bytes,
    DecompressionError for data its codec refuses, DecompressedTooLargeError for more than ``max_decompressed`` bytes of
    records. Records before the wrong one have been given by then.
    """
    header = read_header(batch)
    if header.record_count < 0:
        raise InvalidRecordError(f"Found invalid record count {header.record_count} in magic v{header.magic} batch")
    if header.record_count == 0:
        return iter(())
    payload = memoryview(batch)[BATCH_OVERHEAD : header.size]
    if codec := header.compression:
        try:
            return _parse(header, decompress(codec, payload, max_decompressed), max_record, partially=partially)
        except DecompressionError as error:
            return _read_up_to(error, _parse(header, error.before, max_record, partially=partially))
    return _parse(header, bytes(payload), MAX_DECOMPRESSED)


def _read_up_to(error: DecompressionError, records: Iterator[Record]) -> Iterator[Record]:
    """What is wrong with records comes before what is wrong with the end of their data."""
    with contextlib.suppress(PrematureEndError):
        yield from records
    raise error


def _parse(header: BatchHeader, data: bytes, max_record: int, *, partially: bool = False) -> Iterator[Record]:
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    length = len(data)
    position = 0
    try:
        for _ in range(header.record_count):
            # One byte is by far the most frequent varint, and a call costs more than reading it.
            if (size := data[position]) < 0x80:
                size = size >> 1 ^ -(size & 1)
                position += 1
            else:
                size, position = _varint(data, position)
            if not 0 <= size <= max_record:
                raise InvalidRecordError(
                    f"Invalid record size: {size} exceeds the configured maximum record size of {max_record}."
                    if size > 0
                    else f"Invalid record size: {size} is negative"
                )
            end = position + size
            if (timestamp := data[position + 1]) < 0x80:  # past the record's attributes, which mean nothing yet
                timestamp = timestamp >> 1 ^ -(timestamp & 1)
                position += 2
            else:
                timestamp, position = _varint(data, position + 1, 10)
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
            if (size := data[position]) < 0x80:
                size = size >> 1 ^ -(size & 1)
                position += 1
            else:
                size, position = _varint(data, position)
            value = None
            if size >= 0:
                value = data[position : position + size]
                position += size
            headers: Sequence[tuple[str, bytes | None]] = ()
            if data[position]:
                headers, position = _read_headers(data, position)
            else:
                position += 1
            if position != end and not partially:
                raise InvalidRecordError(f"Invalid record size: a record ends at byte {position} instead of {end}")
            if position > length:
                raise IndexError
            timestamp = _int64(base_timestamp + timestamp) if append_time is None else append_time
            yield Record(base_offset + offset, timestamp, key, value, headers)
    except IndexError:
        raise PrematureEndError("Incorrect declared batch size, premature EOF reached") from None
    if position != length:
        raise InvalidRecordError("Incorrect declared batch size, records still remaining in file")


def _read_headers(data: bytes, position: int) -> tuple[list[tuple[str, bytes | None]], int]:
    count, position = _varint(data, position)
    if not 0 <= count <= len(data) - position:
        raise InvalidRecordError(f"Found invalid number of record headers {count}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = _varint(data, position)
        if size < 0:
            raise InvalidRecordError(f"Invalid negative header key size {size}")
        name = data[position : position + size].decode(errors="surrogateescape")
        size, position = _varint(data, position + size)
        value = None
        if size >= 0:
            value = data[position : position + size]
            position += size
        headers.append((name, value))
    return headers, position


def _varint(data: bytes, position: int, longest: int = 5) -> tuple[int, int]:
    """A zigzag varint of at most ``longest`` bytes (5: int32, 10: int64), cut to that width as in Java."""
    byte = data[position]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), position + 1
    value = byte & 0x7F
    byte = data[position + 1]
    if byte < 0x80:
        value |= byte << 7
        return value >> 1 ^ -(value & 1), position + 2
    for index in range(1, longest):
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            value &= 0xFFFFFFFF if longest == 5 else 0xFFFFFFFFFFFFFFFF
            return value >> 1 ^ -(value & 1), position + index + 1
    raise InvalidRecordError(f"Found invalid record structure: a varint is longer than {longest} bytes")


def _int64(value: int) -> int:
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value
    return (value + 0x8000000000000000) % 0x10000000000000000 - 0x8000000000000000


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    keep_offsets: bool = False,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_timestamp: int | None = None,
    delete_horizon: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Write records as one batch.

    They are numbered from ``base_offset``; with ``keep_offsets`` they keep their own (a cleaner leaves gaps) and
    ``last_offset`` says what the batch spans. ``max_timestamp`` is the largest of the records' unless given: under
    LOG_APPEND_TIME it is the time of the append and has to be. An empty batch keeps a producer's sequence alive.
    """
    first_timestamp: int | None = None
    largest = NO_TIMESTAMP
    last_delta = -1
    count = 0
    body = bytearray()
    for record in records:
        if first_timestamp is None:
            first_timestamp = record.timestamp if delete_horizon is None else delete_horizon
        if record.timestamp > largest:
            largest = record.timestamp
        last_delta = record.offset - base_offset if keep_offsets else count
        count += 1
        _append_record(body, last_delta, _int64(record.timestamp - first_timestamp), record)
    if first_timestamp is None:
        first_timestamp = NO_TIMESTAMP if delete_horizon is None else delete_horizon
    if last_offset is not None:
        last_delta = last_offset - base_offset
    if last_delta < 0:
        raise ValueError("an empty batch needs last_offset")
    if max_timestamp is None:
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            raise ValueError("LOG_APPEND_TIME needs max_timestamp, the time of the append")
        max_timestamp = largest
    attributes = compression | (TIMESTAMP_TYPE_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
    attributes |= (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
    attributes |= DELETE_HORIZON_BIT if delete_horizon is not None else 0
    payload = compress(compression, body, level) if compression and count else body
    return pack_batch(
        base_offset,
        leader_epoch,
        attributes,
        last_delta,
        first_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
        payload,
    )


def pack_batch(
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
    payload: ReadableBuffer,
) -> bytes:
    """The batch of these records, which are compressed as the attributes say; its length and CRC are made here."""
    batch = bytearray(BATCH_OVERHEAD)
    batch += payload
    _HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    _UINT32.pack_into(batch, CRC_OFFSET, crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]))
    return bytes(batch)


def _append_record(out: bytearray, offset_delta: int, timestamp_delta: int, record: Record) -> None:
    _, _, key, value, headers = record
    body = bytearray(1)
    _append_varint(body, timestamp_delta)
    _append_varint(body, offset_delta)
    if key is None:
        body.append(1)  # the varint of -1
    else:
        _append_varint(body, len(key))
        body += key
    if value is None:
        body.append(1)
    else:
        _append_varint(body, len(value))
        body += value
    _append_varint(body, len(headers))
    for name, content in headers:
        encoded = name.encode(errors="surrogateescape")
        _append_varint(body, len(encoded))
        body += encoded
        _append_varint(body, -1 if content is None else len(content))
        body += content or b""
    _append_varint(out, len(body))
    out += body


def _append_varint(out: bytearray, value: int) -> None:
    rest = value << 1 ^ value >> 63
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
