"""``kill -9`` under load, in real processes: what was acknowledged is there, once, in order."""

from __future__ import annotations

import threading
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from tests.broker_process import BrokerProcess
from tests.compat.test_confluent_kafka import make_topic, receive

ROUNDS = 20
PRODUCERS = 3
ACKNOWLEDGED_PER_ROUND = 50
PAUSE_S = 0.001
"""Between a producer's records: every kill meets some on their way, and there is not a million to be read back."""


class SteadyProducer:
    """One producer in a thread of its own that numbers its records and notes which were acknowledged.

    It is idempotent with one request in flight: a broker that was killed knows only a producer's last batch for
    certain, so more in flight could be written twice by a retry, in Apache Kafka too.
    """

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        self.name = name
        self.acknowledged: list[bytes] = []
        self.failures: list[KafkaError] = []
        self.progress = threading.Condition()
        self._topic = topic
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "max.in.flight.requests.per.connection": 1,
                "message.timeout.ms": 60_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "linger.ms": 1,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(PAUSE_S):
            self._producer.produce(self._topic, f"{self.name} {number}".encode(), on_delivery=self._on_delivery)
            self._producer.poll(0)
            number += 1
        self._producer.flush(60)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        with self.progress:
            if error is None:
                value = message.value()
                assert isinstance(value, bytes)
                self.acknowledged.append(value)
            else:
                self.failures.append(error)
            self.progress.notify_all()

    def await_acknowledged(self, count: int) -> None:
        with self.progress:
            enough = self.progress.wait_for(lambda: len(self.acknowledged) >= count or self.failures, timeout=60)
        assert enough, f"{self.name} stopped at {len(self.acknowledged)} acknowledged records"
        assert not self.failures, self.failures

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=90)
        assert not self._thread.is_alive()


def test_twenty_kills_under_three_producers_lose_and_double_nothing(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    producers: list[SteadyProducer] = []
    try:
        make_topic(broker.bootstrap, "killed")
        producers = [SteadyProducer(broker.bootstrap, "killed", f"producer-{n}") for n in range(PRODUCERS)]
        for _ in range(ROUNDS):
            for producer in producers:
                producer.await_acknowledged(len(producer.acknowledged) + ACKNOWLEDGED_PER_ROUND)
            broker.kill()
            broker.start()
        for producer in producers:
            producer.await_acknowledged(len(producer.acknowledged) + ACKNOWLEDGED_PER_ROUND)
            producer.stop()
        acknowledged = sum(len(producer.acknowledged) for producer in producers)
        values = [message.value() for message in receive(broker.bootstrap, "killed", acknowledged)]
    finally:
        for producer in producers:
            producer.stop()
        if broker.process.poll() is None:
            broker.stop()
    for producer in producers:
        written = [value for value in values if value is not None and value.startswith(producer.name.encode())]
        assert written == producer.acknowledged
