"""Reset, snapshot and restore, kill and restart: in a thread and in a process."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from kbroker.broker import Broker as Core
from kbroker.config.values import ConfigError
from kbroker.testing import Broker
from kbroker.types import StartupError
from tests.patience import PATIENCE_S


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
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def ask_for_metadata(broker: Broker) -> None:
    """On a connection of its own; the answer, or the end of the connection, is waited for."""
    with connect(broker) as connection:
        connection.sendall(struct.pack(">ihhihi", 14, 3, 0, 1, -1, 0))
        connection.recv(65536)


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
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=PATIENCE_S)
    with pytest.raises(RuntimeError, match=r"killed: call restart\(\)"):
        broker.records("orders")
    broker.restart()
    assert broker.bootstrap_servers == address
    assert [record.text for record in broker.records("orders")] == ["a"]
    broker.produce("orders", ["b"])
    broker.restart()
    assert len(broker.records("orders")) == 2


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_killed_broker_can_be_reset_or_stopped(mode: Literal["thread", "process"]) -> None:
    before = set(threading.enumerate())
    with Broker(mode=mode, topics={"orders": 1}) as broker:
        address = broker.bootstrap_servers
        broker.produce("orders", ["a"])
        broker.kill()
        broker.reset()
        assert broker.bootstrap_servers == address
        assert broker.records("orders") == []
        connect(broker).close()
        broker.kill()
    assert set(threading.enumerate()) == before


def test_a_restart_after_a_kill_forgets_nothing_of_what_the_test_said(broker: Broker) -> None:
    broker.start_over(configs={"num.partitions": 7})
    broker.record_requests()
    broker.clock.freeze()
    broker.clock.advance(wall=3600)
    event = threading.Event()
    fault = broker.faults.drop_connection("Metadata").until(event)
    disk = broker.faults.disk.fail("write", path="*/more-0/*")
    now_ms = broker.clock.wall_ms
    ask_for_metadata(broker)
    for count in (1, 2):
        broker.kill()
        broker.restart()
        assert (fault.fired, disk.fired) == (count, 0)
        assert broker.clock.wall_ms == now_ms
        ask_for_metadata(broker)
    event.set()
    ask_for_metadata(broker)
    assert fault.fired == 3
    assert len(broker.requests("Metadata")) == 4
    with pytest.raises(Exception, match=r"offline|I/O|Input/output"):
        broker.produce("more", ["a"])
    assert disk.fired == 1
    assert broker.topics()["more"].partitions == 7


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_power_failure_takes_what_was_not_synced(mode: str) -> None:
    configs = {"kbroker.fsync": True, "log.flush.interval.messages": 1}
    with Broker(mode=mode, configs=configs) as broker:  # type: ignore[arg-type]  # one of the two
        broker.create_topics({"synced": 1})
        broker.create_topics({"lazy": 1}, {"flush.messages": 1_000_000})
        with broker.faults.disk.slow(50, "sync", path="*/synced-0/*"):  # who writes waits for it
            broker.produce("synced", ["a"])
        broker.produce("lazy", ["b"])
        broker.kill(lose_unsynced=True)
        broker.restart()
        assert [record.text for record in broker.records("synced")] == ["a"]
        assert broker.records("lazy") == []


def test_nothing_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, synced.append, raising=False)
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", ["a"])
        broker.reset()
        broker.restart()
    assert synced == []


def test_a_reset_takes_few_milliseconds() -> None:
    with Broker() as broker:
        best = 1.0
        for _ in range(100):  # until the machine is not busy with other things for a moment
            broker.produce("orders", ["a"])
            begin = time.perf_counter()
            broker.reset()
            best = min(best, time.perf_counter() - begin)
            if best < 0.05:  # ten times less when nothing else runs on the machine
                return
        pytest.fail(f"the fastest reset took {best} s")


def test_a_data_directory_of_ones_own_is_not_left_by_a_reset(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("data")
    with Broker(data_dir=folder, topics={"orders": 1}) as broker:
        with pytest.raises(ValueError, match=r"use reset\(topics=...\)"):
            broker.reset()
        broker.produce("orders", ["a"])
        broker.reset(topics=["orders"])
        assert broker.records("orders") == []


def test_several_data_directories_lie_in_the_brokers_folder_and_start_over_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Broker(topics={"orders": 2}, configs={"log.dirs": "one,two"}) as broker:
        broker.produce("orders", ["a"])
        before = broker.snapshot()
        broker.reset()
        assert broker.records("orders") == []
        broker.restore(before)
        assert [record.text for record in broker.records("orders")] == ["a"]
    assert list(tmp_path.iterdir()) == []
    chosen = ",".join(str(tmp_path / name) for name in ("one", "two"))
    with Broker(configs={"log.dirs": chosen}, load=[lambda broker: broker.produce("orders", ["a"])]) as broker:
        with pytest.raises(ValueError, match=r"would leave log\.dirs behind"):
            broker.reset()
        with pytest.raises(ValueError, match=r"give log\.dirs relative paths"):
            broker.snapshot()
        assert len(broker.records("orders")) == 1


def test_a_snapshot_of_an_earlier_run_is_told_to_be_gone() -> None:
    broker = Broker(topics={"orders": 1})
    with broker:
        snapshot = broker.snapshot()
    with broker:
        with pytest.raises(ValueError, match="a snapshot lives as long as its broker runs"):
            broker.restore(snapshot)
        assert list(broker.topics()) == ["orders"]


def test_a_data_directory_of_another_broker_is_loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("data")
    with Broker(data_dir=folder, configs={"node.id": 7}) as other:
        other.produce("orders", ["a"])
    with Broker(load=[folder]) as broker:
        for _ in range(2):
            assert [record.text for record in broker.records("orders")] == ["a"]
            broker.produce("orders", ["b"])
            broker.reset()
        with pytest.raises(
            ValueError, match=r"empty\d* is no Kafka data directory: there is no .*/empty\d*/meta\.properties"
        ):
            broker.load(tmp_path_factory.mktemp("empty"))


def test_data_that_no_broker_can_take_up_leave_the_data_of_before_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(data_dir=tmp_path, configs={"node.id": 7}):
        pass
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", ["a"])
        address = broker.bootstrap_servers
        start = Core.start

        async def start_well_next_time(_core: Core) -> None:
            monkeypatch.setattr(Core, "start", start)
            raise StartupError("unreadable")

        monkeypatch.setattr(Core, "start", start_well_next_time)
        with pytest.raises(StartupError, match="unreadable"):
            broker.load(tmp_path)
        properties = tmp_path / "meta.properties"
        properties.write_text(properties.read_text().replace("node.id=7", "node.id=-7"))
        with pytest.raises(ConfigError, match=r"-7 for configuration node\.id"):
            broker.load(tmp_path)
        assert [record.text for record in broker.records("orders")] == ["a"]
        assert broker.bootstrap_servers == address
        connect(broker).close()
