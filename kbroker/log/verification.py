"""Whether the files of a partition are what they should be: ``kbroker log verify``. Reads only, all of it.

Checked are every batch's CRC and records, offsets that rise within and across segments, both indexes against the
batches they point to, transaction indexes, the leader epochs and the producer snapshots. A torn tail of the last
segment is a problem here: a start would cut it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from kbroker.host import Disk
from kbroker.log import checkpoints, producer_snapshot
from kbroker.log.errors import CorruptFileError
from kbroker.log.indexes import OffsetIndex, TimeIndex
from kbroker.log.paths import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)
from kbroker.log.scan import is_reserved, scan_batches
from kbroker.log.txn_index import TxnIndex
from kbroker.protocol.errors import ApiError
from kbroker.protocol.records.batch import BatchHeader, crc_is_right, read_records
from kbroker.protocol.records.validation import WALK_LIMIT


@dataclass(slots=True)
class Report:
    """What was found in one partition."""

    start: int = 0
    end: int = 0
    batches: int = 0
    records: int = 0
    size: int = 0
    problems: list[str] = field(default_factory=list)


def verify_partition(disk: Disk, directory: str) -> Report:
    """Read everything in ``directory``. Raises ``OSError``."""
    report = Report()
    names = disk.list_dir(directory)
    report.problems += [
        f"{name} is left of a cleaning; a start settles it"
        for name in names
        if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))
    ]
    logs = [name for name in names if name.endswith(LOG_SUFFIX) and offset_of(name) is not None]
    if logs:
        report.start = report.end = offset_of(logs[0]) or 0
    for name in logs:
        base_offset = offset_of(name) or 0
        if base_offset < report.end:
            report.problems.append(f"{name} begins at {base_offset}, the segment before it ends at {report.end}")
        report.end = max(report.end, base_offset)
        _verify_segment(disk, directory, name, report)
    _attempt(report, lambda: _verify_epochs(disk, f"{directory}/{checkpoints.LEADER_EPOCH}", report))
    for name in names:
        if name.endswith(SNAPSHOT_SUFFIX):
            path = f"{directory}/{name}"
            _attempt(report, partial(_read_snapshot, disk, path))
            if (offset_of(name) or 0) > report.end:
                report.problems.append(f"{name} lies beyond the log's end {report.end}")
    return report


def _verify_segment(disk: Disk, directory: str, name: str, report: Report) -> None:
    path = f"{directory}/{name}"
    base_offset = offset_of(name) or 0
    found: list[tuple[int, BatchHeader]] = []
    file = disk.open(path)
    try:
        size = file.size()
        report.size += size
        for position, header, batch in scan_batches(file, 0, size):
            found.append((position, header))
            report.batches += 1
            report.records += header.record_count
            _verify_batch(path, position, header, batch, report)
            report.end = max(report.end, header.next_offset)
    except CorruptFileError as error:
        if not is_reserved(file, error.position):
            report.problems.append(str(error))
    finally:
        file.close()
    prefix = path.removesuffix(LOG_SUFFIX)
    # An index that is not there was not written yet, or is lost: it is made again from the batches when it is needed.
    if disk.exists(prefix + INDEX_SUFFIX):
        offsets = OffsetIndex(disk, prefix + INDEX_SUFFIX, base_offset)
        _attempt(report, lambda: _verify_offsets(offsets, size, found, report))
    if disk.exists(prefix + TIME_INDEX_SUFFIX):
        times = TimeIndex(disk, prefix + TIME_INDEX_SUFFIX, base_offset)
        _attempt(report, lambda: _verify_times(times, found, report))
    _attempt(report, TxnIndex(disk, prefix + TXN_INDEX_SUFFIX, base_offset).check)


def _verify_batch(path: str, position: int, header: BatchHeader, batch: memoryview, report: Report) -> None:
    at = f"{path}: byte {position}: the batch at offset {header.base_offset}"
    if not crc_is_right(batch):
        report.problems.append(f"{at} has a wrong CRC")
        return
    if header.base_offset < report.end:
        report.problems.append(f"{at} comes after offset {report.end - 1}")
    try:
        last = header.base_offset - 1
        for record in read_records(batch, max_decompressed=WALK_LIMIT):
            if not last < record.offset <= header.last_offset:
                report.problems.append(f"{at} has record {record.offset} out of order")
            last = record.offset
    except ApiError as error:
        report.problems.append(f"{at} cannot be read: {error}")


def _verify_offsets(index: OffsetIndex, size: int, found: list[tuple[int, BatchHeader]], report: Report) -> None:
    """Each entry must name a batch and an offset in it: Apache Kafka before 4.2 takes the last, others any."""
    index.load(size)
    by_position = dict(found)
    for offset, position in index.entries():
        header = by_position.get(position)
        if header is None:
            report.problems.append(f"{index.path}: the entry of offset {offset} points to byte {position}, no batch")
        elif not header.base_offset <= offset <= header.last_offset:
            report.problems.append(
                f"{index.path}: the entry of offset {offset} points to the batch at offset {header.base_offset}"
            )


def _verify_times(index: TimeIndex, found: list[tuple[int, BatchHeader]], report: Report) -> None:
    """No batch before an entry's offset, nor the one at it, may be later than the entry says."""
    index.load()
    largest, at = -1, 0
    for timestamp, offset in index.entries():
        while at < len(found) and found[at][1].last_offset <= offset:
            largest = max(largest, found[at][1].max_timestamp)
            at += 1
        if largest > timestamp:
            report.problems.append(f"{index.path}: the entry of offset {offset} says {timestamp}, there is {largest}")


def _read_snapshot(disk: Disk, path: str) -> None:
    producer_snapshot.decode(path, disk.read(path))


def _verify_epochs(disk: Disk, path: str, report: Report) -> None:
    if not disk.exists(path):
        return
    epochs = [(int(epoch), int(start)) for epoch, start in checkpoints.parse_lines(path, disk.read(path), 2)]
    for (epoch, start), (next_epoch, next_start) in pairwise(epochs):
        if next_epoch <= epoch or next_start < start:
            report.problems.append(f"{path}: epoch {next_epoch} at {next_start} follows epoch {epoch} at {start}")


def _attempt(report: Report, check: Callable[[], object]) -> None:
    """Run a check; a file that cannot be read is a problem like another."""
    try:
        check()
    except (CorruptFileError, ValueError) as error:
        report.problems.append(str(error))
