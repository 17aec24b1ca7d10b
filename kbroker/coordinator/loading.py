"""Reading a shard's past from its log, in slices, so that others are served meanwhile.

Short logs are read where they stand, in the turn of the election, within a budget; the rest by one task, one after the
other. A record of a type that is not known is passed over; one that cannot be read or replayed fails the shard.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic

from kbroker.coordinator.hosted_shard import HostedShard, S, ShardContext
from kbroker.protocol.coordinator_record import CoordinatorRecord, Stamp
from kbroker.protocol.record_codec import (
    RecordTypes,
    UnknownRecordTypeError,
    decode_coordinator_key,
    decode_coordinator_value,
)
from kbroker.protocol.records.batch import Record, batches, read_records
from kbroker.protocol.records.control import ControlRecordType, read_end_transaction_marker

if TYPE_CHECKING:
    from kbroker.log.log import Log

logger = logging.getLogger(__name__)

AT_ONCE_MAX = 200
"""Records that are read in the turn of an election, over all partitions of that turn."""
SLICE_RECORDS = 150
"""Records between two looks at the rest of the world: some 3 ms."""
READ_SIZE = 256 * 1024
DECOMPRESSED_MAX = 100 * 1024 * 1024


class Loader(Generic[S]):
    """Loads the shards of one runtime; ``loaded`` is told of each. Owner: the runtime."""

    def __init__(
        self,
        context: ShardContext[S],
        types: RecordTypes,
        loaded: Callable[[HostedShard[S]], None],
    ) -> None:
        self._context = context
        self._types = types
        self._loaded = loaded
        self._queue: deque[HostedShard[S]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._at_once = AT_ONCE_MAX

    def begin_turn(self) -> None:
        """An image is published: elections follow."""
        self._at_once = AT_ONCE_MAX

    def load(self, hosted: HostedShard[S]) -> None:
        """Load a shard, now if there is little to read, else soon."""
        partition = hosted.partition
        count = partition.log_end_offset - partition.log_start_offset
        if count <= self._at_once:
            self._at_once -= count
            try:
                for _ in self._steps(hosted):
                    pass
            except Exception as error:  # noqa: BLE001 - a log that cannot be read fails its own shard only
                self._failed(hosted, error)
            else:
                self._loaded(hosted)
            return
        self._queue.append(hosted)
        if self._task is None:
            self._task = self._context.loop.create_task(self._work())

    async def finish(self) -> None:
        """Wait for the loads that are under way."""
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Give up what is not loaded yet."""
        self._queue.clear()
        await self.finish()

    async def _work(self) -> None:
        while self._queue:
            hosted = self._queue.popleft()
            began_ms = self._context.clock.monotonic_ms()
            try:
                for _ in self._steps(hosted):
                    await asyncio.sleep(0)
                    if hosted.is_over:
                        break
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(hosted, error)
                continue
            if not hosted.is_over:
                self._loaded(hosted)
                took_ms = self._context.clock.monotonic_ms() - began_ms
                logger.info("Loaded %s in %d ms.", hosted.partition.name, took_ms)
        self._task = None

    def _failed(self, hosted: HostedShard[S], error: Exception) -> None:
        name = hosted.partition.name
        logger.error("%s cannot be loaded: what it holds has no coordinator", name, exc_info=error)
        self._context.failed(hosted)

    def _steps(self, hosted: HostedShard[S]) -> Iterator[None]:
        """Replay the log; gives way after every slice."""
        log = hosted.partition.log
        if log is None:
            return
        offset = log.log_start_offset
        count = 0
        while (log := hosted.partition.log) is not None and offset < log.log_end_offset:  # it may move meanwhile
            data = _read(log, offset)
            for header, batch in batches(data):
                if header.next_offset <= offset:
                    continue
                offset = header.next_offset
                stamp = Stamp(header.producer_id, header.producer_epoch) if header.is_transactional else None
                for record in read_records(batch, max_decompressed=DECOMPRESSED_MAX):
                    if header.is_control:
                        self._replay_control(hosted, record, header.producer_id)
                    else:
                        self._replay(hosted, record, stamp)
                    count += 1
                    if count % SLICE_RECORDS == 0:
                        yield

    def _replay(self, hosted: HostedShard[S], record: Record, stamp: Stamp | None) -> None:
        if record.key is None:
            logger.warning("%s: the record at %d has no key", hosted.partition.name, record.offset)
            return
        try:
            key = decode_coordinator_key(self._types, record.key)
            value = None
            if record.value is not None:
                value = decode_coordinator_value(self._types, key.api_key, record.value)
        except UnknownRecordTypeError as error:
            logger.warning("%s: passing over the record at %d: %s", hosted.partition.name, record.offset, error)
            return
        hosted.shard.replay(CoordinatorRecord(key, value), record.offset, stamp)

    @staticmethod
    def _replay_control(hosted: HostedShard[S], record: Record, producer_id: int) -> None:
        marker = read_end_transaction_marker(record)
        if marker is not None:
            hosted.shard.replay_marker(producer_id, is_commit=marker.type is ControlRecordType.COMMIT)


def _read(log: Log, offset: int) -> bytes:
    """A slice of whole batches from the one that holds ``offset``."""
    records = log.read(offset, READ_SIZE, end_offset=log.log_end_offset, at_least_one=True)
    data = records if isinstance(records, bytes) else records.to_bytes()
    if not data:
        raise RuntimeError(f"{log.partition} has no batch at {offset} although it ends at {log.log_end_offset}")
    return data
