"""What the cleaner's tests share: cleaning to the end, and what a log then holds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from kbroker.log.cleanable import Cleanable, cleanable_part, cleaning_job
from kbroker.log.cleaner import clean
from kbroker.log.cleaning_job import Progress
from kbroker.log.log import Log
from kbroker.log.segments import Discarded
from kbroker.log.swapping import swap_in
from kbroker.protocol.records.batch import BatchHeader, Record, batches, read_records
from kbroker.protocol.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_marker,
)
from tests.unit.log.logs import Bench

KEYS_MAX = 5000


class CompactBench(Bench):
    """A log with ``cleanup.policy=compact``."""

    def __init__(self, seed: int = 0, **config: object) -> None:
        super().__init__(seed, **{"cleanup_policy": "compact", "delete_retention_ms": 1000, **config})
        self.discarded: list[Discarded] = []

    def put(self, *pairs: tuple[bytes, bytes | None], **stamp: int | bool) -> None:
        """Append one batch of keys and values."""
        self.log.append_as_leader(keyed_batch(*pairs, **stamp), 0, 2000)

    def end_transaction(self, producer_id: int, *, commit: bool, epoch: int = 0) -> None:
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        self.append_internal(
            build_end_transaction_marker(
                EndTransactionMarker(kind, 1), timestamp=2000, producer_id=producer_id, producer_epoch=epoch
            )
        )
        self.log.on_high_watermark(self.log.log_end_offset)

    def part(self, now_ms: int = 3000) -> Cleanable:
        unstable = self.log.first_unstable_offset
        end = self.log.log_end_offset
        part = cleanable_part(self.log, end if unstable is None else unstable, end, now_ms)
        assert part is not None
        return part

    def clean(self, now_ms: int = 3000, *, keys_max: int = KEYS_MAX, roll: bool = True) -> Progress:
        """One round over everything."""
        if roll:
            self.log.roll(now_ms)
        done = clean_log(self.log, self.part(now_ms), now_ms, self.discarded.append, keys_max=keys_max)
        self.log.clean_end_offset = done.end_offset
        return done


def clean_log(
    log: Log, part: Cleanable, now_ms: int, discard: Callable[[Discarded], None], *, keys_max: int = KEYS_MAX
) -> Progress:
    """One round, all in this thread."""
    done = Progress()
    with closing(clean(log.disk, cleaning_job(part, now_ms, keys_max))) as steps:
        for done in steps:
            if done.group:
                for job in swap_in(log, done.group, log.truncations, discard):
                    job()
    return done


def keyed_batch(*pairs: tuple[bytes, bytes | None], **stamp: int | bool) -> bytearray:
    from kbroker.protocol.records.batch import build_batch
    from kbroker.protocol.records.compression import Compression

    timestamp = int(stamp.get("timestamp", 1000))
    producer_id = int(stamp.get("producer_id", -1))
    records = [Record(number, timestamp + number, key, value) for number, (key, value) in enumerate(pairs)]
    return bytearray(
        build_batch(
            records,
            compression=Compression(int(stamp.get("codec", 0))),
            producer_id=producer_id,
            producer_epoch=int(stamp.get("epoch", 0)) if producer_id >= 0 else -1,
            base_sequence=int(stamp.get("sequence", 0)) if producer_id >= 0 else -1,
            transactional=bool(stamp.get("transactional", False)),
        )
    )


class Kept(NamedTuple):
    """A record of a cleaned log."""

    offset: int
    key: bytes | None
    value: bytes | None


def all_batches(log: Log) -> list[tuple[BatchHeader, memoryview]]:
    """Of every segment."""
    found = []
    for segment in log.segments:
        found += list(batches(segment.file.pread(segment.size, 0)))
    return found


def all_records(log: Log, *, control: bool = False) -> list[Kept]:
    return [
        Kept(record.offset, record.key, record.value)
        for header, batch in all_batches(log)
        if header.is_control == control
        for record in read_records(batch, max_decompressed=1 << 24)
    ]
