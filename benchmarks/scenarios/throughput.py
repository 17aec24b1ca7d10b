"""Batched produce and consume of one partition with librdkafka.

Client and broker share the machine, so that records a second are often the client's limit; the broker's CPU per MB is
not. MB = 10**6 bytes of values. Values repeat a few thousand random ones, so that the record at an offset is known:
every read checks count and offsets, the warm-up also every value.
"""

from __future__ import annotations

import random
import time
from functools import cache, partial
from typing import Any

import confluent_kafka as ck

from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.targets import MIB, Meter, Target, metered

COUNTS = {1024: 600_000, 10240: 80_000, 100: 2_500_000}
DISTINCT = 4096
OUTSTANDING_SIZE = 128 * MIB
FIRST = 100
"""Records sent before the clock starts, so that the connections stand."""
TIME_LIMIT_S = 120


@cache
def values(size: int) -> list[dict[str, bytes]]:
    source = random.Random(size)
    return [{"value": source.randbytes(size)} for _ in range(DISTINCT)]


def run(target: Target, effort: Effort, size: int) -> Figures:
    count = effort.of(COUNTS[size])
    with target.topic(f"throughput-{size}") as topic:
        figures = produce(target, topic, size, count)
        return figures | consume(target, topic, size, FIRST + count, compare=effort.round_number == 0)


def produce(target: Target, topic: str, size: int, count: int) -> Figures:
    failed: list[str] = []
    report: dict[str, Any] = {
        "delivery.report.only.error": True,
        "on_delivery": lambda error, _: failed.append(error.str()),
    }
    producer: Any = ck.Producer(
        target.client(
            acks="all",
            linger_ms=5,
            batch_size=1_000_000,
            queue_buffering_max_messages=10_000_000,
            queue_buffering_max_kbytes=2_000_000,
        )
        | report
    )
    messages = values(size)
    producer.produce_batch(topic, messages[:FIRST], partition=0)
    producer.flush(30)
    chunk, outstanding = max(1, 400_000 // size), OUTSTANDING_SIZE // size
    deadline = time.monotonic() + TIME_LIMIT_S
    sent = FIRST
    with metered(target) as meter:
        while sent < FIRST + count and time.monotonic() < deadline:
            if len(producer) > outstanding:
                producer.poll(0.002)
                continue
            start = sent % DISTINCT
            part = messages[start : start + min(chunk, FIRST + count - sent)]
            producer.produce_batch(topic, part, partition=0)
            sent += len(part)
        left = producer.flush(max(1.0, deadline - time.monotonic()))
    acknowledged = sent - left - len(failed)
    with target.connect() as connection:
        (end,) = connection.end_offsets(topic)
    if left or failed or end != acknowledged:
        target.note(
            f"produce {size} B: {left} not acknowledged, {len(failed)} failed {failed[:1]}; the end is {end},"
            f" {acknowledged} were acknowledged"
        )
    return _rates("produce", acknowledged - FIRST, size, meter)


def consume(target: Target, topic: str, size: int, total: int, *, compare: bool) -> Figures:
    consumer: Any = ck.Consumer(
        target.client(
            group_id="bench",
            auto_offset_reset="error",
            enable_auto_commit=False,
            queued_min_messages=1_000_000,
            queued_max_messages_kbytes=1_000_000,
            fetch_queue_backoff_ms=5,
        )
    )
    consumer.list_topics(topic, timeout=30)
    expected = [message["value"] for message in values(size)]
    seen = misplaced = damaged = 0
    deadline = time.monotonic() + TIME_LIMIT_S
    with metered(target) as meter:
        consumer.assign([ck.TopicPartition(topic, 0, 0)])
        while seen < total and time.monotonic() < deadline:
            part = consumer.consume(num_messages=min(10_000, total - seen), timeout=5)
            if not part:
                break
            if part[-1].error():
                target.note(f"consume {size} B: {part[-1].error().str()}")
                break
            misplaced += part[0].offset() != seen or part[-1].offset() != seen + len(part) - 1
            if compare:
                damaged += sum(message.value() != expected[message.offset() % DISTINCT] for message in part)
            seen += len(part)
    consumer.close()
    if seen != total or misplaced or damaged:
        target.note(f"consume {size} B: {seen} of {total} records, {misplaced} gaps, {damaged} damaged")
    return _rates("consume", seen, size, meter)


def _rates(kind: str, count: int, size: int, meter: Meter) -> Figures:
    megabytes = count * size / 1e6
    return {
        f"{kind}, MB/s": megabytes / meter.wall_s,
        f"{kind}, server CPU ms/MB": meter.cpu_s * 1000 / max(megabytes, 1e-9),
    }


def label(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB"


CASES = [Case(f"records of {label(size)}, acks=all", partial(run, size=size)) for size in COUNTS]
