"""Batches: round trips, the header, patches in place, and bytes that are no batch."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import (
    BATCH_OVERHEAD,
    BatchHeader,
    Record,
    TimestampType,
    batches,
    build_batch,
    crc_is_right,
    increment_sequence,
    read_header,
    read_records,
    set_max_timestamp,
)
from kbroker.protocol.records.compression import Compression, compress
from kbroker.protocol.records.errors import CorruptRecordError, DecompressionError, InvalidRecordError

INT64 = st.integers(-(2**63), 2**63 - 1)
HEADERS = st.lists(st.tuples(st.text(max_size=200), st.none() | st.binary(max_size=200)), max_size=4)
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=INT64 | st.integers(0, 10),
        key=st.none() | st.binary(max_size=300),
        value=st.none() | st.binary(max_size=300),
        headers=HEADERS,
    ),
    min_size=1,
    max_size=20,
)


def read(batch: bytes) -> list[Record]:
    return [record._replace(headers=list(record.headers)) for record in read_records(batch, max_decompressed=1_000_000)]


@given(RECORDS, st.sampled_from(Compression), st.integers(0, 2**62))
def test_what_is_built_is_read(records: list[Record], codec: Compression, base: int) -> None:
    batch = build_batch(records, base_offset=base, compression=codec)
    assert crc_is_right(batch)
    assert read(batch) == [record._replace(offset=base + index) for index, record in enumerate(records)]
    header = read_header(batch)
    assert (header.size, header.record_count, header.compression) == (len(batch), len(records), codec)
    assert header.last_offset == base + len(records) - 1
    assert header.max_timestamp == max(-1, *(record.timestamp for record in records))


def test_a_header_says_what_was_asked_for() -> None:
    batch = build_batch(
        [Record(0, 1000, b"k", b"v"), Record(0, 900, None, None)],
        base_offset=77,
        compression=Compression.GZIP,
        producer_id=5,
        producer_epoch=6,
        base_sequence=2**31 - 1,
        leader_epoch=8,
        transactional=True,
        control=True,
    )
    header = read_header(b"ab" + batch, 2)
    assert header == BatchHeader(77, len(batch) - 12, 8, 2, header.crc, 0x31, 1, 1000, 1000, 5, 6, 2**31 - 1, 2)
    assert (header.last_offset, header.next_offset, header.last_sequence) == (78, 79, 0)
    assert header.is_transactional
    assert header.is_control
    assert header.has_producer_id
    assert header.delete_horizon is None
    assert header.timestamp_type is TimestampType.CREATE_TIME


def test_a_batch_without_a_producer_has_no_sequence() -> None:
    header = read_header(build_batch([Record(0, 1, None, None)]))
    assert not header.has_producer_id
    assert header.last_sequence == -1


def test_sequences_wrap_after_the_largest_int32() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 2, 3) == 1
    assert increment_sequence(5, 3) == 8


def test_kept_offsets_leave_gaps() -> None:
    batch = build_batch(
        [Record(12, 5, b"a", b"1"), Record(15, 6, b"b", b"2")], base_offset=10, last_offset=19, keep_offsets=True
    )
    assert [record.offset for record in read(batch)] == [12, 15]
    assert read_header(batch).last_offset == 19


def test_an_empty_batch_spans_the_offsets_it_replaces() -> None:
    batch = build_batch([], base_offset=10, last_offset=19, producer_id=3, producer_epoch=1, base_sequence=4)
    header = read_header(batch)
    assert (header.record_count, header.last_offset, header.last_sequence) == (0, 19, 13)
    assert crc_is_right(batch)
    assert read(batch) == []
    with pytest.raises(ValueError, match="last_offset"):
        build_batch([])


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    batch = build_batch([Record(0, 1000, b"k", None)], delete_horizon=5000)
    header = read_header(batch)
    assert header.delete_horizon == header.base_timestamp == 5000
    assert [record.timestamp for record in read(batch)] == [1000]


def test_under_log_append_time_every_record_has_the_time_of_the_append() -> None:
    records = [Record(0, 5, None, b"a"), Record(0, 9, None, b"b")]
    batch = build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=100)
    assert read_header(batch).base_timestamp == 5
    assert [record.timestamp for record in read(batch)] == [100, 100]
    with pytest.raises(ValueError, match="max_timestamp"):
        build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME)


def test_a_new_max_timestamp_gets_a_new_crc_and_drops_unknown_bits() -> None:
    buffer = bytearray(b"xyz" + build_batch([Record(0, 5, None, b"a")], transactional=True) + b"behind")
    struct.pack_into(">h", buffer, 3 + 21, 0x7F90)
    set_max_timestamp(buffer, 3, 77, TimestampType.LOG_APPEND_TIME)
    (header, batch), *rest = batches(memoryview(buffer)[3:-6])
    assert rest == []
    assert (header.max_timestamp, header.attributes) == (77, 0x18)
    assert crc_is_right(batch)
    set_max_timestamp(buffer, 3, 78)
    assert read_header(buffer, 3).attributes == 0x10


def test_a_cut_batch_at_the_end_is_left_out() -> None:
    one = build_batch([Record(0, 5, None, b"a")])
    two = build_batch([Record(0, 6, None, b"bb")])
    for cut in range(1, len(two) + 1):
        assert [bytes(view) for _, view in batches(one + two[:-cut])] == [one]
    assert [bytes(view) for _, view in batches(one + two)] == [one, two]


def test_no_batch_begins_where_magic_or_length_is_wrong() -> None:
    batch = bytearray(build_batch([Record(0, 5, None, b"a")]))
    batch[16] = 1
    with pytest.raises(CorruptRecordError, match="magic"):
        list(batches(batch))
    batch[16] = 2
    struct.pack_into(">i", batch, 8, 48)
    with pytest.raises(CorruptRecordError, match="overhead"):
        list(batches(batch))
    with pytest.raises(CorruptRecordError):
        read_header(batch[:60])


def test_a_flipped_bit_anywhere_behind_the_crc_is_seen() -> None:
    batch = bytearray(build_batch([Record(0, 5, b"key", b"value")]))
    for position in range(17, len(batch)):
        batch[position] ^= 0x10
        assert not crc_is_right(batch)
        batch[position] ^= 0x10
    assert crc_is_right(batch)


def test_header_keys_that_are_no_utf8_are_written_back_as_they_were() -> None:
    batch = build_batch([Record(0, 5, None, b"a", [("\udcff\udcfe", b"1")])])
    assert b"\xff\xfe" in batch
    assert build_batch(read(batch)) == batch


def with_records(count: int, body: bytes) -> bytes:
    batch = bytearray(build_batch([], last_offset=0))
    struct.pack_into(">i", batch, 57, count)
    batch += body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return bytes(batch)


@pytest.mark.parametrize(
    ("count", "body"),
    [
        pytest.param(-1, b"", id="negative count"),
        pytest.param(1, b"", id="no record"),
        pytest.param(1, b"\x0c\x00\x00\x00\x01\x01\x00\x00", id="bytes left"),
        pytest.param(2, b"\x0c\x00\x00\x00\x01\x01\x00", id="a record too few"),
        pytest.param(1, b"\x0e\x00\x00\x00\x01\x01\x00", id="size too large"),
        pytest.param(1, b"\x0a\x00\x00\x00\x01\x01\x00", id="size too small"),
        pytest.param(1, b"\x01\x00\x00\x00\x01\x01\x00", id="negative size"),
        pytest.param(1, b"\xf0\x01\x00\x00\x00\x01\xe4\x01\x00", id="value past the end"),
        pytest.param(1, b"\x0c\x00\x00\x00\x01\x01\x01", id="negative header count"),
        pytest.param(1, b"\x0c\x00\x00\x00\x01\x01\x7e", id="more headers than bytes"),
        pytest.param(1, b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", id="null header key"),
        pytest.param(1, b"\x10\x00\x00\x00\x01\x01\x02\x00\x7e", id="header value past the end"),
        pytest.param(1, b"\xff\xff\xff\xff\xff\x01\x00\x00\x00\x01\x01\x00", id="varint too long"),
        pytest.param(1, b"\x0c\x00" + b"\xff" * 11, id="varlong too long"),
    ],
)
def test_a_wrong_structure_is_an_invalid_record(count: int, body: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        read(with_records(count, body))


def test_what_is_wrong_with_records_comes_before_a_wrong_checksum_of_their_data() -> None:
    two = [Record(0, 5, None, b"a"), Record(1, 6, None, b"b")]
    batch = bytearray(build_batch(two, compression=Compression.GZIP))
    batch[-5] ^= 1
    records = read_records(bytes(batch), max_decompressed=1000)
    assert [next(records).value, next(records).value] == [b"a", b"b"]
    with pytest.raises(DecompressionError):
        next(records)
    struct.pack_into(">i", batch, 57, 1)
    with pytest.raises(InvalidRecordError):
        read(bytes(batch))


def test_a_record_that_is_longer_than_it_says_passes_where_nobody_looks() -> None:
    batch = bytearray(with_records(1, compress(Compression.GZIP, b"\x10\x00\x00\x00\x01\x01\x00")))
    batch[22] = Compression.GZIP
    assert len(list(read_records(bytes(batch), max_decompressed=1000, partially=True))) == 1
    with pytest.raises(InvalidRecordError):
        read(bytes(batch))


def test_an_unknown_codec_is_named() -> None:
    batch = bytearray(build_batch([Record(0, 5, None, b"a")]))
    batch[22] = 6
    with pytest.raises(DecompressionError, match="compression type id: 6") as caught:
        read(bytes(batch))
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


@given(
    st.sampled_from(Compression),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8),
    st.integers(0, 200),
)
def test_mutated_and_cut_batches_raise_nothing_but_errors_of_the_protocol(
    codec: Compression, changes: list[tuple[int, int]], cut: int
) -> None:
    records = [Record(0, 5 + index, b"k%d" % index, b"value" * 5, [("h", b"x")]) for index in range(10)]
    batch = bytearray(build_batch(records, compression=codec))
    for position, byte in changes:
        batch[8 + position % (len(batch) - 8)] = byte
    data = bytes(batch[: len(batch) - cut])
    crc_is_right(data)
    with contextlib.suppress(ApiError):
        for _, view in batches(data):
            read_header(view)
    with contextlib.suppress(ApiError):
        list(read_records(data, max_decompressed=100_000))


def test_an_empty_batch_is_its_header() -> None:
    assert len(build_batch([], last_offset=0)) == BATCH_OVERHEAD
