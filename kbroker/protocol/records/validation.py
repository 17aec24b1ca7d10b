"""What Kafka checks before a leader appends a batch: from bytes and rules to a batch that may be written.

The order of the checks, their codes and their words are Apache Kafka's (``ProduceRequest.validateRecords``,
``UnifiedLog.analyzeAndValidateRecords``, ``LogValidator``). There are two depths, the header alone or every record. The
header decides where it can. Records are walked where the topic is compacted (each needs a key), where timestamps have a
lower bound, where records inside compressed batches have a limit, where the codec changes, where the header hints at a
timestamp that is refused or at a wrong maximum, in batches so small that it costs next to nothing, and always under
``ValidationRules.full``. Otherwise three things pass that Kafka refuses or corrects: records that do not decompress, a
number of records that is not the header's, timestamps that the header's maximum does not cover.

A batch that must change only in maximum timestamp or timestamp type is patched; one whose codec changes is built anew.
Record errors are KIP-467's. Offsets, leader epochs, producers' sequences and segment sizes are the log's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    CODEC_BITS,
    CONTROL_BIT,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    Record,
    TimestampType,
    WritableBuffer,
    build_batch,
    read_header,
    read_records,
    set_max_timestamp,
)
from kbroker.protocol.records.checksum import crc32c
from kbroker.protocol.records.compression import MAX_DECOMPRESSED, Compression, ReadableBuffer, unknown_codec
from kbroker.protocol.records.errors import CorruptRecordError, InvalidRecordError, RecordValidationError
from kbroker.types import TopicPartition

UNBOUNDED: Final = 2**63 - 1
"""The value of ``message.timestamp.before.max.ms`` and its like that forbids nothing."""

SMALL_BATCH: Final = 512
"""Up to so many bytes a batch is walked whatever the depth: some microseconds, next to those of its request."""

WALK_LIMIT: Final = 128 * 1024 * 1024
"""How many bytes a walk decompresses at most. Kafka streams without a limit; here a walk stops all other work."""

LISTED_ERRORS: Final = 10_000
"""How many record errors one answer lists at most: an answer must not outgrow its request a thousandfold."""

_SMALLEST_LEGACY_RECORD: Final = 14
_HEADER_UP_TO_MAGIC: Final = 17


class AppendOrigin(IntEnum):
    """Who appends (Kafka's ``AppendOrigin``). A follower's append is not validated."""

    CLIENT = 0
    COORDINATOR = 1
    RAFT_LEADER = 2


# A member of an enum costs more to look up than to compare with, and these stand on the way of every batch.
_CLIENT: Final = AppendOrigin.CLIENT
_LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME
_LAST_CODEC: Final = int(Compression.ZSTD)


@dataclass(frozen=True, slots=True)
class ValidationRules:
    """What a topic's config asks of a batch; made once per config, not per batch."""

    compacted: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    before_max_ms: int = UNBOUNDED
    after_max_ms: int = 3_600_000
    compression: Compression | None = None
    """The topic's codec; None is ``producer``: as it came."""
    compression_level: int | None = None
    max_message_bytes: int = 1_048_588
    max_record_bytes: int = MAX_DECOMPRESSED
    """``max.decompressed.message.bytes``: the largest record inside a compressed batch."""
    max_decompressed: int = WALK_LIMIT
    full: bool = False


class ValidatedBatch(NamedTuple):
    """A batch that may be appended: exactly its bytes, writable, base offset and leader epoch still as they came."""

    header: BatchHeader
    buffer: WritableBuffer
    log_append_time_ms: int


def check_produce_records(records: ReadableBuffer | None, version: int) -> None:
    """What a Produce request of ``version`` (3 and later) may carry for a partition: one batch of format 2."""
    if records is None or (header := _next_batch(records, 0)) is None:
        raise InvalidRecordError(
            f"Produce requests with version {version} must have at least one record batch per partition"
        )
    if version < 7 and header.compression is Compression.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {version} are not allowed to use ZStandard compression",
        )
    if header.size != len(records) and _next_batch(records, header.size) is not None:
        raise InvalidRecordError(
            f"Produce requests with version {version} are only allowed to contain exactly one record batch per "
            "partition"
        )


