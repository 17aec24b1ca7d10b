"""Putting things in: topics, and records straight through the log; and taking them out again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kbroker.protocol.apis import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.partitioner import partition_of
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.replication.partition import Partition
from kbroker.testing import state
from kbroker.testing.asking import ask, check
from kbroker.testing.engine import Engine
from kbroker.testing.names import check_exact, new_topics
from kbroker.testing.seeds import NewRecord

RECORDS_PER_BATCH = 1000
TIMEOUT_MS = 10_000


async def create_topics(engine: Engine, wanted: dict[str, int], configs: dict[str, str] | None = None) -> None:
    """Make topics; those that are there already must have as many partitions."""
    known = state.topics(engine, internal=True)
    for name, partitions in wanted.items():
        if name in known and known[name].partitions != partitions:
            raise ValueError(f"topic {name!r} is there already, with {known[name].partitions} partitions")
    new = [name for name in wanted if name not in known]
    if not new:
        return
    rows = [CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    answer = await ask(
        engine,
        ApiKey.CREATE_TOPICS,
        timeout_ms=TIMEOUT_MS,
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=wanted[name], replication_factor=1, configs=list(rows)
            )
            for name in new
        ],
    )
    for result in answer.topics:
        check(result.error_code, result.error_message, f"creating topic {result.name!r}")


async def delete_topics(engine: Engine, names: list[str]) -> None:
    for name in names:
        state.partitions_of(engine, name)
    rows = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    answer = await ask(engine, ApiKey.DELETE_TOPICS, timeout_ms=TIMEOUT_MS, topics=rows)
    for result in answer.responses:
        check(result.error_code, result.error_message, f"deleting topic {result.name!r}")


async def reset_some(engine: Engine, topics: list[str], groups: list[str]) -> None:
    """Empty topics (made again with their partitions and configs) and forget groups, by the ordinary APIs."""
    known = state.topics(engine)
    for name in topics:
        state.partitions_of(engine, name)
    for group_id in groups:
        check_exact("group", group_id, await state.groups(engine))
    if topics:
        await delete_topics(engine, topics)
    for name in topics:
        await create_topics(engine, {name: known[name].partitions}, dict(known[name].configs))
    if groups:
        answer = await ask(engine, ApiKey.DELETE_GROUPS, groups_names=groups)
        for result in answer.results:
            check(result.error_code, None, f"deleting group {result.group_id!r}")


async def produce(engine: Engine, topic: str, records: list[NewRecord]) -> list[int]:
    """Write records, one batch for each partition; their offsets. The topic is made if it is not there."""
    if topic not in engine.node.quorum.image.topics.by_name:
        await create_topics(engine, new_topics({topic: engine.node.config.integer("num.partitions")}))
    count = len(state.partitions_of(engine, topic))
    by_partition: dict[int, list[int]] = {}
    for position, record in enumerate(records):
        by_partition.setdefault(_choose(record, count), []).append(position)
    offsets = [0] * len(records)
    for index, positions in by_partition.items():
        for begin in range(0, len(positions), RECORDS_PER_BATCH):
            chosen = positions[begin : begin + RECORDS_PER_BATCH]
            first = await _append(engine, topic, index, [records[position] for position in chosen])
            for step, position in enumerate(chosen):
                offsets[position] = first + step
    return offsets


def _choose(record: NewRecord, count: int) -> int:
    if record.partition is not None:
        return record.partition
    if record.key is None:
        return 0
    return partition_of(record.key, count)


class Flush:
    """Waits, as a produce does, until what ``flush.messages`` asks for is on stable storage."""

    def __init__(self, engine: Engine) -> None:
        self.outcome: asyncio.Future[ErrorCode] = engine.loop.create_future()

    def settle(self, _partition: Partition, code: ErrorCode, /) -> None:
        if not self.outcome.done():
            self.outcome.set_result(code)


async def _append(engine: Engine, topic: str, index: int, records: Iterable[NewRecord]) -> int:
    partition = state.partitions_of(engine, topic, index)[0]
    now_ms = engine.clock.wall_ms()
    rows = [
        Record(0, now_ms if each.timestamp_ms is None else each.timestamp_ms, each.key, each.value, each.headers)
        for each in records
    ]
    info = partition.append_as_leader(bytearray(build_batch(rows)), 1, now_ms)
    if partition.is_unflushed(info.last_offset):
        flush = Flush(engine)
        partition.park_until_flushed(info.last_offset + 1, flush)
        check(await asyncio.wait_for(flush.outcome, TIMEOUT_MS / 1000), None, f"writing to {topic!r}")
    return info.first_offset
