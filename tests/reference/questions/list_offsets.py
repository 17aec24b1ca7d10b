"""ListOffsets: the special timestamps, times between records, epochs, errors."""

from __future__ import annotations

from random import Random

from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.protocol.records.compression import Compression
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import TIME_MS, append, batch, create_topic, fresh_name, produce_request

SERVED = range(1, 12)


def list_request(
    topic: str, timestamp: int, *, partition: int = 0, epoch: int = -1, isolation: int = 0, replica: int = -1
) -> ListOffsetsRequest:
    wanted = ListOffsetsRequest.ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
    )
    return ListOffsetsRequest(
        replica_id=replica,
        isolation_level=isolation,
        topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[wanted])],
    )


@question(SERVED)
def every_special_timestamp(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    empty, _ = create_topic(c)
    for _ in range(3):
        append(c, topic, batch([b"a", b"b"]))
    for timestamp in (*range(-8, 1),):
        for name in (topic, empty):
            c.ask(list_request(name, timestamp), version, label=f"{timestamp}")


@question(SERVED)
def times_between_and_outside_the_records(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    append(c, topic, batch([b"v"] * 5))
    append(c, topic, batch([b"v"] * 5, compression=Compression.LZ4))
    append(c, topic, batch([b"v"] * 9, compression=Compression.ZSTD))
    for timestamp in (1, TIME_MS - 1, TIME_MS, TIME_MS + 1, TIME_MS + 4, TIME_MS + 5, TIME_MS + 8, TIME_MS + 9):
        c.ask(list_request(topic, timestamp), version, label=f"{timestamp - TIME_MS}")
    c.ask(list_request(topic, 2**63 - 1), version)


@question(SERVED)
def the_first_record_wins_a_tie_of_the_maximum_timestamp(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for _ in range(3):
        append(c, topic, batch([b"v"] * 3))
    c.ask(list_request(topic, -3), max(version, 7))


@question(SERVED)
def unknown_topics_partitions_and_epochs(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    append(c, topic, batch())
    c.ask(list_request(topic, -1, partition=3), version)
    c.ask(list_request(topic, -1, partition=-1), version)
    c.ask(list_request(fresh_name(c), -1), version)
    c.ask(list_request("bad name!", -1), version)
    for replica in (-2, 0, 1, 7):
        c.ask(list_request(topic, -1, replica=replica), version, label=f"replica {replica}")
    if version >= 4:
        for epoch in (-2, 0, 1, 100):
            c.ask(list_request(topic, -1, epoch=epoch), version, label=f"epoch {epoch}")
    if version >= 2:
        for isolation in (0, 1, 2, -1):
            c.ask(list_request(topic, -1, isolation=isolation), version, label=f"isolation {isolation}")


@question(SERVED)
def duplicates_and_several_partitions(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=3)
    append(c, topic, batch(), 1)
    wanted = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=timestamp)
        for number, timestamp in ((2, -1), (1, -1), (1, -2), (0, -1))
    ]
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=wanted)])
    c.ask(request, version, unordered=True)
    c.ask(ListOffsetsRequest(topics=[]), version)


@question(SERVED)
def topics_without_partitions(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    empty = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[])
    c.ask(ListOffsetsRequest(replica_id=-1, topics=[empty]), version, label="alone")
    asked = list_request(topic, -1)
    asked.topics.insert(0, empty)
    c.ask(asked, version, label="and once more with one")


@question(range(11, 12))
def answers_stand_in_the_order_of_a_map(c: Conversation, version: int) -> None:
    for count in (2, 4, 5, 13):
        wanted = [
            ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=-1) for number in (1, 0, 16, 32)
        ]
        topics = [
            ListOffsetsRequest.ListOffsetsTopic(name=f"no-such-{number}", partitions=wanted) for number in range(count)
        ]
        c.ask(ListOffsetsRequest(replica_id=-1, topics=topics), version, label=f"{count} topics")


@question(range(9, 10))
def large_records_that_the_broker_compressed(c: Conversation, version: int) -> None:
    configs = {"compression.type": "lz4", "max.decompressed.message.bytes": "100"}
    for sizes in ((300,), (5, 300), (300, 5)):
        topic, _ = create_topic(c, configs=configs)
        append(c, topic, batch([b"v" * size for size in sizes]))
        for timestamp in (-1, -2, -3, 0, TIME_MS, TIME_MS + 1, TIME_MS + 2):
            c.ask(list_request(topic, timestamp), version, label=f"{sizes}: {timestamp}")


@question(range(9, 10))
def times_in_a_segment_that_is_to_be_deleted(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, configs={"retention.ms": "-1"})
    for first in (0, TIME_MS, TIME_MS + 1):  # so far apart that the second begins a segment
        records = [Record(number, first + number, None, b"v", []) for number in range(2)]
        append(c, topic, build_batch(records))
    for offset in (1, 2, 3):
        deletion = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        wanted = DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[deletion])
        c.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000), 2)
        for timestamp in (0, 1, 2, TIME_MS, TIME_MS + 1, TIME_MS + 2):
            c.ask(list_request(topic, timestamp), version, label=f"from {offset}: {timestamp}")


@question(range(8))
def times_in_many_small_segments(c: Conversation, seed: int) -> None:
    """Whatever the indexes hold, and whatever comes before a record that has no time."""
    random = Random(seed)
    configs = {
        "internal.segment.bytes": random.choice(["300", "800", "3000"]),
        "index.interval.bytes": random.choice(["0", "1", "200"]),
        "segment.ms": random.choice(["5000", "1000000000000"]),
        "retention.ms": "-1",
    }
    topic, _ = create_topic(c, configs=configs)
    times = [-1, 0, 5, *(TIME_MS + number for number in (0, 7, 14, 30, 20_000, 90_000))]
    for _ in range(20):
        records = [
            Record(number, random.choice(times), None, b"v" * random.choice([1, 50, 200]))
            for number in range(random.choice([1, 1, 2, 3, 5]))
        ]
        codec = random.choice([Compression.NONE, Compression.NONE, Compression.GZIP, Compression.LZ4])
        c.ask(produce_request(topic, build_batch(records, compression=codec)), 9, label="written")
    for first in (0, random.randrange(10), random.randrange(10, 20)):
        deletion = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=first)
        wanted = DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[deletion])
        c.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000), 2)
        for timestamp in (-3, *times[1:], 1, TIME_MS + 10, TIME_MS + 21_000, TIME_MS + 100_000):
            c.ask(list_request(topic, timestamp), 9, label=f"from {first}: {timestamp}")
