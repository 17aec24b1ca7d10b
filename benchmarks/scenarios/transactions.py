"""Transactions with librdkafka: many small ones, and large ones beside the same records without any."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import confluent_kafka as ck

from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.targets import Launcher, Target, metered, running

SMALL, LARGE_RECORDS = 2000, 1000
LARGE = {"100 B": (100, 400), "1 KiB": (1024, 200), "10 KiB": (10 * 1024, 40)}
"""Sizes of values, and how many large transactions of them are measured."""
SLICE = 10
"""Large transactions between which the same records are written without one."""
IDLE_IDS = 500
"""Transactional ids are made by producers of their own, one after the other: what each leaves behind is measured."""
VALUE = bytes(100)
TIMEOUT_S = 60


def transactional(target: Target, **settings: Any) -> Any:
    return initialised(target.client(**settings))


def initialised(settings: dict[str, Any]) -> Any:
    producer: Any = ck.Producer(settings | {"transactional.id": f"bench-{time.time_ns()}"})
    producer.init_transactions(TIMEOUT_S)
    return producer


def small(target: Target, effort: Effort) -> Figures:
    count = effort.of(SMALL, 100)
    with target.topic("transactions") as topic:
        producer = transactional(target, linger_ms=0)
        commits_ms: list[float] = []
        with metered(target) as meter:
            for _ in range(count):
                producer.begin_transaction()
                producer.produce(topic, VALUE, partition=0)
                begin = time.perf_counter_ns()
                producer.commit_transaction(TIMEOUT_S)
                commits_ms.append((time.perf_counter_ns() - begin) / 1e6)
    commits_ms.sort()
    return {
        "transactions/s": count / meter.wall_s,
        "server CPU us/transaction": 1e6 * meter.cpu_s / count,
        "commit, p50 ms": commits_ms[count // 2],
        "commit, p99 ms": commits_ms[int(count * 0.99)],
    }


def write_plainly(producer: Any, topic: str, value: bytes) -> None:
    for _ in range(SLICE):
        for _ in range(LARGE_RECORDS):
            producer.produce(topic, value, partition=0)
    producer.flush(TIMEOUT_S)


def write_in_transactions(producer: Any, topic: str, value: bytes) -> None:
    for _ in range(SLICE):
        producer.begin_transaction()
        for _ in range(LARGE_RECORDS):
            producer.produce(topic, value, partition=0)
        producer.commit_transaction(TIMEOUT_S)


def large(target: Target, effort: Effort, size: int, count: int) -> Figures:
    """Four ways by turns in short slices, so that all meet the same machine.

    Two of them go to the broker that librdkafka brings along for its own tests, in the client's process and without a
    disk: what it makes of a transaction is what the client makes of it, whoever the broker is.
    """
    slices = effort.of(count // SLICE, 2)
    settings = target.client(acks="all", queue_buffering_max_messages=2 * SLICE * LARGE_RECORDS)
    mock = settings | {"bootstrap.servers": "", "test.mock.num.brokers": 1}
    value = bytes(size)
    seconds = [0.0] * 4
    with target.topic("transactions") as topic:
        ways = (
            (ck.Producer(settings), write_plainly),
            (initialised(settings), write_in_transactions),
            (ck.Producer(mock), write_plainly),
            (initialised(mock), write_in_transactions),
        )
        for number in range(slices + 1):
            for which, (producer, write) in enumerate(ways):
                begin = time.perf_counter()
                write(producer, topic, value)
                if number:  # the first finds topic and leader
                    seconds[which] += time.perf_counter() - begin
    plain_s, transacted_s, mock_plain_s, mock_transacted_s = seconds
    return {
        "records/s": slices * SLICE * LARGE_RECORDS / transacted_s,
        "against the same records outside, ratio": plain_s / transacted_s,
        "the same against librdkafka's own mock, ratio": mock_plain_s / mock_transacted_s,
    }


def first(launcher: Launcher, _effort: Effort) -> Figures:
    with running(launcher) as target:
        producer: Any = ck.Producer(target.client(transactional_id="first"))
        producer.list_topics(timeout=TIMEOUT_S)
        begin = time.perf_counter()
        producer.init_transactions(TIMEOUT_S)
        return {"init_transactions, ms": 1e3 * (time.perf_counter() - begin)}


def idle(target: Target, effort: Effort) -> Figures:
    transactional(target)
    count = effort.of(IDLE_IDS, 20)
    before = target.resident_mib()
    for _ in range(count):
        transactional(target)
    return {"10 000 idle transactional ids, MiB": (target.resident_mib() - before) * 10_000 / count}


CASES = [
    Case("transactions of one record", small),
    *(
        Case(f"transactions of {LARGE_RECORDS} records of {name}", partial(large, size=size, count=count))
        for name, (size, count) in LARGE.items()
    ),
    Case("the first transactional producer", first, warm_up=False, is_fresh=True),
    Case("idle transactional ids", idle, rounds=1, warm_up=False),
]
