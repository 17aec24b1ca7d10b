"""Markers: how the end of a transaction, once decided, reaches every partition that took part in it.

What has to be written is derived from a shard's replayed state (``TransactionShard.markers``), so that the work goes on
wherever it stopped: after a crash, under a new leader. A marker goes to a partition that this node leads right behind
the answer that the decision gets: whoever has heard that answer finds the transaction ended, because the loop does what
it was told before it reads what has come since. A large transaction is done in slices. A partition that cannot take a
marker now is tried again; one that is gone counts as done. When the last marker is committed the transaction is
complete.

Partitions of other nodes are the inter-broker client's (WriteTxnMarkers); until there is one they are tried again.
Follows Kafka's ``TransactionMarkerChannelManager``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeAlias

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.control import ControlRecordType, EndTransactionMarker, build_end_transaction_marker
from kbroker.protocol.records.validation import AppendOrigin
from kbroker.types import GROUP_METADATA_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kbroker.coordinator.group_coordinator import GroupCoordinator
    from kbroker.coordinator.hosted_shard import HostedShard
    from kbroker.host import Clock, Timer
    from kbroker.replication.partition import Partition
    from kbroker.replication.replicas import ReplicaManager
    from kbroker.txn.shard import Marker, TransactionShard

logger = logging.getLogger(__name__)

SLICE = 100
"""Markers that are written in one turn of the loop: some 5 ms."""
RETRY_MS = 100
ACKS = -1


_Key: TypeAlias = tuple[int, str, TopicPartition]
"""A marker: the shard's partition, the transactional id, where it is written."""


def _key(hosted: HostedShard[TransactionShard], marker: Marker, partition: TopicPartition) -> _Key:
    return hosted.partition.name.partition, marker.transactional_id, partition


