"""A broker goes without a trace: threads, descriptors, children, folders; after forks and kills, too."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from kbroker.testing import Broker
from kbroker.testing.folders import PREFIX, Folder, sweep
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def traces() -> tuple[int, int, int]:
    gc.collect()
    process = psutil.Process()
    return process.num_fds(), threading.active_count(), len(process.children())


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_nothing_is_left_after_many_starts_resets_and_stops(folder: Path, mode: str) -> None:
    def once() -> None:
        with Broker(mode=mode, topics={"orders": 1}) as broker:  # type: ignore[arg-type]  # one of the two
            broker.produce("orders", ["a"])
            broker.reset()
            address = broker.bootstrap_servers.rpartition(":")[2]
            socket.create_connection(("127.0.0.1", int(address)), timeout=PATIENCE_S).close()

    once()
    before = traces()
    for _ in range(30 if mode == "thread" else 2):
        once()
    assert traces() == before
    assert list(folder.iterdir()) == []


THOUSAND_STARTS = """
import gc, threading, psutil
from kbroker.testing import Broker

def starts(count):
    for _ in range(count):
        with Broker(topics={"orders": 1}) as broker:
            broker.produce("orders", ["a"])
    gc.collect()
    process = psutil.Process()
    traces = process.num_fds(), threading.active_count(), len(process.children())
    return traces, len(gc.get_objects()), process.memory_info().rss

before, objects, size = starts(200)  # until then caches and the interpreter's own pools grow
after, more_objects, grown = starts(800)
assert after == before, (before, after)
assert more_objects - objects < 800, (objects, more_objects)
assert grown - size < 24 << 20, (size, grown)  # C's allocator keeps some for each thread that there was
"""


@pytest.mark.all  # in everyday runs thirty starts have to do, above
@pytest.mark.timeout(1200)
def test_nothing_is_left_after_a_thousand_starts(folder: Path) -> None:
    """In a process of its own, whose memory nothing else has used; C's allocator has one arena for all threads."""
    environment = {**os.environ, "TMPDIR": str(folder), "MALLOC_ARENA_MAX": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", THOUSAND_STARTS], cwd=ROOT, env=environment, check=False, capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(folder.iterdir()) == []


def test_a_hundred_brokers_run_in_one_process(folder: Path) -> None:
    """Or as many as this process may have descriptors for, each broker taking about ten."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = 100 if soft == resource.RLIM_INFINITY else max(2, min(100, (soft - 100) // 15))
    before = traces()
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(Broker()) for _ in range(count)]
        assert len({broker.bootstrap_servers for broker in brokers}) == count
        assert brokers[-1].produce("orders", ["a"]) == [0]
    assert traces() == before
    assert list(folder.iterdir()) == []


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_forked_child_lets_go_of_the_broker_and_does_not_disturb_it(mode: str) -> None:
    with Broker(mode=mode) as broker:  # type: ignore[arg-type]  # one of the two
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                listening = [each for each in psutil.Process().net_connections() if each.laddr.port == port]
                try:
                    broker.topics()
                except RuntimeError as error:
                    os.write(writing, f"{len(listening)} {error}".encode())
            finally:
                os._exit(0)
        os.close(writing)
        said = os.read(reading, 1000).decode()
        os.close(reading)
        os.waitpid(child, 0)
        assert said == "0 the broker belongs to the process that forked this one: ask there"
        assert broker.produce("orders", ["a"]) == [0]


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_forked_child_leaves_the_block_of_its_parents_broker_in_silence(folder: Path, mode: str) -> None:
    code = (
        "import os\n"
        "from kbroker.testing import Broker\n"
        f"with Broker(mode={mode!r}) as broker:\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        assert os.waitpid(child, 0)[1] == 0\n"
        "        assert broker.produce('orders', ['a']) == [0]\n"
        "if not child:\n"
        "    os._exit(0)\n"  # as multiprocessing does: a loop of uvloop that was forked breaks the interpreter's end
    )
    command = [sys.executable, "-W", "error", "-c", code]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(folder.iterdir()) == []


def test_a_process_that_ends_by_itself_is_told_and_a_reset_brings_another(folder: Path) -> None:
    with Broker(mode="process", topics={"orders": 1}) as broker:
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(broker.wait_for_records, "orders")
            os.kill(broker.pid, signal.SIGKILL)
            with pytest.raises(RuntimeError, match="the broker's process"):
                waiting.result(PATIENCE_S)
        with pytest.raises(RuntimeError, match="the broker's process is gone"):
            broker.topics()
        broker.reset()
        assert list(broker.topics()) == ["orders"]
    assert list(folder.iterdir()) == []


def test_a_process_broker_ends_with_the_process_that_started_it(folder: Path) -> None:
    code = (
        "import os; from kbroker.testing import Broker; broker = Broker(mode='process').start();"
        "print(broker.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT,
                          env=environment)  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(timeout=PATIENCE_S)
    assert list(folder.iterdir()) == []


def test_folders_of_killed_runs_are_found_and_removed_by_the_next(folder: Path) -> None:
    code = (
        "import os; from kbroker.testing import Broker; broker = Broker().start(); broker.produce('a', ['b']);"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT, env={**os.environ, "TMPDIR": str(folder)})
    (abandoned,) = folder.iterdir()
    living = Folder()
    assert [each.name for each in folder.iterdir()] == [Path(living.path).name]
    assert sweep(str(folder)) == []
    assert not abandoned.exists()
    young = folder / f"{PREFIX}young"
    young.mkdir()
    assert sweep(str(folder)) == []
    os.utime(young, (0, 0))
    assert sweep(str(folder)) == [str(young)]
    living.remove()


def test_a_folder_is_safe_from_a_sweep_at_every_moment_of_its_making(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    sweeps: list[bool] = []

    def after_a_sweep(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            if not any(sweeps):  # a sweep locks, too
                sweeps.append(True)
                removed.extend(sweep(str(folder)))
                sweeps[-1] = False
            return function(*arguments)

        return called

    monkeypatch.setattr(fcntl, "flock", after_a_sweep(fcntl.flock))
    monkeypatch.setattr(os, "rename", after_a_sweep(os.rename))
    living = Folder()
    assert (removed, len(sweeps)) == ([], 2)
    assert sweep(str(folder)) == []
    living.remove()
