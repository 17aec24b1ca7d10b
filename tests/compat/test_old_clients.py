"""Clients of the years before Kafka 1.0, or told to speak as then: record formats 0 and 1, the oldest versions."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.compat.registry_clients import PROGRAMS, node_client, python_client, run

pytestmark = pytest.mark.all

OLD_KAFKA_PYTHON = ("kafka-python==1.4.7", "python-snappy==0.7.3", "lz4==4.4.5", "xxhash==3.5.0")
COUNT = 1000
DEADLINE_S = 60


@pytest.mark.parametrize("version", ["0.9", "0.10"])
def test_kafka_python_of_2019_produces_and_consumes_as_in_2015(bootstrap: str, topic: str, version: str) -> None:
    python = python_client(*OLD_KAFKA_PYTHON)
    said = run([str(python), str(PROGRAMS / "old_kafka_python.py"), bootstrap, topic, version])
    assert said == "4000 records\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("version", ["0.9.0", "0.10.0"])
def test_librdkafka_that_may_not_ask_for_versions_produces_and_consumes(
    bootstrap: str, topic: str, version: str, codec: str
) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "api.version.request": "false",
        "broker.version.fallback": version,
        "log_level": 2,
    }
    refused: list[object] = []
    producer = Producer({**settings, "compression.codec": codec, "linger.ms": "20"})
    for number in range(COUNT):
        value = b"v%d" % number if number % 7 else None
        producer.produce(
            topic, value, b"k%d" % number, on_delivery=lambda error, _: refused.append(error) if error else None
        )
    assert producer.flush(DEADLINE_S) == 0
    assert not refused
    consumer = Consumer({**settings, "group.id": topic, "enable.auto.commit": "false"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[tuple[int | None, bytes | None]] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < COUNT:
            assert time.monotonic() < deadline, f"{len(found)} of {COUNT} records came"
            for message in consumer.consume(500, 1):
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                found.append((message.offset(), message.key()))
        assert found == [(number, b"k%d" % number) for number in range(COUNT)]
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), DEADLINE_S) == (0, COUNT)
    finally:
        consumer.close()


def test_kafka_node_produces_and_consumes_with_and_without_a_group(bootstrap: str, topic: str) -> None:
    folder = node_client("kafka-node@5.0.0")
    command = ["node", str(PROGRAMS / "kafka_node.js"), bootstrap, topic]
    assert run(command, node_path=folder / "node_modules") == "1500 records\n"
