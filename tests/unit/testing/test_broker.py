"""The broker that users' tests start: in a thread, on a free port, gone without a trace."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import threading
from pathlib import Path

import pytest

from kbroker.config.values import ConfigError
from kbroker.testing import Broker
from kbroker.types import StartupError
from tests.patience import PATIENCE_S


def connect(broker: Broker) -> None:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()


def test_clients_can_connect_inside_the_with_statement_and_not_after_it() -> None:
    with Broker() as broker:
        address = broker.bootstrap_servers
        assert broker.bootstrap_server == broker.get_bootstrap_server() == address
        connect(broker)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=PATIENCE_S)
    with pytest.raises(RuntimeError, match="does not run"):
        print(broker.bootstrap_servers)


def test_two_brokers_run_side_by_side_on_ports_of_their_own() -> None:
    with Broker() as one, Broker() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        connect(one)
        connect(other)


def test_the_host_process_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    threads = set(threading.enumerate())
    handlers = list(logging.getLogger().handlers)
    signals = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    environment = dict(os.environ)
    with Broker(topics={"orders": 3}):
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []
    assert set(threading.enumerate()) == threads
    assert list(logging.getLogger().handlers) == handlers
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == signals
    assert dict(os.environ) == environment


def test_an_error_of_the_start_is_raised_in_the_caller() -> None:
    threads = set(threading.enumerate())
    with pytest.raises(ConfigError, match=r"log\.retention\.bytes"), Broker(configs={"log.retention.bytes": "much"}):
        pass
    assert set(threading.enumerate()) == threads


def test_a_port_that_is_taken_is_a_clear_error() -> None:
    with Broker() as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(StartupError), Broker(port=port):
            pass
        connect(broker)


def test_a_data_directory_of_ones_own_stays_and_can_be_used_again(tmp_path: Path) -> None:
    for _ in range(2):
        with Broker(data_dir=str(tmp_path / "data"), topics={"orders": 1}) as broker:
            connect(broker)
    assert (tmp_path / "data" / "meta.properties").exists()


def test_a_metadata_directory_apart_is_locked_and_formatted_like_the_others(tmp_path: Path) -> None:
    configs = {"metadata.log.dir": str(tmp_path / "apart")}
    written = []
    for _ in range(2):
        with (
            Broker(data_dir=str(tmp_path / "data"), configs=configs, topics={"orders": 1}),
            pytest.raises(StartupError, match=r"apart is in use by another process"),
        ):
            Broker(configs=configs).start()
        written.append([(tmp_path / name / "meta.properties").read_text() for name in ("data", "apart")])
    assert written[0] == written[1]
    data, apart = (dict(re.findall(r"^([a-z.]+)=(.*)$", text, re.MULTILINE)) for text in written[0])
    assert data.pop("directory.id") != apart.pop("directory.id")
    assert data == apart
    assert (tmp_path / "apart" / "__cluster_metadata-0").is_dir()
    assert not (tmp_path / "data" / "__cluster_metadata-0").exists()


def test_a_broker_can_be_started_and_stopped_without_a_with_statement() -> None:
    broker = Broker(configs={"auto.create.topics.enable": False})
    assert broker.start() is broker
    with pytest.raises(RuntimeError, match="runs already"):
        broker.start()
    broker.stop()
    broker.stop()
