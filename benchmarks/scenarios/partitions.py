"""A topic of 1000 partitions: created, its leaders known, one record to each."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka as ck

from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.targets import Target, metered

PARTITIONS = 1000


def run(target: Target, _effort: Effort) -> Figures:
    topic = f"partitions-{time.time_ns() // 1000}"
    failed: list[str] = []
    with target.connect(120) as connection:
        with metered(target) as meter:
            connection.create_topic(topic, PARTITIONS)
            answered = time.perf_counter()
            connection.wait_for_leaders(topic, PARTITIONS)
            known = time.perf_counter()
        report: dict[str, Any] = {
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failed.append(error.str()),
        }
        producer: Any = ck.Producer(target.client(linger_ms=5, acks="all") | report)
        producer.list_topics(topic, timeout=30)
        with metered(target) as produced:
            for index in range(PARTITIONS):
                producer.produce(topic, b"x" * 100, partition=index)
            left = producer.flush(60)
        wrong = sum(offset != 1 for offset in connection.end_offsets(topic, PARTITIONS))
        if left or failed or wrong:
            target.note(f"1000 partitions: {left} not acknowledged, {failed[:1]}, {wrong} without their record")
        connection.delete_topic(topic)
    return {
        "CreateTopics answered, ms": (meter.wall_s - (known - answered)) * 1000,
        "all leaders known, ms": meter.wall_s * 1000,
        "first record to each, ms": produced.wall_s * 1000,
        "first record to each, server CPU ms": produced.cpu_s * 1000,
    }


CASES = [Case("1000 partitions", run)]
