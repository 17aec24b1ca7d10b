"""The real disk: files outlive their descriptors, whatever happens to their names."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbroker.host.real import RealDisk
from tests.patience import PATIENCE_S


def test_files_keep_working_when_there_are_more_of_them_than_descriptors(tmp_path: Path) -> None:
    disk = RealDisk(descriptors_max=4)
    files = [disk.open(str(tmp_path / f"{number}.log"), create=True) for number in range(20)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.pwrite(b"%d-%d;" % (number, turn), 4 * turn if number < 10 else 5 * turn)
            assert disk.descriptor_count <= 4
    assert files[7].pread(100, 0) == b"7-0;7-1;7-2;"
    assert files[13].pread(100, 0) == b"13-0;13-1;13-2;"
    assert files[13].size() == 15


def test_a_file_in_use_keeps_its_descriptor_while_others_lose_theirs(tmp_path: Path) -> None:
    disk = RealDisk(descriptors_max=4)
    busy = disk.open(str(tmp_path / "busy"), create=True)
    for number in range(12):
        before = busy.descriptor
        busy.pwrite(b"x", number)
        assert number < 2 or busy.descriptor == before
        disk.open(str(tmp_path / f"{number}"), create=True)


def test_a_pinned_descriptor_is_never_closed(tmp_path: Path) -> None:
    disk = RealDisk(descriptors_max=1)
    pinned = disk.open(str(tmp_path / "pinned"), create=True)
    pinned.pins.append(None)  # as an fsync in a worker thread does
    for number in range(5):
        disk.open(str(tmp_path / f"{number}"), create=True)
    assert os.fstat(pinned.descriptor)
    pinned.pins.pop()
    disk.open(str(tmp_path / "one more"), create=True)
    disk.open(str(tmp_path / "two more"), create=True)
    assert pinned.descriptor == -1
    assert disk.descriptor_count == 1


def test_closing_a_file_under_an_access_leaves_the_descriptor_until_the_access_ends(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open(str(tmp_path / "a"), create=True)
    descriptor = file.descriptor
    file.pins.append(None)
    file.close()
    assert os.fstat(descriptor)
    file.pins.pop()
    disk.close_doomed()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_threads_that_share_more_files_than_descriptors_read_only_their_own_bytes(tmp_path: Path) -> None:
    disk = RealDisk(descriptors_max=2)
    files = [disk.open(str(tmp_path / f"{number}"), create=True) for number in range(6)]
    for number, file in enumerate(files):
        file.pwrite(bytes([number]) * 64, 0)
    wrong: list[object] = []

    def read_all() -> None:
        try:
            for _ in range(150):
                for number, file in enumerate(files):
                    if file.pread(64, 0) != bytes([number]) * 64:
                        wrong.append(number)
                    if number == 3:
                        file.sync()
        except OSError as error:
            wrong.append(error)

    threads = [threading.Thread(target=read_all) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_file_without_a_descriptor_follows_the_rename_of_its_directory(tmp_path: Path) -> None:
    disk = RealDisk(descriptors_max=1)
    disk.make_dirs(str(tmp_path / "orders-0"))
    file = disk.open(str(tmp_path / "orders-0" / "0.log"), create=True)
    file.pwrite(b"old", 0)
    disk.open(str(tmp_path / "other"), create=True).pwrite(b"x", 0)
    assert file.descriptor == -1
    disk.rename(str(tmp_path / "orders-0"), str(tmp_path / "orders-0.gone-delete"))
    disk.make_dirs(str(tmp_path / "orders-0"))
    disk.open(str(tmp_path / "orders-0" / "0.log"), create=True).pwrite(b"new", 0)
    assert file.pread(10, 0) == b"old"
    assert file.path == str(tmp_path / "orders-0.gone-delete" / "0.log")


@pytest.mark.parametrize("evicted", [False, True])
def test_a_file_that_was_removed_while_open_is_still_the_same_file(tmp_path: Path, evicted: bool) -> None:
    disk = RealDisk(descriptors_max=1)
    path = str(tmp_path / "a")
    file = disk.open(path, create=True)
    file.pwrite(b"old", 0)
    if evicted:
        disk.open(str(tmp_path / "other"), create=True)
    disk.remove(path)
    disk.open(path, create=True).pwrite(b"new", 0)
    disk.open(str(tmp_path / "other"), create=True)
    assert file.pread(10, 0) == b"old"
    assert disk.read(path) == b"new"
    file.close()


def test_a_file_replaced_by_a_rename_stays_the_old_file_for_those_who_have_it_open(tmp_path: Path) -> None:
    disk = RealDisk(descriptors_max=1)
    file = disk.open(str(tmp_path / "a"), create=True)
    file.pwrite(b"old", 0)
    disk.open(str(tmp_path / "b"), create=True).pwrite(b"new", 0)
    disk.rename(str(tmp_path / "b"), str(tmp_path / "a"))
    assert file.pread(10, 0) == b"old"


def test_a_removed_directory_leaves_its_open_files_readable(tmp_path: Path) -> None:
    disk = RealDisk(descriptors_max=1)
    disk.make_dirs(str(tmp_path / "d"))
    file = disk.open(str(tmp_path / "d" / "a"), create=True)
    file.pwrite(b"old", 0)
    disk.open(str(tmp_path / "b"), create=True)
    disk.remove_tree(str(tmp_path / "d"))
    assert not disk.exists(str(tmp_path / "d"))
    assert file.pread(10, 0) == b"old"
    disk.remove_tree(str(tmp_path / "d"))


def test_a_closed_file_refuses_every_access(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    file.close()
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.pread(1, 0)


def test_opening_a_file_that_is_absent_needs_create(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        RealDisk().open(str(tmp_path / "absent"))


def test_reading_past_the_end_gives_what_there_is(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    file.pwrite(b"12345", 0)
    assert file.pread(10, 3) == b"45"
    assert file.pread(10, 5) == b""
    file.truncate(2)
    assert file.pread(10, 0) == b"12"


def test_reserving_room_does_not_change_the_size(tmp_path: Path) -> None:
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    file.pwrite(b"abc", 0)
    file.reserve(1 << 20)
    assert file.size() == 3
    if sys.platform == "linux":
        assert os.stat(file.path).st_blocks * 512 >= 1 << 20


def test_where_no_room_can_be_reserved_files_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.host.disk._fallocate", [])
    monkeypatch.setattr(sys, "platform", "darwin")
    file = RealDisk().open(str(tmp_path / "a"), create=True)
    file.reserve(1 << 20)
    file.pwrite(b"abc", 0)
    assert (file.size(), os.stat(file.path).st_blocks * 512 < 1 << 20) == (3, True)


def test_one_holder_at_a_time_has_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    first = RealDisk().lock(path)
    assert first is not None
    assert RealDisk().lock(path) is None
    first.close()
    again = RealDisk().lock(path)
    assert again is not None
    again.close()


@pytest.mark.parametrize("sync", [False, True])
def test_an_atomic_write_replaces_the_whole_content_and_leaves_nothing_else(tmp_path: Path, sync: bool) -> None:
    disk = RealDisk()
    path = str(tmp_path / "checkpoint")
    disk.write_atomically(path, b"a longer first content", sync=sync)
    disk.write_atomically(path, b"second", sync=sync)
    assert disk.read(path) == b"second"
    assert disk.list_dir(str(tmp_path)) == ["checkpoint"]


def test_a_file_that_could_not_be_replaced_is_as_it_was_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    disk, directory = RealDisk(), str(tmp_path / "there is a directory of that name")
    disk.make_dirs(f"{directory}/and it is not empty")
    with pytest.raises(OSError, match="directory"):
        disk.write_atomically(directory, b"content")
    assert disk.list_dir(str(tmp_path)) == ["there is a directory of that name"]


def test_a_disk_without_room_says_so() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with pytest.raises(OSError, match="No space left"):
        RealDisk().open("/dev/full").pwrite(b"x", 0)


def test_a_file_that_takes_long_to_remove_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk()
    disk.open(str(tmp_path / "large"), create=True)
    unlink = os.unlink

    def slow_unlink(path: str) -> None:
        with ThreadPoolExecutor(1) as other:
            other.submit(disk.open, str(tmp_path / "small"), create=True).result(timeout=PATIENCE_S)
        unlink(path)

    monkeypatch.setattr(os, "unlink", slow_unlink)
    disk.remove(str(tmp_path / "large"))
    assert os.listdir(tmp_path) == ["small"]
