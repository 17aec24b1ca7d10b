"""A partition's log as kbroker leaves it, ways to damage its files, and what a broker then says of it.

Four segments with everything that a log can hold: an idempotent producer, two leader epochs, an aborted transaction in
a finished segment and one in the active. All partitions of the topic are copies of one, so that one start of a broker
answers for many damages.
"""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.records.batch import BATCH_OVERHEAD, MAGIC, Record, build_batch, crc_is_right, read_header
from tests.broker_process import BrokerProcess
from tests.reference.conversation import Conversation
from tests.reference.questions.describe_producers import description
from tests.reference.questions.list_offsets import list_request
from tests.reference.questions.offset_for_leader_epoch import epoch_request
from tests.reference.questions.scenery import append, create_topic, fetch_request, produce_request
from tests.reference.questions.transactional_producer import Producer, patiently

HOUR_MS = 3_600_000
NOW_MS = int(time.time() * 1000)
FIRST_MS, SECOND_MS, THIRD_MS, LAST_MS = (NOW_MS + hours * HOUR_MS for hours in (-10, -5, 0, 2))
FIRST, SECOND, THIRD, LAST, END = 0, 15, 30, 41, 57
"""Where the segments begin, and the log ends."""
CONFIGS = {
    "segment.ms": str(100 * HOUR_MS // 60),  # markers have the time at which they are written
    "index.interval.bytes": "1",
    "message.timestamp.after.max.ms": str(24 * HOUR_MS),
    "retention.ms": "-1",
}
RECOVERY_POINT = "recovery-point-offset-checkpoint"

Damage = Callable[[Path], object]


def write_log(data: Path, cluster_id: str, partitions: int) -> str:
    """A data directory whose topic has so many partitions; the name of the topic. kbroker has stopped cleanly."""
    broker = BrokerProcess(data, "--node-id", "1", "--cluster-id", cluster_id)
    with broker:
        c = Conversation(broker.bootstrap)
        topic, _ = create_topic(c, partitions=partitions, configs=CONFIGS)
        known = c.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4, note=False)
        stamp = {"producer_id": known.producer_id, "producer_epoch": known.producer_epoch}
        for number in range(6):
            append(c, topic, _batch(SECOND_MS if number > 2 else FIRST_MS, base_sequence=5 * number, **stamp))
        c.close()
    with broker:
        c = Conversation(broker.bootstrap)
        c.await_leaders(topic, 1)
        writer = Producer(c)
        for time_ms in (THIRD_MS, LAST_MS):
            if time_ms == LAST_MS:
                append(c, topic, _batch(time_ms))
            _abort(writer, topic, time_ms)
            append(c, topic, _batch(time_ms))
        c.close()
    whole = data / f"{topic}-0"
    for number in range(1, partitions):
        shutil.copytree(whole, data / f"{topic}-{number}")
    return topic


def _batch(time_ms: int, **options: Any) -> bytes:
    return build_batch([Record(n, time_ms, b"k%d" % n, bytes(40)) for n in range(5)], **options)


def _abort(writer: Producer, topic: str, time_ms: int) -> None:
    writer.init()
    writer.add(topic)
    stamp = {"producer_id": writer.producer_id, "producer_epoch": writer.epoch, "base_sequence": 0}
    request = produce_request(topic, _batch(time_ms, transactional=True, **stamp))
    request.transactional_id = writer.id
    patiently(writer.c, request, 9)
    writer.end(False)


def kill(data: Path, topic: str, partitions: int, recovery_point: int) -> None:
    """As if the broker had been killed after a checkpoint that said so."""
    (data / ".kafka_cleanshutdown").unlink()
    others = [line for line in _lines(data / RECOVERY_POINT) if line.rsplit(" ", 2)[0] != topic]
    lines = others + [f"{topic} {number} {recovery_point}" for number in range(partitions)]
    (data / RECOVERY_POINT).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def _lines(checkpoint: Path) -> list[str]:
    return checkpoint.read_text().splitlines()[2:]


# --- damages


def file_name(offset: int, kind: str) -> str:
    return f"{offset:020d}{kind}"


def missing(name: str) -> Damage:
    return lambda log: (log / name).unlink()


def holds(name: str, content: bytes) -> Damage:
    return lambda log: (log / name).write_bytes(content)


def cut(name: str, size: int) -> Damage:
    """To ``size`` bytes, or by as many if it is negative."""
    return lambda log: os.truncate(log / name, size if size >= 0 else (log / name).stat().st_size + size)


def longer(name: str, tail: bytes) -> Damage:
    return lambda log: (log / name).write_bytes((log / name).read_bytes() + tail)


def overwritten(name: str, position: int, content: bytes) -> Damage:
    """From ``position`` on, counted from the end if it is negative."""

    def damage(log: Path) -> None:
        data = bytearray((log / name).read_bytes())
        start = position % len(data)
        data[start : start + len(content)] = content
        (log / name).write_bytes(data)

    return damage


def second_batch(name: str, field: int, content: bytes) -> Damage:
    """Other bytes at a field of the second batch's header."""

    def damage(log: Path) -> None:
        overwritten(name, read_header((log / name).read_bytes()).size + field, content)(log)

    return damage


def renamed(pairs: dict[str, str], *, copied: bool = False) -> Damage:
    def damage(log: Path) -> None:
        for old, new in pairs.items():
            (shutil.copy if copied else shutil.move)(log / old, log / new)

    return damage


