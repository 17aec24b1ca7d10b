"""Transactions as a test sees them, and their end by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from confluent_kafka import KafkaException, Producer

from kbroker.testing import Broker, WaitTimeoutError


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}, mode="process") as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    return running


def begin(broker: Broker, value: bytes) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "job"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("orders", value)
    producer.flush(20)
    return producer


def test_records_say_what_became_of_their_transaction(broker: Broker) -> None:
    producer = begin(broker, b"a")
    (record,) = broker.wait_for_records("orders", 1)
    assert record.transaction == "open"
    transaction = broker.transactions()["job"]
    assert transaction.state == "Ongoing"
    assert transaction.partitions == {"orders": (0,)}
    (seen,) = broker.producers()
    assert (seen.producer_id, seen.transaction_start) == (transaction.producer_id, 0)
    with pytest.raises(WaitTimeoutError, match="1 in open transactions"):
        broker.wait_for_records("orders", 1, committed_only=True, timeout=0.01)
    producer.commit_transaction(20)
    (record,) = broker.wait_for_records("orders", 1, committed_only=True)
    assert record.transaction == "committed"
    assert broker.transactions()["job"].state == "CompleteCommit"
    producer.begin_transaction()
    producer.produce("orders", b"b")
    producer.flush(20)
    producer.abort_transaction(20)
    assert [record.transaction for record in broker.records("orders")] == ["committed", "aborted"]
    broker.assert_exactly_once("orders", ["a"])


def test_a_transaction_times_out_by_the_timers_clock_before_advance_returns(broker: Broker) -> None:
    producer = begin(broker, b"a")
    broker.clock.advance(timers=timedelta(minutes=2))
    assert [record.transaction for record in broker.records("orders")] == ["aborted"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
