"""Transactions with confluent-kafka (librdkafka): commit, abort, exactly-once copies, fencing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from kbroker.protocol.messages.update_features import UpdateFeaturesRequest
from tests.broker_process import BrokerProcess
from tests.compat.test_confluent_kafka import make_topic, receive
from tests.wire import WireClient

DEADLINE_SECONDS = 60.0
LOOPS_MAX = 600


def transactional(bootstrap: str, transactional_id: str, **config: Any) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0, **config}
    )
    producer.init_transactions(DEADLINE_SECONDS)
    return producer


def values(bootstrap: str, topic: str, count: int, partitions: int = 1) -> list[bytes]:
    """What a read_committed reader sees: so many records, and no more."""
    messages = receive(bootstrap, topic, count, partitions, **{"isolation.level": "read_committed"})
    return [message.value() for message in messages]


def test_only_committed_records_are_read(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=3)
    producer = transactional(bootstrap, topic)
    for number in range(6):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, b"%d-%d" % (number, partition), partition=partition)
        if number % 2:
            producer.abort_transaction(DEADLINE_SECONDS)
        else:
            producer.commit_transaction(DEADLINE_SECONDS)
    expected = sorted(b"%d-%d" % (number, partition) for number in (0, 2, 4) for partition in range(3))
    assert sorted(values(bootstrap, topic, 9, 3)) == expected


def test_records_of_an_open_transaction_are_held_back(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"first")
    producer.flush(DEADLINE_SECONDS)
    plain = Producer({"bootstrap.servers": bootstrap})
    plain.produce(topic, b"second")
    plain.flush(DEADLINE_SECONDS)
    assert values(bootstrap, topic, 0) == []
    uncommitted: dict[str, Any] = {"isolation.level": "read_uncommitted"}
    assert len(receive(bootstrap, topic, 2, **uncommitted)) == 2
    producer.commit_transaction(DEADLINE_SECONDS)
    assert values(bootstrap, topic, 2) == [b"first", b"second"]


def test_many_transactions_of_one_record(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    for number in range(300):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.commit_transaction(DEADLINE_SECONDS)
    assert values(bootstrap, topic, 300) == [b"%d" % number for number in range(300)]


def test_a_large_transaction_over_many_partitions(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=50)
    producer = transactional(bootstrap, topic)
    for committed in (False, True):
        producer.begin_transaction()
        for number in range(5000):
            producer.produce(topic, b"%d" % number, partition=number % 50)
        # librdkafka loses count of what it purges while it is on its way.
        producer.flush(DEADLINE_SECONDS)
        if committed:
            producer.commit_transaction(DEADLINE_SECONDS)
        else:
            producer.abort_transaction(DEADLINE_SECONDS)
    assert len(values(bootstrap, topic, 5000, 50)) == 5000


def test_a_producer_that_lost_its_id_is_fenced(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    old = transactional(bootstrap, topic)
    old.begin_transaction()
    old.produce(topic, b"zombie")
    old.flush(DEADLINE_SECONDS)
    new = transactional(bootstrap, topic)
    with pytest.raises(KafkaException) as raised:
        old.commit_transaction(DEADLINE_SECONDS)
    error = raised.value.args[0]
    assert isinstance(error, KafkaError)
    assert error.fatal() or error.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)  # noqa: SLF001
    new.begin_transaction()
    new.produce(topic, b"rightful")
    new.commit_transaction(DEADLINE_SECONDS)
    assert values(bootstrap, topic, 1) == [b"rightful"]


@pytest.mark.parametrize("level", [0, 1])
def test_transactions_at_the_lower_levels_of_the_feature(tmp_path: Path, level: int) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        make_topic(broker.bootstrap, "t")
        early = transactional(broker.bootstrap, "early")
        early.begin_transaction()
        early.produce("t", b"begun at level 2")
        early.flush(DEADLINE_SECONDS)
        update = UpdateFeaturesRequest.FeatureUpdateKey(
            feature="transaction.version", max_version_level=level, upgrade_type=2
        )
        with WireClient(broker.bootstrap) as client:
            assert client.call(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=10_000), 1).error_code == 0
        late = transactional(broker.bootstrap, "late")
        for committed in (True, False, True):
            late.begin_transaction()
            late.produce("t", b"%d" % committed)
            if committed:
                late.commit_transaction(DEADLINE_SECONDS)
            else:
                late.flush(DEADLINE_SECONDS)
                late.abort_transaction(DEADLINE_SECONDS)
        early.commit_transaction(DEADLINE_SECONDS)
        assert values(broker.bootstrap, "t", 3) == [b"begun at level 2", b"1", b"1"]


def copy(bootstrap: str, source: str, target: str, count: int, every: int, aborts: bool) -> None:
    """Consume, transform, produce; offsets within the transaction. With ``aborts`` every other try is undone."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": target,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([source])
    producer = transactional(bootstrap, target)
    copied = tries = 0
    try:
        for _ in range(LOOPS_MAX):
            if copied >= count:
                break
            messages = [m for m in consumer.consume(every, 0.3) if m.error() is None]
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                producer.produce(target, b"copy of " + message.value())
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), DEADLINE_SECONDS)
            tries += 1
            if aborts and tries % 2:
                producer.abort_transaction(DEADLINE_SECONDS)
                first = min(message.offset() for message in messages)
                consumer.seek(TopicPartition(source, 0, first))
                continue
            producer.commit_transaction(DEADLINE_SECONDS)
            copied += len(messages)
        assert copied == count
        (committed,) = consumer.committed([TopicPartition(source, 0)], DEADLINE_SECONDS)
        assert committed.offset >= count
    finally:
        consumer.close()


@pytest.mark.parametrize("aborts", [False, True])
def test_a_copy_is_exact_whether_or_not_tries_are_undone(bootstrap: str, topic: str, aborts: bool) -> None:
    source, target = f"{topic}-in", f"{topic}-out"
    make_topic(bootstrap, source)
    make_topic(bootstrap, target)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(200):
        producer.produce(source, b"%d" % number)
    producer.flush(DEADLINE_SECONDS)
    copy(bootstrap, source, target, 200, 20, aborts)
    assert values(bootstrap, target, 200) == [b"copy of %d" % number for number in range(200)]
