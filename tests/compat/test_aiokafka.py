"""aiokafka against the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError

from tests.compat import corpus

DEADLINE_SECONDS = 60.0


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 2 * DEADLINE_SECONDS))


async def make_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1)])
    finally:
        await admin.close()


async def read_all(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[Any]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(assigned)
        await consumer.seek_to_beginning(*assigned)
        received: list[Any] = []
        while len(received) < count:
            batches = await consumer.getmany(timeout_ms=int(DEADLINE_SECONDS * 1000))
            assert batches, f"{len(received)} of {count} records came"
            for batch in batches.values():
                received.extend(batch)
        assert sum((await consumer.end_offsets(assigned)).values()) == count
        return received
    finally:
        await consumer.stop()


def test_a_hundred_thousand_lines_arrive_once_and_in_order_per_partition(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        await make_topic(bootstrap, topic, partitions=3)
        lines = corpus.lines()
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", max_batch_size=500_000) as producer:
            sent = [await producer.send(topic, line, partition=n % 3) for n, line in enumerate(lines)]
            await asyncio.gather(*sent)
        received = await read_all(bootstrap, topic, len(lines), partitions=3)
        for partition in range(3):
            values = [record.value for record in received if record.partition == partition]
            assert values == list(lines[partition::3])

    run(scenario())


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_every_codec_carries_keys_headers_and_null_values(
    bootstrap: str, topic: str, codec: str | None, idempotent: bool
) -> None:
    async def scenario() -> None:
        await make_topic(bootstrap, topic)
        expected = []
        sent = []
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=idempotent
        ) as producer:
            for number, line in enumerate(corpus.lines(2000)):
                key = None if number % 5 == 0 else f"key-{number}".encode()
                value = None if key is not None and number % 7 == 0 else line
                headers = [("number", str(number).encode()), ("twice", b"1"), ("twice", b"2")]
                timestamp = 1_700_000_000_000 + number
                expected.append((number, key, value, tuple(headers), timestamp))
                sent.append(await producer.send(topic, value, key, 0, timestamp, headers))
            await asyncio.gather(*sent)
        received = await read_all(bootstrap, topic, len(expected))
        assert [(r.offset, r.key, r.value, r.headers, r.timestamp) for r in received] == expected

    run(scenario())


def test_a_record_above_the_size_limit_is_refused(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        await make_topic(bootstrap, topic)
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, max_request_size=4_000_000) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, bytes(2_000_000))

    run(scenario())


def test_a_waiting_consumer_gets_a_new_record_long_before_its_fetch_would_end(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        await make_topic(bootstrap, topic)
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=120_000, request_timeout_ms=240_000)
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            waiting = asyncio.ensure_future(consumer.getone())
            async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
                await producer.send_and_wait(topic, b"wake up")
                record = await asyncio.wait_for(waiting, DEADLINE_SECONDS)
            assert record.value == b"wake up"
        finally:
            await consumer.stop()

    run(scenario())