class Committed:
    """Resolves a future when a marker is committed. Parked at its partition."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future

    def settle(self, _partition: Partition, code: ErrorCode) -> None:
        if self.future.done():
            return
        if code is ErrorCode.NONE:
            self.future.set_result(None)
        else:
            self.future.set_exception(ApiError(code))


class Markers:
    """Owner: the transaction coordinator."""

    def __init__(
        self, replicas: ReplicaManager, groups: GroupCoordinator, clock: Clock, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._clock = clock
        self._loop = loop
        self._sending = False
        self._retries: dict[int, Timer] = {}
        """Timers of shards (by partition) that have something to try again."""
        self._in_flight: dict[_Key, None] = {}
        """Markers that are written and not committed yet."""
        self._held: dict[_Key, None] = {}
        """Markers that could not be written, until their shard tries again."""
        self._is_over = False

    # --- what a coordinator decided

    def send_soon(self, hosted: HostedShard[TransactionShard]) -> None:
        """Write what the shard's committed state wants written, as soon as what was decided is answered."""
        if hosted.shard.has_markers():
            self._loop.call_soon(self.send, hosted)

    def send(self, hosted: HostedShard[TransactionShard]) -> None:
        """The same, at once."""
        if self._sending or not hosted.shard.has_markers() or self._is_over or hosted.is_over:
            return
        self._sending = True
        try:
            is_done = self._send_slice(hosted)
        finally:
            self._sending = False
        if not is_done:
            self._loop.call_soon(self.send, hosted)

    def send_again(self, hosted: HostedShard[TransactionShard]) -> None:
        """Try at once what had to wait: something has changed."""
        self._release(hosted.partition.name.partition)
        self.send(hosted)

    def _send_slice(self, hosted: HostedShard[TransactionShard]) -> bool:
        left = SLICE
        for marker in hosted.shard.markers():
            if not marker.partitions:
                self._complete(hosted, marker.transactional_id)
            for partition in marker.partitions:
                key = _key(hosted, marker, partition)
                if key in self._in_flight or key in self._held:
                    continue
                if left == 0:
                    return False
                left -= 1
                self._send_one(hosted, marker, partition)
        return True

    def _send_one(self, hosted: HostedShard[TransactionShard], marker: Marker, partition: TopicPartition) -> None:
        try:
            written = self.write(
                partition,
                marker.producer_id,
                marker.producer_epoch,
                hosted.partition.leader_epoch,
                is_commit=marker.is_commit,
                transaction_version=marker.transaction_version,
            )
        except ApiError as error:
            self._failed(hosted, marker, partition, error)
            return
        except Exception:
            logger.exception("The marker of %r for %s could not be written", marker.transactional_id, partition)
            self._hold(hosted, marker, partition)
            return
        if written is None:
            self._marked(hosted, marker.transactional_id, partition)
            return
        self._in_flight[_key(hosted, marker, partition)] = None
        task = asyncio.ensure_future(written, loop=self._loop)
        task.add_done_callback(lambda done: self._arrived(hosted, marker, partition, done))

    def _arrived(
        self,
        hosted: HostedShard[TransactionShard],
        marker: Marker,
        partition: TopicPartition,
        done: asyncio.Future[None],
    ) -> None:
        self._in_flight.pop(_key(hosted, marker, partition), None)
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or hosted.is_over:
            return
        if error is None:
            self._marked(hosted, marker.transactional_id, partition)
        elif isinstance(error, ApiError):
            self._failed(hosted, marker, partition, error)
        else:
            logger.error("The marker of %r for %s failed", marker.transactional_id, partition, exc_info=error)
            self._hold(hosted, marker, partition)

    def _marked(self, hosted: HostedShard[TransactionShard], transactional_id: str, partition: TopicPartition) -> None:
        if hosted.shard.endings.marked(transactional_id, partition):
            self._complete(hosted, transactional_id)

    def _complete(self, hosted: HostedShard[TransactionShard], transactional_id: str) -> None:
        try:
            hosted.perform(lambda shard, now: shard.endings.complete(transactional_id, now), parks=False)
        except ApiError as error:
            logger.warning("The end of %r could not be written: %s", transactional_id, error)
            self._try_again(hosted)

    def _failed(
        self,
        hosted: HostedShard[TransactionShard],
        marker: Marker,
        partition: TopicPartition,
        error: ApiError,
    ) -> None:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not self._replicas.is_known(*partition):
            logger.info("%s is gone: %r needs no marker there.", partition, marker.transactional_id)
            self._marked(hosted, marker.transactional_id, partition)
        elif error.code is ErrorCode.INVALID_PRODUCER_EPOCH and not self._is_open(partition, marker.producer_id):
            # It has been written before, by us in an earlier life.
            self._marked(hosted, marker.transactional_id, partition)
        elif error.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            logger.error("%s has heard of a later coordinator of %r: %s", partition, marker.transactional_id, error)
            self._held[_key(hosted, marker, partition)] = None
        else:
            logger.info("The marker of %r for %s has to wait: %s", marker.transactional_id, partition, error)
            self._hold(hosted, marker, partition)

    def _is_open(self, partition: TopicPartition, producer_id: int) -> bool:
        here = self._replicas.get(*partition)
        if here is None or here.log is None:
            return False
        producer = here.log.active_producers().get(producer_id)
        return producer is not None and producer.txn_first_offset is not None

    def _hold(self, hosted: HostedShard[TransactionShard], marker: Marker, partition: TopicPartition) -> None:
        self._held[_key(hosted, marker, partition)] = None
        self._try_again(hosted)

    def _try_again(self, hosted: HostedShard[TransactionShard]) -> None:
        index = hosted.partition.name.partition
        if index in self._retries or self._is_over:
            return

        def again() -> None:
            self._retries.pop(index, None)
            self._release(index)
            self.send(hosted)

        self._retries[index] = self._clock.call_later(RETRY_MS, again)

    def _release(self, index: int) -> None:
        for key in [key for key in self._held if key[0] == index]:
            del self._held[key]

    def stop(self) -> None:
        """Write no more. What is left is resumed by the next leader."""
        self._is_over = True
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()

    # --- one marker

    def write(
        self,
        name: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        is_commit: bool,
        transaction_version: int,
    ) -> Awaitable[None] | None:
        """Write a marker into a partition that this node leads; something to wait for unless it is committed.

        Raises ``ApiError``.
        """
        if name.topic == GROUP_METADATA_TOPIC:
            if not self._replicas.partition(*name).is_leader:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return self._groups.end_transaction(
                name.partition,
                producer_id,
                producer_epoch,
                coordinator_epoch,
                is_commit=is_commit,
                transaction_version=transaction_version,
            )
        partition = self._replicas.partition(*name)
        now_ms = self._clock.wall_ms()
        batch = build_end_transaction_marker(
            EndTransactionMarker(ControlRecordType.COMMIT if is_commit else ControlRecordType.ABORT, coordinator_epoch),
            timestamp=now_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        info = partition.append_as_leader(
            bytearray(batch),
            ACKS,
            now_ms,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=transaction_version,
        )
        if partition.high_watermark > info.last_offset:
            return None
        committed: asyncio.Future[None] = self._loop.create_future()
        partition.park_produce(info.last_offset + 1, Committed(committed))
        return committed
