"""What the files of a partition hold, as plain values for people and programs: ``kbroker log dump``. Reads only."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from kbroker.host import Disk
from kbroker.log import checkpoints, producer_snapshot
from kbroker.log.errors import CorruptFileError
from kbroker.log.indexes import OffsetIndex, TimeIndex
from kbroker.log.paths import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
    parse_directory,
)
from kbroker.log.scan import is_reserved, scan_batches
from kbroker.log.txn_index import TxnIndex
from kbroker.protocol.errors import ApiError
from kbroker.protocol.records.batch import BatchHeader, Record, crc_is_right, read_records
from kbroker.protocol.records.control import control_type
from kbroker.protocol.records.validation import WALK_LIMIT

Entry = dict[str, object]

_QUORUM_SNAPSHOT_SUFFIX = ".checkpoint"
_POSITIONS_MAX = 2**31 - 1


def partition_directories(disk: Disk, path: str) -> list[str]:
    """The partitions' directories in a data directory; a partition's own directory is itself."""
    names = disk.list_dir(path)
    if any(name.endswith(LOG_SUFFIX) and offset_of(name) is not None for name in names):
        return [path]
    found = [(parse_directory(name), f"{path}/{name}") for name in names]
    named = [each for parsed, each in found if parsed is not None and parsed[1] is None and disk.is_dir(each)]
    return [each for each in named if any(offset_of(name) is not None for name in disk.list_dir(each))]


def entries_of(disk: Disk, path: str, *, records: bool = False) -> Iterator[Entry]:
    """What a file holds, one entry after the other; nothing of a file of an unknown kind.

    Raises ``CorruptFileError`` where the rest cannot be read, and ``OSError``.
    """
    name = path.rpartition("/")[2]
    yield {"kind": "file", "path": path}
    if name.endswith((LOG_SUFFIX, _QUORUM_SNAPSHOT_SUFFIX)):
        yield from _batches(disk, path, records=records)
    elif name.endswith(INDEX_SUFFIX):
        offsets = OffsetIndex(disk, path, offset_of(name) or 0)
        offsets.load(_POSITIONS_MAX)
        yield from ({"kind": "index", "offset": o, "position": p} for o, p in offsets.entries())
    elif name.endswith(TIME_INDEX_SUFFIX):
        times = TimeIndex(disk, path, offset_of(name) or 0)
        times.load()
        yield from ({"kind": "timeindex", "timestamp": t, "offset": o} for t, o in times.entries())
    elif name.endswith(TXN_INDEX_SUFFIX):
        for aborted in TxnIndex(disk, path, offset_of(name) or 0).entries():
            yield {"kind": "aborted", **aborted._asdict()}
    elif name.endswith(SNAPSHOT_SUFFIX):
        for producer in producer_snapshot.decode(path, disk.read(path)):
            yield {"kind": "producer", **producer._asdict()}
    elif name == checkpoints.LEADER_EPOCH:
        for epoch, start in checkpoints.parse_lines(path, disk.read(path), 2):
            yield {"kind": "epoch", "epoch": int(epoch), "start_offset": int(start)}
    elif name.endswith("-offset-checkpoint"):
        for partition, offset in checkpoints.read_offsets(disk, path).items():
            yield {"kind": "offset", "partition": str(partition), "offset": offset}


def _batches(disk: Disk, path: str, *, records: bool) -> Iterator[Entry]:
    file = disk.open(path)
    try:
        for position, header, batch in scan_batches(file, 0, file.size()):
            yield _batch(position, header, batch)
            if records:
                try:
                    for record in read_records(batch, max_decompressed=WALK_LIMIT):
                        yield _record(record, is_control=header.is_control)
                except ApiError as error:
                    raise CorruptFileError(path, position, str(error)) from error
    except CorruptFileError as error:
        if not is_reserved(file, error.position):
            raise
        yield {"kind": "reserved", "position": error.position, "size": file.size() - error.position}
    finally:
        file.close()


def _batch(position: int, header: BatchHeader, batch: memoryview) -> Entry:
    entry: Entry = {
        "kind": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "position": position,
        "size": header.size,
        "leader_epoch": header.partition_leader_epoch,
        "codec": header.compression.name.lower(),
        "timestamp_type": header.timestamp_type.name,
        "max_timestamp": header.max_timestamp,
        "crc_is_right": crc_is_right(batch),
    }
    if header.has_producer_id:
        entry |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "is_transactional": header.is_transactional,
        }
    if header.is_control:
        entry["is_control"] = True
    if header.delete_horizon is not None:
        entry["delete_horizon"] = header.delete_horizon
    return entry


def _record(record: Record, *, is_control: bool) -> Entry:
    entry: Entry = {"kind": "record", "offset": record.offset, "timestamp": record.timestamp}
    if is_control:
        return {**entry, "control": control_type(record.key).name}
    entry |= {"key": _text(record.key), "value": _text(record.value)}
    if record.headers:
        entry["headers"] = [[name, _text(value)] for name, value in record.headers]
    return entry


def _text(data: bytes | None) -> str | None:
    """As text where it is UTF-8, else as ``base64:...``."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()
