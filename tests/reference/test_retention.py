"""Retention: many logs with settings and records at random lose the same segments in Apache Kafka and in kbroker."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from kbroker.protocol.records.batch import Record, build_batch
from tests.broker_process import BrokerProcess
from tests.reference.conversation import Conversation
from tests.reference.questions.delete_records import deletion
from tests.reference.questions.incremental_alter_configs import SET, alteration
from tests.reference.questions.list_offsets import list_request
from tests.reference.questions.scenery import append, create_topic
from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka

pytestmark = pytest.mark.all

HOUR_MS = 3_600_000
SETTINGS = {
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.cleaner.backoff.ms": "300",
}
WRITING = {
    "retention.ms": "-1",
    "segment.ms": str(HOUR_MS),
    "message.timestamp.after.max.ms": str(100 * HOUR_MS),
    "min.cleanable.dirty.ratio": "1.0",
}
LOGS = 40
ROUNDS = 3


@cache
def now_ms() -> int:
    """When the test began: records are so many hours older or younger in both brokers."""
    return int(time.time() * 1000)


class Plan(NamedTuple):
    """What is done to one log: batches by the hours of their records and their sizes, then its settings."""

    batches: list[tuple[int | None, int]]
    deleted_before: int | None
    settings: dict[str, str]


def a_plan(chance: Random) -> Plan:
    hours = [chance.choice([None, -30, -20, -10, -5, -2, 0, 0, 3]) for _ in range(chance.randrange(12))]
    if chance.random() < 0.6:
        hours.sort(key=lambda each: -40 if each is None else each)
    sizes = [chance.choice([10, 100, 1000]) for _ in hours]
    settings = {
        "retention.ms": chance.choice(["-1", "0", "1", *(str(n * HOUR_MS) for n in (1, 4, 9, 19, 25))]),
        "retention.bytes": chance.choice(["-1", "-1", "0", "1", "300", "1000", "3000"]),
        "cleanup.policy": chance.choice(["delete", "delete", "delete", "compact", "compact,delete", ""]),
    }
    deleted = chance.randrange(2 * len(hours) + 1) if chance.random() < 0.3 else None
    return Plan(list(zip(hours, sizes, strict=True)), deleted, settings)


def carry_out(c: Conversation, plan: Plan) -> str:
    """The topic, whose retention begins now."""
    topic, _ = create_topic(c, configs=WRITING)
    for hour, size in plan.batches:
        time_ms = -1 if hour is None else now_ms() + hour * HOUR_MS
        append(c, topic, build_batch([Record(n, time_ms, b"k", bytes(size)) for n in range(2)]))
    if plan.deleted_before is not None:
        c.ask(deletion(topic, (0, plan.deleted_before)), 2, note=False)
    changes: list[tuple[str, int, str | None]] = [(name, SET, value) for name, value in plan.settings.items()]
    answer = c.ask(alteration(topic, *changes), 1, note=False)
    assert [each.error_code for each in answer.responses] == [0], answer
    return topic


def what_is_left(bootstrap: str, data: Path, plans: list[Plan]) -> list[Any]:
    c = Conversation(bootstrap)
    topics = [carry_out(c, plan) for plan in plans]
    for _ in range(ROUNDS):
        await_a_round(c)
    left = [(offsets(c, topic), segments(data / f"{topic}-0")) for topic in topics]
    c.close()
    return left


def await_a_round(c: Conversation) -> None:
    """Wait until logs that are made now have lost their records: those from before have been looked at, too.

    Perhaps a little later in the same round; so there are several.
    """
    for policy in ("delete", "compact,delete"):  # the two are looked after by different threads
        settings = {"retention.ms": str(HOUR_MS), "cleanup.policy": policy}
        topic = carry_out(c, Plan([(-30, 10)], None, settings))
        c.await_answer(list_request(topic, -2), 7, lambda answer: bool(answer.topics[0].partitions[0].offset == 2))


def offsets(c: Conversation, topic: str) -> list[tuple[int, int]]:
    """Start, end, of the largest time and of some times: error and offset."""
    found = []
    for time_ms in (-2, -1, -3, now_ms() - 15 * HOUR_MS, now_ms() - HOUR_MS):
        answer = c.ask(list_request(topic, time_ms), 7, note=False).topics[0].partitions[0]
        found.append((answer.error_code, answer.offset))
    return found


def segments(log: Path) -> list[str]:
    return sorted(path.name for path in log.glob("*.log") if path.stat().st_size)


def test_the_same_segments_go(tmp_path: Path) -> None:
    require("java")
    chance = Random(6)
    plans = [a_plan(chance) for _ in range(LOGS)]
    with ReferenceKafka(tmp_path / "kafka", overrides=SETTINGS) as kafka:
        reference = what_is_left(kafka.bootstrap, kafka.data_dir(), plans)
    options = [word for key, value in SETTINGS.items() for word in ("--override", f"{key}={value}")]
    with BrokerProcess(tmp_path / "kbroker", *options) as broker:
        kbroker = what_is_left(broker.bootstrap, tmp_path / "kbroker", plans)
    assert [each for each in zip(plans, reference, kbroker, strict=True) if each[1] != each[2]] == []
    assert any(found[0][0][1] for found in reference), "nothing was deleted at all"
