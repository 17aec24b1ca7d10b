"""Transactions with aiokafka."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.compat.test_aiokafka import DEADLINE_SECONDS, make_topic, run
from tests.compat.test_confluent_transactions import values


def test_only_committed_records_are_read(bootstrap: str, topic: str) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        await producer.start()
        try:
            for number in range(10):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % number)
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
        finally:
            await producer.stop()

    run(work())
    assert values(bootstrap, topic, 5) == [b"0", b"2", b"4", b"6", b"8"]


def test_offsets_move_with_the_transaction(bootstrap: str, topic: str) -> None:
    async def work() -> None:
        source = TopicPartition(f"{topic}-in", 0)
        await make_topic(bootstrap, source.topic)
        await make_topic(bootstrap, topic)
        plain = AIOKafkaProducer(bootstrap_servers=bootstrap)
        await plain.start()
        for number in range(20):
            await plain.send_and_wait(source.topic, b"%d" % number)
        await plain.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=topic, enable_auto_commit=False, isolation_level="read_committed"
        )
        await consumer.start()
        consumer.assign([source])
        await consumer.seek_to_beginning(source)
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        await producer.start()
        try:
            copied = 0
            while copied < 20:
                found: dict[Any, list[Any]] = await consumer.getmany(timeout_ms=int(DEADLINE_SECONDS * 1000))
                async with producer.transaction():
                    for message in found[source]:
                        await producer.send(topic, message.value)
                    copied += len(found[source])
                    await producer.send_offsets_to_transaction({source: found[source][-1].offset + 1}, topic)
            assert await consumer.committed(source) == 20
        finally:
            await producer.stop()
            await consumer.stop()

    run(work())
    assert values(bootstrap, topic, 20) == [b"%d" % number for number in range(20)]
