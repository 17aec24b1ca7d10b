"""Copies inside transactions while broker and copier are killed: input and output are equal, record by record."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.broker_process import BrokerProcess
from tests.compat.test_confluent_kafka import make_topic
from tests.compat.test_confluent_transactions import values

RECORDS = 600
KILLS = 8
PARTITIONS = 3
QUICK = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "log_level": 0,
    # librdkafka 2.16 waits for ever for a group coordinator that it has dropped from its list when all were down.
    "metadata.recovery.strategy": "none",
}


class Copier:
    """Copies from ``source`` to ``target`` in a thread. It dies when told to or when a transaction fails, and another
    takes its place under the same transactional id, from the offsets that were committed."""

    def __init__(self, bootstrap: str, source: str, target: str, seed: int) -> None:
        self.committed = 0
        self.lives = 0
        self.progress = threading.Condition()
        self._bootstrap = bootstrap
        self._source = source
        self._target = target
        self._random = Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.lives += 1
            try:
                self._live()
            except KafkaException:
                continue

    def _live(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._target,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **QUICK,
            }
        )
        try:
            producer = Producer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "transactional.id": self._target,
                    "transaction.timeout.ms": 20_000,
                    "linger.ms": 0,
                    **QUICK,
                }
            )
            producer.init_transactions(30)
            assigned = [TopicPartition(self._source, index) for index in range(PARTITIONS)]
            positions = consumer.committed(assigned, 30)
            consumer.assign([TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in positions])
            while not self._stopping.is_set():
                self._copy_once(consumer, producer, assigned)
        finally:
            consumer.close()

    def _copy_once(self, consumer: Consumer, producer: Producer, assigned: list[TopicPartition]) -> None:
        messages = [message for message in consumer.consume(10, 0.1) if message.error() is None]
        if not messages:
            return
        producer.begin_transaction()
        for message in messages:
            producer.produce(self._target, message.value(), partition=message.partition())
        positions = [each for each in consumer.position(assigned) if each.offset >= 0]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
        if self._random.random() < 0.1:
            raise KafkaException("this copier dies in the middle")
        producer.commit_transaction(30)
        with self.progress:
            self.committed += len(messages)
            self.progress.notify_all()

    def await_committed(self, count: int) -> None:
        with self.progress:
            assert self.progress.wait_for(lambda: self.committed >= count, timeout=60), f"stopped at {self.committed}"

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=90)
        assert not self._thread.is_alive()


@pytest.mark.timeout(300)
def test_a_copy_loop_under_kills_of_broker_and_copier_is_exact(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    copier = None
    try:
        make_topic(broker.bootstrap, "in", PARTITIONS)
        make_topic(broker.bootstrap, "out", PARTITIONS)
        source = Producer({"bootstrap.servers": broker.bootstrap})
        written = [b"%d" % number for number in range(RECORDS)]
        for number, value in enumerate(written):
            source.produce("in", value, partition=number % PARTITIONS)
        assert source.flush(60) == 0
        copier = Copier(broker.bootstrap, "in", "out", seed=5)
        for kill in range(KILLS):
            copier.await_committed((kill + 1) * RECORDS // (2 * KILLS))
            broker.kill()
            broker.start()
        copied = values(broker.bootstrap, "out", RECORDS, PARTITIONS)
    finally:
        if copier is not None:
            copier.stop()
        if broker.process.poll() is None:
            broker.stop()
    assert sorted(copied) == sorted(written)
