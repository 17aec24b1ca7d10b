"""Message sets of formats 0 and 1: read, built, refused; other clients' builders and readers agree."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from aiokafka.record import legacy_records as aiokafka_records
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import legacy_records as kafka_python_records

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import Record, TimestampType
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.errors import CorruptRecordError, InvalidRecordError
from kbroker.protocol.records.legacy import (
    build_message_set,
    inner_messages,
    message_views,
    read_message,
    with_right_lz4_checksum,
    with_wrong_lz4_checksum,
)
from tests.message_sets import read_message_set

TIME_MS = 1_700_000_000_000
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
IN_PYTHON = [
    pytest.param(magic, codec, id=f"v{magic}-{codec.name}")
    for magic in (0, 1)
    for codec in CODECS
    if (magic, codec) != (0, Compression.LZ4)  # neither client does it without one more library, or at all
]
MAGICS = pytest.mark.parametrize("magic", [0, 1])
CLIENTS = pytest.mark.parametrize("client", [kafka_python_records, aiokafka_records], ids=["kafka-python", "aiokafka"])

data = st.none() | st.binary(max_size=40)


def records_of(offsets: list[int], times: list[int], values: list[tuple[bytes | None, bytes | None]]) -> list[Record]:
    return [Record(o, t, key, value) for o, t, (key, value) in zip(offsets, times, values, strict=False)]


some_records = st.builds(
    records_of,
    st.lists(st.integers(0, 2**40), min_size=1, max_size=20, unique=True).map(sorted),
    st.lists(st.integers(-1, 2**45), min_size=20, max_size=20),
    st.lists(st.tuples(data, data), min_size=20, max_size=20),
)


def read(message_set: bytes) -> list[Record]:
    return list(read_message_set(message_set, max_decompressed=1 << 24))


def without_times(records: list[Record]) -> list[Record]:
    return [record._replace(timestamp=-1) for record in records]


def a_few(count: int = 10) -> list[Record]:
    return [
        Record(n, TIME_MS + n % 4, None if n % 3 else b"key %d" % n, None if n % 5 == 4 else b"value" * n)
        for n in range(count)
    ]


@given(some_records, st.sampled_from([0, 1]), st.sampled_from(CODECS))
def test_what_is_built_is_read_again(records: list[Record], magic: int, codec: Compression) -> None:
    again = read(build_message_set(records, magic, compression=codec))
    assert again == (records if magic else without_times(records))


@pytest.mark.parametrize(("magic", "codec"), IN_PYTHON)
@CLIENTS
def test_message_sets_of_python_clients_are_read(client: Any, codec: Compression, magic: int) -> None:
    builder = client.LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for record in a_few():
        builder.append(record.offset, timestamp=record.timestamp, key=record.key, value=record.value)
    assert read(bytes(builder.build())) == (a_few() if magic else without_times(a_few()))


@pytest.mark.parametrize(("magic", "codec"), IN_PYTHON)
@CLIENTS
def test_python_clients_read_ours(client: Any, codec: Compression, magic: int) -> None:
    expected = a_few() if magic else without_times(a_few())
    found = []
    for _, view in message_views(build_message_set(a_few(), magic, compression=codec)):
        batch = client.LegacyRecordBatch(bytearray(view), magic)
        assert batch.validate_crc()
        for each in batch:
            key, value = (None if part is None else bytes(part) for part in (each.key, each.value))
            found.append(Record(each.offset, -1 if each.timestamp is None else each.timestamp, key, value))
    assert found == expected


@MAGICS
def test_plain_messages_are_built_byte_for_byte_as_python_clients_do(magic: int) -> None:
    builder = kafka_python_records.LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 20)
    for record in a_few():
        builder.append(record.offset, timestamp=record.timestamp, key=record.key, value=record.value)
    assert build_message_set(a_few(), magic) == bytes(builder.build())


def test_one_message_of_each_format_has_these_bytes() -> None:
    record = [Record(5, 1000, b"k", b"v")]
    assert build_message_set(record, 0).hex(" ") == (
        "00 00 00 00 00 00 00 05 00 00 00 10 1f ec d7 0a 00 00 00 00 00 01 6b 00 00 00 01 76"
    )
    assert build_message_set(record, 1).hex(" ") == (
        "00 00 00 00 00 00 00 05 00 00 00 18 e4 e3 21 bc 01 00 00 00 00 00 00 00 03 e8 00 00 00 01 6b 00 00 00 01 76"
    )


def test_offsets_inside_a_wrapper_are_relative_in_format_1_and_absolute_in_format_0() -> None:
    records = [Record(100, 1, None, b"a"), Record(103, 2, None, b"b")]
    for magic, offsets in ((0, [100, 103]), (1, [0, 3])):
        wrapper = read_message(memoryview(build_message_set(records, magic, compression=Compression.GZIP)))
        assert wrapper.offset == 103
        numbered_from_0 = inner_messages(wrapper._replace(offset=0), 1000)
        assert [message.offset for message in numbered_from_0] == offsets
        assert [message.offset for message in inner_messages(wrapper, 1000)] == [100, 103]


def test_a_wrapper_stamped_by_a_broker_gives_its_time_to_all_inside() -> None:
    message_set = build_message_set(
        [Record(0, TIME_MS, None, b"a")] * 2,
        1,
        compression=Compression.GZIP,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    wrapper = read_message(memoryview(message_set))._replace(timestamp=7)
    assert [message.timestamp for message in inner_messages(wrapper, 1000)] == [7, 7]


def test_lz4_of_format_0_has_the_checksum_that_its_readers_expect() -> None:
    frame = read_message(memoryview(build_message_set(a_few(), 0, compression=Compression.LZ4))).value
    assert frame is not None
    assert with_right_lz4_checksum(frame) != frame
    assert with_wrong_lz4_checksum(with_right_lz4_checksum(frame)) == frame
    assert frame[:7].hex(" ") == "04 22 4d 18 60 40 1a" or frame[6] != with_right_lz4_checksum(frame)[6]


@pytest.mark.parametrize("frame", [b"", b"\x04\x22\x4d\x18", b"no frame at all", b"\x04\x22\x4d\x18\x69\x40\0\0\0\0"])
def test_what_is_no_lz4_frame_is_left_as_it_is(frame: bytes) -> None:
    assert with_right_lz4_checksum(frame) == with_wrong_lz4_checksum(frame) == frame


def test_a_message_cut_at_the_end_is_left_out() -> None:
    message_set = build_message_set(a_few(3), 1)
    for size in range(len(message_set)):
        assert len(read(message_set[:size])) < 3
    assert len(read(message_set + message_set[:30])) == 3


def changed(position: int, layout: str, value: int, message_set: bytes | None = None) -> bytes:
    copy = bytearray(build_message_set(a_few(1), 1) if message_set is None else message_set)
    struct.pack_into(layout, copy, position, value)
    return bytes(copy)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (changed(8, ">i", 13), CorruptRecordError),
        (changed(8, ">i", -1), CorruptRecordError),
        (changed(16, ">b", 3), CorruptRecordError),
        (changed(16, ">b", -1), CorruptRecordError),
        (changed(16, ">b", 2), InvalidRecordError),
        (changed(12, ">i", 5), CorruptRecordError),
    ],
)
def test_bytes_that_are_no_messages_are_refused(wrong: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read(wrong)


def test_a_key_longer_than_its_message_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        read_message(memoryview(changed(26, ">i", 1000)))
    assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_wrapper_that_holds_no_messages_or_other_wrappers_is_refused() -> None:
    good = read_message(memoryview(build_message_set(a_few(), 1, compression=Compression.GZIP)))
    nested = build_message_set([Record(0, 0, None, b"x")], 1, compression=Compression.GZIP)
    for wrong in (
        good._replace(value=None),
        good._replace(value=b"", attributes=0x01),
        good._replace(attributes=4),
        good._replace(attributes=5),
        good._replace(offset=3),
        good._replace(value=nested, attributes=0),
    ):
        with pytest.raises(ApiError):
            inner_messages(wrong, 1000)


def test_a_small_wrapper_cannot_claim_much_memory() -> None:
    bomb = build_message_set([Record(0, 0, None, bytes(1 << 20))], 1, compression=Compression.GZIP)
    with pytest.raises(ApiError):
        list(read_message_set(bomb, max_decompressed=1 << 16))


@given(st.binary(max_size=80), st.integers(0, 3))
def test_garbage_raises_nothing_but_api_errors(garbage: bytes, magic: int) -> None:
    framed = bytes(8) + len(garbage).to_bytes(4) + garbage[:4] + bytes((magic,)) + garbage[4:]
    for candidate in (garbage, framed):
        try:
            read(candidate)
        except ApiError:
            continue
