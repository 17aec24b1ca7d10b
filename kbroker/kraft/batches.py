"""Record batches of the metadata log and of snapshots: metadata records framed as Kafka frames them, control records.

Pure: bytes in, bytes out. The layout of a batch is ``protocol.records``; what is special here is the frame inside a
value and the control records of KRaft (KIP-595, KIP-630).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from kbroker.kraft.metadata_versions import LATEST
from kbroker.kraft.record_versions import version_of
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.messages.records.control import KRaftVersionRecord, VotersRecord
from kbroker.protocol.record_codec import decode_metadata_record, encode_metadata_record
from kbroker.protocol.records.batch import Record, batches, build_batch, crc_is_right, read_records
from kbroker.protocol.records.control import ControlRecordType, control_key, control_type

BATCH_SIZE_MAX: Final = 8 * 1024 * 1024
"""Kafka's limit of one batch in the metadata log, and of a batch in a snapshot here."""

_DECLARED: Final[dict[ControlRecordType, Any]] = {
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}


class MetadataBatch(NamedTuple):
    """One decoded batch: ``records`` or, of a control batch, those ``controls`` that say who the voters are."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    size: int
    control: bool
    records: list[Any]
    controls: list[Any]


class CorruptMetadataError(Exception):
    """The metadata log or a snapshot holds bytes that no controller wrote."""


def data_batch(records: Sequence[Any], base_offset: int, epoch: int, timestamp: int, level: int = LATEST) -> bytes:
    """Metadata records as one batch; their versions are those of ``level`` of ``metadata.version``."""
    framed = [
        Record(base_offset + index, timestamp, None, encode_metadata_record(record, version_of(record, level)), [])
        for index, record in enumerate(records)
    ]
    return build_batch(framed, base_offset=base_offset, leader_epoch=epoch)


def control_batch(
    messages: Sequence[tuple[ControlRecordType, Any]], base_offset: int, epoch: int, timestamp: int
) -> bytes:
    """A batch of control records; each message is of the declared class that belongs to its type."""
    records = [
        Record(base_offset + index, timestamp, control_key(kind), encode(message, 0), [])
        for index, (kind, message) in enumerate(messages)
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch, control=True)


def decode_controls(batch: bytes | memoryview) -> list[Any]:
    """The records of a control batch that say who the voters are."""
    found = []
    for record in read_records(batch, max_decompressed=BATCH_SIZE_MAX):
        declared = _DECLARED.get(control_type(record.key))
        if declared is not None:
            found.append(decode(declared, 0, record.value or b""))
    return found


def decode_batches(data: bytes | memoryview) -> Iterator[MetadataBatch]:
    """Every whole batch in ``data``, in order. Raises ``CorruptMetadataError`` for a wrong CRC."""
    for header, view in batches(data):
        if not crc_is_right(view):
            raise CorruptMetadataError(f"the metadata batch at offset {header.base_offset} fails its CRC")
        records: list[Any] = []
        controls: list[Any] = []
        if header.is_control:
            controls = decode_controls(view)
        else:
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
            controls,
        )
