"""The invariants, one class each, and what they are told.

Checkers see what clients see: what was sent, what was acknowledged, what was read. None knows how a broker works. One
that finds its invariant broken raises ``Violation`` at once, so that the trace ends where things went wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.types import TopicPartition


class Violation(Exception):  # noqa: N818 # what was found, not an error of ours
    """An invariant does not hold."""


class Checker:
    """An invariant. Told of everything; overrides what concerns it."""

    def fail(self, text: str) -> None:
        raise Violation(f"{type(self).__name__}: {text}")

    def on_sent(self, partition: TopicPartition, value: str) -> None:
        """A producer sends a record, the first time."""

    def on_acknowledged(self, partition: TopicPartition, offset: int, value: str) -> None:
        """A producer learns that its record is stored, and where."""

    def on_read(self, reader: str, partition: TopicPartition, offset: int, value: str) -> None:
        """A reader that began at offset 0 reads its next record."""

    def on_producer_id(self, producer: str, producer_id: int) -> None:
        """A producer was given an id."""

    def on_high_watermark(self, reader: str, partition: TopicPartition, high_watermark: int) -> None:
        """A fetch answer shows a high watermark."""

    def on_loss(self) -> None:
        """The power was lost, and the configuration promises nothing for what was not synced.

        What was acknowledged and read until now may be gone; readers begin again at offset 0.
        """

    def on_whole_log(self, partition: TopicPartition, values: Sequence[str]) -> None:
        """After everything has settled: all records from offset 0 to the end."""

    def on_generation(self, member: str, generation: int, floor: int) -> None:
        """A member joined; ``floor`` is the highest generation with assignments known when it asked."""

    def on_assignment(self, member: str, generation: int, partitions: Sequence[int]) -> None:
        """A member learns its partitions."""

    def on_commit_sent(self, partition: TopicPartition, offset: int) -> None:
        """A member commits; no two commits have one offset."""

    def on_commit_acknowledged(self, partition: TopicPartition, offset: int) -> None:
        """A member's commit is stored."""

    def on_commit_refused(self, partition: TopicPartition, offset: int) -> None:
        """A member's commit is not stored."""

    def on_committed(self, partition: TopicPartition, offset: int) -> None:
        """After everything has settled: what is committed, -1 for nothing."""


class AcknowledgedRecordsSurvive(Checker):
    """A record that was acknowledged at an offset is at that offset in the end."""

    def __init__(self) -> None:
        self._acknowledged: dict[TopicPartition, dict[int, str]] = {}

    def on_acknowledged(self, partition: TopicPartition, offset: int, value: str) -> None:
        known = self._acknowledged.setdefault(partition, {})
        other = known.setdefault(offset, value)
        if other != value:
            self.fail(f"{partition} offset {offset} was acknowledged for {other!r} and for {value!r}")

    def on_loss(self) -> None:
        self._acknowledged.clear()

    def on_whole_log(self, partition: TopicPartition, values: Sequence[str]) -> None:
        for offset, value in self._acknowledged.get(partition, {}).items():
            found = values[offset] if offset < len(values) else "nothing"
            if found != value:
                self.fail(f"{partition} offset {offset} was acknowledged for {value!r} and holds {found!r}")


class RecordsAreStoredOnce(Checker):
    """No record is in a log twice: a retry with the same sequence is known, what is not retried is not doubled."""

    def on_whole_log(self, partition: TopicPartition, values: Sequence[str]) -> None:
        first: dict[str, int] = {}
        for offset, value in enumerate(values):
            if value in first:
                self.fail(f"{partition} holds {value!r} at offset {first[value]} and again at {offset}")
            first[value] = offset


class OrderIsKept(Checker):
    """The records of an idempotent producer are in a partition in the order in which it sent them.

    A plain producer has no such promise: what it sent on a connection that it gave up may arrive late.
    """

    def on_whole_log(self, partition: TopicPartition, values: Sequence[str]) -> None:
        last: dict[str, int] = {}
        for value in values:
            producer, _, number = value.partition("#")
            if not producer.startswith("idempotent"):
                continue
            if int(number) <= last.get(producer, -1):
                self.fail(f"{partition} holds {value!r} behind number {last[producer]} of the same producer")
            last[producer] = int(number)