def every(*damages: Damage) -> Damage:
    return lambda log: [damage(log) for damage in damages]


def rubbish(size: int) -> bytes:
    return Random(size).randbytes(size)


# --- what a broker says


def ask_everything(bootstrap: str, topic: str, partitions: int) -> list[dict[str, Any]]:
    """What a broker answers about each partition; then a record is produced to it."""
    c = Conversation(bootstrap)
    seen: list[dict[str, Any]] = [{} for _ in range(partitions)]
    _await_leaders(c, topic, partitions)
    for label, time_ms, isolation in (
        ("end", -1, 0),
        ("stable", -1, 1),
        ("start", -2, 0),
        ("newest", -3, 0),
        ("second", SECOND_MS, 0),
        ("last", LAST_MS, 0),
        ("later", LAST_MS + 1, 0),
    ):
        for found in _offsets(c, topic, partitions, time_ms, isolation):
            age_ms = NOW_MS - found.timestamp if found.timestamp >= 0 else None
            seen[found.partition_index][label] = (found.error_code, found.offset, age_ms, found.leader_epoch)
    for epoch in range(4):
        request = epoch_request(topic, epoch)
        request.topics[0].partitions = [
            each
            for number in range(partitions)
            for each in epoch_request(topic, epoch, partition=number).topics[0].partitions
        ]
        for ended in c.ask(request, 4, note=False).topics[0].partitions:
            seen[ended.partition][f"epoch {epoch}"] = (ended.error_code, ended.leader_epoch, ended.end_offset)
    for writers in c.ask(description(topic, *range(partitions)), 0, note=False).topics[0].partitions:
        states = ((each.producer_id, each.producer_epoch, each.last_sequence) for each in writers.active_producers)
        seen[writers.partition_index]["producers"] = (writers.error_code, sorted(states))
    starts = [max(each["start"][1], 0) for each in seen]
    for isolation in (0, 1):
        for number, records in enumerate(_read(c, topic, starts, isolation)):
            seen[number][f"records {isolation}"] = records
    for number in range(partitions):
        produced = c.ask(produce_request(topic, _batch(LAST_MS), partition=number), 9, note=False)
        written = produced.responses[0].partition_responses[0]
        seen[number]["produce"] = (written.error_code, written.base_offset)
    c.close()
    return seen


def _await_leaders(c: Conversation, topic: str, partitions: int) -> None:
    """Wait until every partition is led, or offline."""
    passing = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE}
    deadline = time.monotonic() + c.timeout_seconds
    while any(each.error_code in passing for each in _offsets(c, topic, partitions, -1, 0)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all partitions of {topic} have leaders")
        time.sleep(0.05)


def _offsets(c: Conversation, topic: str, partitions: int, time_ms: int, isolation: int) -> list[Any]:
    request = list_request(topic, time_ms, isolation=isolation)
    request.topics[0].partitions = [
        each
        for number in range(partitions)
        for each in list_request(topic, time_ms, partition=number).topics[0].partitions
    ]
    found: list[Any] = c.ask(request, 9, note=False).topics[0].partitions
    return found


def _read(c: Conversation, topic: str, starts: list[int], isolation: int) -> list[list[tuple[object, ...]]]:
    """Of each partition every batch, and every transaction that is said to be aborted."""
    read: list[list[tuple[object, ...]]] = [[] for _ in starts]
    offsets = dict(enumerate(starts))
    while offsets:
        request = fetch_request(topic, isolation_level=isolation)
        request.topics[0].partitions = [
            each
            for number, offset in offsets.items()
            for each in fetch_request(topic, offset, partition=number).topics[0].partitions
        ]
        for answer in c.ask(request, 11, note=False).responses[0].partitions:
            number, found = answer.partition_index, read[answer.partition_index]
            before = offsets.pop(number)
            if answer.error_code != ErrorCode.NONE:
                found.append(("error", answer.error_code))
                continue
            found += [("aborted", each.first_offset) for each in answer.aborted_transactions or ()]
            batches = list(_batches(bytes(answer.records or b"")))
            found += batches
            if batches and batches[-1][1] >= before:
                offsets[number] = batches[-1][1] + 1
            else:
                found.append(("end", answer.high_watermark, answer.last_stable_offset, answer.log_start_offset))
    return read


def _batches(data: bytes) -> Iterator[tuple[int, int, bool]]:
    position = 0
    while len(data) - position >= BATCH_OVERHEAD:
        header = read_header(data, position)
        if header.magic != MAGIC or not BATCH_OVERHEAD <= header.size <= len(data) - position:
            return
        yield header.base_offset, header.last_offset, crc_is_right(data[position : position + header.size])
        position += header.size


def logs_left(data: Path, topic: str, partition: int) -> dict[str, int]:
    """The log files of a partition and their sizes, set aside ones too."""
    folders = [data / f"{topic}-{partition}", *data.glob(f"{topic}-{partition}.*")]
    found = {}
    for folder in folders:
        kind = folder.name.rpartition("-")[2] if "." in folder.name else ""
        for path in sorted(folder.glob("*.log")):
            found[f"{kind}{path.name}"] = path.stat().st_size
    return found


def entry(layout: str, *fields: int) -> bytes:
    return struct.pack(layout, *fields)
