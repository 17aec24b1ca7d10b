"""Each rule for a batch that a leader appends, with the code that Apache Kafka 4.4 answered when it was asked."""

from __future__ import annotations

import contextlib
import random
import struct
from dataclasses import replace

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import (
    BatchHeader,
    Record,
    TimestampType,
    build_batch,
    crc_is_right,
    read_header,
    read_records,
    set_max_timestamp,
)
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.errors import RecordValidationError
from kbroker.protocol.records.validation import (
    LISTED_ERRORS,
    SMALL_BATCH,
    AppendOrigin,
    ValidatedBatch,
    ValidationRules,
    check_header,
    check_produce_records,
    validate,
)
from kbroker.types import TopicPartition

NOW = 1_800_000_000_000
HOUR = 3_600_000
PARTITION = TopicPartition("t", 0)
HEADER_ONLY = ValidationRules()
FULL = ValidationRules(full=True)
DEPTHS = pytest.mark.parametrize("rules", [HEADER_ONLY, FULL], ids=["header", "full"])
CODECS = [codec for codec in Compression if codec]


def record(timestamp: int = NOW, key: bytes | None = None, value: bytes | None = b"v") -> Record:
    return Record(0, timestamp, key, value)


def batch_of(*records: Record, compression: Compression = Compression.NONE, control: bool = False) -> bytes:
    return build_batch(records or [record(), record()], compression=compression, control=control)


def patched(batch: bytes, layout: str, position: int, value: int, *, crc: bool = True) -> bytes:
    buffer = bytearray(batch)
    struct.pack_into(layout, buffer, position, value)
    if crc:
        struct.pack_into(">I", buffer, 17, crc32c(memoryview(buffer)[21:]))
    return bytes(buffer)


def with_attributes(batch: bytes, attributes: int) -> bytes:
    return patched(batch, ">h", 21, attributes)


def check(batch: bytes, rules: ValidationRules = HEADER_ONLY) -> ValidatedBatch:
    validated = validate(batch, rules, NOW, PARTITION)
    assert crc_is_right(validated.buffer)
    assert read_header(validated.buffer) == validated.header
    return validated


def refused(batch: bytes, rules: ValidationRules = HEADER_ONLY) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        validate(batch, rules, NOW, PARTITION)
    return caught.value.code


def record_errors(batch: bytes, rules: ValidationRules) -> tuple[ErrorCode, list[tuple[int, str | None]]]:
    with pytest.raises(RecordValidationError) as caught:
        validate(batch, rules, NOW, PARTITION)
    return caught.value.code, caught.value.record_errors


def contents(batch: bytes | bytearray | memoryview) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [each[:4] for each in read_records(batch, max_decompressed=1 << 20)]


class TestProduceRequest:
    @pytest.mark.parametrize("records", [None, b"", batch_of()[:10], batch_of()[:-1]])
    def test_a_partition_without_a_whole_batch_is_an_invalid_record(self, records: bytes | None) -> None:
        with pytest.raises(ApiError, match="at least one record batch") as caught:
            check_produce_records(records, 8)
        assert caught.value.code is ErrorCode.INVALID_RECORD

    def test_two_batches_are_an_invalid_record(self) -> None:
        with pytest.raises(ApiError, match="exactly one record batch") as caught:
            check_produce_records(batch_of() + batch_of(), 8)
        assert caught.value.code is ErrorCode.INVALID_RECORD

    def test_what_is_too_short_to_be_a_second_batch_is_ignored(self) -> None:
        check_produce_records(batch_of() + bytes(5), 8)

    def test_zeros_behind_the_batch_are_corrupt(self) -> None:
        with pytest.raises(ApiError, match="less than the minimum") as caught:
            check_produce_records(batch_of() + bytes(17), 8)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE

    def test_zstd_needs_version_7(self) -> None:
        batch = batch_of(compression=Compression.ZSTD)
        check_produce_records(batch, 7)
        with pytest.raises(ApiError, match="ZStandard") as caught:
            check_produce_records(batch, 6)
        assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    @pytest.mark.parametrize("magic", [0, 1])
    def test_older_formats_are_an_invalid_record(self, magic: int) -> None:
        with pytest.raises(ApiError) as caught:
            check_produce_records(patched(batch_of(), ">b", 16, magic, crc=False), 8)
        assert caught.value.code is ErrorCode.INVALID_RECORD


