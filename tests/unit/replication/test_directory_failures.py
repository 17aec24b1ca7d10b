"""A data directory in which an operation fails goes offline with all its logs; the others serve (KIP-112)."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from kbroker.handlers import describe_log_dirs
from kbroker.log import checkpoints
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.replication.fetching import FetchedPartition, FetchParams, read_from_log
from kbroker.types import ZERO_UUID
from tests.sim.disk import Fault
from tests.unit.replication.one_node import batch
from tests.unit.replication.test_partition import refused
from tests.unit.replication.two_directories import TwoDirectories


@pytest.fixture
def node() -> Iterator[TwoDirectories]:
    node = TwoDirectories()
    node.create("t", 4)
    for index in range(4):
        node.append("t", index, count=2)
    node.turn(1)
    yield node
    node.close()


def those_in(node: TwoDirectories, path: str) -> list[int]:
    return [index for index in range(4) if node.home("t", index) == path]


def fail(node: TwoDirectories, operation: str) -> None:
    node.disk.faults.append(Fault(operation, 0, errno.EIO))


@pytest.mark.parametrize("operation", ["pwrite", "pread", "sync", "write_atomically", "rename", "remove_tree"])
def test_a_failed_operation_takes_its_directory_offline_and_no_other(node: TwoDirectories, operation: str) -> None:
    lost, kept = those_in(node, "/one"), those_in(node, "/two")
    node.create("doomed")
    node.append("doomed")
    failed: list[str] = []
    node.replicas.on_directory_failed = lambda directory: failed.append(directory.path)
    log = node.log("t", lost[0])
    fail(node, "open" if operation == "write_atomically" else operation)
    if operation == "pwrite":
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            node.append("t", lost[0])
    elif operation == "pread":
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            log.read(1, 1000, at_least_one=True)
    elif operation == "sync":
        node.wait(node.replicas.flusher.request(log))
    elif operation == "write_atomically":
        node.logs.checkpoint_job({})()
    else:
        assert node.home("doomed") == "/one"
        node.delete("doomed")
    if operation == "remove_tree":
        node.turn(60)
        remove = node.logs.removal_job()
        assert remove is not None
        remove()
    node.turn(0.1)
    assert failed == ["/one"]
    for index in lost:
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            node.partition("t", index)
    for index in kept:
        assert node.append("t", index) == 2
    answer = describe_log_dirs.handle(node.context(35, 5), DescribeLogDirsRequest(topics=None))
    assert [(each.log_dir, each.error_code) for each in answer.results] == [
        ("/one", ErrorCode.KAFKA_STORAGE_ERROR),
        ("/two", ErrorCode.NONE),
    ]


def test_what_waits_for_a_commit_is_told_that_the_disk_failed(node: TwoDirectories) -> None:
    told: list[ErrorCode] = []

    class Waiting:
        def settle(self, _partition: object, code: ErrorCode, /) -> None:
            told.append(code)

    (first, second) = those_in(node, "/one")
    node.partition("t", first).park_produce(100, Waiting())
    fail(node, "pwrite")
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        node.append("t", second)
    node.turn(0.1)
    assert told == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_nothing_is_made_elsewhere_in_the_place_of_what_is_offline(node: TwoDirectories) -> None:
    lost = those_in(node, "/one")
    fail(node, "pwrite")
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        node.append("t", lost[0])
    node.turn(0.1)
    node.change("t", lost[0], leader=1)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        node.append("t", lost[0])
    node.create("new", 2)
    node.turn(0.1)
    assert [node.home("new", index) for index in (0, 1)] == ["/two", "/two"]
    assert node.append("new") == 0


def test_a_failed_directory_gets_no_clean_marker_and_its_logs_are_recovered(node: TwoDirectories) -> None:
    lost = those_in(node, "/one")
    fail(node, "pwrite")
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        node.append("t", lost[0])
    node.turn(0.1)
    node.logs.close(broker_epoch=3, high_watermarks=node.replicas.high_watermarks())
    disk = node.host.disk
    assert [disk.exists(f"{path}/.kafka_cleanshutdown") for path in ("/one", "/two")] == [False, True]
    assert checkpoints.read_offsets(disk, "/one/recovery-point-offset-checkpoint") == {}
    after = node.restarted()
    for index in range(4):
        assert after.offsets("t", index) == [0, 1]
        assert after.append("t", index) == 2


def test_a_directory_that_is_gone_at_the_start_leaves_the_others_and_comes_back(node: TwoDirectories) -> None:
    lost, kept = those_in(node, "/one"), those_in(node, "/two")
    node.process.kill()
    node.disk.root.entries["gone"] = node.disk.root.entries.pop("one")
    mount = node.disk.mount(TwoDirectories.spare_process())
    mount.open("/one", create=True).close()
    after = node.restarted()
    for index in kept:
        assert after.append("t", index) == 2
    for index in lost:
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            after.partition("t", index)
    assert after.logs.mark_strays(after.replicas.offline) == []
    after.process.kill()
    node.disk.root.entries["one"] = node.disk.root.entries.pop("gone")
    last = after.restarted()
    for index in lost:
        assert last.append("t", index) == 2


def test_a_full_disk_refuses_what_needs_room_and_forgives_it_later(node: TwoDirectories) -> None:
    """Here kbroker differs from Apache Kafka, which gives the directory up."""
    node.create("flushed", configs={"flush.messages": "1"})
    node.turn(1)
    node.append("flushed")
    node.turn(1)
    node.disk.capacity = 0
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        node.append("flushed")
    assert node.logs.checkpoint_job({})() is False
    assert all(each.error is None for each in node.logs.directories)
    assert node.offsets("flushed") == [0]
    node.disk.capacity = None
    assert node.append("flushed") == 1
    assert node.append("t") == 2
    assert node.logs.checkpoint_job({})() is True


def test_a_batch_does_not_come_before_the_first_one_of_its_producer_for_which_there_was_no_room(
    node: TwoDirectories,
) -> None:
    now_ms = node.host.clock.wall_ms()
    partition = node.partition("t")

    def append(sequence: int, size: int) -> None:
        records = batch(count=1, size=size, producer_id=9, producer_epoch=0, base_sequence=sequence, timestamp=now_ms)
        partition.append_as_leader(records, 1, now_ms)

    node.disk.capacity = node.disk.used() + 500
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        append(0, 1000)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        append(1, 10)
    node.disk.capacity = None
    for sequence in (0, 1, 2):
        append(sequence, 1000)
    assert node.offsets() == [0, 1, 2, 3, 4]


def test_a_sync_without_room_for_the_small_files_is_tried_again(node: TwoDirectories) -> None:
    node.create("flushed", configs={"flush.messages": "1"})
    node.turn(1)
    node.append("flushed")
    node.disk.capacity = 0
    node.turn(5)
    assert node.partition("flushed").high_watermark == 0
    node.disk.capacity = None
    node.turn(5)
    assert node.partition("flushed").high_watermark == 1


@pytest.mark.parametrize("limit", [90, 1_000])
@pytest.mark.parametrize("nth", range(8))
def test_a_fetch_that_cannot_read_says_so_of_its_partition_alone(node: TwoDirectories, nth: int, limit: int) -> None:
    """Whichever of the reads it needs is the one that fails, of the search as of what is looked at after it."""
    params = FetchParams(
        max_wait_ms=0, min_bytes=1, max_bytes=150, isolation=1, leader_only=True, replica_id=-1, hard_max_bytes=True
    )
    lost, kept = those_in(node, "/one")[0], those_in(node, "/two")[0]
    entries = [FetchedPartition("t", ZERO_UUID, index, 0, limit, -1, -1) for index in (lost, kept)]
    node.disk.faults.append(Fault("pread", nth, errno.EIO))
    answers = read_from_log(node.replicas, params, entries).answers
    codes = [answer.error_code for answer in answers]
    assert set(codes) <= {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
    assert codes.count(ErrorCode.KAFKA_STORAGE_ERROR) == sum(fault.count == 0 for fault in node.disk.faults)
