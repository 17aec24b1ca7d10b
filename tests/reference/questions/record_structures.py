"""Batches whose header is right and one of whose records is built wrongly, or in an unusual way."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from kbroker.protocol.records.batch import BATCH_OVERHEAD
from kbroker.protocol.records.compression import Compression, compress
from tests.reference.conversation import Conversation, question
from tests.reference.questions.list_offsets import list_request
from tests.reference.questions.produce import right_crc
from tests.reference.questions.scenery import TIME_MS, batch, create_topic, produce_request

CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"compression.type": "uncompressed"},
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact", "compression.type": "lz4"},
    {"message.timestamp.type": "LogAppendTime"},
)
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def varint(value: int) -> bytes:
    """Zigzag, of up to ten bytes."""
    rest = (value << 1 ^ value >> 63) & 2**64 - 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def padded(size: int, last: int = 0) -> bytes:
    """A varint of so many bytes; 0 unless ``last`` says more."""
    return b"\x80" * (size - 1) + bytes([last])


def record(
    *,
    size: bytes | int = 0,
    attributes: int = 0,
    time: bytes | int = 0,
    offset: bytes | int = 0,
    key: bytes = b"k",
    key_size: int | None = None,
    value: bytes = b"value",
    value_size: int | None = None,
    header_count: int | None = None,
    headers: Sequence[bytes] = (),
    behind: bytes = b"",
) -> bytes:
    """One record; ``size`` is bytes as they are, or what its true size is off by."""
    parts = [
        bytes([attributes]),
        time if isinstance(time, bytes) else varint(time),
        offset if isinstance(offset, bytes) else varint(offset),
        varint(len(key) if key_size is None else key_size),
        key,
        varint(len(value) if value_size is None else value_size),
        value,
        varint(len(headers) if header_count is None else header_count),
        *headers,
        behind,
    ]
    body = b"".join(parts)
    return (size if isinstance(size, bytes) else varint(len(body) + size)) + body


def header(
    name: bytes = b"name", value: bytes = b"v", *, name_size: int | None = None, size: int | None = None
) -> bytes:
    sizes = [varint(len(part) if said is None else said) for part, said in ((name, name_size), (value, size))]
    return sizes[0] + name + sizes[1] + value


def structures() -> Iterator[tuple[str, bytes]]:
    yield "good", record()
    for off in (-3, -2, -1, 1, 2, 5):
        yield f"size {off:+}", record(size=off)
    for size in (0, 1, -1, INT_MIN, INT_MAX, 200):
        yield f"size {size}", record(size=varint(size))
    yield "size of five bytes", record(size=b"\xff\xff\xff\xff\x7f")
    for attributes in (1, 0x7F, 0xFF):
        yield f"attributes {attributes}", record(attributes=attributes)
    for time in (-1, 1, -TIME_MS, -TIME_MS - 1, -TIME_MS - 2, 2**31, 2**62, 2**63 - 1, -(2**63)):
        yield f"time {time}", record(time=time)
    for time_bytes in (padded(10), padded(11), b"\xff" * 9 + b"\x7f"):
        yield f"time {time_bytes.hex()}", record(time=time_bytes)
    for offset in (-1, 1, 5, INT_MAX, INT_MIN, 2**40):
        yield f"offset {offset}", record(offset=offset)
    for offset_bytes in (padded(5), padded(6)):
        yield f"offset {offset_bytes.hex()}", record(offset=offset_bytes)
    for size in (-1, -2, -100, INT_MIN):
        yield f"no key, size {size}", record(key=b"", key_size=size)
        yield f"no value, size {size}", record(value=b"", value_size=size)
    for size in (0, 2, 3, 4, 5, 6, 7, 50, INT_MAX):
        yield f"key size {size}", record(key_size=size)
        yield f"value size {size}", record(value_size=size)
    for count in (-1, -2, 1, 2, 100, INT_MAX, INT_MIN):
        yield f"{count} headers", record(header_count=count)
    for size in (-1, -2, 0, 1, 3, 4, 5, 100):
        yield f"name size {size}", record(headers=[header(name_size=size)])
        yield f"header's value size {size}", record(headers=[header(size=size)])
    yield "a header of null", record(headers=[header(value=b"", size=-1)])
    yield "a name that is no text", record(headers=[header(b"\xff\xfe")])
    for count in (1, 3):
        yield f"{count} of two headers", record(headers=[header(), header()], header_count=count)
    yield "more in the record", record(behind=b"abc")
    yield "one more record", record() + record(offset=1)
    for more in (b"\x00", b"\x80"):
        yield f"{more.hex()} behind", record() + more
        yield f"{more.hex()} alone", more
    yield "an empty record", b"\x02\x00"
    for cut in (1, 5, 20):
        yield f"cut by {cut}", record()[:-cut]


def batch_of(payload: bytes, codec: Compression) -> bytes:
    records = bytearray(batch([b""])[:BATCH_OVERHEAD] + (compress(codec, payload) if codec else payload))
    struct.pack_into(">i", records, 8, len(records) - 12)
    struct.pack_into(">h", records, 21, codec)
    return right_crc(records)


@question(range(len(CONFIGS)))
def structures_of_records(c: Conversation, number: int) -> None:
    topic, _ = create_topic(c, configs=CONFIGS[number])
    for codec in (Compression.NONE, Compression.GZIP, Compression.LZ4):
        for label, payload in structures():
            answer = c.ask(produce_request(topic, batch_of(payload, codec)), 9, note=False)
            slot = answer.responses[0].partition_responses[0]
            slot.error_message = None  # kbroker's own words
            c.note_answer(f"{codec.name}, {label}", answer, 9)
    c.ask(list_request(topic, -1), 9)
