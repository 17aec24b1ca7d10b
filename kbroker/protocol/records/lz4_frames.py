"""What the head of an LZ4 frame says, where Kafka's Java client and LZ4's own library differ.

Java takes independent blocks only, and does not look at what a frame says of its whole content, size or checksum.
"""

from __future__ import annotations

from typing import Final

from kbroker.protocol.records.errors import DecompressionError

MAGIC: Final = b"\x04\x22\x4d\x18"
DICTIONARY_BIT: Final = 0x01
CONTENT_CHECKSUM_BIT: Final = 0x04
CONTENT_SIZE_BIT: Final = 0x08
INDEPENDENT_BIT: Final = 0x20

_FLAGS_AT: Final = 4
_BLOCK_SIZE_AT: Final = 5


def without_totals(frame: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    """A frame that says nothing of its whole content; a checksum of that then follows the frame.

    Raises ``DecompressionError`` where Java refuses the head of a frame and LZ4's library does not.
    """
    if frame[: len(MAGIC)] != MAGIC or len(frame) <= descriptor_end(0):
        raise DecompressionError("The records are no LZ4 frame")
    flags = frame[_FLAGS_AT]
    if not flags & INDEPENDENT_BIT:
        raise DecompressionError("Dependent block stream is unsupported (BLOCK_INDEPENDENCE must be set)")
    if not flags & (CONTENT_CHECKSUM_BIT | CONTENT_SIZE_BIT):
        return frame
    end = descriptor_end(flags)
    if len(frame) <= end or frame[end] != descriptor_checksum(bytes(frame[_FLAGS_AT:end])):
        raise DecompressionError("The descriptor of the LZ4 frame is cut short, or its checksum is wrong")
    descriptor = bytes((flags & ~(CONTENT_CHECKSUM_BIT | CONTENT_SIZE_BIT), frame[_BLOCK_SIZE_AT]))
    return MAGIC + descriptor + bytes((descriptor_checksum(descriptor),)) + frame[end + 1 :]


def has_content_checksum(frame: bytes | bytearray | memoryview) -> bool:
    return frame[_FLAGS_AT] & CONTENT_CHECKSUM_BIT != 0


def descriptor_end(flags: int) -> int:
    """Where the descriptor ends and its checksum stands."""
    return _BLOCK_SIZE_AT + 1 + (8 if flags & CONTENT_SIZE_BIT else 0)


def descriptor_checksum(descriptor: bytes) -> int:
    return _xxh32_of_few(descriptor) >> 8 & 0xFF


def _xxh32_of_few(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes."""
    mask = 0xFFFFFFFF
    prime_2, prime_3 = 2246822519, 3266489917
    state = 374761393 + len(data)
    position = 0
    while position + 4 <= len(data):
        state = state + int.from_bytes(data[position : position + 4], "little") * prime_3 & mask
        state = (state << 17 | state >> 15) * 668265263 & mask
        position += 4
    for byte in data[position:]:
        state = state + byte * 374761393 & mask
        state = (state << 11 | state >> 21) * 2654435761 & mask
    state = (state ^ state >> 15) * prime_2 & mask
    state = (state ^ state >> 13) * prime_3 & mask
    return state ^ state >> 16
