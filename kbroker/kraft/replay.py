"""Reading the metadata log into an image: batch after batch, with the transactions of KIP-868 respected.

A controller of ours writes a transaction within one batch. A log that Apache Kafka wrote may spread one over several:
its records count only once its end is there, and not at all when it was aborted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kbroker.kraft.batches import decode_batches, decode_controls
from kbroker.kraft.raft.driver import MetadataLog
from kbroker.protocol.messages.records import metadata as m
from kbroker.protocol.records.batch import batches

_READ_SIZE: Final = 1024 * 1024

Batch = tuple[int, int, list[Any]]
"""Base offset, epoch, records."""


def control_records(log: MetadataLog, offset: int) -> Iterator[Any]:
    """What the log says of its voters from an offset on. Of all other batches only the headers are looked at."""
    while offset < log.end_offset:
        data = log.read(offset, _READ_SIZE)
        for header, batch in batches(data):
            offset = header.last_offset + 1
            if header.is_control:
                yield from decode_controls(batch)
        if not data:
            return


class LogReader:
    """Where a replica of the image stands in the log. Owner: ``Quorum``."""

    def __init__(self, log: MetadataLog, next_offset: int) -> None:
        self._log = log
        self.next_offset = next_offset
        self.last_epoch = 0
        self.last_timestamp = -1
        self._open: list[Batch] | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction has begun and neither ended nor been aborted."""
        return self._open is not None

    def read_to(self, end_offset: int) -> Iterator[Batch]:
        """The batches from here up to ``end_offset`` that count, in order."""
        while self.next_offset < end_offset:
            data = self._log.read(self.next_offset, _READ_SIZE)
            if not data:
                return
            for batch in decode_batches(data):
                if batch.last_offset >= end_offset:
                    return
                if batch.last_offset < self.next_offset:
                    continue
                self.next_offset = batch.last_offset + 1
                self.last_epoch, self.last_timestamp = batch.epoch, batch.timestamp
                if not batch.control:
                    yield from self._settled((batch.base_offset, batch.epoch, batch.records))

    def skip_to(self, end_offset: int, epoch: int, timestamp: int) -> None:
        """Pass over what the owner wrote, and applied, itself."""
        self.next_offset, self.last_epoch, self.last_timestamp = end_offset, epoch, timestamp

    def _settled(self, batch: Batch) -> Iterator[Batch]:
        base_offset, epoch, records = batch
        first = 0
        for index, record in enumerate(records):
            if isinstance(record, m.BeginTransactionRecord):
                if index > first:
                    yield base_offset + first, epoch, records[first:index]
                self._open, first = [], index + 1
            elif isinstance(record, m.EndTransactionRecord | m.AbortTransactionRecord):
                held = self._open or []
                if index > first:
                    held.append((base_offset + first, epoch, records[first:index]))
                if isinstance(record, m.EndTransactionRecord):
                    yield from held
                self._open, first = None, index + 1
        rest: Batch = (base_offset + first, epoch, records[first:])
        if self._open is not None:
            self._open.append(rest)
        elif rest[2]:
            yield rest
