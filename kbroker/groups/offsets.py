"""Committed offsets, and those that wait for the end of a transaction.

``committed`` is the fold of the plain commits and of the transactions that ended; ``pending`` holds, by producer id,
what open transactions have committed. A marker moves a producer's pending offsets into ``committed`` or drops them; a
plain commit made after a transactional one survives both outcomes, because the later record wins.

Follows Kafka's ``OffsetMetadataManager`` (KIP-98, KIP-211, KIP-447). Retention: an offset goes when its group has been
empty, or it has not been committed again by a group that no longer reads its topic, for ``offsets.retention.minutes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kbroker.groups.classic_group import ClassicGroup, GroupState
from kbroker.protocol.coordinator_record import CoordinatorRecord
from kbroker.protocol.messages.records.group import OffsetCommitKey, OffsetCommitValue
from kbroker.types import ZERO_UUID, Uuid

COMMIT_VERSION = 4
EXPIRING_COMMIT_VERSION = 1
"""The one version that carries a time of expiry (old clients' retention time)."""
NO_TIMESTAMP = -1


class CommittedOffset(NamedTuple):
    """One partition's committed offset. ``record_offset`` is where it stands in the log."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int
    topic_id: Uuid
    record_offset: int

    @classmethod
    def of_record(cls, value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )


Partitions = dict[int, CommittedOffset]
Topics = dict[str, Partitions]


class OffsetTable:
    """Offsets by group, topic and partition; nothing empty is kept."""

    __slots__ = ("by_group",)

    def __init__(self) -> None:
        self.by_group: dict[str, Topics] = {}

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self.by_group.get(group)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def put(self, group: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        topics = self.by_group.get(group)
        if topics is None:
            topics = self.by_group[group] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = committed

    def remove(self, group: str, topic: str, partition: int) -> None:
        topics = self.by_group.get(group)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None or partitions.pop(partition, None) is None:
            return
        if not partitions:
            del topics[topic]
            if not topics:
                del self.by_group[group]

    def of_group(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self.by_group.get(group, {}).items():
            for partition, committed in partitions.items():
                yield topic, partition, committed


class Offsets:
    """Owner: the shard. Changed by ``replay`` and ``replay_marker`` only."""

    def __init__(self) -> None:
        self.committed = OffsetTable()
        self.pending: dict[int, OffsetTable] = {}
        self.open_transactions: dict[str, dict[int, None]] = {}
        """Producers with pending offsets, by group."""

    # --- replay

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, record_offset: int, producer_id: int | None
    ) -> None:
        group, topic, partition = key.group, key.topic, key.partition
        if value is None:
            self.committed.remove(group, topic, partition)
            for each in list(self.open_transactions.get(group, ())):
                self.pending[each].remove(group, topic, partition)
                if group not in self.pending[each].by_group:
                    self._close_transaction(group, each)
        elif producer_id is None:
            self.committed.put(group, topic, partition, CommittedOffset.of_record(value, record_offset))
        else:
            table = self.pending.setdefault(producer_id, OffsetTable())
            table.put(group, topic, partition, CommittedOffset.of_record(value, record_offset))
            self.open_transactions.setdefault(group, {})[producer_id] = None

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """A transaction ended."""
        table = self.pending.pop(producer_id, None)
        if table is None:
            return
        for group in table.by_group:
            self._close_transaction(group, producer_id)
        if not is_commit:
            return
        for group in table.by_group:
            for topic, partition, committed in table.of_group(group):
                known = self.committed.get(group, topic, partition)
                if known is None or committed.record_offset > known.record_offset:
                    self.committed.put(group, topic, partition, committed)

    def _close_transaction(self, group: str, producer_id: int) -> None:
        """Nothing of this producer's waits for a group any more."""
        producers = self.open_transactions[group]
        del producers[producer_id]
        if not producers:
            del self.open_transactions[group]

    # --- looking

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed an offset for it."""
        producers = self.open_transactions.get(group, {})
        return any(self.pending[each].get(group, topic, partition) for each in producers)

    # --- what to delete

    def deletion(self, group: str, topic: str, partition: int) -> list[CoordinatorRecord]:
        """The tombstone of one offset, if there is one to delete."""
        if self.committed.get(group, topic, partition) or self.is_pending(group, topic, partition):
            return [tombstone(group, topic, partition)]
        return []

    def deletions_of_group(self, group: str) -> list[CoordinatorRecord]:
        """Tombstones of everything that a group has, pending offsets included."""
        keys = {(topic, partition): None for topic, partition, _ in self.committed.of_group(group)}
        for producer_id in self.open_transactions.get(group, ()):
            keys.update({(topic, partition): None for topic, partition, _ in self.pending[producer_id].of_group(group)})
        return [tombstone(group, topic, partition) for topic, partition in keys]

    def deletions_of_topics(self, wanted_id: Callable[[str], Uuid | None]) -> list[CoordinatorRecord]:
        """Tombstones of offsets of topics that are gone.

        ``wanted_id`` says of a topic which id its offsets must have: None when it is gone, zeros when any will do. An
        offset without an id is of whatever topic has the name.
        """
        keys: dict[tuple[str, str, int], None] = {}
        for table in [self.committed, *self.pending.values()]:
            for group, topics in table.by_group.items():
                for topic, partitions in topics.items():
                    wanted = wanted_id(topic)
                    if wanted is None:
                        keys.update({(group, topic, partition): None for partition in partitions})
                    elif wanted != ZERO_UUID:
                        fine = (ZERO_UUID, wanted)
                        for partition, committed in partitions.items():
                            if committed.topic_id not in fine:
                                keys[group, topic, partition] = None
        return [tombstone(*key) for key in keys]

    def expired(self, group: ClassicGroup, now_ms: int, retention_ms: int) -> tuple[list[CoordinatorRecord], bool]:
        """Tombstones of a group's offsets whose time is over, and whether nothing is left of any (KIP-211)."""
        since = _retention_begin(group)
        group_id = group.group_id
        topics = self.committed.by_group.get(group_id, {})
        records: list[CoordinatorRecord] = []
        is_all = group_id not in self.open_transactions
        if since is None:
            return records, is_all and not topics
        for topic, partitions in topics.items():
            if group.is_subscribed_to(topic):
                is_all = False
                continue
            for partition, committed in partitions.items():
                end_ms = committed.expire_ms
                if end_ms == NO_TIMESTAMP:
                    end_ms = since(committed) + retention_ms
                if now_ms < end_ms or self.is_pending(group_id, topic, partition):
                    is_all = False
                else:
                    records.append(tombstone(group_id, topic, partition))
        return records, is_all

    def count(self, group_id: str) -> int:
        """How many partitions a group has committed, pending ones apart."""
        return sum(map(len, self.committed.by_group.get(group_id, {}).values()))


def _retention_begin(group: ClassicGroup) -> Callable[[CommittedOffset], int] | None:
    """From when on an offset's retention counts; None while nothing of the group may expire."""
    if group.protocol_type is None:
        return _commit_ms
    if group.state is GroupState.EMPTY:
        since_ms = group.state_since_ms
        return _commit_ms if since_ms is None else lambda _committed: since_ms
    if group.is_consumer_group and group.subscribed_topics is not None and group.state is GroupState.STABLE:
        return _commit_ms
    return None


def _commit_ms(committed: CommittedOffset) -> int:
    return committed.commit_ms


def commit(
    group: str,
    topic: str,
    topic_id: Uuid,
    partition: int,
    offset: int,
    leader_epoch: int,
    metadata: str | None,
    commit_ms: int,
    expire_ms: int = NO_TIMESTAMP,
) -> CoordinatorRecord:
    """The record of one commit."""
    expires = expire_ms != NO_TIMESTAMP
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata or "",
        commit_timestamp=commit_ms,
        expire_timestamp=expire_ms,
        topic_id=ZERO_UUID if expires else topic_id,
    )
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    return CoordinatorRecord(key, value, EXPIRING_COMMIT_VERSION if expires else COMMIT_VERSION)


def tombstone(group: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group, topic=topic, partition=partition), None)


def is_too_long(metadata: str | None, limit: int) -> bool:
    """Kafka counts Java's characters: one outside the basic plane is two."""
    if metadata is None or len(metadata) * 2 <= limit:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > limit
