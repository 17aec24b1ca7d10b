"""How a broker's process ends, and what it says when it cannot begin."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.compat.test_confluent_kafka import make_topic, receive, send
from tests.crash.conftest import Start
from tests.patience import PATIENCE_S


def test_sigterm_ends_in_under_a_second_with_status_0_and_the_data_is_there_after(start: Start, tmp_path: Path) -> None:
    broker = start(BrokerProcess(tmp_path / "data"))
    make_topic(broker.bootstrap, "kept")
    send(broker.bootstrap, [{"value": b"one"}, {"value": b"two"}], "kept")
    took: list[float] = []
    while not took or took[-1] >= 1.0:  # on a busy machine one may take longer; it must be possible
        assert len(took) < 10, took
        begun = time.monotonic()
        assert broker.stop() == 0
        took.append(time.monotonic() - begun)
        broker.start()
    assert [message.value() for message in receive(broker.bootstrap, "kept", 2)] == [b"one", b"two"]
    assert broker.stop() == 0


def test_ctrl_c_ends_with_status_0(start: Start, tmp_path: Path) -> None:
    broker = start(BrokerProcess(tmp_path / "data"))
    broker.process.send_signal(signal.SIGINT)
    assert broker.process.wait(timeout=PATIENCE_S) == 0
    assert broker.process.stdout is not None
    broker.process.stdout.close()


def refused_start(*arguments: str, through: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [*through, sys.executable, "-m", "kbroker", "dev", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_taken_port_is_said_in_one_line_with_status_1(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        done = refused_start("--port", str(broker.port), "--data-dir", str(tmp_path / "other"))
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert str(broker.port) in done.stderr


def test_a_locked_data_directory_is_said_in_one_line_with_status_1(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data"):
        done = refused_start("--port", "0", "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert str(tmp_path / "data") in done.stderr


def test_a_data_directory_of_another_cluster_is_refused_with_status_1(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        cluster_id = broker.cluster_id
    done = refused_start("--port", "0", "--data-dir", str(tmp_path / "data"), "--cluster-id", "5L6g3nShT-eMCtK--X86sw")
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert cluster_id in done.stderr


def test_a_bad_value_is_one_line_that_names_key_value_and_what_is_allowed_with_status_2(tmp_path: Path) -> None:
    done = refused_start("--port", "0", "--data-dir", str(tmp_path / "data"), "--override", "num.partitions=none")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "num.partitions" in done.stderr
    assert "none" in done.stderr
