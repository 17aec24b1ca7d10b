"""kafka-python against the broker."""

from __future__ import annotations

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError

from tests.compat import corpus

DEADLINE_MS = 60_000


KEPT = {"retention.ms": "-1"}
"""The records are of 2023."""


def make_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1, topic_configs=KEPT)])
    finally:
        admin.close()


def read_all(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[object]:
    """``count`` records from the beginning; fails when fewer come, or more are there than asked for."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=DEADLINE_MS)
    try:
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)
        received: list[object] = []
        while len(received) < count:
            batches = consumer.poll(timeout_ms=DEADLINE_MS)
            assert batches, f"{len(received)} of {count} records came"
            for batch in batches.values():
                received.extend(batch)
        assert sum(consumer.end_offsets(assigned).values()) == count
        return received
    finally:
        consumer.close()


def test_a_hundred_thousand_lines_arrive_once_and_in_order_per_partition(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=3)
    lines = corpus.lines()
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5, batch_size=500_000)
    try:
        for number, line in enumerate(lines):
            producer.send(topic, line, partition=number % 3)
        producer.flush(timeout=DEADLINE_MS / 1000)
    finally:
        producer.close()
    received = read_all(bootstrap, topic, len(lines), partitions=3)
    for partition in range(3):
        values = [record.value for record in received if record.partition == partition]  # type: ignore[attr-defined]
        assert values == list(lines[partition::3])


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_every_codec_carries_keys_headers_and_null_values(
    bootstrap: str, topic: str, codec: str | None, idempotent: bool
) -> None:
    make_topic(bootstrap, topic)
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=idempotent)
    expected = []
    try:
        for number, line in enumerate(corpus.lines(2000)):
            key = None if number % 5 == 0 else f"key-{number}".encode()
            value = None if key is not None and number % 7 == 0 else line
            headers = [("number", str(number).encode()), ("twice", b"1"), ("twice", b"2")]
            expected.append((number, key, value, headers, 1_700_000_000_000 + number))
            producer.send(topic, value, key, headers=headers, timestamp_ms=1_700_000_000_000 + number, partition=0)
        producer.flush(timeout=DEADLINE_MS / 1000)
    finally:
        producer.close()
    received = read_all(bootstrap, topic, len(expected))
    assert [(r.offset, r.key, r.value, list(r.headers), r.timestamp) for r in received] == expected  # type: ignore[attr-defined]


def test_a_record_above_the_size_limit_is_refused(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    producer = KafkaProducer(bootstrap_servers=bootstrap, max_request_size=4_000_000)
    try:
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(topic, bytes(2_000_000)).get(timeout=DEADLINE_MS / 1000)
    finally:
        producer.close()


def test_a_producer_makes_its_topic_by_using_it(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        assert producer.send(topic, b"first").get(timeout=DEADLINE_MS / 1000).offset == 0
    finally:
        producer.close()


def test_topics_are_listed_described_and_deleted(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=2)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
        assert topic in admin.list_topics()
        assert len(admin.describe_topics([topic])[0]["partitions"]) == 2
        assert len(admin.describe_cluster()["brokers"]) == 1
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
    finally:
        admin.close()


def test_offsets_are_found_by_time(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        for number in range(100):
            producer.send(topic, b"v", timestamp_ms=1_700_000_000_000 + 1000 * number)
        producer.flush(timeout=DEADLINE_MS / 1000)
    finally:
        producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    try:
        partition = TopicPartition(topic, 0)
        assert consumer.offsets_for_times({partition: 1_700_000_041_500})[partition].offset == 42
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 100}
    finally:
        consumer.close()
