"""The transaction coordinator on one node: what waits for commits, markers and their troubles, crashes in between."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import Any

import pytest

from kbroker.handlers import produce
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.records import metadata
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.txn.state import Asker
from kbroker.types import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from tests.unit.replication.one_node import OneNode

ID = "tx"
ASKER = Asker("c", "127.0.0.1")
BUMPING = 2
CLASSIC = 0


@pytest.fixture
def one() -> Iterator[OneNode]:
    node = OneNode()
    node.apply(metadata.FeatureLevelRecord(name="transaction.version", feature_level=2))
    yield node
    node.close()


def given(one: OneNode, reply: Any) -> Any:
    """The reply, now or when it comes."""
    return one.wait(reply) if isinstance(reply, Awaitable) else reply


def init(one: OneNode) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    answer = given(one, one.node.transactions.initialise(request, ASKER))
    assert answer.error_code == ErrorCode.NONE
    return answer.producer_id, answer.producer_epoch


def end(one: OneNode, producer: tuple[int, int], committed: bool = True, version: int = BUMPING) -> Any:
    request = EndTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=committed
    )
    return one.node.transactions.end(request, version, ASKER)


def write(
    one: OneNode, producer: tuple[int, int], topic: str = "t", partitions: int = 1, sequence: int = 0, version: int = 12
) -> Any:
    records = build_batch(
        [Record(0, 1000, None, b"value")],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=True,
    )
    data = ProduceRequest.PartitionProduceData
    request = ProduceRequest(
        transactional_id=ID,
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic, partition_data=[data(index=index, records=records) for index in range(partitions)]
            )
        ],
    )
    return produce.handle(one.context(ApiKey.PRODUCE, version), request)


def codes(answer: Any) -> list[int]:
    return [slot.error_code for topic in answer.responses for slot in topic.partition_responses]


def state(one: OneNode) -> str:
    return str(given(one, one.node.transactions.describe(ID)).transaction_state)


def test_a_transaction_is_over_and_readable_right_behind_the_answer_of_its_end(one: OneNode) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create("t")
    producer = init(one)
    assert codes(write(one, producer)) == [0]
    assert one.partition("t").last_stable_offset == 0
    answer = end(one, producer)
    assert (answer.producer_id, answer.producer_epoch) == (producer[0], producer[1] + 1)
    assert one.partition("t").last_stable_offset == 0
    one.turn()
    assert state(one) == "CompleteCommit"
    assert one.partition("t").last_stable_offset == 2


def test_only_an_empty_topic_knows_no_coordinator(one: OneNode) -> None:
    with pytest.raises(ApiError) as raised:
        one.node.transactions.add(ID, 1, 0, [], 0)
    assert raised.value.code is ErrorCode.NOT_COORDINATOR


def test_a_large_transaction_is_ended_in_slices(one: OneNode) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create("t", 250)
    producer = init(one)
    write(one, producer, partitions=250)
    end(one, producer)
    assert state(one) == "PrepareCommit"
    one.turn(0.01)
    assert state(one) == "CompleteCommit"
    assert all(one.partition("t", index).last_stable_offset == 2 for index in range(250))


def test_nothing_is_answered_or_marked_before_it_is_replicated(one: OneNode) -> None:
    one.create(TRANSACTION_STATE_TOPIC, replicas=[1, 2])
    one.create("t", replicas=[1, 2])
    log = one.partition(TRANSACTION_STATE_TOPIC)
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    waiting = one.loop.create_task(_awaited(one.node.transactions.initialise(request, ASKER)))
    one.turn(0.01)
    assert not waiting.done()
    log.on_follower_fetch(2, log.log_end_offset)
    answer = one.wait(waiting)
    producer = (answer.producer_id, answer.producer_epoch)
    writing = one.loop.create_task(_awaited(write(one, producer)))
    one.turn()
    assert one.partition("t").log is None
    log.on_follower_fetch(2, log.log_end_offset)
    one.turn()
    one.partition("t").on_follower_fetch(2, 1)
    assert codes(one.wait(writing)) == [0]
    ending = one.loop.create_task(_awaited(end(one, producer)))
    one.turn()
    assert one.partition("t").log_end_offset == 1
    log.on_follower_fetch(2, log.log_end_offset)
    assert one.wait(ending).error_code == 0
    assert one.partition("t").log_end_offset == 2
    assert log.log_end_offset == 3
    one.partition("t").on_follower_fetch(2, 2)
    one.turn()
    assert log.log_end_offset == 4
    assert one.partition("t").last_stable_offset == 2


def test_a_marker_that_finds_no_leader_is_tried_again(one: OneNode) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create("t", replicas=[1, 2], isr=[1])
    producer = init(one)
    write(one, producer)
    one.change("t", isr=[1, 2], leader=2)
    end(one, producer)
    one.turn(1)
    assert state(one) == "PrepareCommit"
    assert _refused(lambda: end(one, (producer[0], producer[1] + 1))) is ErrorCode.CONCURRENT_TRANSACTIONS
    one.change("t", isr=[1], leader=1)
    one.turn(1)
    assert state(one) == "CompleteCommit"
    assert one.partition("t").last_stable_offset == 2


def test_a_deleted_topic_holds_no_transaction_open(one: OneNode) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create("t", replicas=[1, 2], isr=[1])
    producer = init(one)
    write(one, producer)
    one.change("t", isr=[1, 2], leader=2)
    end(one, producer)
    assert state(one) == "PrepareCommit"
    one.delete("t")
    assert state(one) == "CompleteCommit"


@pytest.mark.parametrize("version", [CLASSIC, BUMPING])
@pytest.mark.parametrize("committed", [True, False])
def test_a_crash_before_the_markers_is_made_good_by_the_next_run(one: OneNode, version: int, committed: bool) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create("t")
    one.create("u", replicas=[1, 2], isr=[1])
    producer = init(one)
    write(one, producer, sequence=0)
    write(one, producer, "u")
    one.change("u", isr=[1, 2], leader=2)
    end(one, producer, committed, version)
    assert state(one) == ("PrepareCommit" if committed else "PrepareAbort")
    later = one.restart()
    later.change("u", isr=[1], leader=1)
    later.turn(1)
    assert state(later) == ("CompleteCommit" if committed else "CompleteAbort")
    for topic in ("t", "u"):
        assert later.partition(topic).last_stable_offset == later.partition(topic).high_watermark
    answer = end(later, producer, committed, version)
    assert answer.error_code == 0
    later.node.transactions.markers.stop()


def test_an_open_transaction_times_out_after_a_crash(one: OneNode) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create("t")
    producer = init(one)
    write(one, producer)
    later = one.restart()
    later.apply(metadata.FeatureLevelRecord(name="transaction.version", feature_level=2))
    assert later.partition("t").last_stable_offset == 0
    later.turn(80)
    assert state(later) == "CompleteAbort"
    assert later.partition("t").last_stable_offset == 2
    assert _refused(lambda: end(later, producer, version=CLASSIC)) is ErrorCode.PRODUCER_FENCED
    put_off = later.node.transactions.put_off(ID)
    assert put_off is not None
    assert "timed out" in put_off.reason


def test_a_partition_of_offsets_is_marked_through_its_shard(one: OneNode) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create(GROUP_METADATA_TOPIC)
    producer = init(one)
    partition = TopicPartition(GROUP_METADATA_TOPIC, 0)
    assert one.node.transactions.add(ID, *producer, [partition], BUMPING) is ErrorCode.NONE
    end(one, producer)
    one.turn()
    assert state(one) == "CompleteCommit"
    assert one.partition(GROUP_METADATA_TOPIC).log_end_offset == 1


@pytest.mark.parametrize("every_or_this", ["", "1"])
def test_verification_can_be_turned_off_for_clients_of_the_older_protocol(one: OneNode, every_or_this: str) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create("t")
    assert codes(given(one, write(one, (7, 0), version=11))) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    key = "transaction.partition.verification.enable"
    one.apply(metadata.ConfigRecord(resource_type=4, resource_name=every_or_this, name=key, value="false"))
    assert codes(write(one, (7, 0), version=11)) == [0]


def test_while_the_coordinator_loads_older_clients_are_told_to_try_again(one: OneNode) -> None:
    one.create("t")
    assert codes(write(one, (7, 0), version=11)) == [ErrorCode.NOT_ENOUGH_REPLICAS]


def test_transactions_are_listed_over_all_partitions(one: OneNode) -> None:
    one.create(TRANSACTION_STATE_TOPIC, 5)
    one.blocks = [(2000, 100)]
    for number in range(20):
        request = InitProducerIdRequest(transactional_id=f"{number}", transaction_timeout_ms=1)
        given(one, one.node.transactions.initialise(request, ASKER))
    listed = given(one, one.node.transactions.list_transactions(ListTransactionsRequest()))
    assert sorted(int(each.transactional_id) for each in listed.transaction_states) == list(range(20))


async def _awaited(reply: Any) -> Any:
    return await reply if isinstance(reply, Awaitable) else reply


def _refused(ask: Any) -> ErrorCode:
    with pytest.raises(ApiError) as raised:
        ask()
    return raised.value.code


@pytest.mark.parametrize("version", [11, 12])
def test_a_writer_whose_epoch_the_log_knows_to_be_over_joins_no_transaction(one: OneNode, version: int) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create("t")
    producer_id, epoch = init(one)
    one.node.transactions.markers.write(
        TopicPartition("t", 0), producer_id, epoch + 1, 0, is_commit=False, transaction_version=0
    )
    assert codes(write(one, (producer_id, epoch), version=version)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert state(one) == "Empty"


def test_a_fenced_writer_is_told_by_whom(one: OneNode) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create("t")
    old = init(one)
    write(one, old)
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    given(one, one.node.transactions.initialise(request, Asker("successor", "10.0.0.7")))
    one.turn()
    (slot,) = write(one, old, sequence=1).responses[0].partition_responses
    assert slot.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert "successor" in slot.error_message
    assert "10.0.0.7" in slot.error_message


def test_many_markers_that_have_to_wait_do_not_keep_the_loop_busy(one: OneNode) -> None:
    one.create(TRANSACTION_STATE_TOPIC)
    one.create("t", 150, replicas=[1, 2], isr=[1])
    producer = init(one)
    write(one, producer, partitions=150)
    for index in range(150):
        one.change("t", index, isr=[1, 2], leader=2)
    tries: list[TopicPartition] = []
    markers = one.node.transactions.markers
    written = markers.write

    def counted(name: TopicPartition, *arguments: Any, **named: Any) -> Any:
        tries.append(name)
        return written(name, *arguments, **named)

    markers.write = counted  # type: ignore[method-assign]
    end(one, producer)
    one.turn(1)
    assert len(tries) <= 12 * 150
    for index in range(150):
        one.change("t", index, isr=[1], leader=1)
    one.turn(1)
    assert state(one) == "CompleteCommit"