def check_header(
    records: ReadableBuffer,
    partition: TopicPartition,
    *,
    max_message_bytes: int = UNBOUNDED,
    origin: AppendOrigin = _CLIENT,
) -> BatchHeader:
    """All checks that need the header and the CRC alone, in Kafka's order. A cut batch behind the first is ignored."""
    header = _next_batch(records, 0)
    if header is None:
        raise InvalidRecordError("Record batch has no batches at all")
    base_offset, length, _, _, crc, attributes, last_delta, _, _, producer_id, _, base_sequence, count = header
    size = LOG_OVERHEAD + length
    is_client = origin is _CLIENT
    if is_client and base_offset != 0:
        raise InvalidRecordError(
            f"The baseOffset of the record batch in the append to {partition} should be 0, but it is {base_offset}"
        )
    if size > max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {partition} is {size} bytes which exceeds the maximum configured "
            f"value of {max_message_bytes}.",
        )
    if crc32c(memoryview(records)[ATTRIBUTES_OFFSET:size]) != crc:
        raise CorruptRecordError(f"Record is corrupt (stored crc = {crc}) in topic partition {partition}.")
    if attributes & CODEC_BITS > _LAST_CODEC:
        raise unknown_codec(attributes & CODEC_BITS)
    if size != len(records) and _next_batch(records, size) is not None:
        raise InvalidRecordError("Compressed outer record has more than one batch")
    if is_client and (
        last_delta + 1 != count or count <= 0 or attributes & CONTROL_BIT or (producer_id >= 0 and base_sequence < 0)
    ):
        raise _refused_of_client(header, partition)
    return header


def _next_batch(records: ReadableBuffer, position: int) -> BatchHeader | None:
    """The header of the batch that begins at ``position``; None when no whole batch is there."""
    left = len(records) - position
    if left >= BATCH_OVERHEAD:
        header = read_header(records, position)
        if header.magic == MAGIC and BATCH_OVERHEAD - LOG_OVERHEAD <= header.batch_length <= left - LOG_OVERHEAD:
            return header
    if left < LOG_OVERHEAD:
        return None
    size = int.from_bytes(records[position + 8 : position + 12], signed=True)
    if size < _SMALLEST_LEGACY_RECORD:
        raise CorruptRecordError(
            f"Record size {size} is less than the minimum record overhead ({_SMALLEST_LEGACY_RECORD})"
        )
    if left < _HEADER_UP_TO_MAGIC:
        return None
    magic = int.from_bytes(records[position + 16 : position + 17], signed=True)
    if not 0 <= magic <= MAGIC:
        raise CorruptRecordError(f"Invalid magic found in record: {magic}")
    if size > left - LOG_OVERHEAD:
        return None
    if magic != MAGIC:
        raise InvalidRecordError(f"Only record batches with magic version 2 are accepted, not {magic}")
    raise CorruptRecordError(
        f"Record batch is corrupt (the size {LOG_OVERHEAD + size} is smaller than the minimum allowed overhead "
        f"{BATCH_OVERHEAD})"
    )


def _refused_of_client(header: BatchHeader, partition: TopicPartition) -> InvalidRecordError:
    """Which of the rules for a client's header is broken."""
    where = f"in topic partition {partition}"
    span = f"[{header.base_offset}, {header.last_offset}]"
    count = header.record_count
    if header.last_offset_delta < 0:
        return InvalidRecordError(f"Batch has an invalid offset range: {span} {where}")
    if count <= 0:
        return InvalidRecordError(f"Invalid reported count for record batch: {count} {where}")
    if header.last_offset_delta + 1 != count:
        return InvalidRecordError(f"Inconsistent batch offset range {span} and count of records {count} {where}")
    if header.is_control:
        return InvalidRecordError(f"Clients are not allowed to write control records {where}")
    return InvalidRecordError(
        f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id} {where}"
    )


