"""Request faults: what a client meets, to which requests, how often; and that none goes by unnoticed."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import confluent_kafka
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, NotEnoughReplicasError, TopicAuthorizationFailedError

from kbroker.testing import Broker, UnusedFaultError, WaitTimeoutError
from kbroker.types import StartupError
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(topics={"orders": 2, "other": 1}) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    return running


@pytest.fixture
def producer(broker: Broker) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="shop", retry_backoff_ms=10)
    yield producer
    producer.close(1)


def metadata_request(client_id: bytes = b"raw") -> bytes:
    body = struct.pack(">hhih", 3, 0, 7, len(client_id)) + client_id + struct.pack(">i", 0)
    return struct.pack(">i", len(body)) + body


def connect(broker: Broker) -> socket.socket:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def answers(broker: Broker) -> bool:
    """Whether a request on a new connection gets an answer, or the end of the connection."""
    with connect(broker) as connection:
        connection.sendall(metadata_request())
        return connection.recv(65536) != b""


def test_an_error_comes_as_often_as_said_and_the_client_retries(broker: Broker, producer: KafkaProducer) -> None:
    fault = broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS", topic="orders").times(2)
    assert producer.send("orders", b"a", partition=0).get(PATIENCE_S).offset == 0
    assert fault.fired == 2
    broker.assert_exactly_once("orders", ["a"])


def test_an_error_without_retries_reaches_the_application(broker: Broker) -> None:
    broker.faults.error("Produce", "TOPIC_AUTHORIZATION_FAILED").once()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send("orders", b"a", partition=0).get(PATIENCE_S)
    producer.close()
    assert broker.records("orders") == []


def test_an_error_hits_one_partition_and_the_rest_of_the_request_is_served(broker: Broker) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, linger_ms=500, retries=0, enable_idempotence=False
    )
    producer.partitions_for("orders")
    broker.record_requests()
    broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS", topic="orders", partition=1)
    good = producer.send("orders", b"a", partition=0)
    bad = producer.send("orders", b"b", partition=1)
    producer.flush()
    assert good.get(PATIENCE_S).offset == 0
    with pytest.raises(NotEnoughReplicasError):
        bad.get(PATIENCE_S)
    producer.close()
    assert len(broker.requests("Produce")) == 1
    assert [record.text for record in broker.records("orders")] == ["a"]


def test_an_error_after_serving_has_written_what_the_client_is_told_failed(broker: Broker) -> None:
    broker.faults.error("Produce", "REQUEST_TIMED_OUT", after=True).once()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=False, retry_backoff_ms=10)
    producer.send("orders", b"a", partition=0).get(PATIENCE_S)
    producer.close()
    assert [record.text for record in broker.records("orders")] == ["a", "a"]


def test_a_fetch_error_stands_at_its_partition_within_a_session_too(broker: Broker) -> None:
    broker.produce("orders", ["a"])
    broker.produce("other", ["b"])
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("orders", 0), TopicPartition("other", 0)])
    seen = {record.value for _ in range(2) for record in [next(consumer)]}
    assert seen == {b"a", b"b"}
    fault = broker.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders").times(2)
    broker.produce("orders", ["c"])
    assert next(consumer).value == b"c"
    assert fault.fired == 2
    consumer.close()


def test_a_fault_is_for_one_client_alone(broker: Broker, producer: KafkaProducer) -> None:
    other = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="other", retries=0)
    broker.faults.error("Produce", "INVALID_RECORD", client_id="other")
    producer.send("orders", b"a", partition=0).get(PATIENCE_S)
    with pytest.raises(KafkaError):
        other.send("orders", b"b", partition=0).get(PATIENCE_S)
    other.close()


def test_a_dropped_connection_is_met_with_a_new_one(broker: Broker, producer: KafkaProducer) -> None:
    fault = broker.faults.drop_connection("Produce", after=True).once()
    producer.send("orders", b"a", partition=0).get(PATIENCE_S)
    assert fault.fired == 1
    broker.assert_exactly_once("orders", ["a"])


def test_an_answer_is_cut_in_the_middle(broker: Broker) -> None:
    broker.faults.truncate_answer("Metadata").once()
    with connect(broker) as connection:
        connection.sendall(metadata_request())
        received = b""
        while piece := connection.recv(65536):
            received += piece
    (size,) = struct.unpack(">i", received[:4])
    assert 0 < len(received) - 4 < size


def test_no_answer_is_given_until_the_fault_goes(broker: Broker) -> None:
    fault = broker.faults.no_answer("Metadata")
    with connect(broker) as connection:
        connection.sendall(metadata_request())
        fault.wait_fired()
        connection.settimeout(0.05)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        fault.remove()
        connection.settimeout(PATIENCE_S)
        assert connection.recv(1) == b""


def test_a_client_gives_up_when_nothing_is_answered(broker: Broker) -> None:
    broker.faults.no_answer("Produce")
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, request_timeout_ms=300, delivery_timeout_ms=400, linger_ms=0
    )
    with pytest.raises((KafkaTimeoutError, KafkaError)):
        producer.send("orders", b"a", partition=0).get(PATIENCE_S)
    producer.close(0)


def test_a_pause_holds_requests_until_it_is_released(broker: Broker, producer: KafkaProducer) -> None:
    with broker.faults.pause("Produce") as barrier:
        sent = producer.send("orders", b"a", partition=0)
        barrier.wait_fired()
        assert broker.records("orders") == []
        assert not sent.is_done
        assert barrier.release() == 1
        sent.get(PATIENCE_S)
    producer.send("orders", b"b", partition=0).get(PATIENCE_S)


def test_a_delay_and_a_throttle_take_their_time(broker: Broker) -> None:
    broker.faults.delay("Metadata", ms=60).once()
    with connect(broker) as connection:
        begin = time.monotonic()
        connection.sendall(metadata_request())
        connection.recv(65536)
        assert time.monotonic() - begin >= 0.058  # event loops count in milliseconds
        broker.faults.throttle("Metadata", ms=60).once()
        begin = time.monotonic()
        connection.sendall(metadata_request() + metadata_request())
        connection.recv(65536)
        connection.recv(65536)
        assert time.monotonic() - begin >= 0.058  # event loops count in milliseconds


def test_triggers_choose_which_requests_are_hit(broker: Broker) -> None:
    def hits(count: int) -> list[int]:
        return [number for number in range(1, count + 1) if not answers(broker)]

    with broker.faults.drop_connection("Metadata").on_call(3):
        assert hits(5) == [3]
    with broker.faults.drop_connection("Metadata").every(2):
        assert hits(5) == [2, 4]
    chosen = []
    for _ in range(2):
        with broker.faults.drop_connection("Metadata").probability(0.5, seed=4):
            chosen.append(hits(8))
    assert chosen[0] == chosen[1]
    assert 0 < len(chosen[0]) < 8
    with broker.faults.drop_connection("Metadata").every(2).times(2):
        assert hits(8) == [2, 4]


def test_a_fault_of_metadata_hits_its_topic_also_when_a_client_asks_for_all(broker: Broker) -> None:
    admin = broker.admin(library="confluent_kafka")
    with broker.faults.error("Metadata", "LEADER_NOT_AVAILABLE", topic="orders", partition=1):
        for asked in (None, "orders"):
            found = admin.list_topics(asked, timeout=PATIENCE_S).topics
            errors = {number: error and error.name() for number, error in partition_errors(found["orders"])}
            assert errors == {0: None, 1: "LEADER_NOT_AVAILABLE"}
        assert all(
            error is None for _, error in partition_errors(admin.list_topics(timeout=PATIENCE_S).topics["other"])
        )
    with broker.faults.error("CreateTopics", "POLICY_VIOLATION", topic="soon") as refused:
        made = admin.create_topics([NewTopic("soon", 1, 1), NewTopic("later", 1, 1)])
        assert made["later"].result(PATIENCE_S) is None
        with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
            made["soon"].result(PATIENCE_S)
        assert refused.fired == 1
    with broker.faults.error("DescribeConfigs", "INVALID_REQUEST", topic="orders"):
        described = admin.describe_configs([ConfigResource("topic", name) for name in ("orders", "other")])
        outcomes = {resource.name: future.exception(PATIENCE_S) for resource, future in described.items()}
        assert outcomes["other"] is None
        assert "INVALID_REQUEST" in str(outcomes["orders"])


def partition_errors(topic: Any) -> list[tuple[int, Any]]:
    return [(number, each.error) for number, each in topic.partitions.items()]


def test_a_fault_of_a_group_is_found_in_every_version_of_a_request(broker: Broker) -> None:
    """Newer versions of OffsetFetch name several groups, and keep the field of the one empty."""
    with broker.faults.error("OffsetFetch", "GROUP_AUTHORIZATION_FAILED", group="billing") as fault:
        consumer = broker.consumer({"group.id": "billing"}, library="confluent_kafka")
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            consumer.committed([confluent_kafka.TopicPartition("orders", 0)], timeout=PATIENCE_S)
        other = broker.consumer({"group.id": "shipping"}, library="confluent_kafka")
        other.committed([confluent_kafka.TopicPartition("orders", 0)], timeout=PATIENCE_S)
        assert fault.fired == 1
    consumer.close()
    other.close()


def test_connections_are_refused_for_a_while(broker: Broker, producer: KafkaProducer) -> None:
    producer.send("orders", b"a", partition=0).get(PATIENCE_S)
    broker.faults.refuse_connections()
    with connect(broker) as connection, contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""
    sent = producer.send("orders", b"b", partition=0)
    broker.faults.accept_connections()
    assert sent.get(PATIENCE_S).offset == 1


def test_a_fault_that_never_fired_fails_the_test_unless_it_is_optional() -> None:
    said = r"never happened: error NOT_LEADER_OR_FOLLOWER \(Fetch, topic='orders'"
    with pytest.raises(UnusedFaultError, match=said), Broker(topics={"orders": 1}) as broker:  # noqa: PT012 (its end)
        broker.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders")
        broker.faults.delay("Produce", ms=5).optional()
    with Broker(unused_faults="ignore") as broker:
        broker.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER")


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_fault_that_never_fired_is_told_of_a_killed_broker_too(mode: Literal["thread", "process"]) -> None:
    with pytest.raises(UnusedFaultError, match="delay 5 ms"), Broker(mode=mode) as broker:  # noqa: PT012 (its end)
        broker.faults.delay("Produce", ms=5)
        broker.kill()


def test_a_broker_that_the_test_stopped_itself_tells_its_unused_faults_at_the_end() -> None:
    with pytest.raises(UnusedFaultError, match="delay 5 ms"), Broker() as broker:  # noqa: PT012 (its end)
        broker.faults.delay("Produce", ms=5)
        broker.stop()
    with Broker() as broker:
        broker.stop()
        assert not broker.is_running


def test_the_error_of_the_test_is_not_hidden_by_an_unused_fault() -> None:
    with pytest.raises(ZeroDivisionError), Broker() as broker:  # noqa: PT012 (the end of the block is what is tested)
        broker.faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER")
        raise ZeroDivisionError


def test_wrong_names_are_told_at_once_with_the_nearest(broker: Broker) -> None:
    with pytest.raises(ValueError, match="'Prodce': did you mean 'Produce'"):
        broker.faults.error("Prodce", "NOT_ENOUGH_REPLICAS")
    with pytest.raises(ValueError, match="'NOT_ENOUGH_REPLICA': did you mean 'NOT_ENOUGH_REPLICAS'"):
        broker.faults.error("Produce", "NOT_ENOUGH_REPLICA")
    with pytest.raises(ValueError, match="did you mean 'orders'"):
        broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS", topic="oders")
    with pytest.raises(ValueError, match="a partition needs its topic"):
        broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS", partition=1)
    with pytest.raises(ValueError, match="at least 1"):
        broker.faults.drop_connection("Produce").times(0)
    with pytest.raises(ValueError, match="a probability lies between 0 and 1"):
        broker.faults.drop_connection("Produce").probability(2)
    with pytest.raises(ValueError, match="a delay needs ms"):
        broker.faults.delay("Produce")
    with pytest.raises(TypeError, match="topics"):
        broker.faults.delay("Produce", ms=1, topics="orders")  # type: ignore[call-arg]  # what the test is about
    assert broker.faults.unused() == []


def test_waiting_for_a_fault_in_vain_says_how_near_it_was(broker: Broker) -> None:
    fault = broker.faults.drop_connection("Metadata").on_call(2)
    with connect(broker) as connection:
        connection.sendall(metadata_request())
        connection.recv(65536)
    with pytest.raises(WaitTimeoutError, match="fired 0 times, 1 requests in its scope"):
        fault.wait_fired(timeout=0.01)
    fault.remove()


def test_the_journal_says_what_was_done_to_a_request(broker: Broker, producer: KafkaProducer) -> None:
    broker.record_requests()
    broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS").once()
    producer.send("orders", b"a", partition=0).get(PATIENCE_S)
    first, second = broker.requests("Produce")
    assert first.errors == ("NOT_ENOUGH_REPLICAS",)
    assert first.faults == ("error NOT_ENOUGH_REPLICAS (Produce)",)
    assert second.errors == second.faults == ()


def test_nothing_stands_on_the_road_once_the_faults_are_gone(broker: Broker) -> None:
    from kbroker.server.dispatch import Dispatcher
    from kbroker.testing.engine import Engine

    def dispatcher(engine: Engine) -> type:
        return type(engine.server.dispatch)

    assert broker.submit(dispatcher).result() is Dispatcher
    fault = broker.faults.drop_connection("Metadata")
    assert broker.submit(dispatcher).result() is not Dispatcher
    fault.remove()
    assert broker.submit(dispatcher).result() is Dispatcher


def test_faults_work_in_another_process_too() -> None:
    with Broker(mode="process", topics={"orders": 1}) as broker:
        fault = broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS", topic="orders").once()
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10)
        with ThreadPoolExecutor() as pool:
            fired = pool.submit(fault.wait_fired)
            producer.send("orders", b"a").get(PATIENCE_S)
            assert fired.result(PATIENCE_S) == 1
        producer.close()
        with pytest.raises(ValueError, match="mode='thread'"):
            broker.faults.error("Produce", threading.Lock())  # type: ignore[arg-type]  # no error at all


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_fault_goes_on_until_the_test_says_so_and_not_a_request_longer(mode: Literal["thread", "process"]) -> None:
    with Broker(mode=mode) as broker:
        event = threading.Event()
        fault = broker.faults.drop_connection("Metadata").until(event)
        assert [answers(broker) for _ in range(2)] == [False, False]
        event.set()
        assert answers(broker)
        event.clear()  # what was set is over for good
        assert answers(broker)
        assert fault.fired == 2


# --- disk


def test_a_full_disk_refuses_the_append_and_forgives_it_later(broker: Broker, producer: KafkaProducer) -> None:
    with broker.faults.disk.full(path="*/orders-*"):
        seen = broker.faults.delay("Produce", ms=1)
        sent = producer.send("orders", b"a", partition=0)
        seen.wait_fired(2)
        assert broker.records("orders") == []
    assert sent.get(PATIENCE_S).offset == 0


def test_a_failing_disk_takes_its_partitions_offline_and_leaves_those_of_the_other(tmp_path: Path) -> None:
    directories = f"{tmp_path}/one,{tmp_path}/two"
    with Broker(topics={"orders": 2}, configs={"log.dirs": directories}) as broker:
        broker.produce("orders", [{"value": "a", "partition": 0}])
        home = "two" if (tmp_path / "two" / "orders-0").exists() else "one"
        failing = broker.faults.disk.fail("write", path=f"*/{home}/orders-0/*", times=1)
        with failing, pytest.raises(Exception, match=r"offline|I/O"):
            broker.produce("orders", [{"value": "b", "partition": 0}])
        assert broker.produce("orders", [{"value": "c", "partition": 1}]) == [0]


@pytest.mark.parametrize("kind", ["fail", "full"])
def test_a_broken_disk_hinders_neither_the_end_of_the_test_nor_a_restart_once_it_is_whole(kind: str) -> None:
    with Broker() as broker:
        broker.produce("orders", ["a"])
        with (
            getattr(broker.faults.disk, kind)(),
            pytest.raises(StartupError, match="repair what is broken, then start"),
        ):
            broker.restart()
        broker.restart()
        assert [record.text for record in broker.records("orders")] == ["a"]
        getattr(broker.faults.disk, kind)().optional()


def test_a_fault_of_the_disk_must_happen_too() -> None:
    said = r"never happened: disk ENOSPC \(write of \*/other-0/\*\)"
    with pytest.raises(UnusedFaultError, match=said), Broker(topics={"orders": 1}) as broker:  # noqa: PT012 (its end)
        broker.faults.disk.full(path="*/other-0/*")
        broker.faults.disk.slow(1, path="*/nowhere/*").optional()
        with broker.faults.disk.slow(1, "write", path="*/orders-0/*") as slow:
            broker.produce("orders", ["a"])
            assert slow.fired


def test_wrong_words_about_the_disk_are_told_at_once(broker: Broker) -> None:
    with pytest.raises(ValueError, match="'writ': did you mean 'write'"):
        broker.faults.disk.fail("writ")
    with pytest.raises(ValueError, match="'ENOSPACE': did you mean 'ENOSPC'"):
        broker.faults.disk.fail("write", error="ENOSPACE")
