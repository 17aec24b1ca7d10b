"""Records compressed in every way that a codec's format allows, and in some that it does not."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterator

from kbroker.protocol.records.batch import BATCH_OVERHEAD
from kbroker.protocol.records.compression import XERIAL_MAGIC, Compression, compress
from kbroker.protocol.records.lz4_frames import MAGIC, descriptor_checksum
from tests.reference.conversation import Conversation, question
from tests.reference.questions.produce import right_crc
from tests.reference.questions.scenery import batch, create_topic, produce_request

Payloads = Iterator[tuple[str, bytes]]
COUNT = 3
DATA = batch([bytes([65 + number]) * 100 for number in range(COUNT)])[BATCH_OVERHEAD:]
SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
"""A frame that readers of LZ4 and zstd are to pass over."""


def batch_of(payload: bytes, codec: Compression) -> bytes:
    records = bytearray(batch([b""] * COUNT)[:BATCH_OVERHEAD] + payload)
    struct.pack_into(">i", records, 8, len(records) - 12)
    struct.pack_into(">h", records, 21, codec)
    return right_crc(records)


def cuts(payload: bytes, *sizes: int) -> Payloads:
    for size in sizes:
        yield f"cut by {size}", payload[:-size]


def of_gzip() -> Payloads:
    good = gzip.compress(DATA, mtime=0)
    yield "good", good
    yield "two members", gzip.compress(DATA[:50]) + gzip.compress(DATA[50:])
    yield "deflate", zlib.compress(DATA)[2:-4]
    yield "zlib", zlib.compress(DATA)
    for position in range(10):
        for value in (0, 1, 8, 0xFF):
            yield f"byte {position} is {value}", good[:position] + bytes([value]) + good[position + 1 :]
    for flag in (2, 4, 8, 16, 32, 64, 128):
        yield f"flag {flag}", good[:3] + bytes([flag]) + good[4:]
    for label, flag, field in (("name", 8, b"name\0"), ("comment", 16, b"c\0"), ("extra", 4, b"\x03\0abc")):
        yield label, good[:3] + bytes([flag]) + good[4:10] + field + good[10:]
    yield from cuts(good, 1, 4, 5, 8, 9, 20, len(good) - 10, len(good) - 9, len(good) - 3)
    for label, more in (("a member that is none", b"\x1f\x8b" + bytes(30)), ("words", b"word" * 7), ("0", bytes(40))):
        yield f"{label} behind", good + more


def xerial(*blocks: bytes, version: int = 1, compatible: int = 1) -> bytes:
    sized = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return XERIAL_MAGIC + struct.pack(">ii", version, compatible) + sized


def of_snappy() -> Payloads:
    header = len(xerial())
    good = compress(Compression.SNAPPY, DATA)
    block = good[header + 4 :]
    first, second = (compress(Compression.SNAPPY, half) for half in (DATA[:50], DATA[50:]))
    yield "good", good
    yield "a block alone", block
    yield "a block alone and more", block + b"a"
    yield "two blocks", first + second[header:]
    yield "two streams", first + second
    for version, compatible in ((0, 0), (1, 0), (0, 1), (2, 1), (1, 2), (5, 1), (-1, 1), (1, -1)):
        yield f"version {version}, {compatible}", xerial(block, version=version, compatible=compatible)
    yield "the other framing", b"\xff\x06\x00\x00sNaPpY" + block
    yield "an empty block behind", xerial(block, b"")
    yield "an empty block before", xerial(b"", block)
    for size in (0, 7, 8, 12, header):
        yield f"{size} bytes of the header", xerial()[:size]
    yield from cuts(good, 1, len(block) + 1)
    for label, more in (("two bytes", bytes(2)), ("three bytes", bytes(3)), ("a negative size", b"\xff" * 4)):
        yield f"{label} behind", good + more
    yield "a block that claims more", xerial(b"\xff\x7f" + block[2:])
    yield "a block that claims less", xerial(b"\x05" + block[2:])
    yield "garbage", b"\xff" * 20


def lz4(
    flags: int = 0x60, size: int = 0x40, *, blocks: bytes | None = None, total: bytes = b"", end: bytes = b""
) -> bytes:
    descriptor = bytes([flags, size]) + total
    blocks = lz4_block(DATA) if blocks is None else blocks
    return MAGIC + descriptor + bytes([descriptor_checksum(descriptor)]) + blocks + bytes(4) + end


def lz4_block(data: bytes) -> bytes:
    return struct.pack("<I", len(data) | 1 << 31) + data


def of_lz4() -> Payloads:
    good = lz4()
    yield "compressed", compress(Compression.LZ4, DATA)
    yield "good", good
    yield "two blocks", lz4(blocks=lz4_block(DATA[:50]) + lz4_block(DATA[50:]))
    yield "two frames", lz4(blocks=lz4_block(DATA[:50])) + lz4(blocks=lz4_block(DATA[50:]))
    for flags in (0x20, 0x40, 0x61, 0x62, 0x70, 0xA0):
        yield f"flags {flags:x}", lz4(flags)
    for size in (0x00, 0x10, 0x30, 0x41, 0x50, 0x60, 0x70, 0x80, 0xC0):
        yield f"size {size:x}", lz4(size=size)
    for number in (len(DATA), 5):
        yield f"content of {number}", lz4(0x68, total=struct.pack("<Q", number))
    for end in (b"", b"\0\0\0", b"\0\0\0\0"):
        yield f"checksum of {len(end)} bytes", lz4(0x64, end=end)
        yield f"content and checksum of {len(end)} bytes", lz4(0x6C, total=bytes(8), end=end)
    yield "descriptor's checksum", good[:6] + b"\0" + good[7:]
    yield "descriptor's checksum of a frame with its size", lz4(0x68, total=bytes(8))[:14] + b"\0" + good[7:]
    yield "more behind", good + b"abc"
    yield "a block too large", lz4(blocks=lz4_block(bytes(65537)))
    yield "a block of garbage", lz4(blocks=struct.pack("<I", 20) + b"\xff" * 20)
    yield "no block", lz4(blocks=b"")
    yield "another magic", b"\x02\x21\x4c\x18" + good[7:]
    yield "a frame to skip", SKIPPED + good
    yield from cuts(good, 2, 4, 5, len(good) - 7, len(good) - 6, len(good) - 5, len(good))


def of_zstd() -> Payloads:
    good = compress(Compression.ZSTD, DATA)
    first, second = (compress(Compression.ZSTD, half) for half in (DATA[:50], DATA[50:]))
    yield "good", good
    yield "two frames", first + second
    yield "a frame to skip before", SKIPPED + good
    yield "a frame to skip behind", good + SKIPPED
    yield "an empty frame before", compress(Compression.ZSTD, b"") + good
    yield "only the end of a frame", good[4:]
    yield from cuts(good, 1, 3, 10, len(good) - 6, len(good) - 4, len(good) - 3, len(good))
    for more in (b"abc", b"abcdefgh", bytes(8)):
        yield f"{more!r} behind", good + more
    for position in range(4, 8):
        for value in (0, 1, 0x20, 0xFF):
            yield f"byte {position} is {value}", good[:position] + bytes([value]) + good[position + 1 :]


PAYLOADS: dict[Compression, Callable[[], Payloads]] = {
    Compression.GZIP: of_gzip,
    Compression.SNAPPY: of_snappy,
    Compression.LZ4: of_lz4,
    Compression.ZSTD: of_zstd,
}


@question(range(1, 5))
def payloads_of_every_kind(c: Conversation, number: int) -> None:
    codec = Compression(number)
    for configs in ({}, {"compression.type": "uncompressed"}, {"cleanup.policy": "compact"}):
        topic, _ = create_topic(c, configs=configs)
        for label, payload in PAYLOADS[codec]():
            answer = c.ask(produce_request(topic, batch_of(payload, codec)), 9, note=False)
            slot = answer.responses[0].partition_responses[0]
            slot.error_message = None  # kbroker's own words
            c.note_answer(f"{configs} {label}", answer, 9)
