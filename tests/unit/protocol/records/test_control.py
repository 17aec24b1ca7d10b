"""Control records: keys, ends of transactions, and the quorum's batches."""

from __future__ import annotations

import struct

import pytest

from kbroker.protocol.records.batch import Record, read_header, read_records
from kbroker.protocol.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_marker,
    control_key,
    control_type,
    read_end_transaction_marker,
)
from kbroker.protocol.records.errors import InvalidRecordError


@pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_a_marker_is_a_batch_of_its_own(kind: ControlRecordType) -> None:
    marker = EndTransactionMarker(kind, 77)
    batch = build_end_transaction_marker(
        marker, timestamp=1000, producer_id=5, producer_epoch=6, base_offset=100, leader_epoch=3
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.partition_leader_epoch, header.record_count) == (100, 3, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, -1)
    (record,) = read_records(batch, max_decompressed=100)
    assert read_end_transaction_marker(record) == marker
    assert record.value == b"\0\0\0\0\0\x4d"


def test_only_commit_and_abort_end_a_transaction() -> None:
    with pytest.raises(ValueError, match="LEADER_CHANGE"):
        build_end_transaction_marker(
            EndTransactionMarker(ControlRecordType.LEADER_CHANGE, 1), timestamp=1, producer_id=1, producer_epoch=1
        )


def test_every_type_has_its_key() -> None:
    for kind in ControlRecordType:
        if kind is not ControlRecordType.UNKNOWN:
            assert control_type(control_key(kind)) is kind


def test_types_and_versions_of_a_later_kafka_are_no_error() -> None:
    assert control_type(struct.pack(">hh", 0, 99)) is ControlRecordType.UNKNOWN
    assert control_type(struct.pack(">hhi", 3, 1, 7)) is ControlRecordType.COMMIT
    later = Record(0, 0, control_key(ControlRecordType.ABORT), struct.pack(">hii", 1, 8, 9))
    assert read_end_transaction_marker(later) == EndTransactionMarker(ControlRecordType.ABORT, 8)


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_key_that_is_none_is_an_invalid_record(key: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        control_type(key)


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\0"])
def test_a_marker_without_its_value_is_an_invalid_record(value: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        read_end_transaction_marker(Record(0, 0, control_key(ControlRecordType.COMMIT), value))
