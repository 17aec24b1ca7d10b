"""Batches of Apache's classes (kept bytes), kafka-python and aiokafka are read alike, and the clients read ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from kafka.record import default_records as kafka_python_records

from kbroker.protocol.records.batch import Record, crc_is_right, read_header, read_records
from kbroker.protocol.records.compression import Compression
from tests.unit.protocol.records.batch_cases import BatchCase, data, describe, named_cases, random_cases

KEPT: dict[str, str] = json.loads(Path(__file__).with_name("apache_batches.json").read_text())
CLIENTS = pytest.mark.parametrize("client", [kafka_python_records, aiokafka_records], ids=["kafka-python", "aiokafka"])


@pytest.mark.parametrize("case", named_cases(), ids=lambda case: case.name)
def test_batches_of_apache_kafka_are_read(case: BatchCase) -> None:
    theirs, ours = data(KEPT[case.name]), case.build()
    assert crc_is_right(theirs)
    assert describe(theirs) | {"size": len(ours)} == describe(ours)


@pytest.mark.parametrize("case", [case for case in named_cases() if not case.codec], ids=lambda case: case.name)
def test_plain_batches_are_built_byte_for_byte_as_apache_kafka_does(case: BatchCase) -> None:
    assert case.build() == data(KEPT[case.name])


def plain(record: Any) -> Record:
    """A client's record as ours."""
    key, value = (None if each is None else bytes(each) for each in (record.key, record.value))
    headers = [(name, None if each is None else bytes(each)) for name, each in record.headers]
    return Record(record.offset, record.timestamp, key, value, headers)


def ours(batch: bytes) -> list[Record]:
    return [record._replace(headers=list(record.headers)) for record in read_records(batch, max_decompressed=1 << 24)]


@CLIENTS
@pytest.mark.parametrize("codec", Compression)
def test_batches_of_python_clients_are_read(client: Any, codec: Compression) -> None:
    records = [Record(index, 1000 + index % 7, b"key" * index, b"value" * 20, [("h", b"1")]) for index in range(50)]
    builder = client.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=1,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        batch_size=1 << 20,
    )
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, record.headers)
    batch = bytes(builder.build())
    assert crc_is_right(batch)
    assert ours(batch) == records
    header = read_header(batch)
    assert (header.compression, header.is_transactional, header.record_count) == (codec, True, 50)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, 7)
    assert (header.base_timestamp, header.max_timestamp, header.last_offset) == (1000, 1006, 49)


@CLIENTS
@pytest.mark.parametrize("cases", [named_cases, lambda: random_cases(seed=3, count=60)], ids=["named", "random"])
def test_our_batches_are_read_by_python_clients(client: Any, cases: Callable[[], list[BatchCase]]) -> None:
    for case in cases():
        batch = case.build()
        reader = client.DefaultRecordBatch(bytearray(batch))
        assert reader.validate_crc(), case.name
        assert [plain(record) for record in reader] == ours(batch), case.name
