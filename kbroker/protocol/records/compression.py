"""The codecs of record batches, with a hard limit on what comes out.

Formats are those of Kafka's Java client: gzip (RFC 1952), snappy in the framing of xerial's snappy-java (a bare snappy
block is read too, as Java does), the LZ4 frame with independent blocks of 64 KiB, zstd (KIP-110). Levels: KIP-390.
A codec's library is imported when the codec is first used. Decompression runs in steps and stops at the limit, so that
a small batch cannot claim much memory.
"""

from __future__ import annotations

import struct
import sys
import zlib
from enum import IntEnum
from types import ModuleType
from typing import Protocol, TypeAlias

from kbroker.protocol.records import lz4_frames
from kbroker.protocol.records.errors import DecompressedTooLargeError, DecompressionError

ReadableBuffer: TypeAlias = bytes | bytearray | memoryview

MAX_DECOMPRESSED = 2**31 - 9
"""Kafka's default and largest ``max.decompressed.message.bytes``: the longest array of Java."""


class Compression(IntEnum):
    """Kafka's ``CompressionType``: the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK = 32 * 1024
SNAPPY_GROWTH = 64
"""A snappy element of two bytes yields at most 64: a block that claims more lies about its length."""

LZ4_DEFAULT_LEVEL = 9
"""Kafka's name for the fast compressor; every other level is the high-compression one (KIP-390)."""

_LZ4_CHECKSUM_SIZE = 4

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_GZIP_HEADER_SIZE = 10
_GZIP_MEMBER_MIN = 19
"""Java does not look whether less than that is another member."""
_GZIP_FLAGS_AT = 3
_GZIP_FLAGS_KNOWN = 0x1F
"""Java does not mind the others."""
_GZIP_EFFORT_AT = 8
_GZIP_EFFORT_UNKNOWN = 0
"""What Java writes where zlib says whether it was told to be fast or thorough."""
_GZIP_SYSTEM_AT = 9
_GZIP_SYSTEM_UNKNOWN = 255
"""What Java writes where zlib says on which operating system it ran."""


def compress(codec: Compression, data: ReadableBuffer, level: int | None = None) -> bytes:
    """Compress as Kafka's Java client does; ``level`` None is the codec's default."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
            packed = bytearray(deflate.compress(data) + deflate.flush())
            packed[_GZIP_EFFORT_AT] = _GZIP_EFFORT_UNKNOWN
            packed[_GZIP_SYSTEM_AT] = _GZIP_SYSTEM_UNKNOWN
            return bytes(packed)
        case Compression.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            return _compress_zstd(data, level)


def decompress(codec: int, data: ReadableBuffer, limit: int) -> bytes:
    """Decompress at most ``limit`` bytes; DecompressedTooLargeError beyond, DecompressionError for any garbage."""
    if codec == Compression.NONE:
        if len(data) > limit:
            raise _too_large(limit)
        return bytes(data)
    if codec == Compression.GZIP:
        return _decompress_gzip(data, limit)
    if codec == Compression.SNAPPY:
        return _decompress_snappy(memoryview(data), limit)
    if codec == Compression.LZ4:
        return _decompress_lz4(data, limit)
    if codec == Compression.ZSTD:
        return _decompress_zstd(data, limit)
    raise unknown_codec(codec)


def unknown_codec(codec: int) -> DecompressionError:
    return DecompressionError(f"Unknown compression type id: {codec}")


def _too_large(limit: int) -> DecompressedTooLargeError:
    return DecompressedTooLargeError(f"The decompressed records exceed the limit of {limit} bytes")


class _Stream(Protocol):
    """What zstd's and LZ4's decompressors have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: ReadableBuffer, max_length: int = -1) -> bytes: ...


def _run(stream: _Stream, data: ReadableBuffer, room: int, pieces: list[bytes]) -> int:
    """Put what one frame holds behind ``pieces``; the room that is left, below 0 if it was too small."""
    source: ReadableBuffer = data
    while room >= 0 and not stream.eof:
        piece = stream.decompress(source, min(room + 1, 1 << 20))
        if not piece and not stream.eof and not len(source):
            raise DecompressionError("The compressed records end in the middle of a frame", b"".join(pieces))
        source = b""
        room -= len(piece)
        pieces.append(piece)
    return room


