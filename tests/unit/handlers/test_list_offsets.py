"""ListOffsets: every special timestamp, versions, isolation, epochs."""

from __future__ import annotations

import pytest

from kbroker.handlers import list_offsets
from kbroker.handlers.list_offsets import (
    CONSUMER,
    DEBUGGING_REPLICA,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from kbroker.log.lookup import EARLIEST, LATEST
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from tests.unit.replication.one_node import OneNode, batch

T0 = 1_750_000_000_000


def request(
    *timestamps: int, replica_id: int = CONSUMER, isolation_level: int = 0, epoch: int = -1
) -> ListOffsetsRequest:
    """One partition for each timestamp."""
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name="t",
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(
                        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
                    )
                    for index, timestamp in enumerate(timestamps)
                ],
            )
        ],
    )


def ask(node: OneNode, asked: ListOffsetsRequest, version: int = 11) -> ListOffsetsResponse:
    return list_offsets.handle(node.context(ApiKey.LIST_OFFSETS, version), asked)


def one(node: OneNode, asked: ListOffsetsRequest, version: int = 11) -> tuple[int, int, int, int]:
    """Code, offset, timestamp and leader epoch of the first partition."""
    answer = ask(node, asked, version).topics[0].partitions[0]
    return answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch


def filled(node: OneNode) -> None:
    node.create("t")
    for timestamp in (T0 + 10, T0 + 50, T0 + 30):
        node.partition("t").append_as_leader(batch(count=2, timestamp=timestamp), 1, T0)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_is_answered(node: OneNode, version: int) -> None:
    filled(node)
    asked = request(LATEST)
    asked = decode(ListOffsetsRequest, version, encode(asked, version))
    response = decode(ListOffsetsResponse, version, encode(ask(node, asked, version), version))
    answer = response.topics[0].partitions[0]
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, 6, -1)
    assert answer.leader_epoch == (0 if version >= 4 else -1)


@pytest.mark.parametrize("timestamp", [EARLIEST, EARLIEST_LOCAL, LATEST])
def test_an_empty_partition_begins_and_ends_at_zero(node: OneNode, timestamp: int) -> None:
    node.create("t")
    assert one(node, request(timestamp)) == (0, 0, -1, 0)


@pytest.mark.parametrize("timestamp", [MAX_TIMESTAMP, T0])
def test_an_empty_partition_has_no_times(node: OneNode, timestamp: int) -> None:
    node.create("t")
    assert one(node, request(timestamp)) == (0, -1, -1, -1)


@pytest.mark.parametrize("timestamp", [LATEST_TIERED, EARLIEST_PENDING_UPLOAD])
def test_there_is_no_remote_storage(node: OneNode, timestamp: int) -> None:
    filled(node)
    assert one(node, request(timestamp)) == (0, -1, -1, -1)


def test_the_first_record_at_or_after_a_time_is_found(node: OneNode) -> None:
    filled(node)
    assert one(node, request(0)) == (0, 0, T0 + 10, 0)
    assert one(node, request(T0 + 11)) == (0, 1, T0 + 11, 0)
    assert one(node, request(T0 + 12)) == (0, 2, T0 + 50, 0)
    assert one(node, request(T0 + 52)) == (0, -1, -1, -1)


def test_the_largest_time_is_found(node: OneNode) -> None:
    filled(node)
    assert one(node, request(MAX_TIMESTAMP)) == (0, 3, T0 + 51, 0)


@pytest.mark.parametrize(
    ("timestamp", "since"), [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)]
)
def test_a_special_timestamp_before_its_version_is_refused(node: OneNode, timestamp: int, since: int) -> None:
    filled(node)
    assert one(node, request(timestamp), since - 1) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)
    assert one(node, request(timestamp), since)[0] == 0


def test_a_special_timestamp_nobody_knows_is_refused(node: OneNode) -> None:
    filled(node)
    assert one(node, request(-7))[0] == ErrorCode.UNSUPPORTED_VERSION


