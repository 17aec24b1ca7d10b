"""``python -m benchmarks.testing_modes``: a test's broker in a thread and in a process, idle and beside busy Python.

The client is a process of its own, as a client library's C threads are beside Python: what it waits for is the broker
alone. It pauses between requests: answers that follow each other at once are lucky, nobody else has the interpreter.
"Busy" is a thread of the broker's (or the test's) process that computes without a pause. Beside that: the cost of a
start and a reset, and of the seam for faults and journal when something hangs on it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from kbroker.testing import Broker

TRIPS = 200
STARTS = 10
Mode = Literal["thread", "process"]
MODES: tuple[Mode, ...] = ("thread", "process")

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


def trips(broker: Broker) -> tuple[float, float]:
    """Milliseconds of a Metadata round trip: the middle one and the 99th of 100."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    arguments = [sys.executable, "-c", CLIENT, host, port, str(TRIPS)]
    said = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    middle, late = said.split()
    return float(middle), float(late)


def measured_ms(action: object) -> float:
    assert callable(action)
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1000


def one(mode: Mode) -> None:
    starts, stops = [], []
    for _ in range(STARTS):
        broker = Broker(mode=mode)
        starts.append(measured_ms(broker.start))
        stops.append(measured_ms(broker.stop))
    print(f"{mode}: start {statistics.median(starts):.1f} ms, stop {statistics.median(stops):.1f} ms")
    with Broker(mode=mode) as broker:
        for wanted in (False, True):
            with busy(wanted):
                middle, late = trips(broker)
                resets = [measured_ms(broker.reset) for _ in range(STARTS)]
            beside = "beside a busy thread" if wanted else "idle"
            print(f"{mode}, {beside}: round trip {middle:.3f} ms, p99 {late:.2f} ms; "
                  f"reset {statistics.median(resets):.1f} ms")  # fmt: skip
        plain = trips(broker)
        broker.record_requests()
        full = trips(broker)
        broker.reset()
        with broker.faults.delay("Produce", ms=1).optional():
            faulted = trips(broker)
        print(f"{mode}, round trip: bare {plain[0]:.3f} ms, a fault for another API {faulted[0]:.3f} ms, "
              f"the full journal {full[0]:.3f} ms")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.testing_modes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    rounds = parser.parse_args().rounds
    with Broker():  # what is imported lazily is imported now
        pass
    for number in range(rounds):
        for mode in MODES if number % 2 == 0 else MODES[::-1]:
            one(mode)


if __name__ == "__main__":
    main()