def validate(
    records: ReadableBuffer,
    rules: ValidationRules,
    now_ms: int,
    partition: TopicPartition,
    origin: AppendOrigin = _CLIENT,
) -> ValidatedBatch:
    """Check a batch that a leader is to append, and bring it to the topic's timestamp type and codec.

    ``records`` is patched in place where it is writable and the batch keeps its codec, otherwise copied. Raises
    ApiError with Kafka's code; RecordValidationError when records are refused one by one. What this broker's own
    coordinators and quorum append is trusted: it is not walked.
    """
    header = check_header(records, partition, max_message_bytes=rules.max_message_bytes, origin=origin)
    attributes = header.attributes
    target = attributes & CODEC_BITS if rules.compression is None else rules.compression
    rebuild = target != attributes & CODEC_BITS and not attributes & CONTROL_BIT  # control records stay as they came
    append_time = rules.timestamp_type is _LOG_APPEND_TIME
    max_timestamp = header.max_timestamp
    view = memoryview(records)[: header.size]
    if rebuild or (origin is _CLIENT and _needs_walk(header, view, rules, now_ms)):
        walk = _walk(header, view, rules, now_ms, partition, keep=rebuild)
        if rebuild:
            return _rebuild(header, walk.records, Compression(target), rules, now_ms, partition)
        max_timestamp = walk.max_timestamp
    buffer: WritableBuffer = bytearray(view) if view.readonly else view
    if append_time:
        max_timestamp = now_ms
    if max_timestamp != header.max_timestamp or bool(attributes & TIMESTAMP_TYPE_BIT) != append_time:
        set_max_timestamp(buffer, 0, max_timestamp, rules.timestamp_type)
        header = read_header(buffer)
    return ValidatedBatch(header, buffer, now_ms if append_time else -1)


def _needs_walk(header: BatchHeader, batch: memoryview, rules: ValidationRules, now_ms: int) -> bool:
    """Whether only the records can tell if a client's batch is refused, or what its maximum timestamp is."""
    if rules.full or rules.compacted:
        return True
    if header.batch_length <= SMALL_BATCH and not _is_plainly_one_record(header, batch):
        return True
    if rules.max_record_bytes < MAX_DECOMPRESSED and header.attributes & CODEC_BITS:
        return True
    stamped_by_client = header.attributes & TIMESTAMP_TYPE_BIT != 0
    if rules.timestamp_type is _LOG_APPEND_TIME:
        return stamped_by_client
    return (
        rules.before_max_ms != UNBOUNDED
        or header.max_timestamp - now_ms > rules.after_max_ms
        or header.base_timestamp > header.max_timestamp
        or (stamped_by_client and header.max_timestamp == NO_TIMESTAMP)
    )


def _is_plainly_one_record(header: BatchHeader, batch: memoryview) -> bool:
    """Whether a batch says of one uncompressed record what its length says, too: the walk would tell nothing more.

    The length is a zigzag varint of one or two bytes; it counts what follows it.
    """
    if header.record_count != 1 or header.attributes & CODEC_BITS or header.base_timestamp != header.max_timestamp:
        return False
    first = batch[BATCH_OVERHEAD] if len(batch) > BATCH_OVERHEAD + 1 else 1
    if first < 0x80:
        return first == 2 * (len(batch) - BATCH_OVERHEAD - 1)
    return (first & 0x7F | batch[BATCH_OVERHEAD + 1] << 7) == 2 * (len(batch) - BATCH_OVERHEAD - 2)


class _Walk(NamedTuple):
    max_timestamp: int
    records: list[Record]


