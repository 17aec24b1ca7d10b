"""Compaction and retention: how fast, and what clients notice of them.

The rate of compaction is measured without a broker, by the CPU's time, with 100 000 keys. What clients notice is the
delay from producer to consumer at 1000 messages a second, before and while the broker cleans.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise

from benchmarks import wire
from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.scenarios.flatness import SMALL_SEGMENTS
from benchmarks.scenarios.latency import end_to_end
from benchmarks.targets import KBROKER, MIB, Launcher, Target, running
from kbroker.config import BrokerConfig, TopicConfig
from kbroker.host.real import RealDisk
from kbroker.log.cleanable import cleanable_part, cleaning_job
from kbroker.log.cleaner import clean
from kbroker.log.log import Log
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.types import TopicPartition

KEYS, KEYS_MAX = 100_000, 600_000
CLEANED_SIZE, BESIDE_SIZE = 256 * MIB, 1024 * MIB
SEGMENTS = 10_000
NOW_MS = 1_750_000_000_000
PARTITION = TopicPartition("bench", 0)
WAIT_S = 120


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
        part = cleanable_part(log, log.log_end_offset, log.log_end_offset, NOW_MS)
        assert part is not None
        started = time.process_time()
        reports = [(time.process_time(), done) for done in clean(RealDisk(), cleaning_job(part, NOW_MS, KEYS_MAX))]
        elapsed = time.process_time() - started
        longest = max(after - before for (before, _), (after, _) in pairwise([(started, None), *reports]))
        return {"MB/s": reports[-1][1].bytes_read / 1e6 / elapsed, "longest step, ms": longest * 1000}
    finally:
        shutil.rmtree(directory)


# --- beside a load


def beside(
    launcher: Launcher,
    effort: Effort,
    settings: dict[str, str],
    prepare: Callable[[Target, Effort], str],
    begin: Callable[[Target, str], None],
    said: str,
) -> Figures:
    """The delay before, and the delay once ``begin`` has set off what the broker's log will tell by ``said``."""
    with running(launcher, settings) as target:
        topic = prepare(target, effort)
        before = end_to_end(target, effort)
        begin(target, topic)
        during = end_to_end(target, effort)
        is_too_early = said in launcher.log()
        deadline = time.monotonic() + WAIT_S
        while said not in launcher.log():
            if time.monotonic() > deadline:
                raise wire.WireError(f"the broker did not say: {said}")
            time.sleep(0.1)
    return {
        "before, p50 ms": before["p50 ms"],
        "before, p99 ms": before["p99 ms"],
        "meanwhile, p50 ms": during["p50 ms"],
        "meanwhile, p99 ms": during["p99 ms"],
        "p99, ratio": during["p99 ms"] / before["p99 ms"],
        "was over before its end, count": float(is_too_early),
    }


def written_by_keys(target: Target, effort: Effort) -> str:
    """A topic to be compacted, which is not yet."""
    topic = "beside-cleaning"
    configs = {"cleanup.policy": "compact", "segment.bytes": str(64 * MIB), "min.cleanable.dirty.ratio": "1"}
    chance = random.Random(1)
    value = chance.randbytes(1024)
    with target.connect() as connection:
        connection.create_topic(topic, 1, configs)
        connection.wait_for_leaders(topic)
        for _ in range(effort.of(BESIDE_SIZE, 2 * 64 * MIB) // (64 * 1024)):  # of one segment nothing is compacted
            records = [Record(n, NOW_MS, b"key-%06d" % chance.randrange(KEYS), value) for n in range(64)]
            connection.settle(topic, build_batch(records))
    return topic


def written_in_segments(target: Target, effort: Effort) -> str:
    """A topic of many segments that are never too old."""
    topic = "beside-retention"
    batch = bytes(wire.Batch([b"value"]).data)
    with target.connect() as connection:
        connection.create_topic(topic, 1, {**SMALL_SEGMENTS, "retention.ms": "-1"})
        connection.wait_for_leaders(topic)
        for _ in range(2 * effort.of(SEGMENTS)):
            connection.settle(topic, batch)
    return topic


def beside_compaction(launcher: Launcher, effort: Effort) -> Figures:
    settings = {"log.cleaner.backoff.ms": "100"}
    ratio = {"min.cleanable.dirty.ratio": "0.01"}
    return beside(
        launcher,
        effort,
        settings,
        written_by_keys,
        lambda target, topic: alter(target, topic, ratio),
        "beside-cleaning-0 is clean up to" if launcher.name == KBROKER else "Log cleaner thread 0 cleaned log",
    )


def beside_retention(launcher: Launcher, effort: Effort) -> Figures:
    settings = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
    if launcher.name != KBROKER:
        return {}
    return beside(
        launcher,
        effort,
        settings,
        written_in_segments,
        lambda target, topic: alter(target, topic, {"retention.ms": "1", "file.delete.delay.ms": "1000"}),
        "beside-retention-0 deletes",
    )


def alter(target: Target, topic: str, configs: dict[str, str]) -> None:
    with target.connect() as connection:
        connection.alter_topic(topic, configs)


def _cleaning_case(record_size: int, batch_count: int) -> Case:
    def run(launcher: Launcher, effort: Effort) -> Figures:
        return cleaning(launcher, effort, record_size=record_size, batch_count=batch_count)

    name = f"compaction of records of {record_size} B, {batch_count} a batch"
    return Case(name, run, rounds=2, warm_up=False, is_fresh=True)


CASES = [
    _cleaning_case(1024, 1),
    _cleaning_case(1024, 16),
    _cleaning_case(100, 100),
    Case("end to end beside compaction", beside_compaction, rounds=3, warm_up=False, is_fresh=True),
    Case("end to end beside the retention of many segments", beside_retention, rounds=3, warm_up=False, is_fresh=True),
]
