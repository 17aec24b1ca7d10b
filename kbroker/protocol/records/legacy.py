"""Record formats 0 and 1: message sets, as clients wrote and read them before KIP-98.

A message set is messages one after the other, each with an offset, its size and a CRC-32 of its own. Compressed
messages lie together in the value of a wrapper, whose offset is that of the last of them; in format 1 (KIP-31, KIP-32)
the offsets inside count from the first and each message has a timestamp. Format 0 has neither, and writes LZ4 with a
wrong header checksum. No log of this broker holds these formats: ``conversion`` makes them into batches of format 2 and
back. What a set may contain is Kafka's ``AbstractLegacyRecordBatch`` and ``LegacyRecord``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records import lz4_frames
from kbroker.protocol.records.batch import (
    CODEC_BITS,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    Record,
    TimestampType,
)
from kbroker.protocol.records.compression import (
    Compression,
    ReadableBuffer,
    compress,
    decompress,
    unknown_codec,
)
from kbroker.protocol.records.errors import CorruptRecordError, InvalidRecordError

OVERHEAD_V0: Final = 14
"""CRC, magic, attributes and the sizes of key and value: the least that a message's size can say."""

_CRC_START: Final = LOG_OVERHEAD + 4
"""The CRC covers everything from the magic on."""
_MAGIC_OFFSET: Final = 16
_LATEST_MAGIC: Final = 2

_PREFIX = struct.Struct(">qiIbb")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_CODECS = tuple(Compression)


class Message(NamedTuple):
    """One message. ``data`` is all of it; of a wrapper the value is compressed messages."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    data: memoryview

    @property
    def compression(self) -> Compression:
        try:
            return _CODECS[self.attributes & CODEC_BITS]
        except IndexError:
            raise unknown_codec(self.attributes & CODEC_BITS) from None

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic > 0 and self.attributes & TIMESTAMP_TYPE_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME


def message_views(data: ReadableBuffer) -> Iterator[tuple[int, memoryview]]:
    """Magic and bytes of the whole messages (or batches) in ``data``; a cut one at the end is left out.

    CorruptRecordError where none can begin.
    """
    view = memoryview(data)
    position = 0
    while len(view) - position >= LOG_OVERHEAD:
        size: int = _INT32.unpack_from(view, position + 8)[0]
        if size < OVERHEAD_V0:
            raise CorruptRecordError(f"Record size {size} is less than the minimum record overhead ({OVERHEAD_V0})")
        if len(view) - position <= _MAGIC_OFFSET:
            return
        magic = view[position + _MAGIC_OFFSET]
        if magic > _LATEST_MAGIC:
            raise CorruptRecordError(f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}")
        end = position + LOG_OVERHEAD + size
        if end > len(view):
            return
        yield magic, view[position:end]
        position = end


def check_crc(view: memoryview) -> None:
    """Hold the CRC of one message of format 0 or 1 against its bytes. Raises CorruptRecordError."""
    stored: int = _UINT32.unpack_from(view, LOG_OVERHEAD)[0]
    computed = zlib.crc32(view[_CRC_START:])
    if stored != computed:
        raise CorruptRecordError(f"Record is corrupt (stored crc = {stored}, computed crc = {computed})")


def read_message(view: memoryview) -> Message:
    """One message of format 0 or 1 out of all its bytes, its CRC unjudged."""
    offset, _, _, magic, attributes = _PREFIX.unpack_from(view)
    position = _PREFIX.size
    timestamp = NO_TIMESTAMP
    try:
        if magic > 0:
            (timestamp,) = _INT64.unpack_from(view, position)
            position += 8
        key, position = _sized(view, position)
        value, _ = _sized(view, position)
    except (struct.error, IndexError):
        # Kafka runs out of its buffer here and has no code for it.
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "A message is shorter than its key and value") from None
    return Message(offset, magic, attributes, timestamp, key, value, view)


def _sized(view: memoryview, position: int) -> tuple[bytes | None, int]:
    (size,) = _INT32.unpack_from(view, position)
    position += 4
    if size < 0:
        return None, position
    if position + size > len(view):
        raise IndexError
    return bytes(view[position : position + size]), position + size


def inner_messages(wrapper: Message, max_decompressed: int) -> list[Message]:
    """The messages inside a compressed one, with absolute offsets. Their CRCs and magics are unjudged.

    In format 1 the wrapper's time is theirs where it was set by a broker. InvalidRecordError, CorruptRecordError and
    the errors of ``decompress``.
    """
    codec = wrapper.compression
    if codec is Compression.ZSTD:
        raise InvalidRecordError(
            f"Invalid wrapper compressionType found in legacy deep record iterator {wrapper.magic}"
        )
    if wrapper.value is None:
        raise InvalidRecordError(f"Found invalid compressed record set with null value (magic = {wrapper.magic})")
    value = wrapper.value
    if codec is Compression.LZ4 and wrapper.magic == 0:
        value = with_right_lz4_checksum(value)
    inner = [_inner(view) for view in _inner_views(decompress(codec, value, max_decompressed))]
    if not inner:
        raise InvalidRecordError("Found invalid compressed record set with no inner records")
    if any(message.attributes & CODEC_BITS for message in inner):
        raise InvalidRecordError("Inner messages must not be compressed")
    if wrapper.magic == 0:
        return inner
    if wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME:
        inner = [message._replace(timestamp=wrapper.timestamp) if message.magic == 1 else message for message in inner]
    return _numbered(inner, wrapper.offset)


def _inner(view: memoryview) -> Message:
    magic = view[_MAGIC_OFFSET]
    if magic > 1:
        raise InvalidRecordError(f"A compressed message set holds a message of magic {magic}")
    return read_message(view)


def _inner_views(data: bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    position = 0
    while len(view) - position >= LOG_OVERHEAD:
        size: int = _INT32.unpack_from(view, position + 8)[0]
        if size < OVERHEAD_V0:
            raise CorruptRecordError(f"Record size is less than the minimum record overhead ({OVERHEAD_V0})")
        end = position + LOG_OVERHEAD + size
        if end > len(view):
            return
        yield view[position:end]
        position = end


def _numbered(inner: list[Message], wrapper_offset: int) -> list[Message]:
    """Absolute offsets for relative ones; certain producers of librdkafka leave the wrapper's at 0."""
    last = inner[-1].offset
    if wrapper_offset == 0:
        return inner
    if wrapper_offset < last:
        raise InvalidRecordError(
            f"Found invalid wrapper offset in compressed v1 message set, wrapper offset '{wrapper_offset}' is less "
            f"than the last inner message offset '{last}' and it is not zero."
        )
    base = wrapper_offset - last
    return [message._replace(offset=base + message.offset) for message in inner]


