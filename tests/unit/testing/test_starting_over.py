"""Reset, snapshot and restore, kill and restart: in a thread and in a process."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from kbroker.testing import Broker


@pytest.fixture(scope="module", params=["thread", "process"])
def running(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(mode=request.param, topics={"orders": 2}) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    return running


def connect(broker: Broker) -> socket.socket:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def test_a_reset_leaves_nothing_but_the_topics_of_the_start_behind_the_same_address(broker: Broker) -> None:
    address = broker.bootstrap_servers
    broker.produce("orders", ["a"])
    broker.create_topics({"other": 1})
    with connect(broker) as connection:
        broker.reset()
        assert connection.recv(1) == b""
    assert broker.bootstrap_servers == address
    assert list(broker.topics()) == ["orders"]
    assert broker.records("orders") == []
    connect(broker).close()


def test_a_reset_of_topics_empties_them_alone(broker: Broker) -> None:
    broker.create_topics({"keep": 1, "empty": 2}, {"retention.ms": 5000})
    broker.produce("keep", ["a"])
    broker.produce("empty", ["b"])
    broker.reset(topics=["empty"])
    assert broker.records("empty") == []
    assert broker.topics()["empty"].configs == {"retention.ms": "5000"}
    assert broker.topics()["empty"].partitions == 2
    assert len(broker.records("keep")) == 1


def test_a_snapshot_is_gone_back_to_more_than_once(broker: Broker) -> None:
    broker.produce("orders", ["a"])
    snapshot = broker.snapshot()
    for _ in range(2):
        broker.produce("orders", ["b"])
        broker.restore(snapshot)
        assert [record.text for record in broker.records("orders")] == ["a"]
        assert broker.next_offset("orders") == 1


def test_a_killed_broker_comes_back_on_the_same_port_with_its_data(broker: Broker) -> None:
    address = broker.bootstrap_servers
    broker.produce("orders", ["a"])
    with connect(broker) as connection:
        broker.kill()
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""
    with pytest.raises(OSError, match=r"[Rr]efused"):
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=10)
    with pytest.raises(RuntimeError, match=r"killed: call restart\(\)"):
        broker.records("orders")
    broker.restart()
    assert broker.bootstrap_servers == address
    assert [record.text for record in broker.records("orders")] == ["a"]
    broker.produce("orders", ["b"])
    broker.restart()
    assert len(broker.records("orders")) == 2


def test_a_killed_broker_can_be_reset_or_stopped() -> None:
    before = set(threading.enumerate())
    with Broker() as broker:
        broker.kill()
    assert set(threading.enumerate()) == before
    with Broker(mode="process") as broker:
        broker.kill()
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_power_failure_takes_what_was_not_synced(mode: str) -> None:
    configs = {"kbroker.fsync": True, "log.flush.interval.messages": 1}
    with Broker(mode=mode, configs=configs) as broker:  # type: ignore[arg-type]  # one of the two
        broker.create_topics({"synced": 1})
        broker.create_topics({"lazy": 1}, {"flush.messages": 1_000_000})
        broker.produce("synced", ["a"])
        broker.produce("lazy", ["b"])
        broker.kill(lose_unsynced=True)
        broker.restart()
        assert [record.text for record in broker.records("synced")] == ["a"]
        assert broker.records("lazy") == []


def test_a_reset_takes_few_milliseconds() -> None:
    with Broker() as broker:
        best = 1.0
        for _ in range(5):
            broker.produce("orders", ["a"])
            begin = time.perf_counter()
            broker.reset()
            best = min(best, time.perf_counter() - begin)
        assert best < 0.05  # ten times less when nothing else runs on the machine


def test_a_data_directory_of_ones_own_is_not_left_by_a_reset(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("data")
    with Broker(data_dir=folder, topics={"orders": 1}) as broker:
        with pytest.raises(ValueError, match=r"use reset\(topics=...\)"):
            broker.reset()
        broker.produce("orders", ["a"])
        broker.reset(topics=["orders"])
        assert broker.records("orders") == []


def test_a_data_directory_of_another_broker_is_loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("data")
    with Broker(data_dir=folder, configs={"node.id": 7}) as other:
        other.produce("orders", ["a"])
    with Broker(load=[folder]) as broker:
        for _ in range(2):
            assert [record.text for record in broker.records("orders")] == ["a"]
            broker.produce("orders", ["b"])
            broker.reset()
        with pytest.raises(ValueError, match=r"is no Kafka data directory: it has no meta\.properties"):
            broker.load(tmp_path_factory.mktemp("empty"))
