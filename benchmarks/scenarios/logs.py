"""kbroker's own work on logs, without a broker: what a start after a kill reads.

Rates are by the CPU's time, so that a busy machine does not change them. There is no reference here: Apache Kafka does
not tell these.
"""

from __future__ import annotations

import shutil
import tempfile
import time

from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.scenarios.cleaning import fill, open_log
from benchmarks.targets import KBROKER, MIB, Launcher

RECOVERED_SIZE = 1024 * MIB
SEGMENTS = 2000


def recovery(launcher: Launcher, effort: Effort) -> Figures:
    """A log of 2000 segments whose recovery point is its start: all of it is read; and the same after a clean stop."""
    if launcher.name != KBROKER:
        return {}
    directory = tempfile.mkdtemp(prefix="kbroker-bench-")
    try:
        size = effort.of(RECOVERED_SIZE)
        log = open_log(directory, size // SEGMENTS, clean=True)
        fill(log, size, 1024, 16)
        log.release()
        started = time.process_time()
        recovered = open_log(directory, size // SEGMENTS, clean=False)
        elapsed = time.process_time() - started
        assert recovered.log_end_offset == log.log_end_offset
        recovered.close()
        recovered.release()
        clean_started = time.process_time()
        open_log(directory, size // SEGMENTS, clean=True).release()
        return {
            "MB/s": recovered.size / 1e6 / elapsed,
            "after a clean stop, ms": (time.process_time() - clean_started) * 1000,
        }
    finally:
        shutil.rmtree(directory)


CASES = [Case(f"recovery of {SEGMENTS} segments", recovery, rounds=2, warm_up=False, is_fresh=True)]
