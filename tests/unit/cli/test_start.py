"""``kbroker start`` and ``kbroker dev`` as processes, around a broker that does nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbroker.cli.start import start
from tests.patience import PATIENCE_S

# The broker's stand-in says what it was given; what it does is chosen by a key of its own.
STAND_IN = """
import asyncio, os, sys
import kbroker.broker
from kbroker.types import StartupError

class Broker:
    def __init__(self, config, host, loop, on_failure):
        self.loop, self.on_failure = loop, on_failure
        self.config, self.node_id, self.cluster_id = config, config.node_id, config.string("kbroker.cluster.id")
        self.bootstrap_servers = ",".join(f"{each.host}:{each.port}" for each in config.advertised_listeners)

    async def start(self):
        mode = os.environ.get("STAND_IN")
        if mode == "refuse":
            raise StartupError("port 9092 is taken: choose another with --port")
        if mode == "break":
            raise OSError("the disk is gone")
        if mode == "hang":
            print("starting", flush=True)
            await asyncio.Event().wait()
        if mode == "mute":
            return
        if mode == "fail":
            self.loop.call_soon(self.on_failure, OSError("the metadata log is broken"))
        os.makedirs(self.config.log_dirs[0], exist_ok=True)
        print(self.config.log_dirs[0], flush=True)

    async def stop(self):
        if os.environ.get("STAND_IN") == "hang at the end":
            print("ending", flush=True)
            await asyncio.Event().wait()
        if os.environ.get("STAND_IN") == "break":
            raise AttributeError("nothing was made yet")
        print("stopped", flush=True)

kbroker.broker.Broker = Broker
from kbroker.__main__ import main
main()
"""


@contextmanager
def command(*arguments: str, mode: str = "") -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    process = subprocess.Popen(
        [sys.executable, "-c", STAND_IN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | {"STAND_IN": mode},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_that_it_is_ready_and_ends_cleanly_when_told(number: signal.Signals, tmp_path: Path) -> None:
    with command("start", "--data-dir", str(tmp_path / "data"), "--node-id", "3", "--cluster-id", "C") as process:
        assert line(process) == f"{tmp_path}/data"
        assert line(process) == "kbroker ready: bootstrap.servers=localhost:9092 node.id=3 cluster.id=C"
        process.send_signal(number)
        output, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert output == "stopped\n"
    assert "INFO [KafkaRaftServer nodeId=3] Kafka Server started (kbroker.ready)" in log
    assert "The broker has been unfenced. Transitioning from RECOVERY to RUNNING." in log
    assert (tmp_path / "data").exists()


def test_it_serves_on_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", STAND_IN, "start", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, env=os.environ | {"STAND_IN": "mute"}
    ) as process:
        os.close(writing)
        assert process.stderr is not None
        assert any("Kafka Server started" in each for each in process.stderr)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_dev_keeps_its_data_in_a_folder_that_goes_with_it() -> None:
    with command("dev", "--port", "0") as process:
        folder = line(process)
        assert Path(folder).exists()
        assert line(process).startswith("kbroker ready: bootstrap.servers=localhost:0 node.id=1 ")
        assert [line(process).partition(" ")[0] for _ in range(4)] == ["Python", "Java", "shell", "kcat"]
        process.terminate()
        _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert not Path(folder).exists()
    # A quiet log, but for the lines that others wait for.
    assert [each.partition(" (")[2] for each in log.splitlines()] == ["kbroker.ready)", "kbroker.ready)"]


def test_a_broker_that_cannot_start_is_one_line_and_status_1(tmp_path: Path) -> None:
    with command("start", "--data-dir", str(tmp_path), mode="refuse") as process:
        _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert log.splitlines()[-1] == "kbroker: port 9092 is taken: choose another with --port"
    assert "Traceback" not in log


@pytest.mark.parametrize("level", ["INFO", "WARNING"])
def test_what_is_logged_depends_on_the_level(level: str, tmp_path: Path) -> None:
    idle, chosen = "num.io.threads=3", f"kbroker.log.level={level}"
    with command(
        "start", "--data-dir", str(tmp_path), "--override", idle, "--override", chosen, mode="refuse"
    ) as process:
        _, log = process.communicate(timeout=PATIENCE_S)
    assert ("these keys have no meaning here and are ignored: num.io.threads" in log) is (level == "INFO")


def test_our_own_mistake_is_logged_with_its_cause_and_status_1(tmp_path: Path) -> None:
    with command("start", "--data-dir", str(tmp_path), mode="break") as process:
        _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "ERROR the broker did not stop cleanly (kbroker)" in log
    assert "ERROR the broker cannot go on; this is a mistake of kbroker's own (kbroker)" in log
    assert log.splitlines()[-1] == "OSError: the disk is gone"


def test_a_start_can_be_broken_off(tmp_path: Path) -> None:
    with command("start", "--data-dir", str(tmp_path), mode="hang") as process:
        assert line(process) == "starting"
        process.terminate()
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert output == "stopped\n"


def test_a_broker_that_fails_while_it_runs_ends_with_status_1(tmp_path: Path) -> None:
    with command("start", "--data-dir", str(tmp_path), mode="fail") as process:
        output, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert output.endswith("stopped\n")
    assert "CRITICAL the broker ends itself: the metadata log is broken (kbroker)" in log


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with command("start", "--data-dir", str(tmp_path), mode="hang at the end") as process:
        line(process)
        line(process)
        process.send_signal(signal.SIGINT)
        assert line(process) == "ending"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGINT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--override", "num.partitions=0"], "num.partitions=0 (from the flag --override): Value must be at least 1"),
        (["--topic", "orders:none"], "--topic orders:none: name[:partitions[:replicas]] is expected"),
        (["--topic", "orders:0"], "--topic orders:0: name[:partitions[:replicas]] is expected"),
        (["/no/such/file"], "cannot read /no/such/file: No such file or directory"),
    ],
)
def test_settings_that_cannot_be_are_one_line_and_status_2(arguments: list[str], message: str) -> None:
    with command("start", *arguments) as process:
        output, log = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output) == (2, "")
    assert log.startswith(f"kbroker: {message}")
    assert len(log.splitlines()) == 1


def test_ephemeral_and_a_data_directory_exclude_each_other() -> None:
    with command("start", "--ephemeral", "--data-dir", "x") as process:
        _, log = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "exclude each other" in log


def test_every_option_is_in_the_docs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "command.md").read_text()
    section = page.partition("## kbroker start")[2].partition("\n## ")[0]
    documented = {row.split("`")[1].split()[0] for row in section.splitlines() if row.startswith("| `--")}
    offered = {option for parameter in start.params for option in parameter.opts if option.startswith("--")}
    assert documented == offered
