"""Records that ``flush.messages`` wants on stable storage are neither answered nor visible before."""

from __future__ import annotations

import asyncio
import errno

import pytest

from kbroker.handlers import produce
from kbroker.log.durability import SyncPoint
from kbroker.log.log import Log
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.replication.housekeeping import Housekeeping
from tests.sim.disk import Fault
from tests.unit.replication.one_node import OneNode, batch


def flushed_topic(node: OneNode, *, messages: int = 1, **more: str) -> None:
    node.create("t", configs={"flush.messages": str(messages), **more})


def send(node: OneNode, acks: int = -1) -> object:
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(batch()))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=60_000,
        topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[data])],
    )
    return produce.handle(node.context(ApiKey.PRODUCE, 9), request)


def code_of(answer: object, node: OneNode) -> int:
    if not isinstance(answer, ProduceResponse):
        answer = node.wait(answer)  # type: ignore[arg-type] # what is no answer is awaited for one
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def log_syncs(node: OneNode) -> int:
    return sum(" sync " in line and line.endswith(".log") for line in node.loop.trace.tail())


@pytest.mark.parametrize("acks", [1, -1])
def test_the_answer_and_the_high_watermark_wait_for_the_fsync(node: OneNode, acks: int) -> None:
    flushed_topic(node)
    answer = send(node, acks)
    partition = node.partition("t")
    assert not isinstance(answer, ProduceResponse)
    assert (partition.high_watermark, partition.log_end_offset) == (0, 1)
    assert code_of(answer, node) == ErrorCode.NONE
    assert partition.log is not None
    assert (partition.high_watermark, partition.log.recovery_point) == (1, 1)


def test_only_the_append_that_fills_flush_messages_waits(node: OneNode) -> None:
    flushed_topic(node, messages=3)
    assert isinstance(send(node), ProduceResponse)
    assert isinstance(send(node), ProduceResponse)
    assert node.partition("t").high_watermark == 2
    third = send(node)
    assert not isinstance(third, ProduceResponse)
    assert node.partition("t").high_watermark == 2
    assert code_of(third, node) == ErrorCode.NONE
    assert isinstance(send(node), ProduceResponse)


def test_many_appends_share_two_fsyncs(node: OneNode) -> None:
    flushed_topic(node)
    assert code_of(send(node), node) == ErrorCode.NONE
    log = node.partition("t").log
    assert log is not None
    before = log_syncs(node)
    answers = [send(node) for _ in range(50)]
    assert [code_of(answer, node) for answer in answers] == [ErrorCode.NONE] * 50
    assert log_syncs(node) - before <= 2


def test_what_is_appended_during_an_fsync_waits_for_the_next(node: OneNode) -> None:
    flushed_topic(node)
    first = send(node)
    assert code_of(first, node) == ErrorCode.NONE
    answers = [send(node, acks) for acks in (1, -1, 1, -1)]
    node.turn(0.001)
    answers += [send(node, acks) for acks in (1, -1)]
    for answer in answers:
        assert code_of(answer, node) == ErrorCode.NONE
    partition = node.partition("t")
    assert partition.log is not None
    assert partition.high_watermark == partition.log.recovery_point == 7


def test_a_failed_fsync_takes_the_log_offline_and_refuses_what_waits(node: OneNode) -> None:
    flushed_topic(node)
    assert code_of(send(node), node) == ErrorCode.NONE
    partition = node.partition("t")
    node.disk.faults.append(Fault("sync", 0, errno.EIO))
    answers = [send(node, 1), send(node, -1)]
    assert [code_of(answer, node) for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert partition.high_watermark == 1
    assert code_of(send(node), node) == ErrorCode.KAFKA_STORAGE_ERROR


def test_acks_0_is_never_held(node: OneNode) -> None:
    flushed_topic(node)
    assert send(node, 0) is None
    node.turn(1)
    assert node.partition("t").high_watermark == 1


def test_what_waits_for_an_fsync_is_told_when_the_leader_changes(node: OneNode) -> None:
    node.create("t", replicas=[1, 2], isr=[1], configs={"flush.messages": "1"})
    answer = send(node, 1)
    node.change("t", leader=2)
    assert code_of(answer, node) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.turn(1)


def test_with_followers_both_the_fsync_and_the_followers_are_waited_for(node: OneNode) -> None:
    node.create("t", replicas=[1, 2], configs={"flush.messages": "1"})
    answer = send(node)
    partition = node.partition("t")
    partition.on_follower_fetch(2, 1)
    assert partition.high_watermark == 0
    assert code_of(answer, node) == ErrorCode.NONE
    answer = send(node)
    node.turn(1)
    assert partition.high_watermark == 1
    partition.on_follower_fetch(2, 2)
    assert code_of(answer, node) == ErrorCode.NONE


def test_acknowledged_records_survive_a_power_loss(node: OneNode) -> None:
    flushed_topic(node)
    for _ in range(5):
        assert code_of(send(node), node) == ErrorCode.NONE
    node.process.kill()
    node.disk.lose_power()
    after = OneNode(before=node)
    assert after.partition("t").log_end_offset == 5


def test_a_stop_does_not_wait_until_all_that_is_due_is_synced_log_by_log(
    node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clean stop of the logs does it in one go."""
    names = [f"t{number}" for number in range(5)]
    for name in names:
        node.create(name, configs={"flush.ms": "500"})
        node.partition(name).append_as_leader(batch(), 1, node.host.clock.wall_ms())
    housekeeping = Housekeeping(node.logs, node.replicas, node.config, node.host, node.loop)
    synced: list[Log] = []
    stops: list[asyncio.Task[None]] = []
    sync = Log.sync

    def sync_and_stop(log: Log) -> SyncPoint:
        synced.append(log)
        if not stops:
            stops.append(node.loop.create_task(housekeeping.stop()))
        return sync(log)

    monkeypatch.setattr(Log, "sync", sync_and_stop)
    housekeeping.start()
    node.turn(5)
    assert stops[0].done()
    assert len(synced) == 1
