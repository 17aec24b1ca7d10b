"""The broker's time in the test's hands: what each clock moves, and that everything has happened on return."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from kafka import KafkaConsumer, KafkaProducer

from kbroker.testing import Broker
from kbroker.testing.clock import MovableClock
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module", params=["thread", "process"])
def running(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(mode=request.param) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    return running


def test_a_frozen_wall_clock_stamps_what_it_shows(broker: Broker) -> None:
    broker.clock.freeze()
    now_ms = broker.clock.wall_ms
    broker.produce("orders", ["a"])
    broker.clock.advance(hours=2)
    broker.produce("orders", ["b"])
    stamps = [record.timestamp_ms - now_ms for record in broker.records("orders")]
    assert stamps == [0, 2 * 3600 * 1000]
    assert broker.clock.wall_ms == now_ms + 2 * 3600 * 1000
    broker.clock.resume()


def test_retention_deletes_by_the_wall_clock_before_advance_returns(broker: Broker) -> None:
    broker.create_topics({"short": 1}, {"retention.ms": 60_000, "segment.ms": 1000})
    broker.produce("short", ["old"])
    broker.clock.advance(wall=30)
    broker.produce("short", ["newer"])
    assert len(broker.records("short")) == 2
    broker.clock.advance(wall=timedelta(seconds=45))
    assert [record.text for record in broker.records("short")] == ["newer"]


def test_a_consumers_session_expires_by_the_timers_clock(broker: Broker) -> None:
    broker.create_topics({"orders": 1})
    consumer = KafkaConsumer(
        "orders", group_id="g", bootstrap_servers=broker.bootstrap_servers, session_timeout_ms=45_000
    )
    consumer.partitions_for_topic("orders")  # a leader that joins before it knows the topic assigns nothing
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(broker.wait_for_assignment, "g")
        while not waiting.done():
            consumer.poll(100)
        group = waiting.result()
    assert group.members[0].assignment == {"orders": (0,)}
    broker.clock.advance(wall=timedelta(hours=1))
    assert broker.groups()["g"].state == "Stable"
    with broker.faults.pause("Heartbeat").optional():
        broker.clock.advance(timers=timedelta(seconds=46))
        assert broker.groups()["g"].state == "Empty"
    consumer.close(autocommit=False)


def test_a_waiting_fetch_ends_when_the_timers_clock_has_come_to_its_end(broker: Broker) -> None:
    broker.create_topics({"orders": 1})
    broker.clock.freeze()
    with broker.faults.delay("Fetch", ms=0.001) as seen:
        consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers, fetch_max_wait_ms=3_000)
        with ThreadPoolExecutor() as pool:
            polling = pool.submit(consumer.poll, 60_000)
            seen.wait_fired()
            broker.clock.advance(timers=4)
            seen.wait_fired(2)
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
            producer.send("orders", b"a").get(PATIENCE_S)
            assert sum(map(len, polling.result(PATIENCE_S).values())) == 1
            producer.close()
        consumer.close()
    broker.clock.resume()


def test_a_group_comes_together_while_the_clocks_stand_still(broker: Broker) -> None:
    broker.produce("orders", ["a"])
    broker.clock.freeze()
    consumer = broker.consumer({"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    with ThreadPoolExecutor() as pool:
        polling = pool.submit(consumer.poll, 30)
        assert broker.wait_for_assignment("g").state == "Stable"
        assert polling.result().value() == b"a"
        consumer.close()
    broker.clock.resume()


def test_what_is_due_at_once_fires_on_a_clock_that_stands_still() -> None:
    async def main() -> None:
        clock = MovableClock(asyncio.get_running_loop())
        fired: list[str] = []
        due = asyncio.Event()
        clock.call_later(0, fired.append, "before")
        clock.call_later(5, fired.append, "later")
        clock.freeze()
        clock.call_later(0, fired.append, "now")
        clock.call_later(-1, due.set)
        await due.wait()
        assert fired == ["before", "now"]
        await clock.advance(0, 5)
        assert fired == ["before", "now", "later"]

    asyncio.run(main())


def test_a_month_passes_in_no_time(broker: Broker) -> None:
    begin = time.perf_counter()
    broker.clock.advance(days=30)
    assert time.perf_counter() - begin < PATIENCE_S
    broker.produce("orders", ["a"])


def test_only_steps_forward_are_taken(broker: Broker) -> None:
    with pytest.raises(ValueError, match="goes forward"):
        broker.clock.advance(hours=-1)
    with pytest.raises(ValueError, match="goes forward"):
        broker.clock.advance()


def test_a_frozen_broker_can_be_restarted_killed_reset_and_stopped() -> None:
    with Broker() as broker:
        broker.clock.freeze()
        now_ms = broker.clock.wall_ms
        broker.restart()
        broker.kill()
        broker.restart()
        assert broker.clock.wall_ms - now_ms < 60_000
        broker.produce("orders", ["a"])
        consumer = KafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
        assert next(consumer).value == b"a"
        broker.reset()
        broker.clock.freeze()
        consumer.close()
