"""Logs that move between two data directories of one broker."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from kbroker.handlers import alter_replica_log_dirs, describe_log_dirs
from kbroker.log import checkpoints
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.records.metadata import ConfigRecord
from kbroker.types import TopicPartition
from tests.sim.disk import Fault
from tests.unit.replication.one_node import NODE, batch
from tests.unit.replication.test_partition import refused
from tests.unit.replication.two_directories import TwoDirectories

T0 = TopicPartition("t", 0)
SLOW = 10_000


@pytest.fixture
def node() -> Iterator[TwoDirectories]:
    node = TwoDirectories()
    yield node
    node.close()


def filled(node: TwoDirectories, *, batches: int = 30, size: int = 1000) -> str:
    """A topic with records; the directory that its log is not in."""
    node.create("t", configs={"segment.bytes": "1048576"})
    for _ in range(batches):
        node.append("t", count=2, size=size)
    node.turn(1)
    return node.other()


def shown(node: TwoDirectories) -> dict[str, list[tuple[int, int, bool]]]:
    """What DescribeLogDirs says of each directory: size, lag, whether it is a future."""
    answer = describe_log_dirs.handle(node.context(35, 5), DescribeLogDirsRequest(topics=None))
    return {
        each.log_dir: [
            (entry.partition_size, entry.offset_lag, entry.is_future_key)
            for topic in each.topics
            for entry in topic.partitions
        ]
        for each in answer.results
    }


def test_a_new_partition_of_a_broker_with_two_directories_is_told_where_it_will_be(node: TwoDirectories) -> None:
    node.create("t", 4)
    node.turn(1)
    assert sorted(node.assigned("t", index) or "" for index in range(4)) == ["/one", "/one", "/two", "/two"]
    for index in range(4):
        node.append("t", index)
        assert node.names(node.assigned("t", index) or "") == [
            f"t-{each}" for each in range(index + 1) if node.assigned("t", each) == node.assigned("t", index)
        ]


def test_a_log_moves_with_all_its_records_and_goes_on_serving(node: TwoDirectories) -> None:
    target = filled(node)
    home, size = node.home(), node.log().size
    assert shown(node) == {home: [(size, 0, False)], target: []}
    assert node.alter(target) == ErrorCode.NONE
    assert shown(node) == {home: [(size, 0, False)], target: [(0, 60, True)]}
    node.turn(2)
    assert shown(node) == {home: [], target: [(size, 0, False)]}
    assert node.assigned() == node.home() == target
    assert node.names(home) == ["t-0-delete"]
    assert node.names(target) == ["t-0"]
    assert node.append("t") == 60
    assert node.offsets() == list(range(61))
    assert node.partition("t").high_watermark == 61
    node.turn(61)
    job = node.logs.removal_job()
    assert job is not None
    job()
    assert node.names(home) == []


def test_what_is_appended_meanwhile_arrives_too(node: TwoDirectories) -> None:
    target = filled(node)
    node.limit(SLOW)
    node.alter(target)
    for offset in range(60, 70):
        node.turn(0.1)
        assert node.append("t") == offset
    assert node.home() != target
    assert node.log().log_end_offset - node.future().log_end_offset == shown(node)[target][0][1] > 0
    node.turn(60)
    assert node.home() == target
    assert node.offsets() == list(range(70))


def test_the_rate_is_kept_and_a_changed_one_counts_at_once(node: TwoDirectories) -> None:
    target = filled(node, batches=400)
    node.limit(100_000)
    node.alter(target)
    node.turn(4)
    assert 300_000 <= node.future().size <= 600_000
    node.limit(0)
    node.turn(1)
    size = node.future().size
    node.turn(20)
    assert node.future().size == size
    node.limit(100_000_000)
    node.turn(2)
    assert node.home() == target


def test_asking_for_the_directory_the_log_is_in_gives_the_move_up(node: TwoDirectories) -> None:
    target = filled(node)
    home = node.home()
    node.limit(SLOW)
    node.alter(target)
    node.turn(0.5)
    assert node.names(target) == ["t-0-future"]
    assert node.alter(target) == ErrorCode.NONE  # the same again changes nothing
    assert node.alter(home) == ErrorCode.NONE
    assert node.names(target) == ["t-0-delete"]
    assert T0 not in node.logs.futures
    node.turn(60)
    assert node.home() == node.assigned() == home
    assert node.offsets() == list(range(60))


def test_a_move_given_up_after_the_controller_was_told_is_taken_back(node: TwoDirectories) -> None:
    target = filled(node)
    home = node.home()
    node.alter(target)
    while node.told[-1:] != [(0, target)]:
        node.turn(0.0001)
    node.alter(home)
    node.turn(2)
    assert node.told[-1] == (0, home)
    assert node.assigned() == node.home() == home


def test_another_target_takes_the_place_of_the_first() -> None:
    node = TwoDirectories(directories=("/one", "/two", "/three"))
    filled(node)
    first, second = (path for path in node.directories if path != node.home())
    node.limit(SLOW)
    node.alter(first)
    node.turn(0.5)
    node.alter(second)
    node.limit(100_000_000)
    node.turn(5)
    assert node.home() == node.assigned() == second
    assert node.names(first) == ["t-0-delete"]
    node.close()


def test_a_partition_without_a_record_is_only_told_of(node: TwoDirectories) -> None:
    node.create("t")
    node.turn(1)
    target = node.other()
    assert node.alter(target) == ErrorCode.NONE
    node.turn(1)
    assert node.assigned() == target
    assert node.append("t") == 0
    assert node.names(target) == ["t-0"]


def test_an_empty_log_that_has_begun_later_keeps_its_start(node: TwoDirectories) -> None:
    target = filled(node)
    node.partition("t").delete_records(-1)
    node.log().delete_first(len(node.log().segments), 0)
    node.alter(target)
    node.turn(5)
    assert (node.home(), node.log().log_start_offset, node.log().log_end_offset) == (target, 60, 60)
    after = node.restarted()
    assert (after.home(), after.log().log_start_offset, after.append("t")) == (target, 60, 60)


def test_log_start_epochs_producers_and_checkpoints_come_along(node: TwoDirectories) -> None:
    target = filled(node)
    home = node.home()
    node.change("t", leader=1)  # another epoch
    now_ms = node.host.clock.wall_ms()
    records = batch(producer_id=9, producer_epoch=0, base_sequence=0, timestamp=now_ms)
    node.partition("t").append_as_leader(records, 1, now_ms)
    node.partition("t").delete_records(7)
    epochs = node.log().epochs.entries
    node.alter(target)
    node.turn(5)
    log = node.log()
    assert (node.home(), log.log_start_offset, log.epochs.entries) == (target, 7, epochs)
    assert list(log.active_producers()) == [9]
    assert node.offsets() == list(range(7, 61))
    for name, offset in (
        (checkpoints.RECOVERY_POINT, 61),
        (checkpoints.LOG_START_OFFSET, 7),
        (checkpoints.HIGH_WATERMARK, 61),
    ):
        assert checkpoints.read_offsets(node.host.disk, f"{target}/{name}") == {T0: offset}, name
        assert checkpoints.read_offsets(node.host.disk, f"{home}/{name}") == {}, name


def test_a_log_that_was_cut_meanwhile_cuts_its_future(node: TwoDirectories) -> None:
    target = filled(node, batches=300)
    node.limit(100_000)
    node.alter(target)
    node.turn(2)
    assert 10 < node.future().log_end_offset < 600
    node.log().truncate_to(10, 0)
    node.partition("t").high_watermark = 10
    node.change("t", leader=1)
    for _ in range(5):
        node.append("t")
    node.limit(100_000_000)
    node.turn(5)
    assert node.home() == target
    assert node.offsets() == list(range(15))
    assert node.log().epochs.entries == [(0, 0), (1, 10)]


def test_retention_that_overtakes_the_copying_moves_its_start(node: TwoDirectories) -> None:
    target = filled(node, batches=300)
    node.limit(SLOW)
    node.alter(target)
    node.turn(0.2)
    assert node.future().log_end_offset < 500
    node.partition("t").delete_records(501)
    node.limit(100_000_000)
    node.turn(5)
    assert node.home() == target
    assert node.offsets() == list(range(501, 600))


def test_a_topic_that_is_deleted_takes_its_future_along(node: TwoDirectories) -> None:
    target = filled(node)
    home = node.home()
    node.limit(SLOW)
    node.alter(target)
    node.turn(0.2)
    node.delete("t")
    node.turn(5)
    assert node.names(home) == node.names(target) == ["t-0-delete"]
    assert not node.logs.futures


@pytest.mark.parametrize("lose_power", [False, True])
def test_the_next_start_goes_on_with_a_move(node: TwoDirectories, lose_power: bool) -> None:
    target = filled(node, batches=300)
    node.limit(100_000)
    node.alter(target)
    node.turn(3)
    assert 0 < node.future().log_end_offset < 600
    log = node.log()
    log.mark_flushed(log.sync(), 0)
    after = node.restarted(lose_power=lose_power)
    after.limit(100_000_000)
    after.turn(5)
    assert after.home() == after.assigned() == target
    assert after.offsets() == list(range(600))


def test_a_move_waits_while_the_target_is_full(node: TwoDirectories) -> None:
    target = filled(node)
    node.disk.capacity = 0
    node.alter(target)
    node.turn(5)
    assert node.home() != target
    assert node.append_is_refused()
    node.disk.capacity = None
    node.turn(5)
    assert node.home() == target
    assert node.append("t") == 60


def test_a_target_that_fails_leaves_the_log_where_it_is(node: TwoDirectories) -> None:
    target = filled(node)
    home = node.home()
    node.limit(40_000)
    node.alter(target)
    node.disk.faults.append(Fault("pwrite", 0, errno.EIO))
    node.turn(2)
    assert shown(node) == {home: [(node.log().size, 0, False)], target: []}
    assert node.append("t") == 60
    assert node.alter(target) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_source_that_fails_takes_the_partition_offline_and_the_next_start_goes_on(node: TwoDirectories) -> None:
    target = filled(node, batches=300)
    node.limit(100_000)
    node.alter(target)
    node.turn(0.5)
    node.disk.faults.append(Fault("pread", 0, errno.EIO))
    node.turn(5)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        node.partition("t")
    assert node.alter(target) == ErrorCode.KAFKA_STORAGE_ERROR
    after = node.restarted()
    after.limit(100_000_000)
    after.turn(5)
    assert (after.home(), after.offsets()) == (target, list(range(600)))


@pytest.mark.parametrize("lose_power", [False, True])
def test_a_crash_at_any_disk_operation_of_a_move_loses_nothing(lose_power: bool) -> None:
    """Whatever the operation: the next start has one log with every record, and ends the move."""
    for kill_in in range(1, 400):
        node = TwoDirectories()
        target = filled(node, batches=10, size=100)
        log = node.log()
        log.mark_flushed(log.sync(), 0)
        node.disk.on_kill_due = node.process.kill
        node.disk.kill_in = kill_in
        node.alter(target)
        node.turn(2)
        died = node.disk.kill_in is None
        node.disk.kill_in = None
        node.loop.failures.clear()
        after = node.restarted(lose_power=lose_power)
        assert after.offsets() == list(range(20)), kill_in
        after.alter(target)
        after.turn(3)
        assert (after.home(), after.assigned()) == (target, target), kill_in
        assert after.offsets() == list(range(20)), kill_in
        assert after.append("t") == 20
        assert [name for path in after.directories for name in after.names(path) if "delete" not in name] == ["t-0"]
        after.close()
        if not died:
            assert kill_in > 20
            return
    raise AssertionError("a move of ten batches has no end")


@pytest.mark.parametrize(
    ("path", "topic", "index", "code"),
    [
        ("/nowhere", "t", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        ("/one/", "t", 0, ErrorCode.LOG_DIR_NOT_FOUND),
        ("/one", "t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("/one", "nope", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("/one", "of-others", 0, ErrorCode.REPLICA_NOT_AVAILABLE),
        ("/two", "t", 0, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("/two", "nope", 0, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("/nowhere", "l" * 214, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("/nowhere", "l" * 213, 0, ErrorCode.LOG_DIR_NOT_FOUND),
    ],
)
def test_what_cannot_be_moved_is_refused_as_kafka_refuses_it(
    node: TwoDirectories, path: str, topic: str, index: int, code: ErrorCode
) -> None:
    node.create("t")
    node.create("of-others", replicas=(2,), leader=2)
    node.apply(ConfigRecord(resource_type=4, resource_name=str(NODE), name="cordoned.log.dirs", value="/two"))
    moved = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[index])
    request = AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDirsRequest.AlterReplicaLogDir(path=path, topics=[moved])]
    )
    answer = alter_replica_log_dirs.handle(node.context(34, 2), request)
    assert [each.error_code for each in answer.results[0].partitions] == [code]
