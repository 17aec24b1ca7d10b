"""Resident memory of a fresh process: at rest, after a gigabyte, with consumers that do not read, with connections."""

from __future__ import annotations

import time
from contextlib import ExitStack

from benchmarks import wire
from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.scenarios.throughput import consume, produce
from benchmarks.targets import MIB, Launcher, Target, running

REST_S = 1.0
RECORD_SIZE, RECORDS = 1024, 1_000_000
LAGGING, FETCH_SIZE = 20, 50 * MIB
CONNECTIONS = 1000
LAG_S = 1.5
"""Long enough for the broker to fill every socket."""


def run(launcher: Launcher, effort: Effort) -> Figures:
    with running(launcher) as target:
        time.sleep(REST_S)
        figures = {"at rest, MiB": target.resident_mib()}
        with target.topic("memory") as topic:
            count = effort.of(RECORDS)
            produce(target, topic, RECORD_SIZE, count)
            consume(target, topic, RECORD_SIZE, count + 100, compare=False)
            figures["after 1 GB, MiB"] = target.resident_mib()
            figures["with 20 lagging consumers, MiB"] = with_lagging_consumers(target, topic)
        return figures


def with_lagging_consumers(target: Target, topic: str) -> float:
    """The most that is resident while each of them has asked for 50 MiB and reads nothing."""
    most = 0.0
    with ExitStack() as stack:
        for _ in range(LAGGING):
            connection = stack.enter_context(target.connect())
            connection.socket.sendall(wire.fetch_request(topic, 0, FETCH_SIZE))
        deadline = time.monotonic() + LAG_S
        while time.monotonic() < deadline:
            most = max(most, target.resident_mib())
            time.sleep(0.05)
    return most


def connections(launcher: Launcher, effort: Effort) -> Figures:
    """Connections that have asked ApiVersions once."""
    count = effort.of(CONNECTIONS, least=200)
    with running(launcher) as target, ExitStack() as stack:
        time.sleep(REST_S)
        before, cpu = target.resident_mib(), target.cpu_s()
        for _ in range(count):
            stack.enter_context(target.connect()).api_versions()
        cpu = target.cpu_s() - cpu
        time.sleep(REST_S / 2)
        grown = target.resident_mib() - before
        return {
            "1000 idle connections, MiB": grown * CONNECTIONS / count,
            "server CPU us/connection": cpu / count * 1e6,
        }


CASES = [
    Case("resident memory", run, rounds=2, warm_up=False, is_fresh=True),
    Case("idle connections", connections, rounds=3, warm_up=False, is_fresh=True),
]