class OffsetsHaveNoGaps(Checker):
    """Who reads from offset 0 sees every offset once, in order."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, TopicPartition], int] = {}

    def on_read(self, reader: str, partition: TopicPartition, offset: int, value: str) -> None:
        expected = self._next.get((reader, partition), 0)
        if offset != expected:
            self.fail(f"{reader} read offset {offset} of {partition} ({value!r}) where {expected} was due")
        self._next[reader, partition] = offset + 1

    def on_loss(self) -> None:
        self._next.clear()


class WhatWasReadStays(Checker):
    """Two reads of one offset see the same record, whoever reads and whatever crashed in between."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, dict[int, str]] = {}

    def on_read(self, reader: str, partition: TopicPartition, offset: int, value: str) -> None:
        other = self._seen.setdefault(partition, {}).setdefault(offset, value)
        if other != value:
            self.fail(f"{reader} read {value!r} at offset {offset} of {partition}, where {other!r} was read before")

    def on_loss(self) -> None:
        self._seen.clear()

    def on_whole_log(self, partition: TopicPartition, values: Sequence[str]) -> None:
        seen = self._seen.get(partition, {})
        if len(seen) > len(values):
            self.fail(f"{partition} ends at offset {len(values)}, but {len(seen)} records were read from it before")


class NothingIsInvented(Checker):
    """What is read from a partition was sent to it."""

    def __init__(self) -> None:
        self._sent: dict[TopicPartition, dict[str, None]] = {}

    def on_sent(self, partition: TopicPartition, value: str) -> None:
        self._sent.setdefault(partition, {})[value] = None

    def on_read(self, reader: str, partition: TopicPartition, offset: int, value: str) -> None:
        if value not in self._sent.get(partition, {}):
            self.fail(f"{reader} read {value!r} at offset {offset} of {partition}, which nobody sent there")


class HighWatermarksNeverFall(Checker):
    """A reader never sees a high watermark below one it saw before, nor a record at or above it."""

    def __init__(self) -> None:
        self._highest: dict[tuple[str, TopicPartition], int] = {}

    def on_high_watermark(self, reader: str, partition: TopicPartition, high_watermark: int) -> None:
        before = self._highest.get((reader, partition), 0)
        if high_watermark < before:
            self.fail(f"{reader} saw the high watermark of {partition} fall from {before} to {high_watermark}")
        self._highest[reader, partition] = high_watermark

    def on_loss(self) -> None:
        self._highest.clear()

    def on_read(self, reader: str, partition: TopicPartition, offset: int, value: str) -> None:
        highest = self._highest.get((reader, partition), 0)
        if offset >= highest:
            self.fail(f"{reader} read {value!r} at offset {offset} of {partition}, whose high watermark is {highest}")


class ProducerIdsAreGivenOnce(Checker):
    """No two producers have one id, whatever crashed between the two."""

    def __init__(self) -> None:
        self._given: dict[int, str] = {}

    def on_producer_id(self, producer: str, producer_id: int) -> None:
        if producer_id < 0:
            self.fail(f"{producer} was given the id {producer_id}")
        if producer_id in self._given:
            self.fail(f"{producer} was given the id {producer_id}, which {self._given[producer_id]} has")
        self._given[producer_id] = producer


class GenerationsNeverFall(Checker):
    """Once a generation has assignments, no member joins an earlier one."""

    def on_generation(self, member: str, generation: int, floor: int) -> None:
        if generation < floor:
            self.fail(f"{member} joined generation {generation} after generation {floor} had assignments")


class PartitionsHaveOneOwner(Checker):
    """In a generation a partition belongs to one member."""

    def __init__(self) -> None:
        self._owners: dict[tuple[int, int], str] = {}

    def on_assignment(self, member: str, generation: int, partitions: Sequence[int]) -> None:
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member)
            if owner != member:
                self.fail(f"generation {generation} gave partition {partition} to {owner} and to {member}")

    def on_loss(self) -> None:
        self._owners.clear()


