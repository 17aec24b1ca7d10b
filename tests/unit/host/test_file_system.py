"""Many files synced in one go: where the system can be trusted with it, and others do not have much to write."""

from __future__ import annotations

import os
import sys
from collections.abc import Container
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbroker.host import file_system
from kbroker.host.real import RealDisk, RealFile

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="syncfs is Linux's")


class Everything(Container[int]):
    def __contains__(self, _: object) -> bool:
        return True


@pytest.fixture(autouse=True)
def _a_machine_that_is_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this one is, and however much it has to write."""
    monkeypatch.setattr(file_system, "_TYPES", Everything())
    monkeypatch.setattr(file_system, "_kernel", lambda: (6, 1))
    monkeypatch.setattr(file_system, "unwritten_size", lambda: 0)


@pytest.fixture
def lock(tmp_path: Path) -> RealFile:
    lock = RealDisk().lock(str(tmp_path / ".lock"))
    assert lock is not None
    return lock


@linux_only
def test_directories_of_a_file_system_are_synced_in_one_go(lock: RealFile, tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("orders-0", "orders-1")]
    for directory in directories:
        directory.mkdir()
        (directory / "0.log").write_bytes(b"records")
    assert lock.sync_together([str(each) for each in directories])
    assert lock.size() == 0, "it is still open"


@linux_only
def test_no_file_system_is_synced_that_has_much_more_to_write_than_the_directories_may_have(
    lock: RealFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_system, "unwritten_size", lambda: 10 * 1024 * 1024)
    assert not lock.sync_together([str(tmp_path)] * 9)
    assert lock.sync_together([str(tmp_path)] * 10)


@linux_only
def test_no_file_system_is_synced_that_nobody_has_looked_at(
    lock: RealFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_system, "_TYPES", frozenset())
    assert not lock.sync_together([str(tmp_path)])


@linux_only
def test_a_kernel_that_does_not_tell_of_lost_writes_is_not_asked(
    lock: RealFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_system, "_kernel", lambda: (5, 7))
    assert not lock.sync_together([str(tmp_path)])


@linux_only
def test_a_sync_that_failed_is_no_sync() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    os.close(reading)
    assert not file_system.sync_file_system(reading, 1024)


def test_a_directory_on_another_file_system_is_not_synced_with_the_others(
    lock: RealFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = os.stat

    def mounted(path: str) -> object:
        return SimpleNamespace(st_dev=-1) if path.endswith("mounted") else stat(path)

    monkeypatch.setattr(os, "stat", mounted)
    assert not lock.sync_together([str(tmp_path), str(tmp_path / "mounted")])
    assert not lock.sync_together([str(tmp_path), str(tmp_path / "absent")])


@pytest.mark.parametrize(
    ("release", "numbers"), [("6.18.44-fc-v669", (6, 18)), ("5.4.0", (5, 4)), ("4.4.0", (4, 4)), ("5.10-rc1", (5, 10))]
)
def test_the_kernel_says_its_version(monkeypatch: pytest.MonkeyPatch, release: str, numbers: tuple[int, int]) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    assert file_system._kernel() == numbers  # noqa: SLF001 - the machine has but one


@linux_only
def test_the_machine_says_how_much_it_has_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert 0 <= file_system.unwritten_size() < 1 << 50