@DEPTHS
class TestHeader:
    def test_a_right_batch_is_left_as_it_is(self, rules: ValidationRules) -> None:
        for codec in Compression:
            batch = batch_of(compression=codec)
            validated = check(batch, rules)
            assert bytes(validated.buffer) == batch
            assert validated.log_append_time_ms == -1

    def test_a_writable_buffer_is_not_copied_and_what_lies_behind_the_batch_is_cut_off(
        self, rules: ValidationRules
    ) -> None:
        buffer = bytearray(batch_of() + bytes(5))
        validated = validate(memoryview(buffer), rules, NOW, PARTITION)
        assert isinstance(validated.buffer, memoryview)
        assert validated.buffer.obj is buffer
        assert len(validated.buffer) == len(buffer) - 5

    @pytest.mark.parametrize("magic", [-1, 3, 100])
    def test_a_magic_of_the_future_is_corrupt(self, rules: ValidationRules, magic: int) -> None:
        assert refused(patched(batch_of(), ">b", 16, magic, crc=False), rules) is ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("length", [-1, 0, 13, 14, 20, 48])
    def test_a_length_too_small_is_corrupt(self, rules: ValidationRules, length: int) -> None:
        assert refused(patched(batch_of(), ">i", 8, length, crc=False), rules) is ErrorCode.CORRUPT_MESSAGE

    def test_a_length_beyond_the_data_is_an_invalid_record(self, rules: ValidationRules) -> None:
        assert refused(patched(batch_of(), ">i", 8, 2000, crc=False), rules) is ErrorCode.INVALID_RECORD
        assert refused(b"", rules) is ErrorCode.INVALID_RECORD

    def test_a_wrong_crc_is_corrupt(self, rules: ValidationRules) -> None:
        assert refused(patched(batch_of(), ">I", 17, 5, crc=False), rules) is ErrorCode.CORRUPT_MESSAGE

    def test_a_second_batch_is_an_invalid_record(self, rules: ValidationRules) -> None:
        assert refused(batch_of() + batch_of(), rules) is ErrorCode.INVALID_RECORD

    def test_a_base_offset_is_an_invalid_record_even_in_a_batch_too_large(self, rules: ValidationRules) -> None:
        batch = patched(batch_of(), ">q", 0, 5)
        assert refused(batch, replace(rules, max_message_bytes=10)) is ErrorCode.INVALID_RECORD

    def test_a_batch_too_large_is_that_whatever_its_crc(self, rules: ValidationRules) -> None:
        batch = patched(batch_of(), ">I", 17, 5, crc=False)
        assert refused(batch, replace(rules, max_message_bytes=len(batch) - 1)) is ErrorCode.MESSAGE_TOO_LARGE
        check(batch_of(), replace(rules, max_message_bytes=len(batch)))

    @pytest.mark.parametrize(
        ("last_offset_delta", "count"), [(1, 3), (1, 0), (1, -1), (5, 2), (-1, 2), (-2, 2), (-1, 0), (-2, -1)]
    )
    def test_a_count_that_is_not_the_span_of_offsets_is_an_invalid_record(
        self, rules: ValidationRules, last_offset_delta: int, count: int
    ) -> None:
        batch = patched(patched(batch_of(), ">i", 23, last_offset_delta), ">i", 57, count)
        assert refused(batch, rules) is ErrorCode.INVALID_RECORD

    def test_control_records_of_a_client_are_an_invalid_record(self, rules: ValidationRules) -> None:
        assert refused(batch_of(control=True), rules) is ErrorCode.INVALID_RECORD

    def test_a_producer_without_a_sequence_is_an_invalid_record(self, rules: ValidationRules) -> None:
        assert refused(build_batch([record()], producer_id=7, producer_epoch=0), rules) is ErrorCode.INVALID_RECORD
        check(build_batch([record()], producer_id=7, producer_epoch=0, base_sequence=0), rules)
        check(build_batch([record()], base_sequence=4), rules)
        check(build_batch([record()], producer_id=-2, base_sequence=-5), rules)

    @pytest.mark.parametrize("codec", [5, 6, 7])
    def test_an_unknown_codec_is_a_server_error(self, rules: ValidationRules, codec: int) -> None:
        assert refused(with_attributes(batch_of(), codec), rules) is ErrorCode.UNKNOWN_SERVER_ERROR

    def test_unknown_attributes_are_kept(self, rules: ValidationRules) -> None:
        for attributes in (0x7F80, -0x80):
            assert check(with_attributes(batch_of(), attributes), rules).header.attributes == attributes

    def test_a_coordinator_may_write_control_records_and_offsets(self, rules: ValidationRules) -> None:
        batch = patched(batch_of(control=True), ">q", 0, 5)
        validated = validate(batch, rules, NOW, PARTITION, AppendOrigin.COORDINATOR)
        assert bytes(validated.buffer) == batch


