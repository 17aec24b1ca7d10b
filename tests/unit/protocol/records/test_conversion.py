"""Between message sets and batches: what a conversion keeps, what it drops, what it refuses, how it fills."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import Record, TimestampType, build_batch, crc_is_right, read_header, read_records
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.conversion import DownConverted, down_convert, is_legacy, up_convert
from kbroker.protocol.records.legacy import build_message_set
from kbroker.types import TopicPartition
from tests.message_sets import read_message_set
from tests.unit.protocol.records.test_legacy import CODECS, TIME_MS, a_few, changed, some_records, without_times

PARTITION = TopicPartition("t", 0)
LIMIT = 1 << 24


class Stored:
    """Batches as a log gives them."""

    def __init__(self, *batches: bytes) -> None:
        self.data = b"".join(batches)
        self.largest_read = 0

    def __len__(self) -> int:
        return len(self.data)

    def read(self, position: int, size: int) -> bytes:
        self.largest_read = max(self.largest_read, size)
        return self.data[position : position + size]


def read(message_set: bytes) -> list[Record]:
    return list(read_message_set(message_set, max_decompressed=LIMIT))


def plain(records: list[Record]) -> list[Record]:
    return [Record(record.offset, record.timestamp, record.key, record.value) for record in records]


@given(some_records, st.sampled_from([0, 1]), st.sampled_from(CODECS), st.sampled_from([None, *Compression]))
def test_going_up_keeps_everything_but_offsets(
    records: list[Record], magic: int, codec: Compression, demanded: Compression | None
) -> None:
    batch = up_convert(build_message_set(records, magic, compression=codec), PARTITION, codec=demanded)
    assert batch is not None
    assert crc_is_right(batch)
    header = read_header(batch)
    assert (header.magic, header.base_offset, header.record_count) == (2, 0, len(records))
    assert header.compression == (codec if demanded is None else demanded)
    expected = [record._replace(offset=n) for n, record in enumerate(records if magic else without_times(records))]
    assert plain(list(read_records(batch, max_decompressed=LIMIT))) == expected
    assert header.max_timestamp == max(record.timestamp for record in expected)


@given(some_records, st.sampled_from([0, 1]), st.sampled_from(CODECS))
def test_going_down_keeps_offsets_keys_values_and_times(records: list[Record], magic: int, codec: Compression) -> None:
    base, last = records[0].offset, records[-1].offset
    if last - base >= 2**31:
        records = records[:1]
    with_headers = [record._replace(headers=[("h", b"1")]) for record in records]
    batch = build_batch(
        with_headers, base_offset=base, last_offset=records[-1].offset, keep_offsets=True, compression=codec
    )
    assert read(down_convert(read_header(batch), batch, magic, 0)) == (records if magic else without_times(records))


def test_the_bytes_of_an_uncompressed_batch_begin_at_the_offset_asked_for() -> None:
    plain_batch = build_batch(a_few(10))
    packed = build_batch(a_few(10), compression=Compression.GZIP)
    assert [r.offset for r in read(down_convert(read_header(plain_batch), plain_batch, 1, 7))] == [7, 8, 9]
    assert len(read(down_convert(read_header(packed), packed, 1, 7))) == 10


def test_the_time_of_a_broker_stays_one() -> None:
    batch = build_batch(a_few(3), timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=TIME_MS + 99)
    message_set = down_convert(read_header(batch), batch, 1, 0)
    assert {record.timestamp for record in read(message_set)} == {TIME_MS + 99}
    assert message_set[17] & 0x08


def test_control_batches_are_dropped() -> None:
    batch = build_batch(a_few(1), control=True, transactional=True, producer_id=1, producer_epoch=0)
    assert down_convert(read_header(batch), batch, 1, 0) == b""


def test_zstd_does_not_go_down() -> None:
    batch = build_batch(a_few(1), compression=Compression.ZSTD)
    with pytest.raises(ApiError) as caught:
        down_convert(read_header(batch), batch, 1, 0)
    assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def code_of(records: bytes, **options: int) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        up_convert(records, PARTITION, **options)  # type: ignore[arg-type] # one option is no int
    return caught.value.code


def with_right_crc(message: bytes) -> bytes:
    return message[:12] + struct.pack(">I", zlib.crc32(message[16:])) + message[16:]


def test_what_kafka_refuses_is_refused() -> None:
    packed = build_message_set(a_few(), 1, compression=Compression.GZIP)
    one = build_message_set(a_few(1), 1)
    assert code_of(packed + packed) == ErrorCode.INVALID_RECORD
    assert code_of(packed + one) == ErrorCode.INVALID_RECORD
    assert code_of(one + build_message_set(a_few(1), 0)) == ErrorCode.INVALID_RECORD
    assert code_of(one + build_batch(a_few(1))) == ErrorCode.INVALID_RECORD
    assert code_of(changed(20, ">b", 9)) == ErrorCode.CORRUPT_MESSAGE
    assert code_of(one, max_message_bytes=len(one) - 1) == ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(with_right_crc(changed(17, ">b", 5))) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert code_of(with_right_crc(changed(17, ">b", 4))) == ErrorCode.INVALID_RECORD
    assert code_of(with_right_crc(changed(18, ">q", -2))) == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_wrapper_with_messages_of_the_other_format_names_each_of_them() -> None:
    wrapper = build_message_set(
        [Record(0, TIME_MS, None, build_message_set(a_few(2), 0))], 1, compression=Compression.NONE
    )
    assert wrapper[16:18] == b"\x01\x00"
    import gzip

    value = gzip.compress(build_message_set(a_few(2), 0))
    built = bytearray(build_message_set([Record(1, TIME_MS, None, value)], 1))
    built[17] = Compression.GZIP
    assert code_of(with_right_crc(bytes(built))) == ErrorCode.INVALID_RECORD


def test_nothing_whole_is_nothing_to_append() -> None:
    assert up_convert(b"", PARTITION) is None
    assert up_convert(build_message_set(a_few(1), 1)[:-1], PARTITION) is None


def test_a_batch_is_told_from_a_message_set() -> None:
    assert not is_legacy(build_batch(a_few(1)))
    assert is_legacy(build_message_set(a_few(1), 0))
    assert is_legacy(b"")


def read_in_pieces(converted: DownConverted, piece: int) -> bytes:
    pieces = []
    position = 0
    while position < len(converted):
        pieces.append(converted.read(position, piece))
        position += len(pieces[-1])
    return b"".join(pieces)


def batch_from(base_offset: int, count: int = 10, **options: Compression) -> bytes:
    return build_batch(a_few(count), base_offset=base_offset, **options)  # type: ignore[arg-type] # codecs only


@given(st.lists(st.sampled_from(CODECS), min_size=1, max_size=6), st.sampled_from([0, 1]), st.integers(1, 3000))
def test_an_answer_has_the_size_it_promised_and_whole_records_in_front(
    codecs: list[Compression], magic: int, piece: int
) -> None:
    batches = [batch_from(10 * n, compression=codec) for n, codec in enumerate(codecs)]
    data = read_in_pieces(DownConverted(Stored(*batches), magic, 0), piece)
    whole = b"".join(down_convert(read_header(each), each, magic, 0) for each in batches)
    first = down_convert(read_header(batches[0]), batches[0], magic, 0)
    assert len(data) == max(len(first), sum(map(len, batches)))
    assert data[: len(whole)] == whole[: len(data)]
    offsets = [record.offset for record in read(data)]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) >= 10


def test_what_is_left_over_looks_like_a_message_that_was_cut() -> None:
    # Headers are lost on the way down, so that there is room.
    records = [record._replace(headers=[("long", bytes(500))]) for record in a_few(3)]
    converted = DownConverted(Stored(build_batch(records)), 0, 0)
    data = read_in_pieces(converted, 1 << 20)
    whole = build_message_set(a_few(3), 0)
    assert data[: len(whole)] == whole
    overflow = data[len(whole) :]
    assert overflow[:8] == b"\xff" * 8
    assert int.from_bytes(overflow[8:12], signed=True) == len(overflow) + 1
    assert len(read(data)) == 3


def test_nothing_but_control_batches_gives_the_begin_of_a_message() -> None:
    marker = build_batch(a_few(1), control=True, transactional=True, producer_id=1, producer_epoch=0)
    data = read_in_pieces(DownConverted(Stored(marker), 1, 0), 100)
    assert data == b"\xff" * 8 + struct.pack(">i", 61)


def test_a_batch_that_was_cut_gives_nothing() -> None:
    assert len(DownConverted(Stored(batch_from(0)[:-1]), 1, 0)) == 0
    assert len(DownConverted(Stored(), 1, 0)) == 0


def test_zstd_behind_the_first_batch_ends_what_is_sent() -> None:
    stored = Stored(batch_from(0), batch_from(10, compression=Compression.ZSTD), batch_from(20))
    data = read_in_pieces(DownConverted(stored, 1, 0), 64)
    assert [record.offset for record in read(data)] == list(range(10))
    with pytest.raises(ApiError):
        DownConverted(Stored(batch_from(10, compression=Compression.ZSTD)), 1, 0)


def test_one_batch_at_a_time_is_read() -> None:
    batches = [batch_from(100 * n, 100) for n in range(50)]
    stored = Stored(*batches)
    converted = DownConverted(stored, 1, 0)
    converted.read(0, 10)
    assert stored.largest_read == len(batches[0])
    with pytest.raises(ValueError, match="in order"):
        converted.read(0, 10)
