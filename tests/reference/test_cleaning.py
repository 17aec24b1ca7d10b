"""Compaction: the same log cleaned by Apache Kafka and by kbroker holds the same, batch by batch, record by record."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kbroker.config import BrokerConfig, TopicConfig
from kbroker.host.real import RealDisk
from kbroker.log import checkpoints
from kbroker.log.cleanable import cleanable_part
from kbroker.log.log import Log
from kbroker.log.scan import scan_headers
from kbroker.log.segment import Segment
from kbroker.protocol.records.batch import BatchHeader, TimestampType, batches, crc_is_right, read_records
from kbroker.types import TopicPartition
from tests.patience import PATIENCE_S
from tests.toolchains import require
from tests.unit.log.cleaning import clean_log
from tools.reference_kafka import ReferenceKafka

pytestmark = pytest.mark.all

CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1",
}
TOPICS = {
    "of-their-producers": {},
    "stamped-here": {"message.timestamp.type": "LogAppendTime"},
    "tombstones-stay": {"delete.retention.ms": "86400000"},
}
"""Times of producers and of the broker; with horizons that the next round is past, and horizons that it is before."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLEANING_S = 120


@pytest.fixture(autouse=True)
def _java() -> None:
    require("java")


def write(bootstrap: str, topic: str, seed: int) -> None:
    """Some megabytes: every codec, tombstones, idempotent and transactional producers, aborts, keys old and new."""
    chance = random.Random(seed)
    for codec in CODECS:
        common: dict[str, Any] = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5}
        _send(Producer({**common, "enable.idempotence": codec in {"gzip", "zstd"}}), topic, chance, 1200, codec)
        producer = Producer({**common, "transactional.id": f"{topic}-{codec}-{seed}"})
        producer.init_transactions(PATIENCE_S)
        for number in range(4):
            producer.begin_transaction()
            _send(producer, topic, chance, 60, codec)
            if number % 2:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)


def _send(producer: Producer, topic: str, chance: random.Random, count: int, codec: str) -> None:
    for _ in range(count):
        key = b"key-%d" % chance.randrange(300)
        if chance.random() < 0.2:
            key = f"{codec}-{chance.randrange(60)}".encode()
        # Compressible, or librdkafka sends it as it is.
        value = None if chance.random() < 0.1 else chance.randbytes(30) * chance.randrange(50)
        headers = [("h", b"1")] if chance.random() < 0.1 else []
        while True:
            try:
                producer.produce(topic, value, key, partition=0, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        if chance.random() < 0.05:
            producer.flush(PATIENCE_S)
    producer.flush(PATIENCE_S)


class Cleaned:
    """Apache Kafka's own directory, and a copy of it from before it was cleaned."""

    def __init__(self, tmp_path: Path) -> None:
        self.kafka = ReferenceKafka(tmp_path / "kafka")
        self.copy = tmp_path / "copy"

    def run(self, *, cleaner: bool) -> None:
        self.kafka.overrides = {"log.cleaner.enable": str(cleaner).lower(), "log.cleaner.backoff.ms": "100"}
        self.kafka.start()

    def write(self, seed: int) -> None:
        self.run(cleaner=False)
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap})
        known = admin.list_topics(timeout=PATIENCE_S).topics
        for topic, configs in TOPICS.items():
            if topic not in known:
                admin.create_topics([NewTopic(topic, 1, 1, config={**CONFIGS, **configs})])[topic].result(PATIENCE_S)
            write(self.kafka.bootstrap, topic, seed)
        self.kafka.stop()
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.kafka.data_dir(), self.copy)

    def clean_ends(self, directory: Path) -> dict[str, int]:
        found = checkpoints.read_offsets(RealDisk(), str(directory / checkpoints.CLEANER))
        return {topic: found.get(TopicPartition(topic, 0), 0) for topic in TOPICS}

    def clean_by_kafka(self) -> None:
        before = self.clean_ends(self.copy)
        self.run(cleaner=True)
        deadline = time.monotonic() + CLEANING_S
        while any(end <= before[topic] for topic, end in self.clean_ends(self.kafka.data_dir()).items()):
            assert time.monotonic() < deadline, self.kafka.log_file().read_text()[-2000:]
            time.sleep(0.1)
        self.kafka.stop()

    def open(self, directory: Path, topic: str) -> Log:
        config = TopicConfig.resolve(BrokerConfig({}), {**CONFIGS, **TOPICS[topic]})
        path = str(directory / f"{topic}-0")
        now_ms = time.time_ns() // 1_000_000
        return Log.open(RealDisk(), path, TopicPartition(topic, 0), bytes(16), config, clean=True, now_ms=now_ms)

    def clean_by_kbroker(self, topic: str) -> Log:
        log = self.open(self.copy, topic)
        log.clean_end_offset = self.clean_ends(self.copy)[topic] or None
        now_ms = time.time_ns() // 1_000_000
        part = cleanable_part(log, log.log_end_offset, log.log_end_offset, now_ms)
        assert part is not None
        assert part.is_due
        done = clean_log(log, part, now_ms, lambda discarded: discarded.remove(), keys_max=1 << 20)
        assert done.end_offset == self.clean_ends(self.kafka.data_dir())[topic]
        return log


