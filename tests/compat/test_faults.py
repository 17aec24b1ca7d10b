"""What kafka-python, aiokafka and confluent-kafka do when the broker misbehaves: the faults of the testing kit.

| fault | kafka-python | aiokafka | confluent-kafka |
|---|---|---|---|
| error that can be retried, also one that lies | sends again | sends again | sends again |
| error that cannot | raises it | raises it | reports it |
| connection dropped, answer cut, no answer | sends again on a new connection | as it | as it |
| delay, throttle, pause, slow disk | waits | waits | waits |
| every connection refused from the start | `KafkaTimeoutError` | `KafkaConnectionError` | goes on trying |
| disk full, disk failing until a restart | sends again until it is written | as it | as it |
| power failure | is not told that an acknowledged record is gone | as it | as it |
| Fetch, JoinGroup or a commit fails | reads on, joins, commits again | as it | as it |

All three have idempotence on where it is asked for, and then a batch whose answer was lost is written once.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaTimeoutError, RebalanceInProgressError

from kbroker.testing import Broker
from kbroker.testing.faults import Fault, Faults

# kafka-python leaves the sockets that it lost unclosed.
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")

Send = Callable[[str, list[bytes]], None]
TIMEOUT_S = 60


def send_with_kafka_python(address: str, values: list[bytes]) -> None:
    producer = KafkaProducer(
        bootstrap_servers=address, enable_idempotence=True, retry_backoff_ms=10, request_timeout_ms=2000,
        client_id="sender", bootstrap_timeout_ms=8000,
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
        try:
            await producer.start()
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
each_client = pytest.mark.parametrize("send", CLIENTS, ids=lambda send: send.__name__[10:])
SURVIVED: dict[str, Callable[[Faults], Fault]] = {
    "error": lambda faults: faults.error("Produce", "NOT_ENOUGH_REPLICAS", topic="orders"),
    "another leader": lambda faults: faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0),
    "error of metadata": lambda faults: faults.error("Metadata", "LEADER_NOT_AVAILABLE", topic="orders"),
    "error after": lambda faults: faults.error("Produce", "REQUEST_TIMED_OUT", after=True),
    "delay": lambda faults: faults.delay("Produce", ms=50),
    "drop before": lambda faults: faults.drop_connection("Produce"),
    "drop after": lambda faults: faults.drop_connection("Produce", after=True),
    "cut answer": lambda faults: faults.truncate_answer("Produce"),
    "no answer before": lambda faults: faults.no_answer("Produce"),
    "no answer after": lambda faults: faults.no_answer("Produce", after=True),
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


@each_client
@pytest.mark.parametrize("kind", list(SURVIVED))
def test_a_client_survives(broker: Broker, kind: str, send: Send) -> None:
    fault = SURVIVED[kind](broker.faults).once()
    send(broker.bootstrap_servers, [b"a", b"b"])
    assert fault.fired == 1
    assert [record.value for record in broker.records("orders")] == [b"a", b"b"]


@each_client
def test_a_client_tells_an_error_that_cannot_be_retried(broker: Broker, send: Send) -> None:
    fault = broker.faults.error("Produce", "TOPIC_AUTHORIZATION_FAILED", client_id="sender").once()
    with pytest.raises(Exception, match=r"(?i)authori[sz]ation|TopicAuthorizationFailed"):
        send(broker.bootstrap_servers, [b"a"])
    assert fault.fired == 1
    assert broker.records("orders") == []


@each_client
def test_a_client_waits_at_a_barrier(broker: Broker, send: Send) -> None:
    barrier = broker.faults.pause("Produce")
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(send, broker.bootstrap_servers, [b"a"])
        barrier.wait_fired(timeout=TIMEOUT_S)
        assert not sending.done()
        assert barrier.release() == 1
        sending.result(TIMEOUT_S)
    assert len(broker.records("orders")) == 1


@each_client
def test_a_client_finds_the_broker_again_after_a_kill(broker: Broker, send: Send) -> None:
    send(broker.bootstrap_servers, [b"a"])
    broker.kill()
    broker.restart()
    send(broker.bootstrap_servers, [b"b"])
    broker.assert_exactly_once("orders", ["a", "b"])


def test_kafka_python_and_aiokafka_give_up_where_no_connection_is_taken(broker: Broker) -> None:
    broker.faults.refuse_connections()
    with pytest.raises(KafkaTimeoutError):
        send_with_kafka_python(broker.bootstrap_servers, [b"a"])
    with pytest.raises(KafkaConnectionError):
        send_with_aiokafka(broker.bootstrap_servers, [b"a"])
    broker.faults.accept_connections()


def test_confluent_kafka_goes_on_trying_where_no_connection_is_taken(broker: Broker) -> None:
    down = threading.Event()
    broker.faults.refuse_connections()
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "reconnect.backoff.ms": 10,
            "error_cb": lambda error: down.set() if error.name() == "_ALL_BROKERS_DOWN" else None,
        }
    )
    producer.produce("orders", b"a")
    while not down.is_set():
        producer.poll(TIMEOUT_S)
    broker.faults.accept_connections()
    assert producer.flush(TIMEOUT_S) == 0
    broker.assert_exactly_once("orders", ["a"])


@each_client
def test_a_client_loses_every_connection_and_sends_on(broker: Broker, send: Send) -> None:
    barrier = broker.faults.pause("Produce").once()
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(send, broker.bootstrap_servers, [b"a", b"b"])
        barrier.wait_fired(timeout=TIMEOUT_S)
        broker.faults.drop_connections()
        sending.result(TIMEOUT_S)
    broker.assert_exactly_once("orders", ["a", "b"])


@each_client
def test_a_client_waits_for_a_slow_disk(broker: Broker, send: Send) -> None:
    with broker.faults.disk.slow(20, "write", path="*/orders-0/*") as slow:
        send(broker.bootstrap_servers, [b"a", b"b"])
        assert slow.fired >= 2
    broker.assert_exactly_once("orders", ["a", "b"])


@each_client
def test_a_client_sends_again_until_the_disk_has_room(broker: Broker, send: Send) -> None:
    tries = broker.faults.delay("Produce", ms=1)
    with ThreadPoolExecutor() as pool:
        with broker.faults.disk.full(path="*/orders-0/*"):
            sending = pool.submit(send, broker.bootstrap_servers, [b"a"])
            tries.wait_fired(2, timeout=TIMEOUT_S)
        sending.result(TIMEOUT_S)
    broker.assert_exactly_once("orders", ["a"])


@each_client
def test_a_client_sends_again_until_the_failed_disk_was_replaced(broker: Broker, send: Send) -> None:
    tries = broker.faults.delay("Produce", ms=1)
    broker.faults.disk.fail("write", path="*/orders-0/*", times=1)
    with ThreadPoolExecutor() as pool:
        sending = pool.submit(send, broker.bootstrap_servers, [b"a"])
        tries.wait_fired(2, timeout=TIMEOUT_S)
        broker.restart()
        sending.result(TIMEOUT_S)
    broker.assert_exactly_once("orders", ["a"])


@each_client
def test_a_client_is_not_told_what_a_power_failure_took(broker: Broker, send: Send) -> None:
    broker.start_over(configs={"kbroker.fsync": True})
    send(broker.bootstrap_servers, [b"lost"])
    broker.kill(lose_unsynced=True)
    broker.restart()
    send(broker.bootstrap_servers, [b"kept"])
    broker.assert_exactly_once("orders", ["kept"])


# --- consumers


def receive_with_kafka_python(address: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=address, group_id="shop", auto_offset_reset="earliest", enable_auto_commit=False,
        retry_backoff_ms=10, heartbeat_interval_ms=50, request_timeout_ms=2000, session_timeout_ms=10_000,
    )  # fmt: skip
    consumer.subscribe(["orders"])
    consumer.partitions_for_topic("orders")
    values: list[bytes] = []
    while len(values) < count:
        values += [record.value for rows in consumer.poll(100).values() for record in rows]
    while True:
        try:
            consumer.commit()
            break
        except RebalanceInProgressError:  # it has found a reason to join again, and wants to be polled
            consumer.poll(100)
    consumer.close()
    return values


def receive_with_aiokafka(address: str, count: int) -> list[bytes]:
    async def main() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=address, group_id="shop", auto_offset_reset="earliest",
            enable_auto_commit=False, retry_backoff_ms=10, heartbeat_interval_ms=50, request_timeout_ms=2000,
        )  # fmt: skip
        await consumer.start()
        values = [(await consumer.getone()).value for _ in range(count)]
        await consumer.commit()
        await consumer.stop()
        return values

    return asyncio.run(main())


def receive_with_confluent_kafka(address: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": address, "group.id": "shop", "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "heartbeat.interval.ms": 50, "retry.backoff.ms": 10,
            "socket.timeout.ms": 2000, "coordinator.query.interval.ms": 100,
        }
    )  # fmt: skip
    consumer.subscribe(["orders"])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None
        values.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return values


Receive = Callable[[str, int], list[bytes]]
RECEIVERS = [receive_with_kafka_python, receive_with_aiokafka, receive_with_confluent_kafka]
READ_ON: dict[str, Callable[[Faults], Fault]] = {
    "leader moved": lambda faults: faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders"),
    "no answer": lambda faults: faults.no_answer("Fetch"),
    "answer cut": lambda faults: faults.truncate_answer("Fetch"),
    "delay": lambda faults: faults.delay("Fetch", ms=50),
    "throttle": lambda faults: faults.throttle("Fetch", ms=50),
    "joining lost": lambda faults: faults.drop_connection("JoinGroup", group="shop"),
    "coordinator not there yet": lambda faults: faults.error("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    "coordinator moved": lambda faults: faults.error("OffsetCommit", "NOT_COORDINATOR", group="shop"),
}


@pytest.mark.parametrize("receive", RECEIVERS, ids=lambda receive: receive.__name__[13:])
@pytest.mark.parametrize("kind", list(READ_ON))
def test_a_consumer_reads_on(broker: Broker, kind: str, receive: Receive) -> None:
    broker.produce("orders", ["a", "b"])
    fault = READ_ON[kind](broker.faults).once()
    assert receive(broker.bootstrap_servers, 2) == [b"a", b"b"]
    assert fault.fired == 1
    assert broker.committed("shop", "orders") == 2
