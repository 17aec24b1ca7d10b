"""What kafka-python, aiokafka and confluent-kafka do when the broker misbehaves: the faults of the testing kit.

| fault | kafka-python | aiokafka | confluent-kafka |
|---|---|---|---|
| error that can be retried | sends again | sends again | sends again |
| error that cannot | raises it | raises it | reports it |
| connection dropped, answer cut, no answer | sends again on a new connection | as it | as it |
| delay, throttle, pause | waits | waits | waits |

All three have idempotence on where it is asked for, and then a batch whose answer was lost is written once.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer

from kbroker.testing import Broker
from kbroker.testing.faults import Fault, Faults

# kafka-python leaves the sockets that it lost unclosed.
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")

Send = Callable[[str, list[bytes]], None]
TIMEOUT_S = 30


def send_with_kafka_python(address: str, values: list[bytes]) -> None:
    producer = KafkaProducer(
        bootstrap_servers=address, enable_idempotence=True, retry_backoff_ms=10, request_timeout_ms=2000,
        client_id="sender",
    )  # fmt: skip
    try:
        for value in values:
            producer.send("orders", value, partition=0).get(TIMEOUT_S)
    finally:
        producer.close(1)


def send_with_aiokafka(address: str, values: list[bytes]) -> None:
    async def main() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=address, enable_idempotence=True, retry_backoff_ms=10, request_timeout_ms=2000,
            client_id="sender",
        )  # fmt: skip
        await producer.start()
        try:
            for value in values:
                await asyncio.wait_for(producer.send_and_wait("orders", value, partition=0), TIMEOUT_S)
        finally:
            await producer.stop()

    asyncio.run(main())


def send_with_confluent_kafka(address: str, values: list[bytes]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "retry.backoff.ms": 10,
            "socket.timeout.ms": 2000,
            "reconnect.backoff.ms": 10,
            "client.id": "sender",
        }
    )
    failed: list[Any] = []
    for value in values:
        producer.produce(
            "orders", value, partition=0, on_delivery=lambda error, _: failed.append(error) if error else None
        )
        if producer.flush(TIMEOUT_S):
            raise TimeoutError("the records were not delivered")
    if failed:
        raise KafkaException(failed[0])


CLIENTS = [send_with_kafka_python, send_with_aiokafka, send_with_confluent_kafka]
SURVIVED: dict[str, Callable[[Faults], Fault]] = {
    "error": lambda faults: faults.error("Produce", "NOT_ENOUGH_REPLICAS", topic="orders"),
    "another leader": lambda faults: faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0),
    "error of metadata": lambda faults: faults.error("Metadata", "LEADER_NOT_AVAILABLE", topic="orders"),
    "delay": lambda faults: faults.delay("Produce", ms=50),
    "drop before": lambda faults: faults.drop_connection("Produce"),
    "drop after": lambda faults: faults.drop_connection("Produce", after=True),
    "cut answer": lambda faults: faults.truncate_answer("Produce"),
    "no answer": lambda faults: faults.no_answer("Produce", after=True),
    "throttle": lambda faults: faults.throttle("Produce", ms=50),
}


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}, mode="process") as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Iterator[Broker]:
    running.reset()
    yield running
    gc.collect()  # what a client left unclosed is found here and not in another test


@pytest.mark.parametrize("send", CLIENTS, ids=lambda send: send.__name__[10:])
@pytest.mark.parametrize("kind", list(SURVIVED))
def test_a_client_survives(broker: Broker, kind: str, send: Send) -> None:
    fault = SURVIVED[kind](broker.faults).once()
    send(broker.bootstrap_servers, [b"a", b"b"])
    assert fault.fired == 1
    assert [record.value for record in broker.records("orders")] == [b"a", b"b"]


@pytest.mark.parametrize("send", CLIENTS, ids=lambda send: send.__name__[10:])
def test_a_client_tells_an_error_that_cannot_be_retried(broker: Broker, send: Send) -> None:
    fault = broker.faults.error("Produce", "TOPIC_AUTHORIZATION_FAILED", client_id="sender").once()
    with pytest.raises(Exception, match=r"(?i)authori[sz]ation|TopicAuthorizationFailed"):
        send(broker.bootstrap_servers, [b"a"])
    assert fault.fired == 1
    assert broker.records("orders") == []


@pytest.mark.parametrize("send", CLIENTS, ids=lambda send: send.__name__[10:])
def test_a_client_waits_at_a_barrier(broker: Broker, send: Send) -> None:
    barrier = broker.faults.pause("Produce")
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(send, broker.bootstrap_servers, [b"a"])
        barrier.wait_fired(timeout=TIMEOUT_S)
        assert not sending.done()
        assert barrier.release() == 1
        sending.result(TIMEOUT_S)
    assert len(broker.records("orders")) == 1


@pytest.mark.parametrize("send", CLIENTS, ids=lambda send: send.__name__[10:])
def test_a_client_finds_the_broker_again_after_a_kill(broker: Broker, send: Send) -> None:
    send(broker.bootstrap_servers, [b"a"])
    broker.kill()
    broker.restart()
    send(broker.bootstrap_servers, [b"b"])
    broker.assert_exactly_once("orders", ["a", "b"])
