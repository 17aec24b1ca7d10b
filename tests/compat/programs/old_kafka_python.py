"""Produce and consume with kafka-python of 2019, told how old the broker is: `PROGRAM BOOTSTRAP TOPIC 0.9|0.10`."""

from __future__ import annotations

import sys
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

COUNT = 1000
TIME_MS = 1_700_000_000_000
TIMEOUT_S = 60


def main(bootstrap: str, topic: str, version: str) -> None:
    api_version = tuple(int(part) for part in version.split("."))
    times = api_version >= (0, 10)
    expected: list[Any] = []
    for codec in (None, "gzip", "snappy", "lz4"):
        producer = KafkaProducer(
            bootstrap_servers=bootstrap, api_version=api_version, compression_type=codec, linger_ms=20
        )
        for number in range(COUNT):
            key, value = b"k%d" % number, b"v%d" % number if number % 7 else None
            producer.send(topic, value, key, partition=0, timestamp_ms=TIME_MS + number if times else None)
            expected.append((len(expected), key, value, TIME_MS + number if times else None))
        producer.flush(TIMEOUT_S)
        producer.close()
    settings = {"bootstrap_servers": bootstrap, "api_version": api_version, "enable_auto_commit": False}
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(group_id=None, **settings)
    consumer.assign([partition])
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: len(expected)}
    consumer.seek_to_beginning(partition)
    assert read(consumer, partition, len(expected)) == expected
    consumer.close()
    member = KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **settings)
    assert read(member, partition, len(expected)) == expected
    member.commit()
    assert member.committed(partition) == len(expected)
    member.close()
    sys.stdout.write(f"{len(expected)} records\n")


def read(consumer: KafkaConsumer, partition: TopicPartition, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        polled = consumer.poll(timeout_ms=TIMEOUT_S * 1000)
        assert polled, f"{len(found)} of {count} records came"
        found += [(each.offset, each.key, each.value, each.timestamp) for each in polled[partition]]
    return found


main(*sys.argv[1:])
