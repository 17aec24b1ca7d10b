"""Records of unusual content, written and read back: what is in a batch, not in its header."""

from __future__ import annotations

import struct

import crc32c

from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.protocol.records.compression import Compression
from tests.reference.conversation import Conversation, question
from tests.reference.questions.delete_records import deletion
from tests.reference.questions.list_offsets import list_request
from tests.reference.questions.produce import idempotent
from tests.reference.questions.scenery import TIME_MS, append, batch, create_topic, fetch_request, produce_request
from tests.reference.questions.transactional_producer import Producer, read

NO_TIMESTAMP = -1


def patched(records: bytes, position: int, value: int) -> bytes:
    """One byte changed, the CRC made right again."""
    changed = bytearray(records)
    changed[position] = value & 0xFF
    struct.pack_into(">I", changed, 17, crc32c.crc32c(changed[21:]))
    return bytes(changed)


@question(range(9, 14))
def records_of_every_shape(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    shapes = {
        "nothing": Record(0, TIME_MS, None, None, []),
        "empty": Record(0, TIME_MS, b"", b"", []),
        "headers": Record(0, TIME_MS, b"k", b"v", [("a", b"1"), ("", None), ("a", b""), ("ü", b"\xff")]),
        "no time": Record(0, NO_TIMESTAMP, b"k", b"v", []),
        "the beginning of time": Record(0, 0, b"k", b"v", []),
    }
    for label, record in shapes.items():
        for codec in (Compression.NONE, Compression.GZIP, Compression.ZSTD):
            records = build_batch([record], compression=codec)
            c.ask(produce_request(topic, records, topic_id=topic_id), version, label=f"{label}, {codec.name}")
    for time_ms in (-1, -2, -3, 0, 1, TIME_MS, TIME_MS + 1):
        c.ask(list_request(topic, time_ms), 9, label=f"time {time_ms}")
    c.ask(fetch_request(topic), 11, note=False)


@question(range(9, 14))
def times_that_go_back(c: Conversation, version: int) -> None:
    for configs in ({}, {"message.timestamp.type": "LogAppendTime"}):
        topic, topic_id = create_topic(c, configs=configs)
        for times in ((5, 3, 9, 1), (-1, -1), (-1, 7), (7, -1)):
            records = build_batch(
                [Record(n, TIME_MS + t if t >= 0 else t, b"k", b"v", []) for n, t in enumerate(times)]
            )
            c.ask(produce_request(topic, records, topic_id=topic_id), version, label=str(times))
        if not configs:
            for time_ms in (-3, TIME_MS, TIME_MS + 4, TIME_MS + 8, TIME_MS + 9, TIME_MS + 10):
                c.ask(list_request(topic, time_ms), 9, label=f"time {time_ms}")


@question(range(7, 14))
def one_byte_of_a_record_is_wrong(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    good = batch([b"one", b"two"])
    for position in range(61, len(good)):
        for value in (0, 1, 2, 0x7E, 0x80, 0xFF):
            records = patched(good, position, value)
            c.ask(produce_request(topic, records, topic_id=topic_id), version, label=f"byte {position} is {value}")
    c.ask(list_request(topic, -1), 9)


@question(range(4, 19))
def every_codec_is_read(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for codec in Compression:
        append(c, topic, batch([b"v" * 50] * 3, compression=codec))
    for offset in range(0, 16, 2):
        answer = c.ask(fetch_request(topic, offset, topic_id=topic_id), version, note=False)
        slot = answer.responses[0].partitions[0]
        c.note(f"from {offset}", (slot.error_code, slot.high_watermark, bytes(slot.records or b"")[:8].hex()))


@question(range(8, 14))
def several_records_of_a_batch_are_refused(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, configs={"cleanup.policy": "compact"})
    keys = (None, b"k", None, b"k", None, None)
    for codec in (Compression.NONE, Compression.LZ4):
        records = build_batch([Record(n, TIME_MS, key, b"v", []) for n, key in enumerate(keys)], compression=codec)
        c.ask(produce_request(topic, records, topic_id=topic_id), version, label=codec.name)
    bounded, bounded_id = create_topic(
        c, configs={"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
    )
    for times in ((0, 0), (TIME_MS, 0), (4_000_000_000_000, TIME_MS)):
        records = build_batch([Record(n, time_ms, b"k", b"v", []) for n, time_ms in enumerate(times)])
        answer = c.ask(produce_request(bounded, records, topic_id=bounded_id), version, note=False)
        slot = answer.responses[0].partition_responses[0]
        c.note(f"{times}", (slot.error_code, [each.batch_index for each in slot.record_errors], slot.error_message))


@question(range(7, 14))
def a_repeat_under_append_time(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, configs={"message.timestamp.type": "LogAppendTime"})
    for label in ("first", "repeat"):
        c.ask(produce_request(topic, idempotent(0, 2), topic_id=topic_id), version, label=label)
    c.ask(produce_request(topic, idempotent(0, 1), topic_id=topic_id), version, label="a part of it")
    c.ask(produce_request(topic, idempotent(1, 1), topic_id=topic_id), version, label="the other part")


@question(range(3))
def records_of_an_open_transaction_are_deleted(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    append(c, topic, batch([b"before"]))
    producer = Producer(c)
    producer.init()
    producer.add(topic)
    producer.produce(topic, topic_id, 11)
    append(c, topic, batch([b"after"]))
    for offset in (1, 2, -1):
        c.ask(deletion(topic, (0, offset)), version, label=f"below {offset}")
        for isolation in (0, 1):
            c.ask(list_request(topic, -1, isolation=isolation), 9, label=f"end, isolation {isolation}")
            c.ask(list_request(topic, -2, isolation=isolation), 9, label=f"start, isolation {isolation}")
    c.ask(DeleteRecordsRequest(topics=[], timeout_ms=10_000), version, label="nothing")
    producer.end(True)
    read(c, topic, "after the end", 3)
