"""The group coordinator of one node: which shard a group belongs to, and what the metadata image means for shards.

Groups live in ``__consumer_offsets``; each of its partitions that this node leads is a ``GroupShard``. This module
follows the image (elections, deleted topics, configuration), finds the shard for a request and gives it the request.
Rules of groups are in ``kbroker.groups``, which is imported with the first shard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kbroker.config.java_maps import in_map_order, partitions_in_map_order
from kbroker.coordinator.loading import Loader
from kbroker.coordinator.runtime import CoordinatorRuntime, HostedShard, partition_of
from kbroker.groups.settings import GroupSettings
from kbroker.kraft.image import RESOURCE_BROKER
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.record_codec import GROUP
from kbroker.protocol.records.compression import Compression
from kbroker.types import GROUP_METADATA_TOPIC, ZERO_UUID

if TYPE_CHECKING:
    from kbroker.config import BrokerConfig
    from kbroker.groups.history import Rebalance
    from kbroker.groups.membership import Client
    from kbroker.groups.offsets import CommittedOffset
    from kbroker.groups.shard import GroupShard
    from kbroker.host import Clock
    from kbroker.kraft.image import MetadataDelta, MetadataImage, PartitionImage
    from kbroker.protocol.coordinator_record import Decision, Now
    from kbroker.protocol.messages.delete_groups import DeleteGroupsResponse
    from kbroker.protocol.messages.describe_groups import DescribeGroupsResponse
    from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
    from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from kbroker.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from kbroker.protocol.messages.list_groups import ListGroupsResponse
    from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
    from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
    from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
    from kbroker.replication.replicas import ReplicaManager

logger = logging.getLogger(__name__)

T = TypeVar("T")
Reply: TypeAlias = T | Awaitable[T]


class GroupCoordinator:
    """Owner: the node. ``config`` gives the effective configuration of the moment."""

    def __init__(
        self,
        replicas: ReplicaManager,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        chance: Random,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._replicas = replicas
        self._config = config
        self._chance = chance
        self._settings = GroupSettings.of(config())
        self._runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(clock, loop, self._new_shard)
        self._loader = Loader(self._runtime, GROUP, self._loaded)
        self._image: MetadataImage | None = None
        self._partition_count = 0
        self._is_stopped = False
        self._adopt_config()

    # --- following the image; subscribed after the replicas

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Elections of this node, deleted topics, changed configuration."""
        if self._is_stopped:
            return
        self._image = image
        if any(kind == RESOURCE_BROKER for kind, _ in delta.changed_configs):
            self._adopt_config()
        topic = image.topics.by_name.get(GROUP_METADATA_TOPIC)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        for deleted in delta.deleted_topics.values():
            if deleted.name == GROUP_METADATA_TOPIC:
                self._runtime.stop()
        if topic is not None and topic.id in delta.changed_partitions:
            self._follow(delta.changed_partitions[topic.id])
        names = {deleted.name: None for deleted in delta.deleted_topics.values()}
        if names:
            for hosted in self._runtime.all():
                if hosted.is_active:
                    self._drop_offsets(hosted, lambda topic, _committed: topic in names)

    def _follow(self, partitions: Mapping[int, PartitionImage]) -> None:
        self._loader.begin_turn()
        for index in sorted(partitions):
            partition = self._replicas.get(GROUP_METADATA_TOPIC, index)
            if partition is None or not partition.is_leader:
                self._runtime.resign(index)
                continue
            hosted = self._runtime.hosted(index)
            if hosted is None or hosted.partition is not partition:
                self._runtime.resign(index)
                self._loader.load(self._runtime.host(partition))

    def _adopt_config(self) -> None:
        config = self._config()
        self._settings = GroupSettings.of(config)
        self._runtime.commit_timeout_ms = config.integer("offsets.commit.timeout.ms")
        self._runtime.compression = Compression(config.integer("offsets.topic.compression.codec"))
        for hosted in self._runtime.all():
            hosted.shard.settings = self._settings

    def _new_shard(self) -> GroupShard:
        from kbroker.groups.shard import GroupShard  # with the first shard: many a broker never sees a group

        return GroupShard(self._settings, self._chance)

    def _loaded(self, hosted: HostedShard[GroupShard]) -> None:
        """Topics may have gone while nobody led the shard."""
        self._drop_offsets(hosted, self._is_gone)

    def _is_gone(self, topic: str, committed: CommittedOffset) -> bool:
        known = None if self._image is None else self._image.topics.by_name.get(topic)
        return known is None or committed.topic_id not in (ZERO_UUID, known.id)

    @staticmethod
    def _drop_offsets(hosted: HostedShard[GroupShard], is_gone: Callable[[str, CommittedOffset], bool]) -> None:
        try:
            hosted.perform(lambda shard, _now: shard.topics_deleted(is_gone), parks=False)
        except ApiError as error:
            logger.warning("%s: offsets of deleted topics stay: %s", hosted.partition.name, error)

    # --- life

    async def finish_loading(self) -> None:
        """Return when every shard that this node leads answers."""
        await self._loader.finish()

    async def stop(self) -> None:
        """Answer those who wait, and coordinate nothing any more."""
        self._is_stopped = True
        self._runtime.stop()
        await self._loader.stop()

    # --- members

    def join(self, client: Client, request: JoinGroupRequest) -> Reply[JoinGroupResponse]:
        _check_group_id(request.group_id)
        return self._run(request.group_id, lambda shard, now: shard.membership.join(client, request, now))

    def sync(self, request: SyncGroupRequest) -> Reply[SyncGroupResponse]:
        _check_group_id(request.group_id)
        return self._run(request.group_id, lambda shard, now: shard.protocol.sync(request, now))

    def heartbeat(self, request: HeartbeatRequest) -> Reply[HeartbeatResponse]:
        _check_group_id(request.group_id)
        try:
            return self._run(request.group_id, lambda shard, now: shard.protocol.heartbeat(request, now), parks=False)
        except ApiError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                from kbroker.protocol.messages.heartbeat import HeartbeatResponse

                return HeartbeatResponse()  # the member's session begins when the group is loaded
            raise

    def leave(self, request: LeaveGroupRequest) -> Reply[LeaveGroupResponse]:
        _check_group_id(request.group_id)
        return self._run(request.group_id, lambda shard, now: shard.membership.leave(request, now))

    # --- offsets

    def commit(self, client: Client, request: OffsetCommitRequest) -> Reply[OffsetCommitResponse]:
        return self._run(request.group_id, lambda shard, now: shard.offset_requests.commit(client, request, now))

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> Reply[TxnOffsetCommitResponse]:
        _check_group_id(request.group_id)
        return self._run(
            request.group_id, lambda shard, now: shard.offset_requests.commit_in_transaction(request, api_version, now)
        )

    def end_transaction(
        self,
        index: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        *,
        is_commit: bool,
        transaction_version: int,
    ) -> Awaitable[None] | None:
        """Write a transaction's marker into a partition of ``__consumer_offsets``. Raises ``ApiError``."""
        return self._runtime.active(index).end_transaction(
            producer_id,
            producer_epoch,
            coordinator_epoch,
            is_commit=is_commit,
            transaction_version=transaction_version,
        )

    def fetch_offsets(
        self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Reply[OffsetFetchResponse.OffsetFetchResponseGroup]:
        return self._runtime.query(
            self._partition_of(request.group_id),
            lambda shard: shard.offset_requests.fetch(request, require_stable=require_stable),
        )

    def delete_offsets(self, request: OffsetDeleteRequest) -> Reply[OffsetDeleteResponse]:
        _check_group_id(request.group_id)
        return self._run(request.group_id, lambda shard, now: shard.offset_requests.delete(request, now))

    # --- groups as a whole

    def list_groups(self, states: list[str], types: list[str]) -> Reply[list[ListGroupsResponse.ListedGroup]]:
        """Groups of all shards here; written ones that are not committed yet are waited for. Raises ``ApiError``."""
        wanted_states = {state.strip().lower(): None for state in states}
        wanted_types = {kind.strip().lower(): None for kind in types}
        groups: list[ListGroupsResponse.ListedGroup] = []
        waiting: list[Awaitable[object]] = []
        by_index = {hosted.partition.name.partition: hosted for hosted in self._runtime.all()}
        for index in partitions_in_map_order(GROUP_METADATA_TOPIC, by_index):
            hosted = by_index[index]
            if not hosted.is_active:
                raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The coordinator reads its log: try again soon.")
            groups += hosted.shard.list_groups(wanted_states, wanted_types)
            parked = hosted.park(None)
            if parked is not None:
                waiting.append(parked)
        return groups if not waiting else _after(waiting, groups)

    def describe(self, group_id: str, api_version: int) -> Reply[DescribeGroupsResponse.DescribedGroup]:
        return self._runtime.query(self._partition_of(group_id), lambda shard: shard.describe(group_id, api_version))

    def delete_groups(self, group_ids: list[str]) -> Reply[list[DeleteGroupsResponse.DeletableGroupResult]]:
        """Each group is deleted or told why not, in the order in which Kafka does it."""
        from kbroker.protocol.messages.delete_groups import DeleteGroupsResponse

        by_partition = self._by_partition(dict.fromkeys(group_ids))
        results: list[DeleteGroupsResponse.DeletableGroupResult] = []
        waiting: list[Awaitable[list[DeleteGroupsResponse.DeletableGroupResult]]] = []
        for index, asked in by_partition.items():
            ids = in_map_order(asked)
            try:
                reply = self._runtime.run(index, lambda shard, _now, ids=ids: shard.delete_groups(ids))  # type: ignore[misc]
            except ApiError as error:
                results += [
                    DeleteGroupsResponse.DeletableGroupResult(
                        group_id=each, error_code=error.code, error_message=error.message
                    )
                    for each in ids
                ]
                continue
            if isinstance(reply, list):
                results += reply
            else:
                waiting.append(reply)
        return results if not waiting else _joined(waiting, results)

    def history(self, group_id: str) -> list[Rebalance]:
        """Why the group's latest rebalances began, oldest first. Raises ``ApiError``."""
        return self._runtime.active(self._partition_of(group_id)).shard.history(group_id)

    # --- finding the shard

    def in_order_of_answers(self, group_ids: list[str]) -> list[str]:
        """The order in which Kafka describes many groups: partition by partition."""
        if self._partition_count == 0:
            return group_ids
        return [group_id for ids in self._by_partition(group_ids).values() for group_id in ids]

    def _by_partition(self, group_ids: Iterable[str]) -> dict[int, list[str]]:
        """Groups by their partitions, which are in the order of Kafka's map: what comes later is put before."""
        groups: dict[int, list[str]] = {}
        for group_id in group_ids:
            groups.setdefault(self._partition_of(group_id), []).append(group_id)
        return {index: groups[index] for index in partitions_in_map_order(GROUP_METADATA_TOPIC, list(groups)[::-1])}

    def _partition_of(self, group_id: str) -> int:
        if self._partition_count == 0:
            raise ApiError(ErrorCode.NOT_COORDINATOR, "Nobody asked for a coordinator yet: find the coordinator first.")
        return partition_of(group_id, self._partition_count)

    def _run(
        self, group_id: str, operation: Callable[[GroupShard, Now], Decision[T]], *, parks: bool = True
    ) -> T | asyncio.Future[T]:
        return self._runtime.run(self._partition_of(group_id), operation, parks=parks)


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")


async def _after(waiting: list[Awaitable[object]], reply: T) -> T:
    for each in waiting:
        await each
    return reply


async def _joined(waiting: list[Awaitable[list[T]]], replies: list[T]) -> list[T]:
    for each in waiting:
        replies += await each
    return replies