def _decompress_gzip(data: ReadableBuffer, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    source: ReadableBuffer = data
    while True:
        if len(source) > _GZIP_HEADER_SIZE and source[_GZIP_FLAGS_AT] > _GZIP_FLAGS_KNOWN:
            source = bytearray(source)
            source[_GZIP_FLAGS_AT] &= _GZIP_FLAGS_KNOWN
        inflate = zlib.decompressobj(_GZIP_WINDOW)
        try:
            piece = inflate.decompress(source, limit + 1 - size)
        except zlib.error as error:
            if pieces:  # as Java: what follows a whole member and is no member is ignored
                break
            raise DecompressionError(f"The records are not valid gzip data: {error}", _inflated(data, limit)) from error
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
        if not inflate.eof:
            raise DecompressionError("The gzip data of the records is cut short", b"".join(pieces))
        source = inflate.unused_data
        if len(source) < _GZIP_MEMBER_MIN:
            break
    return b"".join(pieces)


def _inflated(data: ReadableBuffer, limit: int) -> bytes:
    """What a gzip member holds whose checksum is wrong; nothing if more than that is."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        return inflate.decompress(memoryview(data)[_GZIP_HEADER_SIZE:], limit)
    except zlib.error:
        return b""


def _compress_snappy(data: memoryview) -> bytes:
    import snappy

    pieces = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK):
        block = snappy.compress(bytes(data[start : start + XERIAL_BLOCK]))
        pieces.append(struct.pack(">i", len(block)))
        pieces.append(block)
    return b"".join(pieces)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _decompress_snappy_block(data, limit)
    pieces: list[bytes] = []
    room = limit
    position = len(XERIAL_HEADER)
    if len(data) < position:
        raise DecompressionError("The snappy data of the records is cut short")
    while len(data) - position >= 4:  # less than the size of a block is taken for the end
        if data[position : position + len(XERIAL_MAGIC)] == XERIAL_MAGIC:  # streams may be joined
            position += len(XERIAL_HEADER)
            continue
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 < size <= len(data) - position:
            raise DecompressionError(f"A snappy block claims {size} bytes, {len(data) - position} are left")
        piece = _decompress_snappy_block(data[position : position + size], room)
        room -= len(piece)
        pieces.append(piece)
        position += size
    return b"".join(pieces)


def _decompress_snappy_block(block: memoryview, room: int) -> bytes:
    import snappy

    claimed = 0
    for index, byte in enumerate(block[:5]):
        claimed |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            break
    else:
        raise DecompressionError("A snappy block has no length")
    # The library reserves what the block claims, so that the claim is judged first.
    if claimed > len(block) * SNAPPY_GROWTH:
        raise DecompressionError(f"A snappy block of {len(block)} bytes claims to hold {claimed}")
    if claimed > room:
        raise _too_large(room)
    try:
        data: bytes = snappy.decompress(bytes(block))
    except snappy.UncompressError as error:
        raise DecompressionError("The records are not valid snappy data") from error
    return data


def _compress_lz4(data: ReadableBuffer, level: int | None) -> bytes:
    import lz4.frame

    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None or level == LZ4_DEFAULT_LEVEL else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def _decompress_lz4(data: ReadableBuffer, limit: int) -> bytes:
    import lz4.frame

    stream = lz4.frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    try:
        # What follows the frame is ignored, as Java does.
        room = _run(stream, lz4_frames.without_totals(data), limit, pieces)
    except (RuntimeError, EOFError, ValueError) as error:
        raise DecompressionError(f"The records are not a valid LZ4 frame: {error}", b"".join(pieces)) from error
    if room < 0:
        raise _too_large(limit)
    content = b"".join(pieces)
    if lz4_frames.has_content_checksum(data) and len(stream.unused_data or b"") < _LZ4_CHECKSUM_SIZE:
        raise DecompressionError("The LZ4 frame of the records ends within its checksum", content)
    return content


if sys.version_info >= (3, 14):

    def _compress_zstd(data: ReadableBuffer, level: int | None) -> bytes:
        from compression import zstd

        return _zstd_frame(zstd, data, level)

    def _decompress_zstd(data: ReadableBuffer, limit: int) -> bytes:
        from compression import zstd

        return _decompress_frames(zstd.ZstdDecompressor, zstd.ZstdError, data, limit)

else:

    def _compress_zstd(data: ReadableBuffer, level: int | None) -> bytes:
        from backports import zstd

        return _zstd_frame(zstd, data, level)

    def _decompress_zstd(data: ReadableBuffer, limit: int) -> bytes:
        from backports import zstd

        return _decompress_frames(zstd.ZstdDecompressor, zstd.ZstdError, data, limit)


def _zstd_frame(zstd: ModuleType, data: ReadableBuffer, level: int | None) -> bytes:
    """As Java's stream makes it: a frame that does not tell its size, and flushed before it is closed."""
    parameter = zstd.CompressionParameter
    options = {
        parameter.content_size_flag: 0,
        parameter.compression_level: zstd.COMPRESSION_LEVEL_DEFAULT if level is None else level,
    }
    compressor = zstd.ZstdCompressor(options=options)
    compressed: bytes = compressor.compress(data, compressor.FLUSH_BLOCK) + compressor.flush()
    return compressed


def _decompress_frames(stream: type[_Stream], failure: type[Exception], data: ReadableBuffer, limit: int) -> bytes:
    pieces: list[bytes] = []
    room = limit
    source: ReadableBuffer | None = data
    while source:
        frame = stream()
        try:
            room = _run(frame, source, room, pieces)
        except failure as error:
            raise DecompressionError(f"The records are not valid zstd data: {error}", b"".join(pieces)) from error
        if room < 0:
            raise _too_large(limit)
        source = frame.unused_data
    return b"".join(pieces)
