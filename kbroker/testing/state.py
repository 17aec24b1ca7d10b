"""What a test asks about a broker's state: read from the image and the logs, and asked of the coordinators.

Every function is run by the engine's loop, on a consistent state: nothing changes while one reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbroker.log.file_records import FileRecords
from kbroker.log.log import Log
from kbroker.protocol import codec
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from kbroker.protocol.records.batch import BatchHeader, batches, increment_sequence, read_records
from kbroker.protocol.records.control import ControlRecordType, read_end_transaction_marker
from kbroker.replication.partition import Partition
from kbroker.testing.asking import ask, check, serves
from kbroker.testing.engine import Engine
from kbroker.testing.names import check_exact
from kbroker.testing.values import Group, Member, Producer, Record, Topic, Transaction
from kbroker.types import INTERNAL_TOPICS

READ_SIZE = 4 * 1024 * 1024
DECOMPRESSED_MAX = 256 * 1024 * 1024
DEAD = "Dead"


def topics(engine: Engine, *, internal: bool = False) -> dict[str, Topic]:
    image = engine.node.quorum.image
    return {
        name: Topic(name, len(topic.partitions), dict(image.configs.of_topic(name)))
        for name, topic in sorted(image.topics.by_name.items())
        if internal or name not in INTERNAL_TOPICS
    }


def partitions_of(engine: Engine, topic: str, partition: int | None = None) -> list[Partition]:
    """The replicas of a topic, in order. Raises ``ValueError`` for what there is not."""
    by_name = engine.node.quorum.image.topics.by_name
    check_exact("topic", topic, by_name)
    indexes = sorted(by_name[topic].partitions)
    if partition is not None and partition not in indexes:
        raise ValueError(f"topic {topic!r} has the partitions 0 to {indexes[-1]}, not {partition}")
    found = [engine.node.replicas.get(topic, index) for index in indexes if partition in (None, index)]
    return [each for each in found if each is not None]


def records(engine: Engine, topic: str, partition: int | None = None, start: int = 0) -> list[Record]:
    """Every record of a topic from offset ``start`` on, partition by partition; control records are left out."""
    found: list[Record] = []
    for each in partitions_of(engine, topic, partition):
        if each.log is not None:
            found.extend(record for record in read_log(each.log, topic, each.name.partition) if record.offset >= start)
    return found


def read_log(log: Log, topic: str, partition: int) -> list[Record]:
    """The records of one log, with what became of their transactions."""
    found: list[Record] = []
    open_transactions: dict[int, list[int]] = {}
    for header, batch in read_batches(log):
        if header.is_control:
            for record in read_records(batch, max_decompressed=DECOMPRESSED_MAX):
                marker = read_end_transaction_marker(record)
                if marker is not None:
                    state = "committed" if marker.type is ControlRecordType.COMMIT else "aborted"
                    for index in open_transactions.pop(header.producer_id, ()):
                        found[index] = _in_transaction(found[index], state)
            continue
        state_now = "open" if header.is_transactional else None
        for position, record in enumerate(read_records(batch, max_decompressed=DECOMPRESSED_MAX)):
            if header.is_transactional:
                open_transactions.setdefault(header.producer_id, []).append(len(found))
            found.append(
                Record(
                    topic,
                    partition,
                    record.offset,
                    record.timestamp,
                    record.key,
                    record.value,
                    tuple(record.headers),
                    header.producer_id if header.has_producer_id else None,
                    header.producer_epoch if header.has_producer_id else None,
                    increment_sequence(header.base_sequence, position) if header.has_producer_id else None,
                    state_now,
                )
            )
    return [record for record in found if record.offset >= log.log_start_offset]


def _in_transaction(record: Record, state: str) -> Record:
    from dataclasses import replace

    return replace(record, transaction=state)


def read_batches(log: Log) -> Iterator[tuple[BatchHeader, memoryview]]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, READ_SIZE, at_least_one=True)
        data = read.to_bytes() if isinstance(read, FileRecords) else read
        last = offset
        for header, batch in batches(data):
            yield header, batch
            last = header.next_offset
        if last == offset:
            return
        offset = last


def next_offset(engine: Engine, topic: str, partition: int = 0) -> int:
    """The offset that the next record gets."""
    return partitions_of(engine, topic, partition)[0].log_end_offset


def producers(engine: Engine, topic: str | None = None) -> list[Producer]:
    """The producers that the logs remember: those with idempotence or transactions."""
    names = topics(engine) if topic is None else [topic]
    return [
        Producer(state.producer_id, state.epoch, state.last_sequence, name, each.name.partition, state.txn_first_offset)
        for name in names
        for each in partitions_of(engine, name)
        if each.log is not None
        for state in each.log.active_producers().values()
    ]


# --- what coordinators know


async def groups(engine: Engine) -> dict[str, Group]:
    """Every group with its members and their partitions."""
    listed = await ask(engine, ApiKey.LIST_GROUPS)
    check(listed.error_code, None, "listing groups")
    found = {}
    for each in listed.groups:
        kind = getattr(each, "group_type", "") or "classic"
        describe = _describe_consumer if kind.lower() == "consumer" else _describe_classic
        found[each.group_id] = await describe(engine, each.group_id)
    return found


async def group(engine: Engine, group_id: str) -> Group | None:
    """One group, None when there is none."""
    described = await _describe_classic(engine, group_id)
    if described.state != DEAD:
        return described
    if serves(ApiKey.CONSUMER_GROUP_DESCRIBE):
        described = await _describe_consumer(engine, group_id)
    return None if described.state == DEAD else described


async def _describe_classic(engine: Engine, group_id: str) -> Group:
    described = (await ask(engine, ApiKey.DESCRIBE_GROUPS, groups=[group_id])).groups[0]
    if described.error_code != ErrorCode.NONE:
        return Group(group_id, "classic", DEAD)
    members = [
        Member(each.member_id, each.client_id, each.group_instance_id, _classic_assignment(each.member_assignment))
        for each in described.members
    ]
    return Group(group_id, "classic", described.group_state, tuple(members))


def _classic_assignment(data: bytes) -> dict[str, tuple[int, ...]] | None:
    """None when the member has none yet, or it is not a consumer's."""
    if len(data) < 2:
        return None
    try:
        version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.valid_versions.highest)
        decoded = codec.decode(ConsumerProtocolAssignment, version, data, 2)
    except Exception:  # noqa: BLE001 (a protocol of the application's own: its bytes are its secret)
        return None
    return {each.topic: tuple(each.partitions) for each in decoded.assigned_partitions}


