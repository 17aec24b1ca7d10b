"""kbroker's own work on logs, without a broker: compaction, and what a start after a kill reads.

Rates are by the CPU's time, so that a busy machine does not change them. Compaction has 100 000 keys; the longest step
is what a client may have to wait for. There is no reference here: Apache Kafka does not tell these.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time

from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.targets import KBROKER, MIB, Launcher
from kbroker.config import BrokerConfig, TopicConfig
from kbroker.host.real import RealDisk
from kbroker.log.cleanable import cleanable_part
from kbroker.log.cleaner import Cleaner
from kbroker.log.log import Log
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
]
