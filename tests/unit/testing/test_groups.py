"""Groups as a test sees them, and waiting for their assignments, commits and lag, with three clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from kbroker.testing import Broker, WaitTimeoutError
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    return running


def test_a_group_is_waited_for_until_it_has_partitions_commits_and_no_lag(broker: Broker) -> None:
    broker.produce("orders", ["a", "b", {"value": "c", "partition": 1}])
    consumer = KafkaConsumer(
        "orders", group_id="billing", client_id="one", bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest", enable_auto_commit=False,
    )  # fmt: skip
    consumer.partitions_for_topic("orders")  # a leader that joins before it knows the topic assigns nothing
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(lambda: [next(consumer) for _ in range(3)])
        group = broker.wait_for_assignment("billing", topic="orders")
        assert reading.result(PATIENCE_S)
    assert group.members[0].client_id == "one"
    assert group.members[0].assignment == {"orders": (0, 1)}
    assert broker.committed("billing", "orders") is None
    assert broker.lag("billing") == 3
    with ThreadPoolExecutor() as pool:
        committed = pool.submit(broker.wait_for_commit, "billing", "orders", 2)
        caught_up = pool.submit(broker.wait_for_lag, "billing")
        consumer.commit()
        assert committed.result(PATIENCE_S) == 2
        assert caught_up.result(PATIENCE_S) == 0
    assert broker.groups()["billing"].state == "Stable"
    consumer.close()
    broker.reset(groups=["billing"])
    assert broker.groups() == {}


def test_waiting_for_a_group_in_vain_says_what_there_is(broker: Broker) -> None:
    with pytest.raises(WaitTimeoutError, match=r"there is no such group. There are: none"):
        broker.wait_for_assignment("billing", timeout=0.01)
    with pytest.raises(WaitTimeoutError, match=r"expected to commit 5 of orders-0; there is no such group"):
        broker.wait_for_commit("billing", "orders", 5, timeout=0.01)
    with pytest.raises(WaitTimeoutError, match="a lag of 0 was expected of group 'billing'"):
        broker.wait_for_lag("billing", timeout=0.01)


def test_coroutines_wait_without_holding_their_loop() -> None:
    async def main() -> None:
        async with Broker(topics={"orders": 1}) as broker:
            await broker.produce("orders", ["a"])
            consumer = AIOKafkaConsumer(
                "orders", group_id="g", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
            )
            await consumer.start()
            try:
                await broker.wait_for_assignment("g")
                assert (await consumer.getone()).value == b"a"
                await consumer.commit()
                assert await broker.wait_for_lag("g") == 0
                assert await broker.committed("g", "orders") == 1
                with pytest.raises(RuntimeError, match=r"await broker\.aio\.wait_for"):
                    broker.sync.wait_for_records("orders")
            finally:
                await consumer.stop()

    asyncio.run(main())


def test_an_error_of_the_coordinator_is_met_by_confluents_consumer_with_another_try(broker: Broker) -> None:
    broker.produce("orders", ["a"])
    fault = broker.faults.error("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", group="billing").times(2)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "retry.backoff.ms": 10,
        }
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.value() == b"a"
    consumer.close()
    assert fault.fired == 2
