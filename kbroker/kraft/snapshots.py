"""Snapshots of the metadata image in Kafka's format (KIP-630), and the bootstrap records of a formatted directory.

A snapshot ``<end offset>-<epoch>.checkpoint`` is a header control record (of a dynamic quorum also those that say who
the voters are), metadata records, a footer control record. Its end offset is the first that it does *not* contain. It
is written beside its place and renamed: a file with that name is whole. The bootstrap records that formatting leaves
are a snapshot too, ``0-0``: it holds what the first controller writes into the log (``metadata.version`` and the other
features), and no state by itself.

Not here: when to take one (``SnapshotRule`` says it, ``SnapshotKeeper`` asks it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from kbroker.host import Disk
from kbroker.kraft.batches import CorruptMetadataError, control_batch, data_batch, decode_batches
from kbroker.kraft.image import METADATA_VERSION
from kbroker.kraft.metadata_versions import LATEST
from kbroker.kraft.raft.voters import ControlRecord
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ApiError, ProtocolError
from kbroker.protocol.messages.records.control import SnapshotFooterRecord, SnapshotHeaderRecord
from kbroker.protocol.messages.records.metadata import FeatureLevelRecord
from kbroker.protocol.records.batch import batches, read_records
from kbroker.protocol.records.control import ControlRecordType, control_type

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
LEGACY_BOOTSTRAP: Final = "bootstrap.checkpoint"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_BATCH_RECORDS: Final = 2000
_HEADER_SIZE_MAX: Final = 64 * 1024


class SnapshotId(NamedTuple):
    """``end_offset``: the first offset that is not in it; ``epoch``: that of the last one that is."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020}-{self.epoch:010}.checkpoint"


BOOTSTRAP: Final = SnapshotId(0, 0)


@dataclass(frozen=True, slots=True)
class SnapshotRule:
    """``metadata.log.max.record.bytes.between.snapshots`` and ``metadata.log.max.snapshot.interval.ms`` (0: never)."""

    bytes_between: int
    interval_ms: int

    def is_due(self, bytes_since: int, elapsed_ms: int) -> bool:
        if bytes_since <= 0:
            return False
        return bytes_since >= self.bytes_between or (self.interval_ms > 0 and elapsed_ms >= self.interval_ms)


def list_snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """The whole snapshots in the metadata log's directory, oldest first; the bootstrap records are not one."""
    if not disk.is_dir(directory):
        return []
    matches = (_NAME.fullmatch(name) for name in disk.list_dir(directory))
    found = (SnapshotId(int(match[1]), int(match[2])) for match in matches if match)
    return sorted(each for each in found if each != BOOTSTRAP)


class KeptSnapshot(NamedTuple):
    """A snapshot on the disk; ``last_timestamp`` is that of the last batch it contains."""

    id: SnapshotId
    size: int
    last_timestamp: int


def kept_snapshots(disk: Disk, directory: str) -> list[KeptSnapshot]:
    """What there is, oldest first. Blocking: runs in a worker. Raises ``CorruptMetadataError`` and ``OSError``."""
    kept = []
    for snapshot in list_snapshots(disk, directory):
        path = f"{directory}/{snapshot.file_name}"
        with closing(disk.open(path)) as file:
            kept.append(KeptSnapshot(snapshot, file.size(), _last_timestamp(file.pread(_HEADER_SIZE_MAX, 0), path)))
    return kept


def _last_timestamp(data: bytes, path: str) -> int:
    """What the snapshot's first record says."""
    for header, batch in batches(data):
        if header.is_control:
            for record in read_records(batch, max_decompressed=_HEADER_SIZE_MAX):
                if control_type(record.key) is ControlRecordType.SNAPSHOT_HEADER and record.value is not None:
                    return decode(SnapshotHeaderRecord, 0, record.value).last_contained_log_timestamp
        break
    raise CorruptMetadataError(f"the snapshot {path} does not begin with a header")


