"""Between the record formats 0 and 1 of old clients (``legacy``) and the batches of format 2 in the log.

Up: what Produce 0 to 2 bring becomes one batch, which ``validation`` then holds against the topic like any other. Down:
what a log holds becomes what Fetch 0 to 3 understand, batch by batch, as the answer leaves. The rules, and what gets
lost on the way down (headers, control batches, in format 0 timestamps), are those of Kafka 3.9: ``LogValidator``,
``RecordsUtil.downConvert``, ``LazyDownConversionRecords`` (KIP-283).

A down-converted answer must say its size before it is made. It promises the size that the records have in the log, or
that of the first converted batch if that is larger; it fills what is missing with the begin of a message that is longer
than what is left, which clients take for one that was cut.
"""

from __future__ import annotations

from typing import Final, Protocol

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import (
    BATCH_OVERHEAD,
    CODEC_BITS,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    build_batch,
    read_header,
    read_records,
)
from kbroker.protocol.records.compression import Compression, ReadableBuffer
from kbroker.protocol.records.errors import CorruptRecordError, InvalidRecordError, RecordValidationError
from kbroker.protocol.records.legacy import (
    Message,
    build_message_set,
    check_crc,
    inner_messages,
    message_views,
    read_message,
)
from kbroker.protocol.records.validation import UNBOUNDED, WALK_LIMIT
from kbroker.types import TopicPartition

_OVERFLOW_HEADER_SIZE: Final = LOG_OVERHEAD
"""What is sent of the overflowing message at least, where nothing is left of the records after conversion."""


def is_legacy(records: ReadableBuffer) -> bool:
    """Whether bytes of a Produce 0 to 2 are for ``up_convert``: a message set, or nothing whole, and no batch."""
    return len(records) < 17 or records[16] != 2


def up_convert(
    records: ReadableBuffer,
    partition: TopicPartition,
    *,
    codec: Compression | None = None,
    level: int | None = None,
    max_message_bytes: int = UNBOUNDED,
) -> bytearray | None:
    """One batch of format 2 that holds a message set's records, from offset 0 on; None when there are none.

    ``codec`` is the topic's own; None keeps the producer's. ``ApiError`` with Kafka's codes, in Kafka's order: first
    what each message says of itself, then what they say together, then what lies inside.
    """
    messages = _checked_messages(records, partition, max_message_bytes)
    if not messages:
        return None
    source = next((message.compression for message in reversed(messages) if message.compression), Compression.NONE)
    if source and len(messages) > 1:
        raise InvalidRecordError("Compressed outer record has more than one batch")
    first = messages[0]
    for message in messages:
        if message.magic != first.magic:
            raise InvalidRecordError(
                f"Batch magic {message.magic} is not the same as the first batch's magic byte {first.magic} in topic "
                f"partition {partition}"
            )
    if source:
        messages = _unwrapped(first, partition)
    converted = [Record(index, message.timestamp, message.key, message.value) for index, message in enumerate(messages)]
    if any(record.timestamp < NO_TIMESTAMP for record in converted):
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"A message for {partition} has a negative timestamp")
    return bytearray(
        build_batch(
            converted,
            compression=source if codec is None else codec,
            level=level,
            timestamp_type=first.timestamp_type,
            max_timestamp=max(record.timestamp for record in converted),
        )
    )


def _checked_messages(records: ReadableBuffer, partition: TopicPartition, max_message_bytes: int) -> list[Message]:
    messages = []
    for magic, view in message_views(records):
        if len(view) > max_message_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The record batch size in the append to {partition} is {len(view)} bytes which exceeds the maximum "
                f"configured value of {max_message_bytes}.",
            )
        if magic > 1:
            raise InvalidRecordError(
                f"Batch magic {magic} is not the same as the first batch's in topic partition {partition}"
            )
        check_crc(view)
        message = read_message(view)
        if message.attributes & CODEC_BITS:
            message.compression  # noqa: B018 - raises where there is no such codec
        messages.append(message)
    return messages


