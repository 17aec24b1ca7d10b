"""confluent-kafka (librdkafka) against the broker."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from tests.compat import corpus

DEADLINE_SECONDS = 60.0
PARTITION_EOF = -191
"""librdkafka's own code for the end of a partition, which the Python class names as if it were private."""


def make_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    futures = admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config))])
    futures[topic].result(timeout=DEADLINE_SECONDS)


def send(bootstrap: str, records: list[dict[str, Any]], topic: str, **config: Any) -> list[confluent_kafka.Message]:
    """Produce all and return what was delivered, in the order of delivery. Raises on the first failure."""
    delivered: list[confluent_kafka.Message] = []
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            failures.append(error)
        else:
            delivered.append(message)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **config})
    for record in records:
        while True:
            try:
                producer.produce(topic, on_delivery=on_delivery, **record)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert not failures
    return delivered


def receive(
    bootstrap: str, topic: str, count: int, partitions: int = 1, **config: Any
) -> list[confluent_kafka.Message]:
    """Read ``count`` records from the beginning, and see that no more come."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **config,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    received: list[confluent_kafka.Message] = []
    ended: set[int] = set()
    try:
        while len(ended) < partitions or len(received) < count:
            message = consumer.poll(DEADLINE_SECONDS)
            assert message is not None, f"{len(received)} of {count} records came"
            error = message.error()
            if error is None:
                received.append(message)
            elif error.code() == PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise confluent_kafka.KafkaException(error)
    finally:
        consumer.close()
    return received


def test_a_hundred_thousand_lines_arrive_once_and_in_order_per_partition(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=3)
    lines = corpus.lines()
    send(bootstrap, [{"value": line, "partition": n % 3} for n, line in enumerate(lines)], topic, acks="all")
    received = receive(bootstrap, topic, len(lines), partitions=3)
    for partition in range(3):
        values = [message.value() for message in received if message.partition() == partition]
        assert values == list(lines[partition::3])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_every_codec_carries_keys_headers_and_null_values(
    bootstrap: str, topic: str, codec: str, idempotent: bool
) -> None:
    make_topic(bootstrap, topic)
    records = [
        {
            "key": None if n % 5 == 0 else f"key-{n}".encode(),
            "value": None if n % 7 == 0 else line,
            "headers": [("number", str(n).encode()), ("null", None), ("twice", b"1"), ("twice", b"2")],
            "timestamp": 1_700_000_000_000 + n,
        }
        for n, line in enumerate(corpus.lines(5000))
    ]
    config = {"compression.type": codec, "enable.idempotence": idempotent}
    send(bootstrap, records, topic, **config)
    received = receive(bootstrap, topic, len(records))
    assert [m.offset() for m in received] == list(range(len(records)))
    for message, record in zip(received, records, strict=True):
        assert (message.key(), message.value()) == (record["key"], record["value"])
        assert message.headers() == record["headers"]
        assert message.timestamp()[1] == record["timestamp"]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_each_level_of_acknowledgement_delivers(bootstrap: str, topic: str, acks: str) -> None:
    make_topic(bootstrap, topic)
    lines = corpus.lines(1000)
    send(bootstrap, [{"value": line} for line in lines], topic, acks=acks)
    assert [m.value() for m in receive(bootstrap, topic, len(lines))] == list(lines)


def test_a_record_close_to_the_size_limit_arrives_and_one_above_it_is_refused(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    config = {"message.max.bytes": 4_000_000}
    large = bytes(range(256)) * 4000
    send(bootstrap, [{"value": large}] * 3, topic, **config)
    assert [m.value() for m in receive(bootstrap, topic, 3)] == [large] * 3
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    producer.produce(topic, bytes(2_000_000), on_delivery=lambda error, _: errors.append(error))
    producer.flush(DEADLINE_SECONDS)
    assert [error.code() for error in errors if error is not None] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, 1, **{"retention.ms": "-1"})  # the records are of 2023
    send(bootstrap, [{"value": b"v", "timestamp": 1_700_000_000_000 + 1000 * n} for n in range(100)], topic)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_SECONDS) == (0, 100)
        asked = [TopicPartition(topic, 0, 1_700_000_000_000 + 41_500)]
        assert consumer.offsets_for_times(asked, timeout=DEADLINE_SECONDS)[0].offset == 42
    finally:
        consumer.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for spec, offset in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 100), (OffsetSpec.max_timestamp(), 99)):
        futures = admin.list_offsets({TopicPartition(topic, 0): spec})
        assert next(iter(futures.values())).result(timeout=DEADLINE_SECONDS).offset == offset


def test_topics_are_made_described_altered_and_deleted(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    make_topic(bootstrap, topic, partitions=4, **{"retention.ms": "60000"})
    described = admin.list_topics(topic, timeout=DEADLINE_SECONDS).topics[topic]
    assert sorted(described.partitions) == [0, 1, 2, 3]
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        make_topic(bootstrap, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(timeout=DEADLINE_SECONDS)
    assert configs["retention.ms"].value == "60000"
    assert configs["cleanup.policy"].value == "delete"
    admin.delete_topics([topic])[topic].result(timeout=DEADLINE_SECONDS)
    assert topic not in admin.list_topics(timeout=DEADLINE_SECONDS).topics


def test_the_cluster_is_described(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    cluster = admin.describe_cluster().result(timeout=DEADLINE_SECONDS)
    assert len(cluster.nodes) == 1
    assert cluster.controller.id == cluster.nodes[0].id
    assert cluster.cluster_id
