"""The group coordinator of one node: which shard a group belongs to, and what the metadata image means for shards.

Groups live in ``__consumer_offsets``; each of its partitions that this node leads is a ``GroupShard``. This module
follows the image (elections, deleted topics, configuration), finds the shard for a request and gives it the request.
Rules of groups are in ``kbroker.groups``, which is imported with the first shard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from random import Random
from typing import TYPE_CHECKING

from kbroker.config.java_maps import in_map_order, partitions_in_map_order
from kbroker.coordinator.runtime import CoordinatorRuntime
from kbroker.groups.settings import GroupSettings
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.record_codec import GROUP
from kbroker.protocol.records.compression import Compression
from kbroker.replies import Reply, then, together, unless_refused
from kbroker.types import GROUP_METADATA_TOPIC, ZERO_UUID, Uuid

if TYPE_CHECKING:
    from kbroker.config import BrokerConfig
    from kbroker.coordinator.hosted_shard import HostedShard
    from kbroker.groups.history import Rebalance
    from kbroker.groups.membership import Client
    from kbroker.groups.shard import GroupShard
    from kbroker.host import Clock
    from kbroker.kraft.image import MetadataDelta, MetadataImage
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


class GroupCoordinator:
    """Owner: the node. What ``config`` says of groups holds until the next start: none of it can be altered before."""

    def __init__(
        self,
        replicas: ReplicaManager,
        config: BrokerConfig,
        clock: Clock,
        chance: Random,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._chance = chance
        self._settings = GroupSettings.of(config)
        self._runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            GROUP_METADATA_TOPIC,
            GROUP,
            replicas,
            clock,
            loop,
            lambda: config.integer("offsets.topic.num.partitions"),
            self._new_shard,
            on_loaded=self._loaded,
            base_sequence=0,
        )
        self._image: MetadataImage | None = None
        self._is_stopped = False
        self._runtime.context.commit_timeout_ms = config.integer("offsets.commit.timeout.ms")
        self._runtime.context.compression = Compression(config.integer("offsets.topic.compression.codec"))

    # --- following the image; subscribed after the replicas

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Elections of this node, deleted topics."""
        if self._is_stopped:
            return
        self._image = image
        self._runtime.on_metadata(delta, image)
        names = {deleted.name: None for deleted in delta.deleted_topics.values()}
        if names:
            for hosted in self._runtime.active():
                self._drop_offsets(hosted, lambda topic: None if topic in names else ZERO_UUID)

    def _new_shard(self) -> GroupShard:
        from kbroker.groups.shard import GroupShard  # with the first shard: many a broker never sees a group

        return GroupShard(self._settings, self._chance)

    def _loaded(self, hosted: HostedShard[GroupShard]) -> None:
        """Topics may have gone while nobody led the shard."""
        self._drop_offsets(hosted, self._topic_id)

    def _topic_id(self, topic: str) -> Uuid | None:
        known = None if self._image is None else self._image.topics.by_name.get(topic)
        return None if known is None else known.id

    @staticmethod
    def _drop_offsets(hosted: HostedShard[GroupShard], wanted_id: Callable[[str], Uuid | None]) -> None:
        try:
            hosted.perform(lambda shard, _now: shard.topics_deleted(wanted_id), parks=False)
        except ApiError as error:
            logger.warning("%s: offsets of deleted topics stay: %s", hosted.partition.name, error)

    # --- life

    async def finish_loading(self) -> None:
        """Return when every shard that this node leads answers."""
        await self._runtime.finish_loading()

    async def stop(self) -> None:
        """Answer those who wait, and coordinate nothing any more."""
        self._is_stopped = True
        await self._runtime.stop()

    def partition_of(self, group_id: str) -> int:
        """The partition of the topic that holds a group, or will hold it once the topic is made."""
        return self._runtime.partition_of(group_id)

    # --- members

    def join(self, client: Client, request: JoinGroupRequest) -> Reply[JoinGroupResponse]:
        """What is wrong whoever coordinates the group is said first, to the member id that came."""
        from kbroker.groups.membership import refused  # its handler knows it, a broker without groups does not

        settings = self._settings
        if not request.group_id:
            return refused(ErrorCode.INVALID_GROUP_ID, request.member_id)
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            return refused(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        return self._runtime.run(request.group_id, lambda shard, now: shard.membership.join(client, request, now))

    def sync(self, request: SyncGroupRequest) -> Reply[SyncGroupResponse]:
        _check_group_id(request.group_id)
        return self._runtime.run(request.group_id, lambda shard, now: shard.protocol.sync(request, now))

    def heartbeat(self, request: HeartbeatRequest) -> Reply[HeartbeatResponse]:
        _check_group_id(request.group_id)
        try:
            return self._runtime.run(
                request.group_id, lambda shard, now: shard.protocol.heartbeat(request, now), parks=False
            )
        except ApiError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                from kbroker.protocol.messages.heartbeat import HeartbeatResponse

                return HeartbeatResponse()  # the member's session begins when the group is loaded
            raise

    def leave(self, request: LeaveGroupRequest) -> Reply[LeaveGroupResponse]:
        _check_group_id(request.group_id)
        return self._runtime.run(request.group_id, lambda shard, now: shard.membership.leave(request, now))

    # --- offsets

    def commit(self, client: Client, request: OffsetCommitRequest) -> Reply[OffsetCommitResponse]:
        return self._runtime.run(
            request.group_id, lambda shard, now: shard.offset_requests.commit(client, request, now)
        )

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> Reply[TxnOffsetCommitResponse]:
        _check_group_id(request.group_id)
        return self._runtime.run(
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
        return self._runtime.at(index).end_transaction(
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
            request.group_id,
            lambda shard: shard.offset_requests.fetch(request, require_stable=require_stable),
        )

    def delete_offsets(self, request: OffsetDeleteRequest) -> Reply[OffsetDeleteResponse]:
        _check_group_id(request.group_id)
        return self._runtime.run(request.group_id, lambda shard, now: shard.offset_requests.delete(request, now))

    # --- groups as a whole

    def list_groups(self, states: list[str], types: list[str]) -> Reply[list[ListGroupsResponse.ListedGroup]]:
        """Groups of all shards here; written ones that are not committed yet are waited for. Raises ``ApiError``."""
        wanted_states = {state.strip().lower(): None for state in states}
        wanted_types = {kind.strip().lower(): None for kind in types}
        return self._runtime.query_all(
            lambda shard: shard.list_groups(wanted_states, wanted_types),
            lambda indexes: _in_map_order(sorted(indexes)),
        )

    def describe(self, group_id: str, api_version: int) -> Reply[DescribeGroupsResponse.DescribedGroup]:
        return self._runtime.query(group_id, lambda shard: shard.describe(group_id, api_version))

    def delete_groups(self, group_ids: list[str]) -> Reply[list[DeleteGroupsResponse.DeletableGroupResult]]:
        """Each group is deleted or told why not, in the order in which Kafka does it."""
        by_partition = self._by_partition(dict.fromkeys(group_ids))
        deleted = together([self._delete(index, in_map_order(asked)) for index, asked in by_partition.items()])
        return then(deleted, lambda results: list(chain.from_iterable(results)))

    def _delete(self, index: int, group_ids: list[str]) -> Reply[list[DeleteGroupsResponse.DeletableGroupResult]]:
        """Delete groups of one shard, or tell each why it cannot be asked."""
        from kbroker.protocol.messages.delete_groups import DeleteGroupsResponse

        return unless_refused(
            lambda: self._runtime.at(index).perform(lambda shard, _now: shard.delete_groups(group_ids)),
            lambda error: [
                DeleteGroupsResponse.DeletableGroupResult(
                    group_id=each, error_code=error.code, error_message=error.message
                )
                for each in group_ids
            ],
        )

    def in_order_of_answers(self, group_ids: list[str]) -> list[str]:
        """The order in which Kafka describes many groups: partition by partition."""
        return [group_id for ids in self._by_partition(group_ids).values() for group_id in ids]

    def _by_partition(self, group_ids: Iterable[str]) -> dict[int, list[str]]:
        """Groups by their partitions, which are in the order of Kafka's map: what comes later is put before."""
        groups: dict[int, list[str]] = {}
        for group_id in group_ids:
            groups.setdefault(self._runtime.partition_of(group_id), []).append(group_id)
        return {index: groups[index] for index in _in_map_order(list(groups)[::-1])}

    def history(self, group_id: str) -> list[Rebalance]:
        """Why the group's latest rebalances began, oldest first. Raises ``ApiError``."""
        return self._runtime.of(group_id).shard.history(group_id)


def _in_map_order(indexes: Iterable[int]) -> list[int]:
    """Partitions of the topic as a Java map gives them out."""
    return [index for _, index in partitions_in_map_order([(GROUP_METADATA_TOPIC, index) for index in indexes])]


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
