"""OffsetForLeaderEpoch: where epochs end."""

from __future__ import annotations

import pytest

from kbroker.handlers import offset_for_leader_epoch
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from tests.unit.replication.one_node import OneNode


def request(epoch: int, *, partition: int = 0, current: int = -1) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic="t",
                partitions=[
                    OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                        partition=partition, leader_epoch=epoch, current_leader_epoch=current
                    )
                ],
            )
        ]
    )


def ask(node: OneNode, asked: OffsetForLeaderEpochRequest) -> tuple[int, int, int]:
    """Code, epoch and end offset."""
    response = offset_for_leader_epoch.handle(node.context(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4), asked)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_answered(node: OneNode, version: int) -> None:
    node.create("t")
    asked = decode(OffsetForLeaderEpochRequest, version, encode(request(0), version))
    response = offset_for_leader_epoch.handle(node.context(ApiKey.OFFSET_FOR_LEADER_EPOCH, version), asked)
    response = decode(OffsetForLeaderEpochResponse, version, encode(response, version))
    assert response.topics[0].partitions[0].end_offset == 0


def test_the_current_epoch_ends_at_the_end_of_the_log(node: OneNode) -> None:
    node.create("t")
    assert ask(node, request(0)) == (0, 0, 0)
    node.append("t", count=3)
    assert ask(node, request(0)) == (0, 0, 3)
    assert ask(node, request(1)) == (0, -1, -1)
    assert ask(node, request(-1)) == (0, -1, -1)


def test_what_is_not_here_is_refused(node: OneNode) -> None:
    node.create("t")
    assert ask(node, request(0, partition=5)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert ask(node, request(0, current=4)) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)


def test_an_error_of_the_whole_request_is_told_for_each_partition(node: OneNode) -> None:
    response = offset_for_leader_epoch.error_response(
        node.context(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4), request(0), ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    )
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
