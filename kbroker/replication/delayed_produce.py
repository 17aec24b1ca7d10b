"""A produce that waits: with acks=all until its records are committed, else until they are flushed.

With one in-sync replica and without ``flush.messages`` nothing ever waits here: the high watermark passes an append at
once. Follows Kafka's ``DelayedProduce``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from kbroker.host import Timer
    from kbroker.replication.partition import Partition
    from kbroker.replication.replicas import ReplicaManager


class DelayedProduce:
    """The answer that waits, and its slots that are not settled yet, by partition."""

    __slots__ = ("_timer", "_waiting", "future", "response")

    def __init__(self, replicas: ReplicaManager, response: ProduceResponse, timeout_ms: int | None) -> None:
        """``timeout_ms`` of None waits as long as it takes: an fsync, in Kafka, holds the whole request."""
        self.response = response
        self.future: asyncio.Future[ProduceResponse] = replicas.loop.create_future()
        self._waiting: dict[Partition, ProduceResponse.PartitionProduceResponse] = {}
        self._timer: Timer | None = None
        if timeout_ms is not None:
            self._timer = replicas.clock.call_later(max(0, timeout_ms), self._expire)

    def wait_for(
        self, partition: Partition, required_offset: int, slot: ProduceResponse.PartitionProduceResponse
    ) -> None:
        """Hold the answer until ``partition`` has committed everything before ``required_offset``."""
        self._waiting[partition] = slot
        partition.park_produce(required_offset, self)

    def wait_for_flush(
        self, partition: Partition, required_offset: int, slot: ProduceResponse.PartitionProduceResponse
    ) -> None:
        """Hold the answer until ``partition`` has everything before ``required_offset`` on stable storage."""
        self._waiting[partition] = slot
        partition.park_until_flushed(required_offset, self)

    def settle(self, partition: Partition, code: ErrorCode) -> None:
        """A partition has committed (NONE), or never will: its slot gets the code."""
        slot = self._waiting.pop(partition, None)
        if slot is None:
            return
        slot.error_code = code
        if not self._waiting:
            if self._timer is not None:
                self._timer.cancel()
            self._answer()

    def _expire(self) -> None:
        for slot in self._waiting.values():
            slot.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._waiting.clear()
        self._answer()

    def _answer(self) -> None:
        if not self.future.done():
            self.future.set_result(self.response)
