"""kbroker's own work on logs, without a broker: what a start after a kill reads.

Rates are by the CPU's time, so that a busy machine does not change them. There is no reference here: Apache Kafka does
not tell these.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.scenarios.cleaning import fill, open_log
from benchmarks.targets import KBROKER, MIB, Launcher
from kbroker.config import BrokerConfig, TopicConfig
from kbroker.host.real import real_host
from kbroker.log.manager import LogManager
from kbroker.types import TopicPartition

RECOVERED_SIZE = 1024 * MIB
SEGMENTS = 2000


def recovery(launcher: Launcher, effort: Effort) -> Figures:
    """A log of 2000 segments whose recovery point is its start: all of it is read; and the same after a clean stop.

    What it takes of memory at most is more than what stays; -1 where the system does not tell.
    """
    if launcher.name != KBROKER:
        return {}
    directory = tempfile.mkdtemp(prefix="kbroker-bench-")
    try:
        size = effort.of(RECOVERED_SIZE)
        log = open_log(directory, size // SEGMENTS, clean=True)
        fill(log, size, 1024, 16)
        log.release()
        peak = PeakMemory()
        started = time.process_time()
        recovered = open_log(directory, size // SEGMENTS, clean=False)
        elapsed = time.process_time() - started
        grown = peak.grown_mib()
        assert recovered.log_end_offset == log.log_end_offset
        recovered.close()
        recovered.release()
        clean_started = time.process_time()
        open_log(directory, size // SEGMENTS, clean=True).release()
        return {
            "MB/s": recovered.size / 1e6 / elapsed,
            "after a clean stop, ms": (time.process_time() - clean_started) * 1000,
            "peak memory, MiB": grown,
        }
    finally:
        shutil.rmtree(directory)


def recovery_of_many(launcher: Launcher, effort: Effort) -> Figures:
    """2000 logs of one segment each, after a kill before the first checkpoint."""
    if launcher.name != KBROKER:
        return {}
    directory = tempfile.mkdtemp(prefix="kbroker-bench-")
    loop = asyncio.new_event_loop()
    try:
        size = effort.of(RECOVERED_SIZE)
        config = TopicConfig.resolve(BrokerConfig({}), {})
        partitions = [TopicPartition("bench", number) for number in range(SEGMENTS)]
        before = LogManager(real_host(loop), [directory])
        before.open(1)
        for partition in partitions:
            fill(before.get_or_create(partition, bytes(16), config), size // SEGMENTS, 1024, 16)
        before.close(clean=False)
        logs = LogManager(real_host(loop), [directory])
        peak = PeakMemory()
        started = time.process_time()
        logs.open(1)
        recovered = sum(logs.get_or_create(partition, bytes(16), config).size for partition in partitions)
        elapsed = time.process_time() - started
        assert recovered >= size
        figures = {"MB/s": recovered / 1e6 / elapsed, "peak memory, MiB": peak.grown_mib()}
        logs.close(clean=False)
        return figures
    finally:
        loop.close()
        shutil.rmtree(directory)


class PeakMemory:
    """How much more memory this process has needed at most since the measuring began."""

    def __init__(self) -> None:
        gc.collect()
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak is what is used now
        self._before = self._kib("VmRSS")

    def grown_mib(self) -> float:
        """-1 where the system does not tell."""
        return (self._kib("VmHWM") - self._before) / 1024 if self._before else -1

    @staticmethod
    def _kib(name: str) -> int:
        try:
            lines = Path("/proc/self/status").read_text().splitlines()
        except OSError:
            return 0
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


CASES = [
    Case(f"recovery of {SEGMENTS} segments", recovery, rounds=2, warm_up=False, is_fresh=True),
    Case(f"recovery of {SEGMENTS} logs", recovery_of_many, rounds=2, warm_up=False, is_fresh=True),
]
