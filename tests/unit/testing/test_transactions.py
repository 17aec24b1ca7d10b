"""Transactions as a test sees them, and their end by the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.testing import Broker, WaitTimeoutError
from tests.event_loops import NEW_EVENT_LOOPS
from tests.wire import WireClient


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


@pytest.mark.parametrize("new_loop", NEW_EVENT_LOOPS)
def test_what_was_committed_is_read_at_once_and_the_next_transaction_begins_at_once(
    monkeypatch: pytest.MonkeyPatch, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """The markers are written behind the answer, and still before anything that is sent after it has come."""
    monkeypatch.setattr("kbroker.testing.channel.new_event_loop", new_loop)
    with (
        Broker(topics={"orders": 1}, mode="thread") as broker,
        WireClient(broker.bootstrap_servers) as writer,
        WireClient(broker.bootstrap_servers) as reader,
    ):
        writer.call(FindCoordinatorRequest(key="job", key_type=1), 3)
        given = writer.call(InitProducerIdRequest(transactional_id="job", transaction_timeout_ms=60_000), 4)
        producer: dict[str, Any] = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
        for number in range(50):
            records = build_batch([Record(0, 0, None, b"x")], base_sequence=0, transactional=True, **producer)
            data = ProduceRequest.PartitionProduceData(index=0, records=records)
            topic = ProduceRequest.TopicProduceData(name="orders", partition_data=[data])
            request = ProduceRequest(transactional_id="job", acks=-1, timeout_ms=10_000, topic_data=[topic])
            (slot,) = writer.call(request, 12).responses[0].partition_responses
            assert slot.error_code == 0, number
            ended = writer.call(EndTxnRequest(transactional_id="job", committed=True, **producer), 5)
            assert ended.error_code == 0
            producer["producer_epoch"] = ended.producer_epoch
            wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=2 * number, partition_max_bytes=1 << 20)
            topics = [FetchRequest.FetchTopic(topic="orders", partitions=[wanted])]
            (read,) = reader.call(FetchRequest(isolation_level=1, topics=topics), 11).responses[0].partitions
            assert read.last_stable_offset == 2 * number + 2