@DEPTHS
class TestTimestamps:
    @pytest.mark.parametrize("codec", Compression)
    def test_a_record_of_the_future_is_an_invalid_timestamp(self, rules: ValidationRules, codec: Compression) -> None:
        late = NOW + HOUR + 1
        batch = batch_of(record(), record(late), record(NOW + HOUR), compression=codec)
        assert record_errors(batch, replace(rules, before_max_ms=1000)) == (
            ErrorCode.INVALID_TIMESTAMP,
            [
                (
                    1,
                    (
                        f"Timestamp {late} of message with offset 1 is out of range. "
                        f"The timestamp should be within [{NOW - 1000}, {NOW + HOUR}]"
                    ),
                )
            ],
        )

    def test_a_record_of_the_past_is_an_invalid_timestamp_only_where_there_is_a_bound(
        self, rules: ValidationRules
    ) -> None:
        batch = batch_of(record(), record(NOW - 1001))
        check(batch, rules)
        code, errors = record_errors(batch, replace(rules, before_max_ms=1000))
        assert (code, [index for index, _ in errors]) == (ErrorCode.INVALID_TIMESTAMP, [1])

    def test_records_without_a_timestamp_pass(self, rules: ValidationRules) -> None:
        check(batch_of(record(-1), record(-1)), replace(rules, before_max_ms=1000))

    @pytest.mark.parametrize("claimed", [1, NOW + 10 * HOUR], ids=["too small", "of the future"])
    def test_a_wrong_maximum_is_corrected(self, rules: ValidationRules, claimed: int) -> None:
        validated = check(patched(batch_of(record(NOW - 5), record(NOW - 9)), ">q", 35, claimed), rules)
        assert validated.header.max_timestamp == NOW - 5

    def test_a_client_s_log_append_time_bit_is_cleared(self, rules: ValidationRules) -> None:
        validated = check(with_attributes(batch_of(), 0x08), rules)
        assert (validated.header.attributes, validated.header.max_timestamp) == (0, NOW)

    def test_a_log_append_time_bit_without_a_timestamp_is_an_invalid_timestamp(self, rules: ValidationRules) -> None:
        code, errors = record_errors(with_attributes(batch_of(record(-1)), 0x08), rules)
        assert code is ErrorCode.INVALID_TIMESTAMP
        reason = (
            "Invalid timestamp type in message DefaultRecord(offset=0, timestamp=-1, key=0 bytes, value=1 bytes). "
            "Producer should not set timestamp type to LogAppendTime."
        )
        assert errors == [(0, reason)]

    @pytest.mark.parametrize("codec", Compression)
    def test_log_append_time_stamps_the_batch_and_keeps_the_first_timestamp(
        self, rules: ValidationRules, codec: Compression
    ) -> None:
        rules = replace(rules, timestamp_type=TimestampType.LOG_APPEND_TIME)
        validated = check(batch_of(record(NOW + 10 * HOUR), record(5), compression=codec), rules)
        assert validated.log_append_time_ms == NOW
        header = validated.header
        assert (header.attributes, header.base_timestamp, header.max_timestamp) == (codec | 8, NOW + 10 * HOUR, NOW)
        assert [each[1] for each in contents(validated.buffer)] == [NOW, NOW]

    def test_a_client_must_not_stamp_for_log_append_time(self, rules: ValidationRules) -> None:
        rules = replace(rules, timestamp_type=TimestampType.LOG_APPEND_TIME)
        batch = bytearray(batch_of(record(), record(), compression=Compression.GZIP))
        set_max_timestamp(batch, 0, NOW, TimestampType.LOG_APPEND_TIME)
        code, errors = record_errors(bytes(batch), rules)
        assert (code, len(errors)) == (ErrorCode.INVALID_TIMESTAMP, 2)
        assert "message PartialDefaultRecord(offset=0" in str(errors[0][1])
        assert "key=-1 bytes" in str(errors[0][1])


