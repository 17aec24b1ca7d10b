"""How much a start does for a log of 2000 small segments: counted, so that no slow machine hides what grew."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.host.disk import RealDisk
from kbroker.log.log import Log
from tests.sim.disk import SimFile
from tests.unit.log.logs import PARTITION, TOPIC_ID, Bench, batch, topic_config

SEGMENTS = 2000
SIZE = len(batch(b"value"))


class Start:
    """One start after the other of the same log, and what the last one asked of the disk."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.bench = Bench(internal_segment_bytes=SIZE)
        self._append(SEGMENTS)
        self.operations: Counter[str] = Counter()
        """By their name and the ending of the file's."""
        self.bytes_read: Counter[str] = Counter()
        """By the path of the file."""
        check, pread = self.bench.disk.check, SimFile.pread

        def counted_check(operation: str, path: str) -> None:
            self.operations[f"{operation} {path.rpartition('.')[2] if '.' in path else ''}".rstrip()] += 1
            check(operation, path)

        def counted_pread(file: SimFile, size: int, position: int) -> bytes:
            data = pread(file, size, position)
            self.bytes_read[file.path] += len(data)
            return data

        patch.setattr(self.bench.disk, "check", counted_check)
        patch.setattr(SimFile, "pread", counted_pread)

    def _append(self, count: int) -> None:
        for number in range(count):
            self.bench.append(timestamp=1000 + number)

    def after_a_kill(self, *, appended_since_the_sync: int = 0) -> Log:
        if appended_since_the_sync:
            self.bench.sync()
            self._append(appended_since_the_sync)
        self.bench.kill()
        return self._open(clean=False)

    def after_a_clean_stop(self) -> Log:
        self.bench.log.close()
        self.bench.log.release()
        self.bench.recovery_point = self.bench.log.recovery_point
        return self._open(clean=True)

    def _open(self, *, clean: bool) -> Log:
        for node in self.bench.disk.files():
            node.handles.clear()  # those of the process that is dead
        self.operations.clear()
        self.bytes_read.clear()
        return self.bench.open(clean=clean)

    def files_open(self) -> Counter[str]:
        return Counter(handle.path.rpartition(".")[2] for node in self.bench.disk.files() for handle in node.handles)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    start = Start(monkeypatch)
    yield start
    start.bench.log.release()
    assert start.files_open() == {}


def test_a_start_after_a_kill_reads_each_byte_once_and_does_nothing_twice_for_a_segment(start: Start) -> None:
    log = start.after_a_kill()
    assert log.log_end_offset == SEGMENTS
    assert start.operations["list_dir"] == 1
    assert max(start.operations.values()) == SEGMENTS
    assert start.bytes_read == {segment.path: SIZE for segment in log.segments}


def test_a_start_after_a_kill_reads_only_what_was_not_synced(start: Start) -> None:
    log = start.after_a_kill(appended_since_the_sync=3)
    assert log.log_end_offset == SEGMENTS + 3
    assert start.bytes_read == {segment.path: SIZE for segment in log.segments[-4:]}
    assert {name for name, count in start.operations.items() if count > 4} == {"open log", "size log"}
    assert start.files_open() == {"log": SEGMENTS + 3, "index": 4, "timeindex": 4}


def test_a_start_after_a_clean_stop_reads_the_last_batch_and_opens_no_index(start: Start) -> None:
    log = start.after_a_clean_stop()
    assert log.log_end_offset == SEGMENTS
    assert start.bytes_read.keys() == {log.segments[-1].path}
    assert {name for name, count in start.operations.items() if count > 2} == {"open log", "size log"}
    assert start.files_open() == {"log": SEGMENTS}


def test_a_start_has_no_more_descriptors_than_the_disk_may_take_and_leaves_none(tmp_path: Path) -> None:
    def opened(disk: RealDisk, *, clean: bool) -> Log:
        config, directory = topic_config(internal_segment_bytes=SIZE), str(tmp_path / "orders-0")
        return Log.open(disk, directory, PARTITION, TOPIC_ID, config, clean=clean, now_ms=2000)

    def descriptors() -> int:
        return len(os.listdir("/dev/fd"))

    log = opened(RealDisk(), clean=True)
    for _ in range(100):
        log.append_as_leader(batch(b"value"), 0, 2000)
    log.release()
    before = descriptors()
    log = opened(RealDisk(descriptors_max=8), clean=False)
    assert len(log.segments) == 100
    assert descriptors() - before == 8
    log.release()
    assert descriptors() == before
