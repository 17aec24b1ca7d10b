"""Every command and example of the README runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.wire import WireClient

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PYTHON_EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
LINKS = re.findall(r"\]\(((?!http)[^)#]+)", README)
SOURCES = re.findall(r"`((?:kbroker|tools|server|handlers|replication|log|kraft)/[\w/.]+(?:\.py|/))`", README)


@pytest.mark.parametrize("example", PYTHON_EXAMPLES, ids=lambda text: text.split()[1])
def test_each_python_example_prints_what_it_sent(tmp_path: Path, example: str) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        code = example.replace("localhost:9092", broker.bootstrap)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("b'hello'", "0")


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("make ")])
def test_each_make_command_is_a_target(command: str) -> None:
    """``make test`` is what runs this; ``make run`` runs below."""
    done = subprocess.run(["make", "-n", *command.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_make_run_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    """With a port and a directory of its own: 9092 and ``./data`` may be somebody's."""
    if not (ROOT / ".venv/.installed").exists():
        pytest.skip("needs the virtual environment that `make` has made")
    options = f"OPTIONS=--port 0 --data-dir {tmp_path / 'data'}"
    with subprocess.Popen(
        ["make", "run", options], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as made:
        assert made.stdout is not None
        ready = next(line for line in made.stdout if line.startswith("kbroker ready: "))
        WireClient(ready.split("bootstrap.servers=")[1].split()[0]).close()
        os.killpg(made.pid, signal.SIGTERM)
    assert (tmp_path / "data/meta.properties").exists()


def test_the_broker_starts_and_the_commands_after_it_are_its_clients(tmp_path: Path) -> None:
    start, *clients = (line for line in COMMANDS if not line.startswith("make "))
    _, subcommand, *options = start.split()
    position = options.index("--port")
    del options[position : position + 2]
    with BrokerProcess(tmp_path / "data", *options, command=subcommand) as broker:
        printed = [run_client(command, broker.bootstrap) for command in clients]
    assert "hello" in printed


def run_client(command: str, bootstrap: str) -> str:
    typed, _, command = command.rpartition(" | ")
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        input=typed.removeprefix("echo ") + "\n" if typed else None,
        capture_output=True,
        text=True,
        env={**os.environ, "KBROKER_BROKERS": bootstrap},
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_command_of_the_readme_is_of_a_kind_that_is_run_here() -> None:
    assert COMMANDS
    assert all(line.startswith(("make ", "kbroker ", "echo ")) for line in COMMANDS)


@pytest.mark.parametrize("path", LINKS)
def test_each_linked_page_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("path", SOURCES)
def test_each_named_source_exists(path: str) -> None:
    assert (ROOT / path).exists() or (ROOT / "kbroker" / path).exists()