class TestCompactedTopics:
    RULES = ValidationRules(compacted=True)

    @pytest.mark.parametrize("codec", Compression)
    def test_records_without_a_key_are_refused_one_by_one(self, codec: Compression) -> None:
        keyed = record(key=b"k")
        check(batch_of(keyed, record(key=b""), compression=codec), self.RULES)
        batch = batch_of(keyed, record(), keyed, *[record()] * 4, compression=codec)
        with pytest.raises(RecordValidationError) as caught:
            validate(batch, self.RULES, NOW, PARTITION)
        error = caught.value
        assert error.code is ErrorCode.INVALID_RECORD
        reason = "Compacted topic cannot accept message without key in topic partition t-0"
        assert error.record_errors == [(index, reason) for index in (1, 3, 4, 5, 6)]
        assert error.message == (
            "One or more records have been rejected due to 5 record errors in total, and only showing the first three "
            f"errors at most: [RecordError(batchIndex=1, message='{reason}'), "
            f"RecordError(batchIndex=3, message='{reason}'), RecordError(batchIndex=4, message='{reason}')]"
        )

    def test_a_wrong_timestamp_outranks_a_missing_key(self) -> None:
        code, errors = record_errors(batch_of(record(NOW + 2 * HOUR, b"k"), record()), self.RULES)
        assert (code, [index for index, _ in errors]) == (ErrorCode.INVALID_TIMESTAMP, [0, 1])

    def test_the_errors_of_a_huge_batch_are_counted_but_not_all_listed(self) -> None:
        batch = batch_of(*[record()] * (LISTED_ERRORS + 5), compression=Compression.ZSTD)
        with pytest.raises(RecordValidationError, match=f"due to {LISTED_ERRORS + 5} record errors") as caught:
            validate(batch, self.RULES, NOW, PARTITION)
        assert len(caught.value.record_errors) == LISTED_ERRORS

    def test_a_coordinator_is_trusted(self) -> None:
        validate(batch_of(), self.RULES, NOW, PARTITION, AppendOrigin.COORDINATOR)


class TestWalk:
    @pytest.mark.parametrize("codec", CODECS)
    def test_data_that_does_not_decompress_is_a_server_error(self, codec: Compression) -> None:
        large = [record(value=random.Random(n).randbytes(SMALL_BATCH)) for n in range(5)]
        garbage = with_attributes(batch_of(*large), codec)
        cut = batch_of(*large, compression=codec)[:-3]
        cut = patched(cut, ">i", 8, len(cut) - 12)
        for batch in (garbage, cut):
            check(batch, HEADER_ONLY)
            assert refused(batch, FULL) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert refused(with_attributes(batch_of(), codec), HEADER_ONLY) is ErrorCode.UNKNOWN_SERVER_ERROR

    @pytest.mark.parametrize("codec", Compression)
    @pytest.mark.parametrize("count", [1, 3])
    def test_a_count_that_is_not_the_number_of_records_is_an_invalid_record(
        self, codec: Compression, count: int
    ) -> None:
        def counted(size: int) -> bytes:
            content = random.Random(size).randbytes(size)
            batch = batch_of(record(value=content), record(), compression=codec)
            return patched(patched(batch, ">i", 23, count - 1), ">i", 57, count)

        check(counted(SMALL_BATCH), HEADER_ONLY)
        assert refused(counted(SMALL_BATCH), FULL) is ErrorCode.INVALID_RECORD
        assert refused(counted(10), HEADER_ONLY) is ErrorCode.INVALID_RECORD

    @DEPTHS
    def test_a_large_record_is_refused_in_a_compressed_batch_only(self, rules: ValidationRules) -> None:
        rules = replace(rules, max_record_bytes=100)
        check(batch_of(*[record(value=b"x" * 90)] * 5, compression=Compression.GZIP), rules)
        check(batch_of(record(value=b"x" * 101)), rules)
        assert refused(batch_of(record(value=b"x" * 101), compression=Compression.GZIP), rules) is (
            ErrorCode.INVALID_RECORD
        )

    @pytest.mark.parametrize("codec", CODECS)
    def test_a_bomb_is_an_invalid_record(self, codec: Compression) -> None:
        batch = batch_of(*[record(value=bytes(100_000))] * 20, compression=codec)
        assert len(batch) < 110_000
        check(batch, FULL)
        assert refused(batch, replace(FULL, max_decompressed=1_000_000)) is ErrorCode.INVALID_RECORD

    def test_offsets_out_of_order_pass_plain_and_fail_compressed(self) -> None:
        records = [record()._replace(offset=1), record()]
        plain = build_batch(records, keep_offsets=True, last_offset=1)
        check(plain, FULL)
        compressed = build_batch(records, keep_offsets=True, last_offset=1, compression=Compression.GZIP)
        assert refused(compressed, FULL) is ErrorCode.UNKNOWN_SERVER_ERROR
        numbered = check(plain, replace(HEADER_ONLY, compression=Compression.GZIP))
        assert [each[0] for each in contents(numbered.buffer)] == [0, 1]


