"""kbroker's own work on logs, without a broker: compaction, and what a start after a kill reads.

Rates are by the CPU's time, so that a busy machine does not change them. Compaction has 100 000 keys; the longest step
is what a client may have to wait for. There is no reference here: Apache Kafka does not tell these.
"""

from __future__ import annotations

import asyncio
import gc
import random
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.targets import KBROKER, MIB, Launcher
from kbroker.config import BrokerConfig, TopicConfig
from kbroker.host.real import RealDisk, real_host
from kbroker.log.cleanable import cleanable_part
from kbroker.log.cleaner import Cleaner
from kbroker.log.log import Log
from kbroker.log.manager import LogManager
from kbroker.log.offset_map import OffsetMap
from kbroker.log.segments import Discarded
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.types import TopicPartition

KEYS, MAP_SIZE = 100_000, 128 * MIB
CLEANED_SIZE, RECOVERED_SIZE = 256 * MIB, 1024 * MIB
SEGMENTS = 2000
NOW_MS = 1_750_000_000_000
PARTITION = TopicPartition("bench", 0)


def open_log(directory: str, segment_size: int, *, clean: bool, compact: bool = False) -> Log:
    policy = "compact" if compact else "delete"
    values = {"internal.segment.bytes": str(segment_size), "cleanup.policy": policy}
    config = TopicConfig.resolve(BrokerConfig({}), values)
    return Log.open(RealDisk(), f"{directory}/bench-0", PARTITION, bytes(16), config, clean=clean, now_ms=NOW_MS)


def fill(log: Log, size: int, record_size: int, batch_count: int) -> None:
    chance = random.Random(1)
    value = chance.randbytes(record_size)
    written = 0
    while written < size:
        records = [Record(number, NOW_MS, b"key-%06d" % chance.randrange(KEYS), value) for number in range(batch_count)]
        log.append_as_leader(bytearray(build_batch(records)), 0, NOW_MS)
        written += record_size * batch_count


def cleaning(launcher: Launcher, effort: Effort, *, record_size: int, batch_count: int) -> Figures:
    if launcher.name != KBROKER:
        return {}
    directory = tempfile.mkdtemp(prefix="kbroker-bench-")
    try:
        log = open_log(directory, 64 * MIB, clean=True, compact=True)
        fill(log, effort.of(CLEANED_SIZE), record_size, batch_count)
        log.roll(NOW_MS)
        part = cleanable_part(log, log.log_end_offset, NOW_MS)
        assert part is not None
        cleaner = Cleaner(part, OffsetMap(MAP_SIZE), NOW_MS, list[Discarded]().append)
        taken = []
        started = before = time.process_time()
        for step in cleaner.steps():
            now = time.process_time()
            taken.append(now - before)
            if step is not None:
                step()
            before = time.process_time()
        elapsed = time.process_time() - started
        taken.sort()
        return {
            "MB/s": cleaner.bytes_read / 1e6 / elapsed,
            "p99 of a step, ms": taken[int(len(taken) * 0.99)] * 1000,
        }
    finally:
        shutil.rmtree(directory)


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


def _cleaning_case(record_size: int, batch_count: int) -> Case:
    def run(launcher: Launcher, effort: Effort) -> Figures:
        return cleaning(launcher, effort, record_size=record_size, batch_count=batch_count)

    name = f"compaction of records of {record_size} B, {batch_count} a batch"
    return Case(name, run, rounds=2, warm_up=False, is_fresh=True)


CASES = [
    _cleaning_case(1024, 1),
    _cleaning_case(1024, 16),
    _cleaning_case(100, 100),
    Case(f"recovery of {SEGMENTS} segments", recovery, rounds=2, warm_up=False, is_fresh=True),
    Case(f"recovery of {SEGMENTS} logs", recovery_of_many, rounds=2, warm_up=False, is_fresh=True),
]
