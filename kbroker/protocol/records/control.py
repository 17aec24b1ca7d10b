"""Control records: what brokers write into logs for themselves, and clients never see.

The key of each is two int16, a version and the type. Ends of transactions (KIP-98) are read and written here whole. The
values of the quorum's records (KIP-595, KIP-630, KIP-853) are declared messages, which ``kraft.batches`` writes; only
their keys are made here.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from kbroker.protocol.records.batch import Record, build_batch
from kbroker.protocol.records.errors import InvalidRecordError

_KEY = struct.Struct(">hh")
_END_TRANSACTION = struct.Struct(">hi")
_VERSION: Final = 0


class ControlRecordType(IntEnum):
    """Kafka's ``ControlRecordType``. UNKNOWN is any type of a later Kafka: to be skipped."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    type: ControlRecordType
    coordinator_epoch: int


def control_key(type: ControlRecordType) -> bytes:
    return _KEY.pack(_VERSION, type)


def control_type(key: bytes | None) -> ControlRecordType:
    """The type that a control record's key names. Later versions of the key only add to it."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError(
            f"Invalid value size found for end control record key. Must have at least {_KEY.size} bytes, but found "
            f"only {len(key or b'')}"
        )
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"Invalid version found for control record: {version}. May indicate data corruption")
    if ControlRecordType.ABORT <= number <= ControlRecordType.KRAFT_VOTERS:
        return ControlRecordType(number)
    return ControlRecordType.UNKNOWN


def read_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """The marker that a control record is; None for every other control record."""
    kind = control_type(record.key)
    if kind not in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
        return None
    value = record.value
    if value is None or len(value) < _END_TRANSACTION.size:
        raise InvalidRecordError(
            f"Invalid value size found for end transaction marker. Must have at least {_END_TRANSACTION.size} bytes, "
            f"but found only {len(value or b'')}"
        )
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(value)
    if version < 0:
        raise InvalidRecordError(
            f"Invalid version found for end transaction marker: {version}. May indicate data corruption"
        )
    return EndTransactionMarker(kind, coordinator_epoch)


def build_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch with which a coordinator ends a producer's transaction in a partition: one record, no sequence."""
    if marker.type not in {ControlRecordType.ABORT, ControlRecordType.COMMIT}:
        raise ValueError(f"a transaction ends with COMMIT or ABORT, not with {marker.type.name}")
    value = _END_TRANSACTION.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(0, timestamp, control_key(marker.type), value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )
