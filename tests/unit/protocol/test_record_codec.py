"""Messages inside records."""

from __future__ import annotations

import pytest

from kbroker.protocol.errors import ProtocolError
from kbroker.protocol.messages.records.group import OffsetCommitKey, OffsetCommitValue
from kbroker.protocol.messages.records.metadata import FeatureLevelRecord, NoOpRecord, TopicRecord
from kbroker.protocol.messages.records.transaction import TransactionLogKey, TransactionLogValue
from kbroker.protocol.record_codec import (
    GROUP,
    METADATA,
    TRANSACTION,
    UnknownRecordTypeError,
    decode_coordinator_key,
    decode_coordinator_value,
    decode_metadata_record,
    decode_metadata_record_version,
    encode_coordinator_key,
    encode_coordinator_value,
    encode_metadata_record,
)


def test_a_metadata_record_carries_frame_type_and_version_before_its_body() -> None:
    record = FeatureLevelRecord(name="metadata.version", feature_level=25)
    data = encode_metadata_record(record, 0)
    assert data == b"\x01\x0c\x00" + b"\x11metadata.version" + b"\x00\x19" + b"\x00"
    assert decode_metadata_record(data) == record
    assert decode_metadata_record_version(data) == (record, 0)
    assert decode_metadata_record(encode_metadata_record(NoOpRecord(), 0)) == NoOpRecord()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"\x00\x0c\x00\x01\x00\x00\x00",
        b"\x01\x63\x00\x00",
        b"\x01\x0c\x63\x00",
        encode_metadata_record(TopicRecord(name="t"), 0) + b"\x00",
        encode_metadata_record(TopicRecord(name="t"), 0)[:-1],
    ],
)
def test_a_metadata_record_that_is_not_one_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_metadata_record(data)


def test_a_committed_offset_stands_as_kafka_writes_it() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=9)
    assert encode_coordinator_key(key) == b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x03"
    assert decode_coordinator_key(GROUP, encode_coordinator_key(key)) == key
    for version in OffsetCommitValue.valid_versions.numbers():
        data = encode_coordinator_value(value, version)
        assert data[:2] == version.to_bytes(2, "big")
        assert decode_coordinator_value(GROUP, key.api_key, data) == value


def test_each_log_has_record_types_of_its_own() -> None:
    assert TRANSACTION.key_class(0) is TransactionLogKey
    assert TRANSACTION.value_class(0) is TransactionLogValue
    assert GROUP.key_class(0).__name__ == "LegacyOffsetCommitKey"
    assert METADATA.value_class(2) is TopicRecord


def test_an_unknown_record_type_is_told_apart_from_garbage() -> None:
    with pytest.raises(UnknownRecordTypeError) as caught:
        decode_coordinator_key(GROUP, b"\x03\xe7")
    assert caught.value.record_type == 999
    with pytest.raises(ProtocolError):
        decode_coordinator_key(GROUP, b"\x00")
    with pytest.raises(ProtocolError):
        decode_coordinator_value(GROUP, 1, b"\xff\xff")
