"""Requests about offsets: who may commit, what is answered. Topics exist: the handler saw to that.

Order and codes are those of Kafka's ``OffsetMetadataManager`` and ``ClassicGroup.validateOffsetCommit``. A commit by
somebody outside of any group (generation below 0) makes a group of no type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbroker.config.java_maps import in_timeline_order
from kbroker.groups.classic_group import ClassicGroup, GroupState
from kbroker.groups.membership import Client
from kbroker.groups.offsets import NO_TIMESTAMP, CommittedOffset, Offsets, commit, is_too_long
from kbroker.groups.rebalance import Rebalances, Records
from kbroker.protocol.coordinator_record import Decision, Now, Stamp
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kbroker.types import ZERO_UUID

GROUP_NOT_FOUND_SINCE = 9
"""The version of OffsetCommit from which a member's commit to a missing group says so."""

TXN_GROUP_NOT_FOUND_SINCE = 6
"""The same of TxnOffsetCommit."""

_Fetched = OffsetFetchResponse.OffsetFetchResponsePartitions
_FetchedTopic = OffsetFetchResponse.OffsetFetchResponseTopics
_FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup


class OffsetRequests:
    """Owner: the shard."""

    def __init__(self, rebalances: Rebalances, offsets: Offsets) -> None:
        self._rebalances = rebalances
        self._offsets = offsets

    # --- OffsetCommit

    def commit(self, client: Client, request: OffsetCommitRequest, now: Now) -> Decision[OffsetCommitResponse]:
        """Write offsets. Raises ``ApiError`` for the whole request."""
        generation = request.generation_id_or_member_epoch
        group = self._rebalances.groups.get(request.group_id)
        if group is None:
            if generation >= 0:
                if client.api_version >= GROUP_NOT_FOUND_SINCE:
                    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
            self._make_simple(request.group_id, now)
        else:
            _check_commit(group, request.member_id, request.group_instance_id, generation, is_transactional=False)
            if group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
                self._rebalances.renew_session(group, group.members[request.member_id], now)
        expire_ms = NO_TIMESTAMP
        if request.retention_time_ms != -1:
            expire_ms = _sum_of_longs(now.wall_ms, request.retention_time_ms)
        response = OffsetCommitResponse()
        records = self._write(
            request,
            response.topics,
            OffsetCommitResponse.OffsetCommitResponseTopic,
            OffsetCommitResponse.OffsetCommitResponsePartition,
            lambda each: now.wall_ms if each.commit_timestamp == NO_TIMESTAMP else each.commit_timestamp,
            expire_ms,
        )
        return Decision(response, records)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int, now: Now
    ) -> Decision[TxnOffsetCommitResponse]:
        """Write offsets that count once the producer's transaction commits. Raises ``ApiError`` for the whole."""
        group = self._rebalances.groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if group is not None:
            _check_commit(group, request.member_id, request.group_instance_id, generation, is_transactional=True)
        elif generation >= 0:
            if api_version >= TXN_GROUP_NOT_FOUND_SINCE:
                raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        else:
            self._make_simple(request.group_id, now)
        response = TxnOffsetCommitResponse()
        records = self._write(
            request,
            response.topics,
            TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic,
            TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition,
            lambda _each: now.wall_ms,
        )
        return Decision(response, records, stamp=Stamp(request.producer_id, request.producer_epoch))

    def _write(
        self,
        request: OffsetCommitRequest | TxnOffsetCommitRequest,
        answers: list[Any],
        topic_answer: Callable[..., Any],
        slot: Callable[..., Any],
        commit_ms: Callable[[Any], int],
        expire_ms: int = NO_TIMESTAMP,
    ) -> Records:
        """The records of a commit; ``answers`` says of each partition whether its metadata are short enough.

        ``commit_ms`` tells when a partition's offset was committed.
        """
        limit = self._rebalances.settings.offset_metadata_max
        records: Records = []
        for topic in request.topics:
            answer = topic_answer(name=topic.name, topic_id=topic.topic_id, partitions=[])
            answers.append(answer)
            for each in topic.partitions:
                code = ErrorCode.NONE
                if is_too_long(each.committed_metadata, limit):
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    records.append(
                        commit(
                            request.group_id,
                            topic.name,
                            topic.topic_id,
                            each.partition_index,
                            each.committed_offset,
                            each.committed_leader_epoch,
                            each.committed_metadata,
                            commit_ms(each),
                            expire_ms,
                        )
                    )
                answer.partitions.append(slot(partition_index=each.partition_index, error_code=code))
        return records

    def _make_simple(self, group_id: str, now: Now) -> None:
        """A group without members is there with its first commit, even one that is refused partition by partition."""
        self._rebalances.groups[group_id] = ClassicGroup(group_id, now.wall_ms)
        self._rebalances.unwritten.add(group_id)

    # --- OffsetFetch

    def fetch(self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool) -> _FetchedGroup:
        """What a group committed: for the partitions asked for, or for all when topics are null."""
        group_id = request.group_id
        topics: list[_FetchedTopic] = []
        if request.topics is None:
            known = self._offsets.committed.by_group.get(group_id, {}) if group_id in self._rebalances.groups else {}
            for name in in_timeline_order(known):
                topic, partitions = _FetchedTopic(name=name), known[name]
                for index in in_timeline_order(partitions):
                    committed = partitions[index]
                    topic.partitions.append(self._fetched(group_id, name, index, committed, require_stable))
                    topic.topic_id = committed.topic_id
                topics.append(topic)
        else:
            for wanted in request.topics:
                topic = _FetchedTopic(name=wanted.name, topic_id=wanted.topic_id)
                for index in wanted.partition_indexes:
                    found = self._offsets.committed.get(group_id, wanted.name, index)
                    if found is not None and _is_of_another_topic(found, wanted.topic_id):
                        found = None
                    topic.partitions.append(self._fetched(group_id, wanted.name, index, found, require_stable))
                topics.append(topic)
        return _FetchedGroup(group_id=group_id, topics=topics)

    def _fetched(
        self, group_id: str, topic: str, index: int, committed: CommittedOffset | None, require_stable: bool
    ) -> _Fetched:
        if require_stable and self._offsets.is_pending(group_id, topic, index):
            return _Fetched(partition_index=index, committed_offset=-1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if committed is None:
            return _Fetched(partition_index=index, committed_offset=-1)
        return _Fetched(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )

    # --- OffsetDelete

    def delete(self, request: OffsetDeleteRequest, _now: Now) -> Decision[OffsetDeleteResponse]:
        """Delete offsets of topics that nobody in the group reads. Raises ``ApiError`` for the whole request."""
        group = self._rebalances.groups.get(request.group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        if group.state is not GroupState.EMPTY and not group.is_consumer_group:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group has members, and their topics are not known here.")
        response = OffsetDeleteResponse()
        records: Records = []
        for topic in request.topics:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(topic.name) else ErrorCode.NONE
            slots: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = []
            response.topics.append(OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name, partitions=slots))
            for each in topic.partitions:
                slots.append(
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(
                        partition_index=each.partition_index, error_code=code
                    )
                )
                if code is ErrorCode.NONE:
                    records += self._offsets.deletion(request.group_id, topic.name, each.partition_index)
        return Decision(response, records)


def _check_commit(
    group: ClassicGroup, member_id: str, group_instance_id: str | None, generation: int, *, is_transactional: bool
) -> None:
    """Whether a commit may be. Raises ``ApiError``."""
    if generation < 0 and group.state is GroupState.EMPTY:
        return  # an administrator, or a consumer that assigned itself its partitions
    if generation >= 0 or member_id or group_instance_id is not None:
        group.check_member(member_id, group_instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    elif not is_transactional:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, "The group has members: only they may commit.")
    if not is_transactional and group.state is GroupState.COMPLETING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)


def _sum_of_longs(first: int, second: int) -> int:
    """As Java adds: a retention time to the end of the numbers ends in the past."""
    return (first + second + (1 << 63)) % (1 << 64) - (1 << 63)


def _is_of_another_topic(committed: CommittedOffset, topic_id: bytes) -> bool:
    """The topic was deleted and made again since the commit."""
    return ZERO_UUID not in (topic_id, committed.topic_id) and topic_id != committed.topic_id