def _walk(
    header: BatchHeader,
    batch: memoryview,
    rules: ValidationRules,
    now_ms: int,
    partition: TopicPartition,
    *,
    keep: bool,
) -> _Walk:
    """Check every record; the largest timestamp, and the records themselves where they are kept to be rebuilt."""
    stamped_by_client = header.timestamp_type is _LOG_APPEND_TIME
    create_time = rules.timestamp_type is TimestampType.CREATE_TIME
    earliest = now_ms - rules.before_max_ms
    latest = now_ms + rules.after_max_ms
    shown_latest = latest if latest <= UNBOUNDED else latest - (1 << 64)  # Java's sum overflows
    largest = NO_TIMESTAMP
    in_order = True
    kept: list[Record] = []
    errors = _RecordErrors()
    partially = not keep and header.attributes & CODEC_BITS != 0
    walk = read_records(
        batch, max_decompressed=rules.max_decompressed, max_record=rules.max_record_bytes, partially=partially
    )
    for index, record in enumerate(walk):
        timestamp = record.timestamp
        if rules.compacted and record.key is None:
            errors.add(index, f"Compacted topic cannot accept message without key in topic partition {partition}")
        elif create_time and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                errors.add_timestamp(
                    index,
                    f"Timestamp {timestamp} of message with offset {record.offset} is out of range. The timestamp "
                    f"should be within [{earliest}, {shown_latest}]",
                )
        elif stamped_by_client:
            errors.add_timestamp(
                index,
                f"Invalid timestamp type in message {_describe(record, partially)}. Producer should not set timestamp "
                "type to LogAppendTime.",
            )
        if timestamp > largest:
            largest = timestamp
        if record.offset != header.base_offset + index:
            in_order = False
        if keep:
            kept.append(record)
    errors.raise_if_any()
    if not in_order and not keep and header.compression:
        # Kafka meets this too late to have the records at hand, and fails without a code of its own.
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"The offsets inside the compressed batch for {partition} do not count up from 0",
        )
    return _Walk(largest, kept)


def _rebuild(
    header: BatchHeader,
    records: list[Record],
    codec: Compression,
    rules: ValidationRules,
    now_ms: int,
    partition: TopicPartition,
) -> ValidatedBatch:
    reason = _unbuildable(header, records)
    if reason is not None:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"A batch for {partition} {reason}")
    append_time = rules.timestamp_type is _LOG_APPEND_TIME
    batch = build_batch(
        records,
        base_offset=header.base_offset,
        compression=codec,
        level=rules.compression_level,
        timestamp_type=rules.timestamp_type,
        max_timestamp=now_ms if append_time else None,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.partition_leader_epoch,
        transactional=header.is_transactional,
    )
    if len(batch) > rules.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"Message batch size is {len(batch)} bytes in append to partition {partition} which exceeds the maximum "
            f"configured size of {rules.max_message_bytes}.",
        )
    return ValidatedBatch(read_header(batch), bytearray(batch), now_ms if append_time else -1)


def _unbuildable(header: BatchHeader, records: list[Record]) -> str | None:
    """What a batch may come with, but not be built with (Kafka's ``MemoryRecordsBuilder``)."""
    if any(record.timestamp < NO_TIMESTAMP for record in records):
        return "has records of negative timestamps"
    if header.producer_id == NO_PRODUCER_ID:
        return "is transactional without a producer id" if header.is_transactional else None
    if header.producer_epoch == NO_PRODUCER_EPOCH or header.base_sequence < 0:
        return f"of producer {header.producer_id} has no epoch or no sequence"
    return None


def _describe(record: Record, partially: bool) -> str:
    """As Kafka prints a record: of one that it has read partially it knows only the sizes, where null is -1."""
    partial, null = ("Partial", -1) if partially else ("", 0)
    key, value = (null if data is None else len(data) for data in (record.key, record.value))
    return (
        f"{partial}DefaultRecord(offset={record.offset}, timestamp={record.timestamp}, key={key} bytes, "
        f"value={value} bytes)"
    )


class _RecordErrors:
    """The record errors of one batch: all are counted, the first ``LISTED_ERRORS`` are kept."""

    __slots__ = ("_count", "_listed", "_of_timestamp")

    def __init__(self) -> None:
        self._count = 0
        self._of_timestamp = False
        self._listed: list[tuple[int, str | None]] = []

    def add(self, index: int, message: str) -> None:
        self._count += 1
        if self._count <= LISTED_ERRORS:
            self._listed.append((index, message))

    def add_timestamp(self, index: int, message: str) -> None:
        self._of_timestamp = True
        self.add(index, message)

    def raise_if_any(self) -> None:
        if not self._count:
            return
        if self._of_timestamp:
            raise RecordValidationError(
                ErrorCode.INVALID_TIMESTAMP,
                "One or more records have been rejected due to invalid timestamp",
                self._listed,
            )
        first = ", ".join(
            f"RecordError(batchIndex={index}, message='{message}')" for index, message in self._listed[:3]
        )
        raise RecordValidationError(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {self._count} record errors in total, and only showing "
            f"the first three errors at most: [{first}]",
            self._listed,
        )
