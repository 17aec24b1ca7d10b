"""Which transactional batches and markers a cleaner may drop (KIP-98, Kafka's ``CleanedTransactionMetadata``).

Records of aborted transactions go at once. A marker stays as long as a batch of its transaction does: of an aborted
one, so that a ``read_committed`` reader can tell; of a committed one, so that its producer's state can be rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from kbroker.log.txn_index import AbortedTxn
from kbroker.protocol.records.batch import BatchHeader, read_records
from kbroker.protocol.records.control import ControlRecordType, control_type

_CONTROL_BATCH_MAX = 1024 * 1024


class CleanedTransactions:
    """The transactions around the place that the cleaner has reached. It is told every batch, in order."""

    __slots__ = ("_aborted", "_ongoing_aborted", "_ongoing_committed", "_retain", "_seen")

    def __init__(self) -> None:
        self._aborted: list[tuple[int, AbortedTxn]] = []
        self._ongoing_committed: set[int] = set()
        self._ongoing_aborted: dict[int, AbortedTxn] = {}
        self._seen: set[int] = set()
        """Producers of an ongoing aborted transaction of which a batch was met."""
        self._retain: Callable[[AbortedTxn], None] | None = None

    def retain_with(self, retain: Callable[[AbortedTxn], None]) -> None:
        """Who is told of the aborted transactions that stay: the index of the segment that is written."""
        self._retain = retain

    def add(self, aborted: Iterable[AbortedTxn]) -> None:
        """The aborted transactions that touch what comes next."""
        for each in aborted:
            heappush(self._aborted, (each.first_offset, each))

    def may_drop(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the batch, the next one, is of no use to any reader."""
        while self._aborted and self._aborted[0][0] <= header.last_offset:
            aborted = heappop(self._aborted)[1]
            self._ongoing_aborted.setdefault(aborted.producer_id, aborted)
        if header.is_control:
            return self._may_drop_marker(header, batch)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing_aborted:
            self._seen.add(header.producer_id)
            return True
        self._ongoing_committed.add(header.producer_id)
        return False

    def _may_drop_marker(self, header: BatchHeader, batch: memoryview) -> bool:
        record = next(read_records(batch, max_decompressed=_CONTROL_BATCH_MAX), None)
        if record is None:
            # An empty control batch has been cleaned before.
            return True
        kind = control_type(record.key)
        producer_id = header.producer_id
        if kind is ControlRecordType.ABORT:
            aborted = self._ongoing_aborted.pop(producer_id, None)
            if aborted is None or producer_id not in self._seen:
                return True
            self._seen.discard(producer_id)
            if self._retain is not None:
                self._retain(aborted)
            return False
        if kind is ControlRecordType.COMMIT:
            if producer_id in self._ongoing_committed:
                self._ongoing_committed.discard(producer_id)
                return False
            return True
        return False