def build_message_set(
    records: Iterable[Record],
    magic: int,
    *,
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Write records as messages with their own offsets; compressed, in one wrapper. No records: no bytes.

    Headers are left out, and in format 0 timestamps: there is no place for them.
    """
    attributes = TIMESTAMP_TYPE_BIT if magic and timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    body = bytearray()
    base: int | None = None
    last_offset = 0
    largest = NO_TIMESTAMP
    for record in records:
        if base is None:
            base = record.offset if magic and compression else 0
        last_offset = record.offset
        largest = max(largest, record.timestamp)
        _append_message(body, record.offset - base, magic, attributes, record.timestamp, record.key, record.value)
    if base is None or not compression:
        return bytes(body)
    value = compress(compression, body)
    if compression is Compression.LZ4 and magic == 0:
        value = with_wrong_lz4_checksum(value)
    wrapper = bytearray()
    _append_message(wrapper, last_offset, magic, attributes | compression, largest, None, value)
    return bytes(wrapper)


def _append_message(
    body: bytearray,
    offset: int,
    magic: int,
    attributes: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
) -> None:
    parts = [bytes((magic, attributes))]
    if magic:
        parts.append(_INT64.pack(timestamp))
    for data in (key, value):
        if data is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            parts += (_INT32.pack(len(data)), data)
    content = b"".join(parts)
    body += struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content))
    body += content


# Format 0 computed the checksum of LZ4's frame descriptor over the frame's magic too (KAFKA-3160).


def with_right_lz4_checksum(frame: bytes) -> bytes:
    """The frame as LZ4's own library takes it; what is no frame is left as it is."""
    return _with_lz4_checksum(frame, first=len(lz4_frames.MAGIC))


def with_wrong_lz4_checksum(frame: bytes) -> bytes:
    """The frame as readers of format 0 want it."""
    return _with_lz4_checksum(frame, first=0)


def _with_lz4_checksum(frame: bytes, first: int) -> bytes:
    if frame[: len(lz4_frames.MAGIC)] != lz4_frames.MAGIC or len(frame) < 7:
        return frame
    flags = frame[4]
    end = lz4_frames.descriptor_end(flags)
    if flags & lz4_frames.DICTIONARY_BIT or len(frame) <= end:
        return frame
    checksum = lz4_frames.descriptor_checksum(frame[first:end])
    return frame[:end] + bytes((checksum,)) + frame[end + 1 :]