class AcknowledgedCommitsSurvive(Checker):
    """What is committed in the end is the last acknowledged commit, or one whose answer nobody saw."""

    def __init__(self) -> None:
        self._acknowledged: dict[TopicPartition, int] = {}
        self._superseded: dict[TopicPartition, dict[int, None]] = {}
        self._unanswered: dict[TopicPartition, dict[int, None]] = {}

    def on_commit_sent(self, partition: TopicPartition, offset: int) -> None:
        self._unanswered.setdefault(partition, {})[offset] = None

    def on_commit_acknowledged(self, partition: TopicPartition, offset: int) -> None:
        del self._unanswered[partition][offset]
        self._acknowledged[partition] = offset
        self._superseded.setdefault(partition, {})[offset] = None

    def on_commit_refused(self, partition: TopicPartition, offset: int) -> None:
        del self._unanswered[partition][offset]

    def on_loss(self) -> None:
        """Any commit that was ever stored may be the last one left."""
        for partition, offsets in self._superseded.items():
            self._unanswered.setdefault(partition, {}).update(offsets)
        self._acknowledged.clear()

    def on_committed(self, partition: TopicPartition, offset: int) -> None:
        last = self._acknowledged.get(partition, -1)
        if offset != last and offset not in self._unanswered.get(partition, {}):
            self.fail(f"{partition} has {offset} committed, {last} was acknowledged last")


class Checkers(Checker):
    """All of them, told together. ``generation`` is the highest that is known to have assignments."""

    def __init__(self, checkers: Sequence[Checker]) -> None:
        self.checkers = checkers
        self.acknowledged_count = 0
        self.generation = 0
        self._commits: dict[TopicPartition, int] = {}

    def on_sent(self, partition: TopicPartition, value: str) -> None:
        for checker in self.checkers:
            checker.on_sent(partition, value)

    def on_acknowledged(self, partition: TopicPartition, offset: int, value: str) -> None:
        self.acknowledged_count += 1
        for checker in self.checkers:
            checker.on_acknowledged(partition, offset, value)

    def on_read(self, reader: str, partition: TopicPartition, offset: int, value: str) -> None:
        for checker in self.checkers:
            checker.on_read(reader, partition, offset, value)

    def on_high_watermark(self, reader: str, partition: TopicPartition, high_watermark: int) -> None:
        for checker in self.checkers:
            checker.on_high_watermark(reader, partition, high_watermark)

    def on_producer_id(self, producer: str, producer_id: int) -> None:
        for checker in self.checkers:
            checker.on_producer_id(producer, producer_id)

    def on_loss(self) -> None:
        self.generation = 0
        for checker in self.checkers:
            checker.on_loss()

    def next_commit(self, partition: TopicPartition) -> int:
        """An offset that nobody committed yet, noted as sent."""
        offset = self._commits[partition] = self._commits.get(partition, 0) + 1
        for checker in self.checkers:
            checker.on_commit_sent(partition, offset)
        return offset

    def on_generation(self, member: str, generation: int, floor: int) -> None:
        for checker in self.checkers:
            checker.on_generation(member, generation, floor)

    def on_assignment(self, member: str, generation: int, partitions: Sequence[int]) -> None:
        self.generation = max(self.generation, generation)
        for checker in self.checkers:
            checker.on_assignment(member, generation, partitions)

    def on_commit_acknowledged(self, partition: TopicPartition, offset: int) -> None:
        for checker in self.checkers:
            checker.on_commit_acknowledged(partition, offset)

    def on_commit_refused(self, partition: TopicPartition, offset: int) -> None:
        for checker in self.checkers:
            checker.on_commit_refused(partition, offset)

    def on_committed(self, partition: TopicPartition, offset: int) -> None:
        for checker in self.checkers:
            checker.on_committed(partition, offset)

    def on_whole_log(self, partition: TopicPartition, values: Sequence[str]) -> None:
        for checker in self.checkers:
            checker.on_whole_log(partition, values)


def all_checkers() -> Checkers:
    """Every invariant of a broker that loses nothing."""
    return Checkers(
        [
            AcknowledgedRecordsSurvive(),
            RecordsAreStoredOnce(),
            OrderIsKept(),
            OffsetsHaveNoGaps(),
            WhatWasReadStays(),
            NothingIsInvented(),
            HighWatermarksNeverFall(),
            ProducerIdsAreGivenOnce(),
            GenerationsNeverFall(),
            PartitionsHaveOneOwner(),
            AcknowledgedCommitsSurvive(),
        ]
    )
