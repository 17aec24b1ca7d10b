"""From the start of the process in an empty directory to the first acknowledged record; the clean end.

Formatting is a part of the start, for the reference too (a JVM of its own there). A connection is tried every
millisecond.
"""

from __future__ import annotations

import time

from benchmarks import wire
from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.targets import Launcher, wait_until_it_answers


def run(launcher: Launcher, _effort: Effort) -> Figures:
    started = time.perf_counter()
    try:
        target = launcher.launch()
        wait_until_it_answers(target)
        answered = time.perf_counter()
        with target.connect() as connection:
            connection.create_topic("first")
            connection.wait_for_leaders("first")
            connection.settle("first", bytes(wire.Batch([b"x"]).data))
        acknowledged = time.perf_counter()
        figures = {
            "to the first answer, ms": (answered - started) * 1000,
            "to the first acknowledged record, ms": (acknowledged - started) * 1000,
            "CPU until then, ms": target.cpu_s() * 1000,
        }
    finally:
        ending = time.perf_counter()
        launcher.stop()
    figures["clean end, ms"] = (time.perf_counter() - ending) * 1000
    return figures


CASES = [Case("start in an empty directory", run, rounds=7, is_fresh=True)]
