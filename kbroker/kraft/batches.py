"""Record batches of the metadata log and of snapshots: metadata records framed as Kafka frames them, control records.

Pure: bytes in, bytes out. The layout of a batch is ``protocol.records``; what is special here is the frame inside a
value and the control records of KRaft (KIP-595, KIP-630).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from kbroker.kraft.metadata_versions import LATEST
from kbroker.kraft.record_versions import version_of
from kbroker.protocol.codec import encode
from kbroker.protocol.record_codec import decode_metadata_record, encode_metadata_record
from kbroker.protocol.records.batch import Record, batches, build_batch, crc_is_right, read_records
from kbroker.protocol.records.control import ControlRecordType, control_key

BATCH_SIZE_MAX: Final = 8 * 1024 * 1024
"""Kafka's limit of one batch in the metadata log, and of a batch in a snapshot here."""


class MetadataBatch(NamedTuple):
    """One decoded batch; a control batch has no ``records``."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    size: int
    control: bool
    records: list[Any]


class CorruptMetadataError(Exception):
    """The metadata log or a snapshot holds bytes that no controller wrote."""


def data_batch(records: Sequence[Any], base_offset: int, epoch: int, timestamp: int, level: int = LATEST) -> bytes:
    """Metadata records as one batch; their versions are those of ``level`` of ``metadata.version``."""
    framed = [
        Record(base_offset + index, timestamp, None, encode_metadata_record(record, version_of(record, level)), [])
        for index, record in enumerate(records)
    ]
    return build_batch(framed, base_offset=base_offset, leader_epoch=epoch)


def control_batch(kind: ControlRecordType, message: Any, base_offset: int, epoch: int, timestamp: int) -> bytes:
    """A batch of one control record; ``message`` is of the declared class that belongs to ``kind``."""
    record = Record(base_offset, timestamp, control_key(kind), encode(message, 0), [])
    return build_batch([record], base_offset=base_offset, leader_epoch=epoch, control=True)


def decode_batches(data: bytes | memoryview) -> Iterator[MetadataBatch]:
    """Every whole batch in ``data``, in order. Raises ``CorruptMetadataError`` for a wrong CRC."""
    for header, view in batches(data):
        if not crc_is_right(view):
            raise CorruptMetadataError(f"the metadata batch at offset {header.base_offset} fails its CRC")
        records: list[Any] = []
        if not header.is_control:
            records = [
                decode_metadata_record(record.value or b"")
                for record in read_records(view, max_decompressed=BATCH_SIZE_MAX * 16)
            ]
        yield MetadataBatch(
            header.base_offset,
            header.last_offset,
            header.partition_leader_epoch,
            header.max_timestamp,
            header.size,
            header.is_control,
            records,
        )
