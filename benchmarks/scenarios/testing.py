"""The testing kit: a test's broker in a thread and in a process, idle and beside busy Python; what its seams cost.

- *Modes*: the client of the round trips is a process of its own, as a client library's C threads are beside Python, so
  that it waits for the broker alone. It pauses between requests: answers that follow each other at once are lucky,
  nobody else has the interpreter. "Busy" is a thread of the test's process that computes without a pause.
- *Seams*: a broker's CPU for a Produce, as ``kbroker start`` runs it, in the kit, and with something hanging on the
  kit's seams for faults and journal.
- *Tests*: 500 that each produce one record, look at it and get a clean broker, on one core.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from benchmarks.scenarios import Case, Effort, Figures, requests
from benchmarks.targets import KBROKER, Launcher, Target, wait_until_it_answers
from kbroker.testing import Broker

TRIPS, TRIPS_MIN = 200, 50
STARTS, STARTS_MIN = 10, 3
TESTS = 500
TURNS = 4
"""The least of so many, in turns: both brokers have to have met a quiet moment."""

CLIENT = """
import socket, struct, sys, time
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
connection = socket.create_connection((host, port))
times = []
for number in range(count + 20):
    begin = time.perf_counter()
    connection.sendall(struct.pack(">ihhihi", 14, 3, 0, number, -1, 0))
    head = connection.recv(4, socket.MSG_WAITALL)
    connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
    times.append((time.perf_counter() - begin) * 1000)
    time.sleep(0.003)
times = sorted(times[20:])
print(times[len(times) // 2], times[len(times) * 99 // 100])
"""
ONE_TEST = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_an_order_is_written(kafka_broker, number):
    producer = kafka_broker.producer()
    producer.produce("orders", b"%d" % number)
    assert producer.flush(10) == 0
    assert [record.text for record in kafka_broker.records("orders")] == [str(number)]
"""
RUN = """
import os, sys, pytest
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "kbroker.testing.plugin", sys.argv[1]]))
"""


@contextmanager
def busy(wanted: bool) -> Iterator[None]:
    """A thread of this process that computes, if it is wanted."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(number * number for number in range(1000))

    thread = threading.Thread(target=compute)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if wanted:
            thread.join()


def trips(broker: Broker, count: int) -> tuple[float, float]:
    """Milliseconds of a Metadata round trip: the middle one and the 99th of 100."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    arguments = [sys.executable, "-c", CLIENT, host, port, str(count)]
    said = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    middle, late = said.split()
    return float(middle), float(late)


def measured_ms(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1000


def mode(launcher: Launcher, effort: Effort, *, mode: Literal["thread", "process"]) -> Figures:
    if launcher.name != KBROKER:
        return {}
    count = effort.of(STARTS, STARTS_MIN)
    starts, stops, resets = [], [], []
    for _ in range(count):
        broker = Broker(mode=mode)
        starts.append(measured_ms(broker.start))
        stops.append(measured_ms(broker.stop))
    figures = {"start, ms": statistics.median(starts), "stop, ms": statistics.median(stops)}
    with Broker(mode=mode) as broker:
        for _ in range(count):
            broker.produce("orders", ["a"])
            resets.append(measured_ms(broker.reset))
        figures["reset, ms"] = statistics.median(resets)
        for wanted, beside in ((False, "idle"), (True, "beside a busy thread")):
            with busy(wanted):
                middle, late = trips(broker, effort.of(TRIPS, TRIPS_MIN))
            figures |= {f"round trip {beside}, p50 ms": middle, f"round trip {beside}, p99 ms": late}
    return figures


def seams(launcher: Launcher, effort: Effort) -> Figures:
    """CPU of a Produce of one record, one in flight."""
    if launcher.name != KBROKER:
        return {}
    plain = launcher.launch()
    try:
        wait_until_it_answers(plain)
        with Broker(mode="process", unused_faults="ignore") as broker:
            host, _, port = broker.bootstrap_servers.rpartition(":")
            kit = Target("kit", host, int(port), broker.pid)
            turns = [(cost(plain, effort), cost(kit, effort)) for _ in range(TURNS)]
            bare, unused = map(min, zip(*turns, strict=True))
            figures = {"kbroker start, CPU us/request": bare, "in the kit, CPU us/request": unused}
            figures["in the kit to kbroker start, ratio"] = unused / bare
            with broker.faults.delay("Heartbeat", ms=1):
                figures["a fault for another API, CPU us/request"] = cost(kit, effort)
            broker.note_requests()
            figures["the story, CPU us/request"] = cost(kit, effort)
            broker.record_requests()
            figures["the full journal, CPU us/request"] = cost(kit, effort)
    finally:
        launcher.stop()
    return figures


def cost(target: Target, effort: Effort) -> float:
    return requests.produce(target, effort, 1, idempotent=False)["server CPU us/request"]


def many_tests(launcher: Launcher, _effort: Effort) -> Figures:
    if launcher.name != KBROKER:
        return {}
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as folder:
        Path(folder, "test_orders.py").write_text(ONE_TEST.format(count=TESTS))
        paths = os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
        begin, cpu = time.perf_counter(), children_cpu_s()
        subprocess.run(
            [sys.executable, "-c", RUN, folder],
            cwd=folder, env={**os.environ, "PYTHONPATH": paths}, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return {
        f"{TESTS} tests on one core, s": time.perf_counter() - begin,
        "CPU of tests and broker, s": children_cpu_s() - cpu,
    }


def children_cpu_s() -> float:
    return sum(os.times()[2:4])


CASES = [
    Case("a test's broker in a thread", partial(mode, mode="thread"), rounds=2, is_fresh=True),
    Case("a test's broker in a process", partial(mode, mode="process"), rounds=2, is_fresh=True),
    Case("the testing kit's seams", seams, rounds=3, warm_up=False, is_fresh=True),
    Case("tests with a clean broker each", many_tests, rounds=1, warm_up=False, is_fresh=True),
]
