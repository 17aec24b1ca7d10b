"""Brokers under measurement: how they are started, and what the system says about their processes."""

from __future__ import annotations

import compileall
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import psutil

import kbroker
from benchmarks.wire import Connection, WireError
from tools.reference_kafka import ReferenceKafka

MIB = 1 << 20
START_WAIT_S = 60
STOP_WAIT_S = 30
REST_WAIT_S, REST_STEP_S, REST_STEPS, REST_CORES = 180, 0.3, 3, 0.03
"""A broker rests that takes less than 3 % of a core, three times in a row: a JVM takes 2 % for nothing."""
DEFAULTS: Mapping[str, str] = MappingProxyType({})
KBROKER = "kbroker"
REFERENCE = "kafka"
FOR_BOTH: Mapping[str, str] = MappingProxyType({"group.initial.rebalance.delay.ms": "0"})
"""What a group waits for on purpose says nothing about its coordinator."""


@dataclass
class Target:
    """A running broker. ``pid`` is None for one that runs where its process cannot be seen: then there is no CPU."""

    name: str
    host: str
    port: int
    pid: int | None
    notes: list[str] = field(default_factory=list)
    """What went wrong (records lost, out of order, damaged); empty for a broker that did right."""

    @classmethod
    def parse(cls, text: str) -> Target:
        """From ``name=host:port`` or ``name=host:port:pid``. Raises ``ValueError``."""
        name, _, address = text.partition("=")
        host, port, *pid = address.split(":")
        if not name or not host or len(pid) > 1:
            raise ValueError(f"{text!r} is not name=host:port[:pid]")
        return cls(name, host, int(port), int(pid[0]) if pid else None)

    def connect(self, timeout_s: float = 60) -> Connection:
        return Connection(self.host, self.port, timeout_s)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def cpu_s(self) -> float:
        """The process's own CPU clock: all its threads, ended ones too."""
        if self.pid is None:
            return 0.0
        if platform.system() == "Linux":
            return time.clock_gettime_ns((~self.pid << 3) | 2) / 1e9  # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def resident_mib(self) -> float:
        if self.pid is None:
            raise WireError("the broker's process is not known")
        return float(psutil.Process(self.pid).memory_info().rss) / MIB

    def client(self, **settings: Any) -> dict[str, Any]:
        """A librdkafka configuration for this broker; underscores in names stand for dots."""
        base: dict[str, Any] = {
            "bootstrap.servers": f"{self.host}:{self.port}",
            "receive.message.max.bytes": 1_000_000_000,
            "enable.metrics.push": False,
            "log_level": 2,
            "error_cb": lambda error: self.note(f"client error {error.name()}"),
        }
        return base | {name.replace("_", "."): value for name, value in settings.items()}

    @contextmanager
    def topic(self, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> Iterator[str]:
        """A new topic whose leaders are known; deleted at the end."""
        topic = f"{name}-{time.time_ns() // 1000}"
        with self.connect() as connection:
            connection.create_topic(topic, partitions, configs)
            connection.wait_for_leaders(topic, partitions)
        yield topic
        with suppress(OSError, WireError), self.connect() as connection:
            connection.delete_topic(topic)


@dataclass
class Meter:
    """Seconds of the wall clock and of the target's CPU that a block took."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def metered(target: Target) -> Iterator[Meter]:
    meter = Meter()
    cpu, started = target.cpu_s(), time.perf_counter()
    yield meter
    meter.wall_s, meter.cpu_s = time.perf_counter() - started, target.cpu_s() - cpu


class Launcher(Protocol):
    """A broker that can be started afresh, in an empty directory."""

    name: str

    def launch(self, settings: Mapping[str, str] = DEFAULTS) -> Target:
        """Begin to start; returns before the broker answers."""

    def restart(self) -> Target:
        """End it cleanly and begin to start it again, with its data and settings."""

    def log(self) -> str:
        """What the broker said of late."""

    def stop(self) -> None:
        """End it cleanly and remove its data."""


class KbrokerLauncher:
    """kbroker as it is installed: a process of its own, with bytecode."""

    name = KBROKER

    def __init__(self) -> None:
        source = Path(kbroker.__file__).parent
        compileall.compile_dir(source, quiet=2)
        self._source = source.parent
        self._process: subprocess.Popen[bytes] | None = None
        self._directory: Path | None = None
        self._port = 0
        self._settings: Mapping[str, str] = FOR_BOTH

    def launch(self, settings: Mapping[str, str] = DEFAULTS) -> Target:
        self._settings = {**FOR_BOTH, **settings}
        self._directory = Path(tempfile.mkdtemp(prefix="kbroker-bench-"))
        self._port = free_port()
        return self._begin(self._directory)

    def restart(self) -> Target:
        assert self._process is not None
        assert self._directory is not None
        end(self._process)
        return self._begin(self._directory)

    def _begin(self, directory: Path) -> Target:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = str(self._source)
        command = [
            sys.executable,
            "-m",
            "kbroker",
            "start",
            "--port",
            str(self._port),
            "--data-dir",
            str(directory / "data"),
            *(word for name, value in self._settings.items() for word in ("--override", f"{name}={value}")),
        ]
        with (directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=directory
            )
        return Target(self.name, "localhost", self._port, self._process.pid)

    def stop(self) -> None:
        if self._process is not None:
            end(self._process)
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def log(self) -> str:
        if self._directory is None:
            return ""
        return (self._directory / "server.log").read_text(errors="replace")


class ReferenceLauncher:
    """Apache Kafka; formatting its directory is a part of its start."""

    name = REFERENCE

    def __init__(self) -> None:
        self._kafka: ReferenceKafka | None = None

    def launch(self, settings: Mapping[str, str] = DEFAULTS) -> Target:
        self._kafka = ReferenceKafka(overrides={**FOR_BOTH, **settings})
        return self._begin(self._kafka)

    def restart(self) -> Target:
        assert self._kafka is not None
        self._kafka.stop()
        return self._begin(self._kafka)

    def _begin(self, kafka: ReferenceKafka) -> Target:
        kafka.start()
        return Target(self.name, "127.0.0.1", kafka.brokers[0], kafka.pid)

    def stop(self) -> None:
        if self._kafka is not None:
            self._kafka.stop()
            shutil.rmtree(self._kafka.directory, ignore_errors=True)

    def log(self) -> str:
        return "" if self._kafka is None else self._kafka.log_file().read_text(errors="replace")


@contextmanager
def running(launcher: Launcher, settings: Mapping[str, str] = DEFAULTS) -> Iterator[Target]:
    """A fresh broker that answers."""
    try:
        target = launcher.launch(settings)
        wait_until_it_answers(target)
        yield target
    finally:
        launcher.stop()


def wait_until_it_answers(target: Target, step_s: float = 0.001) -> None:
    deadline = time.monotonic() + START_WAIT_S
    while True:
        with suppress(OSError, WireError), target.connect() as connection:
            connection.api_versions()
            return
        if time.monotonic() > deadline or (target.pid is not None and not _is_alive(target.pid)):
            raise WireError(f"{target.name} did not start")
        time.sleep(step_s)


def wait_until_it_rests(target: Target) -> None:
    """Return when the broker is done with what it was given, fsyncs in the background included: it takes no CPU."""
    deadline = time.monotonic() + REST_WAIT_S
    quiet = 0
    while quiet < REST_STEPS:
        if time.monotonic() > deadline:
            raise WireError(f"{target.name} does not come to rest")
        before, started = target.cpu_s(), time.monotonic()
        time.sleep(REST_STEP_S)
        is_quiet = target.cpu_s() - before < REST_CORES * (time.monotonic() - started)
        quiet = quiet + 1 if is_quiet else 0


def _is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def end(process: subprocess.Popen[bytes]) -> float:
    """Ask a process to end; seconds until it has. A process that does not end is killed."""
    started = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return time.perf_counter() - started


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])
