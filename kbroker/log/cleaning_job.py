"""What a cleaner is told of a log, and what it tells: values only, so that it may work in another process.

The segments that a job names take no more appends, and only their owner removes them. Whether the log is still the one
that the job was made of is the owner's to ask (``Log.truncations``) before it puts anything in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kbroker.log.segment import RollRules
from kbroker.log.txn_index import AbortedTxn


class SourceSegment(NamedTuple):
    """A segment to read: ``end_offset`` is where the next one begins."""

    base_offset: int
    end_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CleaningJob:
    """One round over one log: its part ``first_dirty <= offset < first_uncleanable``, and all before it."""

    directory: str
    segments: tuple[SourceSegment, ...]
    """From the first on, up to ``first_uncleanable``."""
    first_dirty: int
    first_uncleanable: int
    high_watermark: int
    first_position: int
    """A position at or before ``first_dirty`` in the segment that holds it."""
    aborted_later: tuple[AbortedTxn, ...]
    """The aborted transactions that begin in these segments and end behind them."""
    rules: RollRules
    delete_retention_ms: int
    now_ms: int
    keys_max: int
    """How many keys the offset map holds."""
    producers: dict[int, tuple[int, int]]
    """Of every producer the offset of its last data batch, -1 when only a marker is known, and its epoch."""


class Progress(NamedTuple):
    """How far a round is; all counts are of the whole round."""

    end_offset: int = -1
    """Where the cleaned part will end; known after the first pass."""
    bytes_mapped: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0
    keys: int = 0
    """How many keys the offset map holds."""
    group: tuple[int, ...] = ()
    """Base offsets of segments whose successor lies there, whole and durable, under ``.cleaned`` names of the first:
    it is the owner's now, to be swapped in or removed."""

    @property
    def bytes_moved(self) -> int:
        return self.bytes_mapped + self.bytes_read + self.bytes_written
