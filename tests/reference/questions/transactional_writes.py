"""What transactions write: who may, where, in which order, and who gets to read it."""

from __future__ import annotations

from random import Random
from typing import Any

from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import batches
from tests.reference.conversation import Conversation, question
from tests.reference.questions.list_offsets import list_request
from tests.reference.questions.scenery import (
    TIME_MS,
    append,
    batch,
    create_topic,
    fetch_request,
    fresh_name,
    produce_request,
)
from tests.reference.questions.transactional_offsets import mark
from tests.reference.questions.transactional_producer import (
    BUMPING,
    CLASSIC,
    Producer,
    read,
)


@question(range(3, 14))
def a_partition_that_was_not_added(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    producer = Producer(c)
    producer.init()
    producer.produce(topic, topic_id, version)
    producer.describe()
    producer.end(True, BUMPING if version >= 12 else CLASSIC)
    read(c, topic, "at last")


@question(range(3, 14))
def batches_of_strangers(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    producer = Producer(c)
    producer.init()
    producer.init()
    producer.produce(topic, topic_id, version, id=fresh_name(c, "nobody"))
    producer.produce(topic, topic_id, version, id="")
    producer.produce(topic, topic_id, version, producer_id=producer.producer_id + 9)
    producer.produce(topic, topic_id, version, epoch=producer.epoch + 1)
    producer.produce(topic, topic_id, version, epoch=producer.epoch - 1)
    producer.add(topic)
    producer.produce(topic, topic_id, version, epoch=producer.epoch + 1)
    producer.produce(topic, topic_id, version, epoch=producer.epoch - 1)
    producer.produce(topic, topic_id, version, sequence=5)
    producer.produce(topic, topic_id, version)
    producer.produce(topic, topic_id, version)
    producer.produce(topic, topic_id, version, sequence=7)
    producer.produce(topic, topic_id, version, sequence=1, transactional=False)
    producer.produce(topic, topic_id, version, sequence=1, epoch=producer.epoch + 1)
    producer.end(True, CLASSIC)
    producer.produce(topic, topic_id, version, sequence=1, transactional=False)
    producer.produce(topic, topic_id, version, sequence=2)
    producer.describe()


@question(range(9, 14))
def a_log_that_has_heard_of_a_later_epoch(c: Conversation, version: int) -> None:
    """It says so before the coordinator is asked: nothing joins the transaction."""
    topic, topic_id = create_topic(c, partitions=3)
    producer = Producer(c)
    producer.init()
    mark(c, topic, 1, producer.producer_id, 5, "a marker of a later epoch")
    producer.produce(topic, topic_id, version, partition=1, epoch=4, transactional=False, id=None)
    for partition in (0, 1):
        for fields in ({}, {"epoch": 3}, {"epoch": 4}, {"epoch": 6}):
            producer.produce(topic, topic_id, version, 1, partition=partition, **fields)
        for stranger in (fresh_name(c, "nobody"), "", None):
            producer.produce(topic, topic_id, version, partition=partition, id=stranger)
    producer.describe()

    def ours() -> bytes:
        return batch(producer_id=producer.producer_id, producer_epoch=0, base_sequence=0, transactional=True)

    if version < 12:
        producer.add(topic, (0, 1, 2))
    produce_many(c, producer, version, {(topic, topic_id): {0: ours(), 1: ours(), 2: ours()}})
    producer.describe()


@question(range(9, 14))
def a_first_sequence_that_is_not_zero(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    producer = Producer(c)
    producer.init()
    if version < 12:
        producer.add(topic, (0, 1))
    producer.produce(topic, topic_id, version, sequence=5)
    producer.produce(topic, topic_id, version, sequence=5)
    producer.produce(topic, topic_id, version, sequence=3)
    producer.produce(topic, topic_id, version, sequence=0)
    producer.produce(topic, topic_id, version, sequence=1)
    producer.produce(topic, topic_id, version, sequence=0, partition=1)
    producer.describe()
    producer.end(False, BUMPING)
    producer.produce(topic, topic_id, 12, sequence=1)
    producer.produce(topic, topic_id, 12, sequence=0)
    producer.end(True, BUMPING)
    producer.produce(topic, topic_id, 12, sequence=0)
    producer.end(True, BUMPING)
    read(c, topic, "at last")


@question(range(12, 14))
def a_first_batch_after_refused_ones(c: Conversation, version: int) -> None:
    """What was refused, by an older client or for another epoch, is remembered with the protocol of the first."""
    for older in (9, 11):
        for refused in (0, 5):
            topic, topic_id = create_topic(c, partitions=5)
            for partition, (epoch, initialises) in enumerate(((0, False), (1, False), (0, True))):
                producer = Producer(c)
                producer.init(note=False)
                producer.produce(topic, topic_id, older, refused, partition=partition, epoch=epoch)
                if initialises:
                    producer.init(note=False)
                producer.produce(topic, topic_id, version, refused + 1, partition=partition)
                producer.produce(topic, topic_id, version, 1, partition=partition)
            for partition in (3, 4):
                producer = Producer(c)
                producer.init(note=False)
                producer.produce(topic, topic_id, version, refused, partition=partition, epoch=1)
                if partition == 3:
                    producer.end(False, BUMPING)
                producer.produce(topic, topic_id, older, 0, partition=partition, transactional=False, id=None)
                producer.add(topic, (partition,))
                producer.produce(topic, topic_id, older, 1, partition=partition)
                producer.produce(topic, topic_id, version, 6, partition=partition)


@question(range(9, 14))
def aborted_records_are_named(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    end_version = BUMPING if version >= 12 else CLASSIC
    one, two = Producer(c), Producer(c)
    for producer in (one, two):
        producer.init()
        if version < 12:
            producer.add(topic)
    one.produce(topic, topic_id, version)
    two.produce(topic, topic_id, version)
    read(c, topic, "both open")
    two.end(True, end_version)
    read(c, topic, "one open")
    one.end(False, end_version)
    for offset in range(5):
        read(c, topic, f"both over, from {offset}", offset)


def produce_many(
    c: Conversation,
    producer: Producer,
    version: int,
    batches_: dict[tuple[str, bytes], dict[int, bytes]],
    **fields: Any,
) -> None:
    data = ProduceRequest.PartitionProduceData
    request = ProduceRequest(
        transactional_id=fields.get("id", producer.id),
        acks=fields.get("acks", -1),
        timeout_ms=10_000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                topic_id=topic_id,
                partition_data=[data(index=index, records=records) for index, records in partitions.items()],
            )
            for (topic, topic_id), partitions in batches_.items()
        ],
    )
    answer = c.client().call(request, version)
    for each in answer.responses:
        each.partition_responses.sort(key=lambda slot: slot.index)
    answer.responses.sort(key=lambda each: len(each.partition_responses))
    c.note_answer(fields.get("label", "Produce"), answer, version)


@question(range(9, 14))
def a_write_to_several_partitions(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=4)
    missing = (fresh_name(c, "missing"), bytes(15) + b"\x05")
    producer = Producer(c)
    producer.init()

    def ours(sequence: int = 0, **fields: Any) -> bytes:
        fields.setdefault("producer_id", producer.producer_id)
        fields.setdefault("producer_epoch", producer.epoch)
        fields.setdefault("transactional", True)
        return batch([b"%d" % sequence], base_sequence=sequence, **fields)

    if version < 12:
        producer.add(topic, (0, 1))
    produce_many(c, producer, version, {(topic, topic_id): {0: ours(), 1: ours(), 2: ours(), 9: ours()}})
    produce_many(c, producer, version, {(topic, topic_id): {3: ours()}, missing: {0: ours(), 1: ours()}})
    produce_many(
        c, producer, version, {(topic, topic_id): {0: ours(1), 3: batch([b"plain"])}}, label="a plain batch beside"
    )
    produce_many(
        c, producer, version, {(topic, topic_id): {0: ours(2), 1: ours(1, producer_epoch=7)}}, label="two epochs"
    )
    produce_many(c, producer, version, {(topic, topic_id): {0: ours(3)}}, acks=1, label="acks=1")
    producer.describe()
    producer.end(True, BUMPING if version >= 12 else CLASSIC)
    read(c, topic, "at last")


@question(range(9, 14))
def two_producers_in_one_write(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    one, two = Producer(c), Producer(c)
    one.init()
    two.init()
    records = {
        index: batch(
            [b"x"],
            producer_id=each.producer_id,
            producer_epoch=each.epoch,
            base_sequence=0,
            transactional=True,
        )
        for index, each in enumerate((one, two))
    }
    produce_many(c, one, version, {(topic, topic_id): records})
    one.describe()


OVERLAPPING: tuple[tuple[int | None, int | str], ...] = (
    # Who writes how many records (None: somebody without an id), or ends how.
    *((0, 2), (1, 1), (2, 3), (None, 1), (0, "abort"), (3, 1), (1, "commit")),
    *((0, 1), (2, 1), (2, "abort"), (0, "abort"), (1, 2), (3, "abort"), (None, 1), (1, "commit"), (3, 1)),
)


@question(range(4, 19))
def what_readers_see_of_overlapping_transactions(c: Conversation, version: int) -> None:
    """Two producers of each protocol; the views are asked for while some are open, and when one is left."""
    topic, topic_id = create_topic(c)
    producers = [Producer(c) for _ in range(4)]
    for each in producers:
        each.init(note=False)
    sequences = [0] * len(producers)
    end = 0
    for step, (number, what) in enumerate(OVERLAPPING):
        if number is None:
            append(c, topic, batch([b"plain"]))
            end += 1
            continue
        producer, is_new = producers[number], number % 2 == 0
        if isinstance(what, str):
            producer.end(what == "commit", BUMPING if is_new else CLASSIC)
            sequences[number], end = 0 if is_new else sequences[number], end + 1
        else:
            if not is_new:
                producer.add(topic)
            producer.produce(topic, topic_id, 12 if is_new else 9, sequences[number], what)
            sequences[number], end = sequences[number] + what, end + what
        if step in (5, 9, len(OVERLAPPING) - 1):
            _views(c, topic, topic_id, version, end)


def _views(c: Conversation, topic: str, topic_id: bytes, version: int, end: int) -> None:
    for isolation in (0, 1):
        for offset in range(end + 2):
            for limit in (1, 1 << 20):
                request = fetch_request(topic, offset, topic_id=topic_id, max_bytes=limit, isolation_level=isolation)
                answer = c.ask(request, version, note=False)
                for partition in answer.responses[0].partitions:
                    # Markers hold the time of day: what is said of the batches is noted, not their bytes.
                    given = [
                        (header.base_offset, header.last_offset_delta, header.attributes)
                        for header, _ in batches(partition.records or b"")
                    ]
                    partition.records = None
                    c.note_answer(f"isolation {isolation}, from {offset}, {limit} bytes", answer, version)
                    c.note("batches", given)


@question(range(2, 12))
def offsets_of_an_open_transaction_are_listed(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    producer = Producer(c)
    producer.init()

    def ask(label: str) -> None:
        for isolation in (0, 1):
            for timestamp in (-1, -2, TIME_MS, TIME_MS + 2, *((-3,) if version >= 7 else ())):
                asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
                request = ListOffsetsRequest(
                    isolation_level=isolation,
                    topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])],
                )
                if version >= 10:
                    request.timeout_ms = 1000
                c.ask(request, version, label=f"{label}, isolation {isolation}, {timestamp}")

    append(c, topic, batch([b"before"]))
    producer.produce(topic, topic_id, 12)
    append(c, topic, batch([b"after", b"after", b"after"]))
    ask("open")
    producer.end(False, BUMPING)
    ask("over")


@question(range(4))
def aborted_transactions_of_every_range(c: Conversation, seed: int) -> None:
    """What a fetch names reaches as far as the index of offsets says, and Kafka's search in it."""
    random = Random(seed)
    small = {"internal.segment.bytes": random.choice(["400", "2000", "1000000"]), "index.interval.bytes": "0"}
    topic, _ = create_topic(c, configs={**small, "retention.ms": "-1"})
    producers = {name: Producer(c) for name in "abc"}
    for producer in producers.values():
        producer.init(note=False)
    sequences = dict.fromkeys(producers, 0)
    is_open = dict.fromkeys(producers, False)
    for _ in range(25):
        name = random.choice("abc")
        producer = producers[name]
        if not is_open[name]:
            producer.add(topic)
        values = [b"v" * random.choice([1, 60])] * random.choice([1, 2])
        records = batch(
            values,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequences[name],
            transactional=True,
        )
        request = produce_request(topic, records)
        request.transactional_id = producer.id
        c.ask(request, 9)
        sequences[name] += len(values)
        is_open[name] = random.random() < 0.55
        if not is_open[name]:
            producer.end(random.random() < 0.4)
    names = {producer.producer_id: name for name, producer in producers.items()}
    for offset in range(c.ask(list_request(topic, -1), 9).topics[0].partitions[0].offset):
        for size in (1, 150, 400, 5000):
            asked = fetch_request(topic, offset, max_bytes=size, isolation_level=1)
            slot = c.ask(asked, 11, note=False).responses[0].partitions[0]
            aborted = [(names[each.producer_id], each.first_offset) for each in slot.aborted_transactions or []]
            c.note(f"{size} bytes from {offset}", (len(slot.records), slot.last_stable_offset, aborted))
