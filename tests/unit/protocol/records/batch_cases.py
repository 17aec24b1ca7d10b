"""Batches to build in several ways: by this project, by Apache's classes, by the clients' own builders."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kbroker.protocol.records.batch import Record, TimestampType, build_batch, read_header, read_records
from kbroker.protocol.records.compression import Compression

NOW = 1_800_000_000_000


@dataclass(frozen=True)
class BatchCase:
    """What a builder is asked for."""

    name: str
    records: Sequence[Record]
    codec: Compression = Compression.NONE
    base_offset: int = 0
    log_append_time: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    leader_epoch: int = -1
    transactional: bool = False
    control: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def build(self) -> bytes:
        append_time = self.log_append_time is not None
        return build_batch(
            self.records,
            base_offset=self.base_offset,
            compression=self.codec,
            timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
            max_timestamp=self.log_append_time,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            leader_epoch=self.leader_epoch,
            transactional=self.transactional,
            control=self.control,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "codec": int(self.codec),
            "base_offset": self.base_offset,
            "log_append_time": self.log_append_time,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "base_sequence": self.base_sequence,
            "leader_epoch": self.leader_epoch,
            "transactional": self.transactional,
            "control": self.control,
            "records": [record_to_json(record) for record in self.records],
            **self.extra,
        }


def text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def data(encoded: str) -> bytes:
    return b64decode(encoded)


def record_to_json(record: Record) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[name, text(value)] for name, value in record.headers],
    }


def describe(batch: bytes) -> dict[str, Any]:
    """A batch as this project reads it, in the words in which RecordBatches.java tells what it read."""
    header = read_header(batch)
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "leader_epoch": header.partition_leader_epoch,
        "codec": int(header.compression),
        "log_append_time": header.timestamp_type is TimestampType.LOG_APPEND_TIME,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "size": header.size,
        "records": [record_to_json(record) for record in read_records(batch, max_decompressed=1 << 24)],
    }


def _record(
    timestamp: int, key: bytes | None, value: bytes | None, *headers: tuple[str, bytes | None], offset: int = 0
) -> Record:
    return Record(offset, timestamp, key, value, list(headers))


def named_cases() -> list[BatchCase]:
    """A few batches for every codec; small, so that their bytes can be kept."""
    cases = []
    for codec in Compression:
        name = codec.name.lower()
        ordinary = [
            _record(NOW, b"key", b"value"),
            _record(NOW + 200, None, b"v" * 300, ("h", b"1"), ("null", None), ("\u00fcml\u00e4ut", b"")),
            _record(NOW - 5, b"", None),
        ]
        cases += [
            BatchCase(f"{name} plain", ordinary, codec),
            BatchCase(
                f"{name} of a producer", ordinary, codec, 2**40, None, 12345, 7, 2**31 - 2, 9, transactional=True
            ),
            BatchCase(f"{name} appended", ordinary, codec, log_append_time=NOW + 999),
            BatchCase(f"{name} many", [_record(NOW + index, b"%d" % index, b"x" * 20) for index in range(200)], codec),
            BatchCase(f"{name} no timestamps", [_record(-1, None, b"a"), _record(-1, None, b"b")], codec),
        ]
    return cases


def random_cases(seed: int, count: int) -> list[BatchCase]:
    chance = random.Random(seed)

    def some_bytes() -> bytes | None:
        size = chance.choice([0, 1, 5, 63, 64, 127, 128, 400])
        return chance.choice([None, chance.randbytes(size), bytes([chance.randrange(256)]) * size])

    def some_headers() -> list[tuple[str, bytes | None]]:
        names = ["", "h", "name" * 20, "\u20ac"]
        return [(chance.choice(names), some_bytes()) for _ in range(chance.choice([0, 0, 3]))]

    def some_record() -> Record:
        timestamp = NOW + chance.choice([0, 1, -1, 63, 64, -65, 10**9, -(10**12)])
        return Record(0, timestamp, some_bytes(), some_bytes(), some_headers())

    cases = []
    for index in range(count):
        is_idempotent = chance.random() < 0.5
        cases.append(
            BatchCase(
                f"random {index}",
                [some_record() for _ in range(chance.choice([1, 2, 10, 70]))],
                chance.choice(list(Compression)),
                chance.choice([0, 1, 2**35]),
                chance.choice([None, NOW + 5]),
                producer_id=chance.choice([0, 2**50]) if is_idempotent else -1,
                producer_epoch=chance.choice([0, 2**15 - 1]) if is_idempotent else -1,
                base_sequence=chance.choice([0, 2**31 - 1]) if is_idempotent else -1,
                leader_epoch=chance.choice([-1, 0, 100]),
                transactional=is_idempotent and chance.random() < 0.5,
            )
        )
    return cases
