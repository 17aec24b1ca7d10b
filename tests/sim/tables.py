"""Compacted topics in the simulation: tables whose last value of each key must outlive whatever the cleaner does.

Writers change their own keys in transactions that they commit or abort; now and then a tombstone deletes a key. What a
record is says a header, because a tombstone has no value. Invariants: a read_committed reader of a table sees committed
records only, those of a key in the order in which they were sent; once it has read from the start to the end, it has
seen of each key the value that was the last when it began, or a later one; after the faults, exactly the last values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kbroker.protocol.records.batch import Record
from kbroker.types import TopicPartition
from tests.sim.checkers import Violation
from tests.sim.client import Unavailable
from tests.sim.ledger import COMMITTED, COMMITTING, CommittedReader, Ledger, TransactionalProducer

if TYPE_CHECKING:
    from tests.sim.world import World

TABLE = "table"
KEYS = 3
"""Of each writer."""
TOMBSTONE_EVERY = 7
DELETE_RETENTION_MS = 10_000
CONFIGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "1500",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}
_HEADER = "what"


class Change(NamedTuple):
    """What one record does to a table, as its text says: ``<writer>#<number>``."""

    key: str
    number: int
    deletes: bool

    @classmethod
    def of(cls, text: str) -> Change:
        writer, _, digits = text.partition("#")
        number = int(digits)
        return cls(f"{writer}/{number % KEYS}", number, number % TOMBSTONE_EVERY == 0)


class Table(Ledger):
    """What was written to a compacted topic, and what must be left of it."""

    def last(self, partition: TopicPartition) -> dict[str, Change]:
        """The last change of each key that is known to be committed."""
        texts = [text for text in self.sent.get(partition, []) if self.fates[text] == COMMITTED]
        return {change.key: change for change in map(Change.of, texts)}

    def check_rows(
        self, partition: TopicPartition, rows: dict[str, Change], least: dict[str, Change], who: str
    ) -> None:
        """``rows`` are what somebody has read from the start to the end, after ``least`` had been committed.

        Who is slow, or whose broker's clock jumps, may find a key gone that was deleted meanwhile.
        """
        deleted = {change.key: change.number for change in map(Change.of, self._visible(partition)) if change.deletes}
        for key, change in least.items():
            found = rows.get(key)
            if deleted.get(key, -1) < change.number and (found is None or found.number < change.number):
                raise Violation(f"LastValuesSurvive: {who} read {found} of {partition}, committed was {change}")

    def _visible(self, partition: TopicPartition) -> list[str]:
        return [text for text in self.sent.get(partition, []) if self.fates[text] in (COMMITTING, COMMITTED)]

    def check_whole(self, partition: TopicPartition, seen: list[str]) -> None:
        """After everything has settled, in less time than a tombstone stays."""
        rows = {change.key: change for change in map(Change.of, seen)}
        left = {key: change for key, change in rows.items() if not change.deletes}
        due = {key: change for key, change in self.last(partition).items() if not change.deletes}
        if left != due:
            raise Violation(f"LastValuesSurvive: {partition} holds {left}, committed were {due}")


class TableWriter(TransactionalProducer):
    """Changes its own keys."""

    def record_of(self, text: str) -> Record:
        change = Change.of(text)
        value = None if change.deletes else b"v" * self.random.choice((1, 100))
        return Record(0, self.world.clock.wall_ms(), change.key.encode(), value, [(_HEADER, text.encode())])


class TableReader(CommittedReader):
    """Reads every partition from the start to the end, again and again."""

    def __init__(self, world: World, name: str, table: Table, partitions: list[TopicPartition]) -> None:
        super().__init__(world, name, table, partitions)
        self._table = table
        self.rounds = 0

    def text_of(self, record: Record) -> str:
        return next(value for name, value in record.headers if name == _HEADER and value is not None).decode()

    async def run(self) -> None:
        while not self.stopping:
            await self.read_once()
            await self.pause(2)

    async def read_once(self) -> None:
        """To where nothing is open and nothing follows. A commit that was answered may not be to be seen before."""
        least = {partition: self._table.last(partition) for partition in self.positions}
        self.positions = dict.fromkeys(self.positions, 0)
        self.seen = {partition: [] for partition in self.positions}
        self.is_at_end = dict.fromkeys(self.positions, False)
        unread = list(self.positions)
        while unread and not self.stopping:
            try:
                await self.fetch_once()
            except Unavailable:
                await self.pause(1)
            unread = [partition for partition in unread if not self.is_at_end[partition]]
        for partition, seen in self.seen.items():
            rows: dict[str, Change] = {}
            for change in map(Change.of, seen):
                if change.key in rows and change.number <= rows[change.key].number:
                    raise Violation(f"OrderIsKept: {self.name} read {change} behind {rows[change.key]}")
                rows[change.key] = change
            if not unread:
                self._table.check_rows(partition, rows, least[partition], self.name)
                self.rounds += 1