def write_snapshot(
    disk: Disk,
    directory: str,
    snapshot: SnapshotId,
    records: Iterable[Any],
    *,
    last_timestamp: int,
    now_ms: int,
    voters: Sequence[ControlRecord] = (),
    sync: bool = True,
) -> None:
    """Write a snapshot whole. ``last_timestamp`` is that of the last batch it contains. Blocking: runs in a worker."""
    disk.make_dirs(directory)
    data = encode_snapshot(snapshot, records, last_timestamp, now_ms, voters)
    disk.write_atomically(f"{directory}/{snapshot.file_name}", data, sync=sync)


def encode_snapshot(
    snapshot: SnapshotId,
    records: Iterable[Any],
    last_timestamp: int,
    now_ms: int,
    voters: Sequence[ControlRecord] = (),
) -> bytes:
    """The bytes of a snapshot. Its first record says at which level of ``metadata.version`` the others are written."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp)
    head: list[ControlRecord] = [(ControlRecordType.SNAPSHOT_HEADER, header), *voters]
    parts = [control_batch(head, 0, snapshot.epoch, now_ms)]
    offset = len(head)
    level = LATEST
    for chunk in _chunks(records):
        if offset == len(head) and isinstance(chunk[0], FeatureLevelRecord) and chunk[0].name == METADATA_VERSION:
            level = chunk[0].feature_level
        parts.append(data_batch(chunk, offset, snapshot.epoch, now_ms, level))
        offset += len(chunk)
    footer = SnapshotFooterRecord(version=0)
    parts.append(control_batch([(ControlRecordType.SNAPSHOT_FOOTER, footer)], offset, snapshot.epoch, now_ms))
    return b"".join(parts)


class SnapshotContent(NamedTuple):
    """The metadata records of a snapshot, and the control records that say who the voters are."""

    records: list[Any]
    controls: list[Any]


def read_snapshot(disk: Disk, directory: str, snapshot: SnapshotId) -> SnapshotContent:
    """Raises ``CorruptMetadataError`` when its header or footer is missing."""
    return _read(disk, f"{directory}/{snapshot.file_name}")


def _read(disk: Disk, path: str) -> SnapshotContent:
    try:
        found = list(decode_batches(disk.read(path)))
    except (CorruptMetadataError, ProtocolError, ApiError) as error:
        raise CorruptMetadataError(f"{path}: {error}") from error
    if len(found) < 2 or not found[0].control or not found[-1].control:
        raise CorruptMetadataError(f"the snapshot {path} is not whole: its header or footer is missing")
    return SnapshotContent(
        [record for batch in found for record in batch.records],
        [record for batch in found for record in batch.controls],
    )


def delete_snapshots_before(disk: Disk, directory: str, end_offset: int) -> None:
    """Drop the snapshots that a newer one has replaced. Blocking: runs in a worker."""
    for snapshot in list_snapshots(disk, directory):
        if snapshot.end_offset < end_offset:
            disk.remove(f"{directory}/{snapshot.file_name}")


def write_bootstrap(
    disk: Disk, log_directory: str, records: Sequence[Any], now_ms: int, voters: Sequence[ControlRecord] = ()
) -> None:
    """What ``kafka-storage format`` leaves in the directory that will hold the metadata log."""
    directory = f"{log_directory}/{METADATA_DIRECTORY}"
    write_snapshot(disk, directory, BOOTSTRAP, records, last_timestamp=now_ms, now_ms=now_ms, voters=voters)


def read_bootstrap(disk: Disk, log_directory: str) -> SnapshotContent | None:
    """The bootstrap records of a formatted directory (before 4.1 Kafka kept them elsewhere); None without any."""
    for path in (f"{log_directory}/{METADATA_DIRECTORY}/{BOOTSTRAP.file_name}", f"{log_directory}/{LEGACY_BOOTSTRAP}"):
        if disk.exists(path):
            return _read(disk, path)
    return None


def _chunks(records: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(records)
    while chunk := list(islice(iterator, _BATCH_RECORDS)):
        yield chunk
