"""Batches that are in the log, taken into what follows from them: producer state and transaction indexes.

The only way by which a batch changes either, whether it was appended just now, is read again at a start, or is what is
left after a truncation.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kbroker.log.markers import read_marker
from kbroker.log.producer_state import CompletedTxn, ProducerStates
from kbroker.log.scan import scan_headers
from kbroker.log.segment import Segment
from kbroker.log.txn_index import AbortedTxn
from kbroker.protocol.errors import ApiError
from kbroker.protocol.records.batch import BatchHeader

logger = logging.getLogger(__name__)


def complete_transaction(completed: CompletedTxn, producers: ProducerStates, segment: Segment | None) -> None:
    """A transaction has ended; an abort goes into the transaction index of its marker's segment, if that is given."""
    if completed.is_aborted and segment is not None:
        stable = producers.last_stable_offset_after(completed)
        entry = AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)
        segment.txn_index.append(entry)
    producers.complete(completed)


def replay_batch(header: BatchHeader, batch: memoryview, producers: ProducerStates, segment: Segment | None) -> None:
    """Take in one batch, of which all bytes are needed when it is a control batch, else none. Raises ``OSError``."""
    marker = None
    if header.is_control and header.has_producer_id:
        try:
            marker = read_marker(batch)
        except ApiError as error:
            logger.warning("the control batch at offset %d is passed over: %s", header.base_offset, error)
    completed = producers.replay(header, header.base_offset, marker)
    if completed is not None:
        complete_transaction(completed, producers, segment)


def replay_batches(
    found: Iterable[tuple[BatchHeader, memoryview]], producers: ProducerStates, segment: Segment
) -> None:
    """Take in batches that a follower appended to a segment."""
    for header, batch in found:
        replay_batch(header, batch, producers, segment)


def replay_segment(
    segment: Segment, producers: ProducerStates, start: int, until: int, *, are_indexed: bool = False
) -> None:
    """Take the batches of ``start <= offset < until`` into the producer state, reading headers and markers only.

    ``are_indexed`` takes the aborts into the segment's transaction index, too.
    """
    position = segment.offset_index.lookup(start)
    for at, header in scan_headers(segment.file, position, segment.size):
        if header.base_offset >= until:
            return
        if header.last_offset < start or not header.has_producer_id:
            continue
        batch = segment.file.pread(header.size, at) if header.is_control else b""
        replay_batch(header, memoryview(batch), producers, segment if are_indexed else None)


def rebuild_producers(
    producers: ProducerStates,
    segments: list[Segment],
    log_start_offset: int,
    until: int,
    now_ms: int,
    *,
    expiry_ms: int,
) -> None:
    """Producer state as of ``until``: the newest snapshot at or below it, then the batches behind that.

    Records below the log start that are still there count: DeleteRecords does not make a producer unknown.
    """
    start = min(segments[0].base_offset, until) if segments else log_start_offset
    producers.remove_snapshots_outside(start, until)
    producers.load_newest_snapshot(start, now_ms, expiry_ms)
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else until + 1
        if following > producers.map_end_offset and segment.base_offset < until:
            replay_segment(segment, producers, producers.map_end_offset, until)
    producers.map_end_offset = until