def test_consumers_see_what_is_committed_and_others_all(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    node.append("t", count=5)
    node.partition("t").on_follower_fetch(2, 3)
    assert one(node, request(LATEST))[1] == 3
    assert one(node, request(LATEST, replica_id=DEBUGGING_REPLICA))[1] == 5
    assert one(node, request(LATEST, replica_id=2))[1] == 5


def test_read_committed_ends_at_the_first_open_transaction(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    opened = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True, timestamp=T0 + 99)
    node.partition("t").append_as_leader(opened, 1, T0)
    assert one(node, request(LATEST, isolation_level=1))[1] == 1
    assert one(node, request(LATEST))[1] == 2
    assert one(node, request(T0 + 99, isolation_level=1))[1] == -1
    assert one(node, request(T0 + 99))[1] == 1


def test_a_partition_asked_for_twice_is_refused_once(node: OneNode) -> None:
    node.create("t")
    asked = request(LATEST)
    asked.topics.append(asked.topics[0])
    response = ask(node, asked)
    assert [[answer.error_code for answer in topic.partitions] for topic in response.topics] == [
        [ErrorCode.INVALID_REQUEST]
    ]


def test_unknown_partitions_and_wrong_epochs_are_refused(node: OneNode) -> None:
    node.create("t")
    response = ask(node, request(LATEST, LATEST))
    codes = {answer.partition_index: answer.error_code for answer in response.topics[0].partitions}
    assert codes == {0: 0, 1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert one(node, request(LATEST, epoch=3))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_follower_answers_the_debugging_replica_only(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    node.change("t", leader=2)
    assert one(node, request(LATEST))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert one(node, request(LATEST, replica_id=DEBUGGING_REPLICA))[0] == 0


def test_a_new_leader_does_not_know_the_latest_offset_until_its_epoch_is_committed(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    node.append("t", count=2)
    node.change("t", leader=2)
    node.change("t", leader=1)
    assert one(node, request(LATEST))[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert one(node, request(LATEST), 4)[0] == ErrorCode.LEADER_NOT_AVAILABLE
    assert one(node, request(EARLIEST))[0] == 0
    node.partition("t").on_follower_fetch(2, 2)
    assert one(node, request(LATEST))[:2] == (0, 2)


def test_nobody_is_answered_from_a_failed_log(node: OneNode) -> None:
    filled(node)
    log = node.partition("t").log
    assert log is not None
    with pytest.raises(ApiError):
        log.fail(OSError("gone"))
    for replica_id in (CONSUMER, DEBUGGING_REPLICA):
        assert one(node, request(LATEST, replica_id=replica_id))[0] == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_wrong_isolation_level_fails_the_request(node: OneNode) -> None:
    node.create("t")
    asked = request(LATEST, isolation_level=4)
    with pytest.raises(ApiError) as raised:
        ask(node, asked)
    response = list_offsets.error_response(node.context(ApiKey.LIST_OFFSETS, 11), asked, raised.value)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# --- version 0


def old_style(node: OneNode, timestamp: int, count: int = 10, replica_id: int = CONSUMER) -> tuple[int, list[int]]:
    """Code and offsets of the first partition."""
    asked = request(timestamp, replica_id=replica_id)
    asked.topics[0].partitions[0].max_num_offsets = count
    answer = ask(node, decode(ListOffsetsRequest, 0, encode(asked, 0)), 0)
    partition = decode(ListOffsetsResponse, 0, encode(answer, 0)).topics[0].partitions[0]
    return partition.error_code, partition.old_style_offsets


def test_version_0_lists_where_segments_begin_newest_first(node: OneNode) -> None:
    node.create("t", configs={"segment.bytes": "1048576"})
    now = node.host.clock.wall_ms()
    for age_ms in (3000, 2000, 1000):
        node.partition("t").append_as_leader(batch(size=700_000, timestamp=now - age_ms), 1, now)
    assert old_style(node, LATEST) == (0, [3, 2, 1, 0])
    assert old_style(node, LATEST, 2) == (0, [3, 2])
    assert old_style(node, LATEST, 0) == (0, [])
    assert old_style(node, EARLIEST) == (0, [0])
    assert old_style(node, now - 1500) == (0, [1, 0])
    assert old_style(node, now - 3001) == (0, [])


def test_version_0_of_an_empty_log(node: OneNode) -> None:
    node.create("t")
    now = node.host.clock.wall_ms()
    assert old_style(node, LATEST) == old_style(node, EARLIEST) == old_style(node, now) == (0, [0])
    assert old_style(node, now - 1) == (0, [])


def test_version_0_shows_consumers_nothing_past_the_high_watermark(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    node.append("t", count=3)
    assert old_style(node, LATEST) == (0, [0, 0])
    assert old_style(node, LATEST, replica_id=2) == (0, [3, 0])
    assert old_style(node, LATEST, replica_id=DEBUGGING_REPLICA) == (0, [3, 0])


def test_version_0_refuses_what_it_cannot_answer(node: OneNode) -> None:
    assert old_style(node, LATEST)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.create("t")
    assert old_style(node, MAX_TIMESTAMP)[0] == ErrorCode.UNSUPPORTED_VERSION
    assert old_style(node, LATEST, -1)[0] == ErrorCode.UNKNOWN_SERVER_ERROR
