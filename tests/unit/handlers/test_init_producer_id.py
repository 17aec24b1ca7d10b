"""InitProducerId without a transactional id, and where its ids come from."""

from __future__ import annotations

import pytest

from kbroker.coordinator.producer_ids import ProducerIds
from kbroker.handlers import init_producer_id
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.unit.replication.one_node import OneNode
from tests.unit.replication.test_partition import refused


def ask(node: OneNode, asked: InitProducerIdRequest, version: int = 5) -> InitProducerIdResponse:
    answer = init_producer_id.handle(node.context(ApiKey.INIT_PRODUCER_ID, version), asked)
    return answer if isinstance(answer, InitProducerIdResponse) else node.wait(answer)


def test_every_call_gets_an_id_of_its_own(node: OneNode) -> None:
    asked = InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=3)
    answers = [ask(node, asked) for _ in range(3)]
    assert [(answer.error_code, answer.producer_id, answer.producer_epoch) for answer in answers] == [
        (0, 1000, 0),
        (0, 1001, 0),
        (0, 1002, 0),
    ]


@pytest.mark.parametrize("version", range(6))
def test_every_version_is_answered(node: OneNode, version: int) -> None:
    asked = decode(InitProducerIdRequest, version, encode(InitProducerIdRequest(transactional_id=None), version))
    answer = decode(InitProducerIdResponse, version, encode(ask(node, asked, version), version))
    assert (answer.producer_id, answer.producer_epoch) == (1000, 0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_an_id_and_its_epoch_come_together(node: OneNode, producer_id: int, epoch: int) -> None:
    with refused(ErrorCode.INVALID_REQUEST):
        ask(node, InitProducerIdRequest(producer_id=producer_id, producer_epoch=epoch))


def test_an_empty_transactional_id_is_refused(node: OneNode) -> None:
    with refused(ErrorCode.INVALID_REQUEST):
        ask(node, InitProducerIdRequest(transactional_id=""))


def test_a_transactional_id_needs_its_coordinator(node: OneNode) -> None:
    asked = InitProducerIdRequest(transactional_id="id")
    with pytest.raises(ApiError) as raised:
        ask(node, asked)
    answer = init_producer_id.error_response(node.context(ApiKey.INIT_PRODUCER_ID, 5), asked, raised.value)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_the_next_block_is_asked_for_before_the_first_is_used_up(node: OneNode) -> None:
    node.blocks = [(0, 10), (50, 10)]
    asked = InitProducerIdRequest(transactional_id=None)
    assert [ask(node, asked).producer_id for _ in range(9)] == list(range(9))
    node.turn(0.01)
    assert node.blocks == []
    ids = [node.node.producer_ids.take() for _ in range(3)]
    assert ids == [9, 50, 51]


def taken(node: OneNode, ids: ProducerIds) -> int:
    producer_id = ids.take()
    return producer_id if isinstance(producer_id, int) else node.wait(producer_id)


def test_many_who_wait_share_one_block(node: OneNode) -> None:
    node.blocks = [(0, 3), (10, 3)]

    async def many() -> list[int]:
        waiting = [node.node.producer_ids.take() for _ in range(5)]
        return [each if isinstance(each, int) else await each for each in waiting]

    assert node.loop.run_until_complete(many()) == [0, 1, 2, 10, 11]


def test_a_block_that_is_there_at_once_makes_nobody_wait(node: OneNode) -> None:
    blocks = [(0, 2), (7, 2), (9, 2)]
    ids = ProducerIds(lambda: blocks.pop(0), node.loop)
    assert [ids.take() for _ in range(4)] == [0, 1, 7, 8]


def test_a_failed_allocation_is_told_and_tried_again(node: OneNode) -> None:
    answers: list[Exception | tuple[int, int]] = [ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), (7, 1)]

    async def allocate() -> tuple[int, int]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    ids = ProducerIds(allocate, node.loop)
    with refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        taken(node, ids)
    assert taken(node, ids) == 7


def test_a_prefetch_that_fails_harms_nobody(node: OneNode) -> None:
    answers: list[tuple[int, int] | None] = [(0, 2), None, (10, 5)]

    def allocate() -> tuple[int, int]:
        answer = answers.pop(0)
        if answer is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return answer

    ids = ProducerIds(allocate, node.loop)
    assert [ids.take() for _ in range(3)] == [0, 1, 10]