def content(log: Log) -> list[tuple[object, ...]]:
    """Every batch with all that a client or a recovery could see of it, but for the moment of its delete horizon."""
    found: list[tuple[object, ...]] = []
    for segment in log.segments:
        for header, batch in batches(segment.file.pread(segment.size, 0)):
            assert crc_is_right(batch)
            found.append(
                (
                    header.base_offset,
                    header.last_offset,
                    header.record_count,
                    header.attributes,
                    header.partition_leader_epoch,
                    header.base_timestamp if header.delete_horizon is None else None,
                    header.max_timestamp,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.delete_horizon is not None,
                    list(read_records(batch, max_decompressed=1 << 26)),
                )
            )
    return found


def check_alike(theirs: Log, ours: Log) -> None:
    assert len(theirs.segments) > 1
    assert [segment.base_offset for segment in ours.segments] == [each.base_offset for each in theirs.segments]
    for expected, got in zip(content(theirs), content(ours), strict=True):
        assert got == expected
    end = ours.log_end_offset
    assert ours.aborted_transactions(0, end) == theirs.aborted_transactions(0, end)
    assert ours.offset_for_max_timestamp() == theirs.offset_for_max_timestamp()
    times = [header.max_timestamp for segment in theirs.segments for _, header in scan_headers_of(segment)]
    for timestamp in sorted(set(times))[:: max(1, len(times) // 200)]:
        assert ours.offset_for_timestamp(timestamp) == theirs.offset_for_timestamp(timestamp)
    for mine, other in zip(ours.segments, theirs.segments, strict=True):
        assert (mine.max_timestamp, mine.max_timestamp_offset) == (other.max_timestamp, other.max_timestamp_offset)


def scan_headers_of(segment: Segment) -> list[tuple[int, BatchHeader]]:
    return list(scan_headers(segment.file, 0, segment.size))


def test_kafka_and_kbroker_clean_alike(tmp_path: Path) -> None:
    cleaned = Cleaned(tmp_path)
    seen: Counter[str] = Counter()
    for seed in (1, 2):
        cleaned.write(seed)
        cleaned.clean_by_kafka()
        for topic in TOPICS:
            theirs, ours = cleaned.open(cleaned.kafka.data_dir(), topic), cleaned.clean_by_kbroker(topic)
            check_alike(theirs, ours)
            for segment in ours.segments[:-1]:
                for _, header in scan_headers_of(segment):
                    seen["empty"] += header.record_count == 0
                    seen["horizon"] += header.delete_horizon is not None
                    seen["append time"] += header.timestamp_type is TimestampType.LOG_APPEND_TIME
                    seen["marker"] += header.is_control
                    seen[header.compression.name] += 1
    assert all(seen[what] for what in ("empty", "horizon", "append time", "marker", *(c.upper() for c in CODECS))), seen
