"""Produce: what is refused with which code, what is accepted, what comes back."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import crc32c

from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.compression import Compression
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import TIME_MS, batch, create_topic, fetch_request, fresh_name, produce_request

SERVED = range(3, 14)
LATEST = range(13, 14)
NAMED = range(9, 10)
"""One version that still names topics: enough where the version plays no part."""


def right_crc(records: bytearray) -> bytes:
    struct.pack_into(">I", records, 17, crc32c.crc32c(records[21:]))
    return bytes(records)


def changed(position: int, layout: str, value: int, *, crc: bool = True) -> bytes:
    """A batch of two records with one field of its header changed; its CRC made right again when ``crc``."""
    records = bytearray(batch([b"one", b"two"]))
    struct.pack_into(layout, records, position, value)
    return right_crc(records) if crc else bytes(records)


@question(SERVED)
def a_batch_is_written_and_read_back(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for values in ([b"a"], [b"b", None, b""], [b"c"] * 10):
        c.ask(produce_request(topic, batch(values), topic_id=topic_id), version)
    c.ask(fetch_request(topic), 11)


@question(SERVED)
def every_level_of_acks(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for acks in (1, -1, 2, -2, 32767):
        c.ask(produce_request(topic, batch(), topic_id=topic_id, acks=acks), version, label=f"acks={acks}")


@question(SERVED)
def unknown_topics_and_partitions(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    c.ask(produce_request(topic, batch(), topic_id=topic_id, partition=1), version)
    c.ask(produce_request(topic, batch(), topic_id=topic_id, partition=-1), version)
    c.ask(produce_request(fresh_name(c), batch(), topic_id=bytes(15) + b"\x09"), version)
    c.ask(produce_request("bad name!", batch(), topic_id=bytes(16)), version)
    c.ask(produce_request("", batch(), topic_id=bytes(16)), version)


@question(SERVED)
def several_topics_and_partitions_in_one_request(c: Conversation, version: int) -> None:
    first, first_id = create_topic(c, partitions=3)
    second, second_id = create_topic(c, partitions=2)
    data = ProduceRequest.PartitionProduceData
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=first,
                topic_id=first_id,
                partition_data=[
                    data(index=2, records=batch([b"1"])),
                    data(index=0, records=batch([b"2"])),
                    data(index=7, records=batch([b"3"])),
                ],
            ),
            ProduceRequest.TopicProduceData(
                name=second, topic_id=second_id, partition_data=[data(index=1, records=batch([b"4", b"5"]))]
            ),
        ],
    )
    c.ask(request, version, unordered=True)
    c.ask(request, version, unordered=True)


@question(SERVED)
def the_same_partition_twice(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=1)
    data = ProduceRequest.PartitionProduceData
    partitions = [data(index=0, records=batch([b"first"])), data(index=0, records=batch([b"second"]))]
    one = ProduceRequest.TopicProduceData(name=topic, topic_id=topic_id, partition_data=partitions)
    c.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[one]), version)
    c.ask(fetch_request(topic), 11)


@question(SERVED)
def no_topics_and_no_partitions(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    c.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[]), version)
    empty = ProduceRequest.TopicProduceData(name=topic, topic_id=topic_id, partition_data=[])
    c.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[empty]), version)


@question(SERVED)
def every_codec(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for codec in Compression:
        records = batch([b"value" * 20] * 5, compression=codec)
        c.ask(produce_request(topic, records, topic_id=topic_id), version, label=codec.name)


WRONG: dict[str, Callable[[], bytes]] = {
    "crc": lambda: changed(17, ">I", 7, crc=False),
    "magic 0": lambda: changed(16, ">b", 0),
    "magic 1": lambda: changed(16, ">b", 1),
    "magic 3": lambda: changed(16, ">b", 3),
    "magic -1": lambda: changed(16, ">b", -1),
    "base offset": lambda: changed(0, ">q", 5),
    "negative base offset": lambda: changed(0, ">q", -1),
    "leader epoch": lambda: changed(12, ">i", 99),
    "negative leader epoch": lambda: changed(12, ">i", -7),
    "batch length beyond the data": lambda: changed(8, ">i", 5000),
    "batch length too small": lambda: changed(8, ">i", 20),
    "batch length zero": lambda: changed(8, ">i", 0),
    "batch length negative": lambda: changed(8, ">i", -1),
    "batch length one less": lambda: changed(8, ">i", len(batch([b"one", b"two"])) - 13),
    "last offset delta": lambda: changed(23, ">i", 5),
    "negative last offset delta": lambda: changed(23, ">i", -1),
    "record count too large": lambda: changed(57, ">i", 3),
    "record count too small": lambda: changed(57, ">i", 1),
    "record count zero": lambda: changed(57, ">i", 0),
    "record count negative": lambda: changed(57, ">i", -1),
    "count and delta agree but are too large": lambda: right_crc(_counted(9)),
    "count and delta agree but are too small": lambda: right_crc(_counted(1)),
    "unknown codec": lambda: changed(21, ">h", 5),
    "codec 7": lambda: changed(21, ">h", 7),
    "gzip that is not": lambda: changed(21, ">h", 1),
    "snappy that is not": lambda: changed(21, ">h", 2),
    "lz4 that is not": lambda: changed(21, ">h", 3),
    "zstd that is not": lambda: changed(21, ">h", 4),
    "log append time set by the client": lambda: changed(21, ">h", 8),
    "transactional without an id": lambda: changed(21, ">h", 16),
    "control": lambda: changed(21, ">h", 32),
    "delete horizon": lambda: changed(21, ">h", 64),
    "reserved bits": lambda: changed(21, ">h", 0x0F00),
    "max timestamp too large": lambda: changed(35, ">q", TIME_MS + 1000),
    "max timestamp too small": lambda: changed(35, ">q", TIME_MS - 1000),
    "base timestamp negative": lambda: changed(27, ">q", -1),
    "producer id without epoch": lambda: changed(43, ">q", 1000),
    "producer epoch without id": lambda: changed(51, ">h", 0),
    "sequence without id": lambda: changed(53, ">i", 0),
    "empty": lambda: b"",
    "one byte": lambda: b"\x00",
    "half a header": lambda: batch()[:30],
    "header alone": lambda: batch()[:61],
    "one byte short": lambda: batch()[:-1],
    "one byte more": lambda: batch() + b"\x00",
    "twelve bytes more": lambda: batch() + bytes(12),
    "two batches": lambda: batch() + batch(),
    "garbage": lambda: bytes(range(200)),
}


def _counted(count: int) -> bytearray:
    records = bytearray(batch([b"one", b"two"]))
    struct.pack_into(">i", records, 57, count)
    struct.pack_into(">i", records, 23, count - 1)
    return records


@question(range(6, 14))
def batches_that_are_wrong_in_one_way(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for label, make in WRONG.items():
        c.ask(produce_request(topic, make(), topic_id=topic_id), version, label=label)
    c.ask(fetch_request(topic), 11)


@question(NAMED)
def the_key_rule_of_a_compacted_topic(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, configs={"cleanup.policy": "compact"})
    c.ask(produce_request(topic, batch([b"no key"])), version)
    c.ask(produce_request(topic, batch([b"a key"], key=b"k")), version)
    c.ask(produce_request(topic, batch([None], key=b"k")), version)
    c.ask(produce_request(topic, batch([b"a", b"b"], compression=Compression.GZIP)), version)


@question(SERVED)
def timestamps_outside_the_bounds(c: Conversation, version: int) -> None:
    past, past_id = create_topic(c, configs={"message.timestamp.before.max.ms": "1000"})
    c.ask(produce_request(past, batch([b"a", b"b"]), topic_id=past_id), version)
    future, future_id = create_topic(c)
    records = bytearray(batch([b"a", b"b"]))
    struct.pack_into(">q", records, 27, 4_000_000_000_000)
    struct.pack_into(">q", records, 35, 4_000_000_000_001)
    c.ask(produce_request(future, right_crc(records), topic_id=future_id), version)
    single = bytearray(batch([b"a"], compression=Compression.LZ4))
    struct.pack_into(">q", single, 27, 4_000_000_000_000)
    struct.pack_into(">q", single, 35, 4_000_000_000_000)
    c.ask(produce_request(future, right_crc(single), topic_id=future_id), version)


@question(SERVED)
def log_append_time(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, configs={"message.timestamp.type": "LogAppendTime"})
    c.ask(produce_request(topic, batch([b"a", b"b"]), topic_id=topic_id), version)
    c.ask(produce_request(topic, batch([b"a"], compression=Compression.ZSTD), topic_id=topic_id), max(version, 7))


@question(NAMED)
def sizes_around_the_limit(c: Conversation, version: int) -> None:
    empty = len(batch([b""]))
    topic, _ = create_topic(c, configs={"max.message.bytes": "1000"})
    for size in (1000 - empty - 3, 1000 - empty - 2, 1000 - empty - 1, 1000 - empty, 1001 - empty, 2000):
        records = batch([bytes(size)])
        c.ask(produce_request(topic, records), version, label=f"{len(records)} bytes")


@question(NAMED)
def recompression_to_the_codec_of_the_topic(c: Conversation, version: int) -> None:
    for policy in ("uncompressed", "producer"):
        topic, _ = create_topic(c, configs={"compression.type": policy})
        for codec in (Compression.NONE, Compression.GZIP, Compression.LZ4):
            c.ask(produce_request(topic, batch([b"v" * 100] * 3, compression=codec)), version, label=codec.name)
        c.ask(fetch_request(topic), 11)


def idempotent(sequence: int, count: int = 1, *, producer_id: int = 4000, epoch: int = 0, **options: Any) -> bytes:
    return batch([b"v"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **options)


@question(SERVED)
def sequences_of_an_idempotent_producer(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)

    def send(label: str, records: bytes) -> None:
        c.ask(produce_request(topic, records, topic_id=topic_id), version, label=label)

    send("first", idempotent(0))
    send("next", idempotent(1, 3))
    send("repeat of the last", idempotent(1, 3))
    send("repeat of the first", idempotent(0))
    send("gap", idempotent(5))
    send("overlap", idempotent(3, 3))
    for number in range(4, 10):
        send(f"sequence {number}", idempotent(number))
    send("the fifth batch back", idempotent(5))
    send("the sixth batch back", idempotent(4))
    send("higher epoch at 0", idempotent(0, epoch=1))
    send("higher epoch at 1", idempotent(1, epoch=2))
    send("higher epoch, next", idempotent(1, epoch=1))
    send("older epoch", idempotent(10))
    send("older epoch, a repeat", idempotent(9))
    send("unknown producer at 7", idempotent(7, producer_id=4001, epoch=3))
    send("and its next", idempotent(8, producer_id=4001, epoch=3))
    send("sequence wraps", idempotent(2**31 - 2, 2, producer_id=4002))
    send("after the wrap", idempotent(0, producer_id=4002))
    send("negative sequence", idempotent(-1, producer_id=4003))
    send("negative epoch", idempotent(0, producer_id=4004, epoch=-1))
    c.ask(fetch_request(topic), 11)


@question(SERVED)
def transactional_requests_and_batches(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    transactional = idempotent(0, producer_id=5000, transactional=True)
    c.ask(produce_request(topic, transactional, topic_id=topic_id), version)


@question(NAMED)
def required_replicas_above_the_replication_factor(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, configs={"min.insync.replicas": "3"})
    for acks in (1, -1):
        c.ask(produce_request(topic, batch(), acks=acks), version)


@question(NAMED)
def acks_0_has_no_answer_and_a_failure_closes(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for label, name, records in (
        ("a good one", topic, batch()),
        ("unknown topic", fresh_name(c), batch()),
        ("bad CRC", topic, changed(17, ">I", 7, crc=False)),
    ):
        client = c.client("acks 0")
        client.send(produce_request(name, records, acks=0), version)
        c.ask(fetch_request(topic), 11, label=label, connection="acks 0")
        c.hang_up("acks 0")


def _of_several(wanted: dict[tuple[str, bytes], dict[int, bytes]], **fields: Any) -> ProduceRequest:
    topics = [
        ProduceRequest.TopicProduceData(
            name=name,
            topic_id=topic_id,
            partition_data=[
                ProduceRequest.PartitionProduceData(index=index, records=records) for index, records in each.items()
            ],
        )
        for (name, topic_id), each in wanted.items()
    ]
    return ProduceRequest(**{"acks": -1, "timeout_ms": 1000, "topic_data": topics, **fields})


@question(SERVED)
def an_unknown_codec_beside_good_batches(c: Conversation, version: int) -> None:
    known = create_topic(c, partitions=2)
    missing = fresh_name(c), bytes(15) + b"\x09"
    strange = changed(21, ">h", 5)
    for label, wanted in {
        "a good one": {known: {0: batch(), 1: strange}},
        "not there": {known: {0: batch(), 7: strange}},
        "unknown": {known: {0: batch()}, missing: {0: strange}},
    }.items():
        for acks in (-1, 7):
            c.ask(_of_several(wanted, acks=acks), version, label=f"{label}, {acks}", unordered=True)
    c.ask(fetch_request(known[0]), 11)


@question(SERVED)
def transactional_records_of_nobody(c: Conversation, version: int) -> None:
    """The bit alone is no transaction; a batch that has to be built anew may not have it."""
    for codec in ("producer", "gzip"):
        topic, topic_id = create_topic(c, configs={"compression.type": codec})
        for transactional_id in ("", fresh_name(c, "x")):
            nobody = batch(transactional=True)
            for label, records in {"nobody": nobody, "no epoch": idempotent(0, epoch=-1)}.items():
                request = produce_request(topic, records, topic_id=topic_id)
                request.transactional_id = transactional_id
                c.ask(request, version, label=f"{codec}, {label}")
        c.ask(fetch_request(topic), 11)


@question(NAMED)
def wrong_acks_with_wrong_records(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for label in ("crc", "magic 1", "magic 3", "empty", "one byte more", "twelve bytes more", "two batches"):
        c.ask(produce_request(topic, WRONG[label](), acks=2), version, label=label)


@question(NAMED)
def epochs_and_lengths_at_the_end_of_their_numbers(c: Conversation, version: int) -> None:
    for codec in ("producer", "gzip"):
        topic, _ = create_topic(c, configs={"compression.type": codec})
        for epoch in (-2, -(2**15), 2**15 - 1):
            for label in ("first", "again"):
                records = idempotent(0, producer_id=4000, epoch=epoch)
                c.ask(produce_request(topic, records), version, label=f"{codec}, epoch {epoch}, {label}")
        for length in (2**31 - 1, 2**31 - 12, 2**31 - 13):
            records = changed(8, ">i", length)
            c.ask(produce_request(topic, records), version, label=f"{codec}, length {length}")


@question(range(8, 9))
def ends_of_compressed_data(c: Conversation, version: int) -> None:
    """Java reads record by record, and may never come to what is wrong with the end."""
    for policy in ("producer", "uncompressed"):
        topic, _ = create_topic(c, configs={"compression.type": policy})
        for codec in (Compression.GZIP, Compression.SNAPPY):
            good = batch([b"one", b"two"], compression=codec)
            for extra in (1, 3, 17):
                records = bytearray(good + bytes(extra))
                struct.pack_into(">i", records, 8, len(records) - 12)
                c.ask(produce_request(topic, right_crc(records)), version, label=f"{codec.name}, {extra} more")
        good = batch([b"one", b"two"], compression=Compression.GZIP)
        for at in (-1, -5):  # the size and the checksum
            records = bytearray(good)
            records[at] ^= 1
            c.ask(produce_request(topic, right_crc(records)), version, label=f"{policy}, checksum {at}")


@question(NAMED)
def what_the_broker_compresses(c: Conversation, version: int) -> None:
    values = [b"v" * 60] * 4 + [b"", b"abc" * 3000]
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        topic, _ = create_topic(c, configs={"compression.type": codec})
        c.ask(produce_request(topic, batch(values)), version, label=codec)
        for fetched_by in (4, 9, 11):
            c.ask(fetch_request(topic), fetched_by, label=f"{codec} by {fetched_by}")


@question(NAMED)
def a_bound_of_timestamps_without_an_end(c: Conversation, version: int) -> None:
    bounds = {"message.timestamp.before.max.ms": "0", "message.timestamp.after.max.ms": str(2**63 - 1)}
    topic, _ = create_topic(c, configs=bounds)
    c.ask(produce_request(topic, batch([b"a", b"b"])), version)


@question(NAMED)
def a_client_that_stamps_and_compresses(c: Conversation, version: int) -> None:
    for policy in ("producer", "lz4"):
        topic, _ = create_topic(c, configs={"compression.type": policy, "message.timestamp.type": "LogAppendTime"})
        for codec in (Compression.NONE, Compression.GZIP, Compression.LZ4):
            records = bytearray(batch([b"a", None], compression=codec))
            struct.pack_into(">h", records, 21, 8 | codec)
            c.ask(produce_request(topic, right_crc(records)), version, label=f"{policy}, {codec.name}")


@question(NAMED)
def two_faults_at_once(c: Conversation, version: int) -> None:
    """What the request tells is looked at before what the log checks."""
    topic, _ = create_topic(c, configs={"max.message.bytes": "80"})
    large = batch([b"v" * 100])
    for label, records in {
        "too large, twice": large + large,
        "too large, then garbage": large + bytes(range(1, 40)),
        "wrong CRC, twice": changed(17, ">I", 7, crc=False) * 2,
        "base offset, twice": changed(0, ">q", 5) * 2,
        "unknown codec, twice": changed(21, ">h", 5) * 2,
        "too large and half": large[:-1],
        "too large of magic 1": large[:16] + b"\x01" + large[17:],
    }.items():
        c.ask(produce_request(topic, records), version, label=label)


@question(NAMED)
def producers_of_every_id_and_epoch(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for producer_id in (-(2**63), -2, 0, 2**63 - 1):
        for epoch in (-2, -1, 0, 2**15 - 1):
            for sequence in (-2, -1, 0, 5, 2**31 - 1):
                records = idempotent(sequence, 2, producer_id=producer_id, epoch=epoch)
                label = f"{producer_id}, epoch {epoch}, sequence {sequence}"
                c.ask(produce_request(topic, records), version, label=label)