async def _describe_consumer(engine: Engine, group_id: str) -> Group:
    described = (await ask(engine, ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=[group_id])).groups[0]
    if described.error_code != ErrorCode.NONE:
        return Group(group_id, "consumer", DEAD)
    members = [
        Member(
            each.member_id,
            each.client_id,
            each.instance_id,
            {row.topic_name: tuple(row.partitions) for row in each.assignment.topic_partitions},
        )
        for each in described.members
    ]
    return Group(group_id, "consumer", described.group_state, tuple(members))


async def committed_offsets(engine: Engine, group_id: str) -> dict[str, dict[int, int]]:
    """Every committed offset of a group, by topic and partition."""
    from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest

    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=None)
    answer = (await ask(engine, ApiKey.OFFSET_FETCH, groups=[wanted])).groups[0]
    if answer.error_code:
        return {}
    name_of = engine.node.replicas.topic_name
    return {
        topic.name or name_of(topic.topic_id) or "": {
            row.partition_index: row.committed_offset for row in topic.partitions if row.committed_offset >= 0
        }
        for topic in answer.topics
    }


async def committed(engine: Engine, group_id: str, topic: str, partition: int = 0) -> int | None:
    """The offset that a group has committed, None when it has not."""
    partitions_of(engine, topic, partition)
    return (await committed_offsets(engine, group_id)).get(topic, {}).get(partition)


async def lag(engine: Engine, group_id: str, topic: str | None = None) -> int:
    """How many records a group has before it, over the partitions for which it has committed or is assigned.

    Raises ``ValueError`` for a group that there is not: of nothing, it would have none before it.
    """
    check_exact("group", group_id, await groups(engine))
    offsets = await committed_offsets(engine, group_id)
    seen = {(name, index): offset for name, rows in offsets.items() for index, offset in rows.items()}
    described = await group(engine, group_id)
    for member in () if described is None else described.members:
        for name, indexes in (member.assignment or {}).items():
            for index in indexes:
                seen.setdefault((name, index), -1)
    total = 0
    for (name, index), offset in seen.items():
        if topic in (None, name) and (partition := engine.node.replicas.get(name, index)) is not None:
            total += max(0, partition.last_stable_offset - max(offset, partition.log_start_offset))
    return total


async def transactions(engine: Engine) -> dict[str, Transaction]:
    """Every transactional id that the coordinator knows."""
    listed = await ask(engine, ApiKey.LIST_TRANSACTIONS, duration_filter=-1)
    check(listed.error_code, None, "listing transactions")
    ids = [each.transactional_id for each in listed.transaction_states]
    described: Any = await ask(engine, ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=ids) if ids else None
    return {
        each.transactional_id: Transaction(
            each.transactional_id,
            each.producer_id,
            each.transaction_state,
            {topic.topic: tuple(topic.partitions) for topic in each.topics},
        )
        for each in ([] if described is None else described.transaction_states)
    }
