"""Leadership, high watermark and who may append."""

from __future__ import annotations

import pytest

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.produce import ProduceResponse
from kbroker.replication.delayed_produce import DelayedProduce
from tests.unit.replication.one_node import OneNode


def refused(code: ErrorCode) -> pytest.RaisesExc[ApiError]:
    return pytest.RaisesExc(ApiError, check=lambda error: error.code == code)


def test_the_only_replica_commits_at_once(node: OneNode) -> None:
    node.create("t")
    assert node.append("t", count=3) == 0
    assert node.append("t", acks=-1) == 3
    assert node.partition("t").high_watermark == 4


def test_a_partition_without_records_has_no_log(node: OneNode) -> None:
    node.create("t")
    partition = node.partition("t")
    assert partition.log is None
    assert (partition.log_start_offset, partition.log_end_offset, partition.last_stable_offset) == (0, 0, 0)
    assert partition.offset_for_leader_epoch(0) == (0, 0)
    assert partition.offset_for_leader_epoch(1) == (-1, -1)
    assert partition.epoch_of_start() == 0
    assert not node.host.disk.exists("/data/t-0")
    node.append("t")
    assert node.host.disk.exists("/data/t-0")


def test_the_high_watermark_is_the_least_end_offset_of_the_isr(node: OneNode) -> None:
    node.create("t", replicas=[1, 2, 3])
    node.append("t", count=5)
    partition = node.partition("t")
    assert partition.high_watermark == 0
    partition.on_follower_fetch(2, 5)
    assert partition.high_watermark == 0
    partition.on_follower_fetch(3, 4)
    assert partition.high_watermark == 4


def test_a_replica_outside_the_isr_does_not_hold_the_high_watermark(node: OneNode) -> None:
    node.create("t", replicas=[1, 2, 3], isr=[1, 2])
    node.append("t", count=5)
    node.partition("t").on_follower_fetch(2, 5)
    assert node.partition("t").high_watermark == 5


def test_an_isr_that_shrinks_to_the_leader_commits_what_waited(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    node.append("t", count=5)
    node.change("t", isr=[1])
    assert node.partition("t").high_watermark == 5


def test_too_small_an_isr_refuses_acks_all_only(node: OneNode) -> None:
    node.create("t", replicas=[1, 2], isr=[1], configs={"min.insync.replicas": "2"})
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        node.append("t", acks=-1)
    assert node.append("t", acks=1) == 0


def test_min_insync_replicas_above_the_replication_factor_refuses_nothing(node: OneNode) -> None:
    node.create("t", configs={"min.insync.replicas": "3"})
    assert node.append("t", acks=-1) == 0


def test_a_changed_min_insync_replicas_acts_at_once(node: OneNode) -> None:
    from kbroker.protocol.messages.records.metadata import ConfigRecord

    node.create("t", replicas=[1, 2], isr=[1])
    assert node.append("t", acks=-1) == 0
    node.apply(ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="2"))
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        node.append("t", acks=-1)


def test_a_follower_takes_no_records(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    node.change("t", leader=2)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        node.append("t")


def test_a_new_leadership_begins_its_epoch_at_the_end_of_the_log(node: OneNode) -> None:
    node.create("t", replicas=[1, 2], isr=[1, 2])
    node.append("t", count=3)
    node.change("t", leader=2)
    node.change("t", leader=1)
    partition = node.partition("t")
    assert partition.leader_epoch == 2
    assert partition.leader_epoch_start_offset == 3
    assert partition.offset_for_leader_epoch(0) == (0, 3)
    assert partition.offset_for_leader_epoch(1) == (0, 3)
    assert partition.offset_for_leader_epoch(2) == (2, 3)


def test_epochs_are_held_against_the_current_one(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    node.change("t", leader=2)
    node.change("t", leader=1)
    partition = node.partition("t")
    partition.check_leader(-1)
    partition.check_leader(2)
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        partition.check_leader(1)
    with refused(ErrorCode.UNKNOWN_LEADER_EPOCH):
        partition.check_leader(3)


def parked(node: OneNode, *, timeout_ms: int = 1000) -> tuple[DelayedProduce, ProduceResponse.PartitionProduceResponse]:
    first = node.append("t", acks=-1)
    slot = ProduceResponse.PartitionProduceResponse(index=0, base_offset=first)
    delayed = DelayedProduce(node.replicas, ProduceResponse(), timeout_ms)
    delayed.wait_for(node.partition("t"), first + 1, slot)
    return delayed, slot


def test_acks_all_waits_until_the_followers_have_it(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    delayed, slot = parked(node)
    node.turn()
    assert not delayed.future.done()
    node.partition("t").on_follower_fetch(2, 1)
    node.wait(delayed.future)
    assert slot.error_code == ErrorCode.NONE


def test_acks_all_times_out_and_keeps_the_offset(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    delayed, slot = parked(node, timeout_ms=500)
    node.wait(delayed.future)
    assert (slot.error_code, slot.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)


def test_acks_all_ends_when_the_leader_changes(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    delayed, slot = parked(node)
    node.change("t", leader=2)
    node.wait(delayed.future)
    assert slot.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_acks_all_says_so_when_the_isr_became_too_small_meanwhile(node: OneNode) -> None:
    node.create("t", replicas=[1, 2], configs={"min.insync.replicas": "2"})
    delayed, slot = parked(node)
    node.change("t", isr=[1])
    node.wait(delayed.future)
    assert slot.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
