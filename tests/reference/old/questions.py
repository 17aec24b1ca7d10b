"""What clients of ten years ago ask: Produce 0 to 2, Fetch 0 to 3, ListOffsets 0, and others that Kafka 4 dropped.

Besides questions of its own this list has those of ``tests.reference.questions``, in the dropped versions.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable
from typing import Any

from kbroker.protocol.messages.create_acls import CreateAclsRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import Record, TimestampType, batches, build_batch, read_records
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.legacy import build_message_set, message_views, read_message
from tests.message_sets import read_message_set
from tests.reference.conversation import Conversation, Question, Scenario
from tests.reference.questions import (
    create_topics,
    delete_topics,
    describe_configs,
    group_offsets,
    log_dirs,
    offset_for_leader_epoch,
)
from tests.reference.questions import fetch as fetch_questions
from tests.reference.questions import produce as produce_questions
from tests.reference.questions.scenery import (
    TIME_MS,
    append,
    batch,
    create_topic,
    fresh_name,
    produce_request,
)

OLD_QUESTIONS: list[Question] = []
PRODUCE = range(3)
FETCH = range(4)
LEGACY_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]


def question(versions: range) -> Callable[[Scenario], Scenario]:
    """Register a scenario for each of ``versions``."""

    def register(scenario: Scenario) -> Scenario:
        OLD_QUESTIONS.extend(Question(scenario.__name__, version, scenario) for version in versions)
        return scenario

    return register


def records(count: int = 4, key: bytes | None = b"k", first: int = 0) -> list[Record]:
    return [Record(first + n, TIME_MS + n, key, None if n == 2 else b"value %d" % n) for n in range(count)]


def fetch(topic: str, offset: int = 0, *, max_bytes: int = 1 << 20, min_bytes: int = 1) -> FetchRequest:
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=100,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )


def read_back(c: Conversation, topic: str, *, version: int = 4, offset: int = 0, sizes: bool = True) -> None:
    """Note what a fetch brings, record by record: two libraries seldom compress to the same bytes."""
    answer = c.ask(fetch(topic, offset), version, note=False)
    partition = answer.responses[0].partitions[0]
    data = bytes(partition.records or b"")
    c.note("fetched", (partition.error_code, partition.high_watermark, len(data) if sizes else None))
    if version >= 4:
        found = []
        for header, view in batches(data):
            fields = header._asdict()
            for varying in ("crc", *(() if sizes else ("batch_length",))):
                del fields[varying]
            found.append((fields, [tuple(each) for each in read_records(view, max_decompressed=1 << 24)]))
        c.note("batches", found)
        return
    messages = [read_message(view) for _, view in message_views(data)]
    c.note("messages", [(each.offset, each.magic, each.attributes, each.timestamp, each.key) for each in messages])
    c.note("records", [tuple(each) for each in read_message_set(data, max_decompressed=1 << 24)])


@question(PRODUCE)
def a_message_set_of_every_format_and_codec(c: Conversation, version: int) -> None:
    for magic in (0, 1):
        for codec in LEGACY_CODECS:
            topic, _ = create_topic(c)
            data = build_message_set(records(), magic, compression=codec)
            c.ask(produce_request(topic, data), version, label=f"{codec.name} of format {magic}")
            c.ask(produce_request(topic, data), version, label="once more")
            read_back(c, topic, sizes=codec is Compression.NONE)


@question(PRODUCE)
def batches_of_format_2(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for codec in Compression:
        c.ask(produce_request(topic, batch([b"a"], compression=codec)), version, label=codec.name)
    c.ask(produce_request(topic, batch([b"a"]) + batch([b"b"])), version, label="two")
    c.ask(produce_request(topic, batch([b"a"]) + build_message_set(records(1), 1)), version, label="and a message")
    c.ask(produce_request(topic, batch([b"a"], base_offset=4)), version, label="base offset")


def changed(position: int, layout: str, value: int, magic: int = 1, *, crc: bool = True, **options: Any) -> bytes:
    """A message set of one message with a field changed; its CRC made right again when ``crc``."""
    data = bytearray(build_message_set(records(1), magic, **options))
    struct.pack_into(layout, data, position, value)
    if crc:
        struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    return bytes(data)


def wrapped(value: bytes | None, *, offset: int = 1, codec: int = 1, magic: int = 1, timestamp: int = TIME_MS) -> bytes:
    """A wrapper around any bytes."""
    data = bytearray(build_message_set([Record(offset, timestamp, None, value)], magic))
    data[17] = codec
    struct.pack_into(">I", data, 12, zlib.crc32(data[16:]))
    return bytes(data)


def inner(magic: int = 1, *, first: int = 0, count: int = 2) -> bytes:
    return build_message_set(records(count, first=first), magic)


def one(magic: int = 1) -> bytes:
    return build_message_set(records(1), magic)


WRONG: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "a torn message": lambda: one()[:-1],
    "a whole and a torn message": lambda: one() + one()[:-1],
    "twelve bytes": lambda: one()[:12],
    "crc": lambda: changed(12, ">I", 7, crc=False),
    "crc of format 0": lambda: changed(12, ">I", 7, 0, crc=False),
    "crc of the second": lambda: one() + changed(12, ">I", 7, crc=False),
    "magic 3": lambda: changed(16, ">b", 3),
    "magic -1": lambda: changed(16, ">b", -1),
    "magic 2 of a message": lambda: changed(16, ">b", 2),
    "size 13": lambda: changed(8, ">i", 13, crc=False),
    "size -1": lambda: changed(8, ">i", -1, crc=False),
    "size 14 of format 1": lambda: one()[:8] + struct.pack(">i", 14) + changed(16, ">b", 1)[12:26],
    "key longer than the message": lambda: changed(26, ">i", 5000),
    "negative key size": lambda: changed(26, ">i", -5),
    "value longer than the message": lambda: changed(31, ">i", 5000),
    "codec 4": lambda: changed(17, ">b", 4),
    "codec 5": lambda: changed(17, ">b", 5),
    "codec 7": lambda: changed(17, ">b", 7),
    "reserved attributes": lambda: changed(17, ">b", 0x70),
    "a time set by a broker": lambda: changed(17, ">b", 8),
    "no time": lambda: changed(18, ">q", -1),
    "a time set by a broker but none": lambda: wrapped(b"v", codec=8, timestamp=-1),
    "a negative time": lambda: changed(18, ">q", -2),
    "a time far in the future": lambda: changed(18, ">q", 1 << 60),
    "two formats": lambda: one(0) + one(1),
    "a message and a batch": lambda: one(1) + batch([b"a"]),
    "an offset of its own": lambda: changed(0, ">q", 77),
    "a negative offset": lambda: changed(0, ">q", -77),
    "two wrappers": lambda: wrapped(gzip.compress(inner())) * 2,
    "a wrapper and a message": lambda: wrapped(gzip.compress(inner())) + one(),
    "a message and a wrapper": lambda: one() + wrapped(gzip.compress(inner())),
    "an empty wrapper": lambda: wrapped(gzip.compress(b"")),
    "a wrapper of null": lambda: wrapped(None),
    "a wrapper of no gzip": lambda: wrapped(b"no gzip"),
    "a wrapper of no snappy": lambda: wrapped(b"no snappy", codec=2),
    "a wrapper of no lz4": lambda: wrapped(b"no lz4", codec=3),
    "a wrapper of zstd": lambda: wrapped(b"no zstd", codec=4),
    "a wrapper in a wrapper": lambda: wrapped(gzip.compress(wrapped(gzip.compress(inner())))),
    "a batch in a wrapper": lambda: wrapped(gzip.compress(batch([b"a"]))),
    "format 0 in format 1": lambda: wrapped(gzip.compress(inner(0))),
    "format 1 in format 0": lambda: wrapped(gzip.compress(inner(1)), magic=0),
    "a torn message in a wrapper": lambda: wrapped(gzip.compress(inner() + inner()[:-60])),
    "a small message in a wrapper": lambda: wrapped(gzip.compress(bytes(26))),
    "a wrong crc in a wrapper": lambda: wrapped(gzip.compress(inner(count=1) + changed(12, ">I", 7, crc=False))),
    "a wrapper's offset 0": lambda: wrapped(gzip.compress(inner()), offset=0),
    "a wrapper's offset too small": lambda: wrapped(gzip.compress(inner(count=4)), offset=2),
    "a wrapper's offset larger": lambda: wrapped(gzip.compress(inner()), offset=500),
    "offsets in a wrapper that are not relative": lambda: wrapped(gzip.compress(inner(first=100)), offset=101),
    "a wrapper with a broker's time": lambda: wrapped(gzip.compress(inner()), codec=9),
}


@question(range(2, 3))
def what_is_wrong_with_a_message_set(c: Conversation, version: int) -> None:
    for name, build in WRONG.items():
        topic, _ = create_topic(c)
        c.ask(produce_request(topic, build()), version, label=name)
        read_back(c, topic, sizes=False)


@question(range(2, 3))
def what_is_wrong_where_brokers_set_the_time(c: Conversation, version: int) -> None:
    for name, build in WRONG.items():
        if "time" in name or "wrapper" in name:
            topic, _ = create_topic(c, configs={"message.timestamp.type": "LogAppendTime"})
            c.ask(produce_request(topic, build()), version, label=name)


@question(PRODUCE)
def topics_that_demand_something(c: Conversation, version: int) -> None:
    demands = [
        {"cleanup.policy": "compact"},
        {"message.timestamp.type": "LogAppendTime"},
        {"compression.type": "gzip"},
        {"compression.type": "uncompressed"},
        {"compression.type": "zstd"},
        {"max.message.bytes": "100"},
        {"message.timestamp.before.max.ms": "1000"},
    ]
    for demand in demands:
        topic, _ = create_topic(c, configs=demand)
        label = str(demand)
        for magic in (0, 1):
            for codec in (Compression.NONE, Compression.GZIP):
                data = build_message_set(records(20), magic, compression=codec)
                c.ask(produce_request(topic, data), version, label=f"{label} {magic} {codec.name}")
        keyless = build_message_set(records(2, key=None), 1)
        c.ask(produce_request(topic, keyless), version, label=f"{label} without keys")


@question(PRODUCE)
def acks_and_unknown_partitions(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for acks in (1, -1, 2):
        c.ask(produce_request(topic, one(), acks=acks), version, label=f"acks={acks}")
    c.ask(produce_request(topic, one(), partition=4), version, label="partition 4")
    c.ask(produce_request(fresh_name(c), one()), version, label="unknown topic")


@question(PRODUCE)
def several_partitions(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    data = ProduceRequest.PartitionProduceData
    parts = [data(index=1, records=one()), data(index=0, records=one(0) * 3), data(index=7, records=one())]
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=parts)]
    )
    c.ask(request, version, unordered=True)


@question(FETCH)
def every_codec_is_read_in_an_old_format(c: Conversation, version: int) -> None:
    for codec in Compression:
        topic, _ = create_topic(c)
        append(c, topic, batch([b"a", None, b"c" * 100], key=b"key", compression=codec))
        append(c, topic, batch([b"d"] * 5, compression=codec))
        for offset in (0, 1, 4):
            c.note("codec and offset", (codec.name, offset))
            read_back(c, topic, version=version, offset=offset, sizes=False)


@question(FETCH)
def plain_records_are_the_same_bytes(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    append(c, topic, batch([b"a", None, b"c" * 100], key=b"key"))
    append(c, topic, batch([b"d"] * 5))
    headers = [Record(n, TIME_MS, b"k", b"v", [("name", b"x" * 200)]) for n in range(3)]
    append(c, topic, build_batch(headers))
    for offset in (0, 2, 4, 8, 11, 12):
        c.ask(fetch(topic, offset), version, label=f"from {offset}")


@question(FETCH)
def limits_of_an_old_fetch(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for size in (50, 5000, 50):
        append(c, topic, batch([b"x" * size]))
    for max_bytes in (0, 1, 11, 12, 60, 100, 200, 4000, 6000):
        for offset in (0, 1):
            c.ask(fetch(topic, offset, max_bytes=max_bytes), version, label=f"{max_bytes} from {offset}")
    c.ask(fetch(topic, 0, min_bytes=1 << 20), version, label="a large minimum")


@question(FETCH)
def an_answer_of_many_batches(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for n in range(40):
        append(c, topic, batch([b"%d" % n * 30] * 10, compression=Compression(n % 4)))
    read_back(c, topic, version=version, sizes=False)
    read_back(c, topic, version=version, offset=205, sizes=False)


@question(FETCH)
def the_time_that_a_broker_set(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, configs={"message.timestamp.type": "LogAppendTime"})
    append(c, topic, batch([b"a", b"b"]))
    answer = c.ask(fetch(topic), version, note=False)
    for _, view in message_views(bytes(answer.responses[0].partitions[0].records)):
        message = read_message(view)
        stamped = message.timestamp_type is TimestampType.LOG_APPEND_TIME
        c.note("message", (message.offset, message.attributes, stamped, message.timestamp > TIME_MS + 1000))


@question(FETCH)
def a_topic_of_zstd(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, configs={"compression.type": "zstd"})
    append(c, topic, batch([b"a"]))
    c.ask(fetch(topic), version)
    mixed, _ = create_topic(c)
    append(c, mixed, batch([b"a"]))
    append(c, mixed, batch([b"b"], compression=Compression.ZSTD))
    c.ask(fetch(mixed), version, label="behind another")
    c.ask(fetch(mixed, 1), version, label="first")


@question(FETCH)
def an_old_fetch_that_fails(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    append(c, topic, batch([b"a"]))
    c.ask(fetch(topic, 5), version, label="past the end")
    c.ask(fetch(topic, -1), version, label="before the start")
    c.ask(fetch(fresh_name(c)), version, label="unknown topic")


def list_offsets(topic: str, *timestamps: int, count: int = 1, replica_id: int = -1) -> ListOffsetsRequest:
    asked = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=n, timestamp=each, max_num_offsets=count)
        for n, each in enumerate(timestamps)
    ]
    return ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=asked)]
    )


@question(range(1))
def offsets_the_old_way(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=1)
    for timestamp in (-1, -2, -3, -4, 0, 5_000_000_000_000):
        c.ask(list_offsets(topic, timestamp, count=10), version, label=f"{timestamp} of an empty log")
    for _ in range(3):
        append(c, topic, batch([b"a"] * 10))
    for timestamp in (-1, -2, -3, 0, 5_000_000_000_000):
        for count in (-1, 0, 1, 10):
            c.ask(list_offsets(topic, timestamp, count=count), version, label=f"{count} at {timestamp}")
    c.ask(list_offsets(topic, -1, -1), version, label="no such partition")
    c.ask(list_offsets(fresh_name(c), -1), version, label="no such topic")
    c.ask(list_offsets(topic, -1, replica_id=-2), version, label="a debugging replica")
    c.ask(list_offsets(topic, -1, replica_id=4), version, label="a follower")


@question(range(1))
def offsets_of_many_segments(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, configs={"segment.bytes": "1048576"})
    for n in range(6):
        append(c, topic, batch([b"%d" % n * 100_000] * 4))
    for timestamp in (-1, -2, 5_000_000_000_000):
        for count in (1, 3, 100):
            c.ask(list_offsets(topic, timestamp, count=count), version, label=f"{count} at {timestamp}")


@question(range(1))
def metadata_of_one_topic(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    answer = c.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)]), version, note=False)
    c.note("partitions", sorted((each.partition_index, each.error_code) for each in answer.topics[0].partitions))


@question(range(1))
def configs_and_acls_before_they_had_patterns(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, configs={"retention.ms": "5"})
    for name, keys in (
        (topic, ["retention.ms", "segment.ms"]),
        (fresh_name(c), None),
        ("bad name!", None),
    ):
        c.ask(describe_configs.description(describe_configs.TOPIC, name, keys), version, label=f"configs, {keys}")
    creation: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "t",
        "principal": "User:x",
        "host": "*",
        "operation": 2,
    }
    c.ask(CreateAclsRequest(creations=[CreateAclsRequest.AclCreation(**creation, permission_type=3)]), version)
    wanted: dict[str, Any] = {"resource_type_filter": 2, "operation": 2, "permission_type": 3}
    c.ask(DescribeAclsRequest(**wanted), version)
    c.ask(DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**wanted)]), version)


def _also(versions: range, *scenarios: Scenario) -> None:
    for scenario in scenarios:
        question(versions)(scenario)


_also(
    PRODUCE,
    produce_questions.a_batch_is_written_and_read_back,
    produce_questions.every_level_of_acks,
    produce_questions.unknown_topics_and_partitions,
    produce_questions.several_topics_and_partitions_in_one_request,
    produce_questions.the_same_partition_twice,
    produce_questions.no_topics_and_no_partitions,
)
_also(
    FETCH,
    fetch_questions.one_partition_at_several_offsets,
    fetch_questions.an_empty_partition,
    fetch_questions.unknown_topics_and_partitions,
    fetch_questions.every_limit_of_bytes,
    fetch_questions.the_same_partition_twice,
    fetch_questions.no_topics,
)
_also(
    range(2),
    create_topics.names_that_may_not_be,
    create_topics.several_topics_in_one_request,
    offset_for_leader_epoch.every_epoch,
    offset_for_leader_epoch.unknown_topics_and_partitions,
)
_also(
    range(1, 2),
    create_topics.a_topic_is_made_once,
    create_topics.assignments,
    group_offsets.members_commit,
)
_also(
    range(1),
    delete_topics.a_topic_is_deleted_and_gone,
    delete_topics.names_that_are_not_there,
    delete_topics.the_same_name_twice_and_none,
    log_dirs.what_a_directory_holds,
    log_dirs.replicas_that_stay_where_they_are,
)