class TestRecompression:
    @pytest.mark.parametrize("source", Compression)
    @pytest.mark.parametrize("target", Compression)
    def test_a_batch_takes_the_codec_of_the_topic(self, source: Compression, target: Compression) -> None:
        records = [Record(0, NOW, b"k", b"v" * 30, [("h", b"1"), ("n", None)]), Record(0, NOW - 5, None, None)]
        batch = build_batch(
            records, compression=source, producer_id=7, producer_epoch=1, base_sequence=3, transactional=True
        )
        validated = check(batch, ValidationRules(compression=target))
        header = validated.header
        assert header.compression is target
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 3)
        assert (header.base_timestamp, header.max_timestamp, header.record_count) == (NOW, NOW, 2)
        assert header.is_transactional
        assert contents(validated.buffer) == contents(batch)
        if source is target:
            assert bytes(validated.buffer) == batch

    def test_a_rebuilt_batch_has_the_time_of_the_append(self) -> None:
        rules = ValidationRules(compression=Compression.LZ4, timestamp_type=TimestampType.LOG_APPEND_TIME)
        validated = check(batch_of(record(5), record(6)), rules)
        assert (validated.header.base_timestamp, validated.header.max_timestamp) == (5, NOW)
        assert validated.log_append_time_ms == NOW

    def test_a_batch_that_grows_past_the_limit_is_too_large(self) -> None:
        batch = batch_of(record(value=bytes(1000)), compression=Compression.GZIP)
        rules = ValidationRules(compression=Compression.NONE, max_message_bytes=200)
        assert refused(batch, rules) is ErrorCode.MESSAGE_TOO_LARGE

    def test_records_are_checked_before_they_are_rebuilt(self) -> None:
        rules = ValidationRules(compression=Compression.GZIP)
        assert refused(batch_of(record(NOW + 2 * HOUR)), rules) is ErrorCode.INVALID_TIMESTAMP

    def test_a_negative_timestamp_cannot_be_rebuilt(self) -> None:
        batch = batch_of(record(-2))
        check(batch, FULL)
        assert refused(batch, ValidationRules(compression=Compression.GZIP)) is ErrorCode.UNKNOWN_SERVER_ERROR

    def test_control_records_keep_their_codec(self) -> None:
        rules = ValidationRules(compression=Compression.GZIP)
        batch = batch_of(control=True)
        assert bytes(validate(batch, rules, NOW, PARTITION, AppendOrigin.COORDINATOR).buffer) == batch

    def test_the_level_of_the_topic_is_used(self) -> None:
        batch = batch_of(record(value=b"abcdefgh" * 1000 + bytes(range(256)) * 20))
        sizes = [
            check(batch, ValidationRules(compression=Compression.GZIP, compression_level=level)).header.size
            for level in (1, 9)
        ]
        assert sizes[0] > sizes[1]


@given(
    codec=st.sampled_from(Compression),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    cut=st.integers(0, 100),
    rules=st.sampled_from(
        [
            HEADER_ONLY,
            FULL,
            ValidationRules(compacted=True, timestamp_type=TimestampType.LOG_APPEND_TIME),
            ValidationRules(compression=Compression.ZSTD, max_decompressed=10_000),
        ]
    ),
    crc=st.booleans(),
)
def test_mutated_batches_raise_nothing_but_errors_with_a_code(
    codec: Compression, changes: list[tuple[int, int]], cut: int, rules: ValidationRules, crc: bool
) -> None:
    buffer = bytearray(batch_of(*[Record(0, NOW, b"k", b"value" * 5, [("h", b"x")])] * 10, compression=codec))
    for position, byte in changes:
        buffer[8 + position % (len(buffer) - 8)] = byte
    data = buffer[: len(buffer) - cut]
    if crc:
        struct.pack_into(">i", data, 8, len(data) - 12)
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    with contextlib.suppress(ApiError):
        check_produce_records(bytes(data), 8)
    with contextlib.suppress(ApiError):
        check(bytes(data), rules)


def test_the_header_is_what_the_check_answers() -> None:
    header = check_header(batch_of(), PARTITION)
    assert isinstance(header, BatchHeader)
    assert header.record_count == 2