def _unwrapped(wrapper: Message, partition: TopicPartition) -> list[Message]:
    messages = inner_messages(wrapper, WALK_LIMIT)
    errors: list[tuple[int, str | None]] = []
    for index, message in enumerate(messages):
        if message.magic != wrapper.magic:
            errors.append(
                (
                    index,
                    f"Record's magic does not match outer magic {wrapper.magic} in topic partition {partition}",
                )
            )
        else:
            check_crc(message.data)
    if errors:
        raise RecordValidationError(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {len(errors)} record errors in total",
            errors,
        )
    return messages


def down_convert(header: BatchHeader, batch: ReadableBuffer, magic: int, first_offset: int) -> bytes:
    """One batch as a message set of format ``magic`` (0 or 1); empty where nothing of it is to be told.

    Control batches are dropped. Of an uncompressed batch the records below ``first_offset``, which nobody asked for,
    are dropped too: some versions of librdkafka rely on it. UNSUPPORTED_COMPRESSION_TYPE for zstd, otherwise the
    errors of ``read_records``.
    """
    if header.is_control:
        return b""
    codec = header.compression
    if codec is Compression.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "Down-conversion of zstandard-compressed batches is not supported"
        )
    records = read_records(batch, max_decompressed=WALK_LIMIT)
    return build_message_set(
        (record for record in records if codec or record.offset >= first_offset),
        magic,
        compression=codec,
        timestamp_type=header.timestamp_type,
    )


class RecordRange(Protocol):
    """Batches that lie in a log's file."""

    def __len__(self) -> int: ...

    def read(self, position: int, size: int) -> bytes: ...


class DownConverted:
    """Records of a log as an old client reads them: converted batch by batch while they are read, once, in order.

    No more than one batch and what was asked for is in memory. Making it converts the first batch: raises ``ApiError``
    when that is not possible, and ``OSError``.
    """

    __slots__ = ("_first_offset", "_given", "_magic", "_overflows", "_ready", "_size", "_source", "_source_position")

    def __init__(self, source: RecordRange, magic: int, first_offset: int) -> None:
        self._source = source
        self._magic = magic
        self._first_offset = first_offset
        self._source_position = 0
        self._given = 0
        self._overflows = False
        self._ready = bytearray()
        """Converted, not yet read."""
        self._ready += self._next_converted()
        if self._ready:
            self._size = max(len(source), len(self._ready))
        else:
            self._size = _OVERFLOW_HEADER_SIZE if self._source_position else 0

    def __len__(self) -> int:
        return self._size

    def read(self, position: int, size: int) -> bytes:
        """The next ``size`` bytes, which begin at ``position``. Raises ``ValueError`` when that is not where it is."""
        if position != self._given:
            raise ValueError(f"converted records are read in order: position {position} after {self._given}")
        size = min(size, self._size - position)
        ready = self._ready
        while len(ready) < size and not self._overflows:
            try:
                converted = self._next_converted()
            except ApiError:
                # The client comes back for this batch, and is told what is wrong with it.
                converted = b""
            if converted:
                ready += converted
            else:
                self._overflows = True
                left = self._size - position - len(ready)
                ready += (b"\xff" * 8 + max(left + 1, BATCH_OVERHEAD).to_bytes(4))[:left]
        if len(ready) < size:
            ready += bytes(size - len(ready))
        data = bytes(ready[:size])
        del ready[:size]
        self._given += size
        return data

    def _next_converted(self) -> bytes:
        """The next batch that is not empty after conversion; nothing at the end."""
        source = self._source
        while len(source) - self._source_position >= BATCH_OVERHEAD:
            header = read_header(source.read(self._source_position, BATCH_OVERHEAD))
            if header.size < BATCH_OVERHEAD:
                raise CorruptRecordError(f"A batch of {header.size} bytes is in the log")
            if header.size > len(source) - self._source_position:
                break
            batch = source.read(self._source_position, header.size)
            self._source_position += header.size
            converted = down_convert(header, batch, self._magic, self._first_offset)
            if converted:
                return converted
        return b""
