"""Indexes, leader epochs, checkpoints, names: each file alone."""

from __future__ import annotations

from random import Random

import pytest

from kbroker.log import checkpoints
from kbroker.log.epochs import LeaderEpochs
from kbroker.log.errors import CorruptFileError
from kbroker.log.indexes import OffsetIndex, TimeIndex
from kbroker.log.paths import moved_directory_name, parse_directory
from kbroker.types import TopicPartition
from tests.sim.disk import Mount, SimDisk
from tests.sim.process import Process
from tests.sim.trace import Trace


@pytest.fixture
def disk() -> Mount:
    return SimDisk(Random(0), Trace(lambda: 0.0)).mount(Process("test"))


def test_an_offset_index_is_written_in_kafkas_bytes_and_read_back(disk: Mount) -> None:
    index = OffsetIndex(disk, "/x.index", 1000)
    for offset, position in ((1007, 4100), (1015, 9000), (2**31 + 999, 2**31 - 1)):
        index.append(offset, position)
        index.write()
    assert disk.read("/x.index").hex() == "00000007000010040000000f000023287fffffff7fffffff"
    again = OffsetIndex(disk, "/x.index", 1000)
    again.load(2**31)
    assert again.entries() == [(1007, 4100), (1015, 9000), (2**31 + 999, 2**31 - 1)]
    assert [again.lookup(offset) for offset in (1000, 1006, 1007, 1014, 1015, 2**40)] == [
        0,
        0,
        4100,
        4100,
        9000,
        2**31 - 1,
    ]
    assert [again.offset_after(position) for position in (0, 4100, 4101, 9000)] == [1007, 1015, 1015, 1015]


def test_a_time_index_is_written_in_kafkas_bytes_and_read_back(disk: Mount) -> None:
    index = TimeIndex(disk, "/x.timeindex", 1000)
    index.append(0x0102030405, 1007)
    index.append(0x0102030405, 1009)
    index.append(0x0102030406, 1010)
    index.write()
    assert disk.read("/x.timeindex").hex() == "00000001020304050000000700000001020304060000000a"
    again = TimeIndex(disk, "/x.timeindex", 1000)
    again.load()
    assert again.entries() == [(0x0102030405, 1007), (0x0102030406, 1010)]
    assert [again.lookup(timestamp) for timestamp in (0, 0x0102030405, 0x0102030406)] == [1000, 1007, 1010]
    assert again.last() == (0x0102030406, 1010)


def test_an_index_cut_at_an_offset_drops_it_in_memory_and_in_the_file(disk: Mount) -> None:
    offsets, times = OffsetIndex(disk, "/x.index", 0), TimeIndex(disk, "/x.timeindex", 0)
    for number in range(1, 6):
        offsets.append(10 * number, 100 * number)
        times.append(1000 + number, 10 * number)
    offsets.write()
    times.write()
    for index in (offsets, times):
        index.truncate_to(30)
        assert len(index) == 2
        assert len(disk.read(index.path)) == 2 * index.entry_size
    offsets.append(30, 250)
    offsets.write()
    assert offsets.entries() == [(10, 100), (20, 200), (30, 250)]
    assert len(disk.read("/x.index")) == 24


@pytest.mark.parametrize("content", [b"\0" * 7, b"\0\0\0\5\0\0\0\1\0\0\0\2\0\0\0\2", b"\0\0\0\5\0\0\1\0"])
def test_an_offset_index_that_cannot_be_right_is_refused(disk: Mount, content: bytes) -> None:
    disk.write_atomically("/x.index", content)
    with pytest.raises(CorruptFileError):
        OffsetIndex(disk, "/x.index", 0).load(log_size=200)


def epochs_of(disk: Mount, *entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs(disk, "")
    for epoch, start in entries:
        epochs.assign(epoch, start)
    return epochs


def test_leader_epochs_are_kept_in_kafkas_file(disk: Mount) -> None:
    epochs = epochs_of(disk, (1, 0), (3, 10))
    epochs.stage()
    assert epochs.place()
    assert disk.read("/leader-epoch-checkpoint") == b"0\n2\n1 0\n3 10\n"
    again = LeaderEpochs(disk, "")
    again.load()
    assert again.entries == [(1, 0), (3, 10)]
    assert again.latest == 3


def test_an_epoch_that_conflicts_removes_the_later_ones(disk: Mount) -> None:
    epochs = epochs_of(disk, (1, 0), (3, 10), (4, 20))
    epochs.assign(4, 25)
    assert epochs.entries == [(1, 0), (3, 10), (4, 20)]
    epochs.assign(5, 10)
    assert epochs.entries == [(1, 0), (5, 10)]
    epochs.assign(2, 30)
    assert epochs.entries == [(1, 0), (2, 30)]


def test_leader_epochs_are_cut_at_both_ends(disk: Mount) -> None:
    epochs = epochs_of(disk, (1, 0), (3, 10), (4, 20))
    epochs.truncate_from_start(12)
    assert epochs.entries == [(3, 12), (4, 20)]
    epochs.truncate_from_end(20)
    assert epochs.entries == [(3, 12)]
    assert epochs.latest == 3


def test_checkpoints_are_read_as_they_were_written(disk: Mount) -> None:
    offsets = {TopicPartition("a.b_c-d", 0): 5, TopicPartition("x", 12): 2**40}
    checkpoints.write_offsets(disk, "/file", offsets, sync=True)
    assert disk.read("/file") == b"0\n2\na.b_c-d 0 5\nx 12 1099511627776\n"
    assert checkpoints.read_offsets(disk, "/file") == offsets
    assert checkpoints.read_offsets(disk, "/none") == {}
    disk.write_atomically("/file", b"")
    assert checkpoints.read_offsets(disk, "/file") == {}


@pytest.mark.parametrize(
    "content", [b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na b c\n", b"0\nx\n", b"0\n0\na 0 1\n"]
)
def test_a_checkpoint_that_cannot_be_right_is_refused(disk: Mount, content: bytes) -> None:
    disk.write_atomically("/file", content)
    with pytest.raises(CorruptFileError):
        checkpoints.read_offsets(disk, "/file")


def test_directory_names_are_kafkas() -> None:
    partition = TopicPartition("my-topic.v1", 7)
    assert parse_directory("my-topic.v1-7") == (partition, None)
    moved = moved_directory_name(partition, "0123456789abcdef" * 2, "delete")
    assert moved == "my-topic.v1-7.0123456789abcdef0123456789abcdef-delete"
    assert parse_directory(moved) == (partition, "delete")
    assert parse_directory("lost+found") is None
    assert len(moved_directory_name(TopicPartition("t" * 249, 1000), "0" * 32, "stray")) == 255
