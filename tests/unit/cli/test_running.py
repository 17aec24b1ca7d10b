"""``kbroker status`` and ``kbroker stop`` beside a broker in a process of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.host.real import RealDisk
from tests.broker_process import BrokerProcess
from tests.patience import PATIENCE_S
from tests.unit.cli.shell import Shell


@pytest.fixture
def running(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as broker:
        yield broker


def test_a_broker_is_found_by_its_directory_and_ended(running: BrokerProcess) -> None:
    shell, where = Shell(running.bootstrap), ("--data-dir", str(running.data_dir))
    (row,) = shell.json("status", *where)
    assert row == {
        "directory": str(running.data_dir),
        "running": True,
        "process": running.pid,
        "node": 1,
        "cluster": running.cluster_id,
    }
    assert shell("stop", *where).stdout == f"stopped the broker of {running.data_dir}\n"
    # The directory is free a moment before the process is gone.
    assert running.process.wait(timeout=PATIENCE_S) == running.stop() == 0
    (row,) = json.loads(shell("status", *where, "--format", "json", status=1).stdout)
    assert (row["running"], row["process"], row["node"]) == (False, None, 1)
    assert f"no broker runs on {running.data_dir}" in shell("stop", *where, status=1).stderr


def test_a_file_says_which_directories(tmp_path: Path) -> None:
    shell = Shell("")
    file = tmp_path / "server.properties"
    file.write_text(
        f"process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@localhost:9093\nlog.dirs={tmp_path}/a,{tmp_path}/b\n"
    )
    rows = json.loads(shell("status", str(file), "--format", "json", status=1).stdout)
    assert [(row["directory"], row["running"]) for row in rows] == [(f"{tmp_path}/a", False), (f"{tmp_path}/b", False)]
    shell("status", str(tmp_path / "nothing"), status=2)


def test_who_holds_a_directory_without_having_signed_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text(f"{os.getpid()}\n")  # of a broker that was killed
    lock = RealDisk(1).lock(f"{tmp_path}/.lock")
    assert lock is not None
    try:
        shell = Shell("")
        assert "inside another program" in shell("stop", "--data-dir", str(tmp_path), status=1).stderr
        (row,) = shell.json("status", "--data-dir", str(tmp_path))
        assert (row["running"], row["process"]) == (True, None)
    finally:
        lock.close()
