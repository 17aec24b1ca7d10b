"""Offsets too far from a segment's first one for its indexes: such segments are not made, and split at a start."""

from __future__ import annotations

import pytest

from kbroker.log.indexes import RELATIVE_OFFSET_MAX
from tests.sim.process import Killed
from tests.unit.log.cleaning import CompactBench, all_records
from tests.unit.log.logs import DIRECTORY, batch, read_all

FAR = RELATIVE_OFFSET_MAX + 1
OPERATIONS_MAX = 200


def keyed(offset: int, key: bytes = b"k", value: bytes = b"v", **stamp: int | bool) -> bytes:
    return bytes(batch(value, key=key, base_offset=offset, leader_epoch=0, **stamp))  # type: ignore[arg-type]


def bases(bench: CompactBench) -> list[int]:
    return [segment.base_offset for segment in bench.log.segments]


@pytest.mark.parametrize(("last", "merged"), [(FAR - 1, True), (FAR, False)])
def test_segments_are_merged_as_far_as_one_can_name_their_offsets(last: int, merged: bool) -> None:
    bench = CompactBench()
    for number, offset in enumerate((0, 5, last)):
        bench.log.append_as_follower(keyed(offset, b"%d" % number), 2000)
        bench.log.roll(2000)
    bench.clean(roll=False)
    assert bases(bench) == ([0, last + 1] if merged else [0, 6, last + 1])
    assert [record.offset for record in all_records(bench.log)] == [0, 5, last]


@pytest.mark.parametrize(
    ("size_max", "left"), [(60, [0, 5, 10, 15, 20, 25, 30]), (80, [0, 10, 20, 30]), (100, [0, 15, 30])]
)
def test_segments_are_merged_as_far_as_their_indexes_fit_into_one(size_max: int, left: list[int]) -> None:
    bench = CompactBench(segment_index_bytes=size_max, index_interval_bytes=0)
    for number in range(30):
        bench.put((b"%d" % number, b"v"))
        if number % 5 == 4:
            bench.log.roll(2000)
    assert [len(segment.offset_index) * 8 for segment in bench.log.segments] == [32] * 6 + [0]
    bench.clean(roll=False)
    assert bases(bench) == left


def test_batches_far_apart_that_come_together_are_taken_one_after_the_other() -> None:
    bench = CompactBench()
    together = keyed(0) + keyed(3) + keyed(FAR)
    info = bench.log.append_as_follower(together, 2000)
    assert info is not None
    assert bench.log.log_end_offset == 4
    bench.log.append_as_follower(together[2 * len(together) // 3 :], 2000)
    assert bases(bench) == [0, FAR]
    assert [offset for offset, _ in read_all(bench.log)] == [0, 3, FAR]


def overflowed(seed: int = 0, *, closed: bool = True) -> CompactBench:
    """A log whose first segment an old version has made of batches too far apart, with an aborted transaction in it."""
    bench = CompactBench(seed, index_interval_bytes=0)
    bench.log.append_as_follower(keyed(0, b"a") + keyed(7, b"b", producer_id=5, sequence=0, transactional=True), 2000)
    bench.end_transaction(5, commit=False)
    size = bench.log.segments[0].size
    bench.log.close()
    if closed:
        bench.log.roll(2000)
    bench.sync()
    bench.log.release()
    file = bench.mount.open(bench.path("00000000000000000000.log"))
    file.pwrite(keyed(FAR, b"c") + keyed(2 * FAR + 1, b"d") + keyed(2 * FAR + 2, b"e"), size)
    file.sync()
    file.close()
    if closed:
        bench.mount.rename(bench.path("00000000000000000009.log"), bench.path(f"{2 * FAR + 3:020}.log"))
        for name in bench.names():
            if name.startswith("00000000000000000009"):
                bench.mount.remove(bench.path(name))
    bench.mount.sync_dir(DIRECTORY)
    bench.recovery_point = 0
    bench.kill()
    return bench


def check(bench: CompactBench, *, closed: bool) -> None:
    assert bases(bench) == [0, FAR, 2 * FAR + 1] + ([2 * FAR + 3] if closed else [])
    assert bench.log.log_end_offset == 2 * FAR + 3
    assert [record.offset for record in all_records(bench.log)] == [0, 7, FAR, 2 * FAR + 1, 2 * FAR + 2]
    assert [each.first_offset for each in bench.log.aborted_transactions(0, 2 * FAR)] == [7]
    assert all(len(segment.offset_index) or segment.size < 200 for segment in bench.log.segments)
    for offset in (7, FAR, FAR + 5, 2 * FAR + 2):
        assert read_from(bench, offset) >= offset
    assert not [name for name in bench.names() if name.endswith((".cleaned", ".swap", ".deleted"))]


def read_from(bench: CompactBench, offset: int) -> int:
    found = bench.log.read(offset, 1, at_least_one=True)
    assert not isinstance(found, bytes)
    return found.base_offset


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_a_start_splits_a_segment_that_holds_offsets_too_far_apart(
    clean: bool, closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bench = overflowed(closed=closed)
    bench.open(clean=clean)
    check(bench, closed=closed)
    assert "became 3 segments, at 0, 2147483648, 4294967297" in caplog.text
    bench.log.on_high_watermark(bench.log.log_end_offset)
    bench.clean()
    assert [record.key for record in all_records(bench.log)] == [b"a", b"c", b"d", b"e"]


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_disk_operation_of_a_split_is_recovered(power: bool) -> None:
    for kill_in in range(1, OPERATIONS_MAX):
        bench = overflowed(kill_in)
        bench.disk.kill_in = kill_in
        try:
            bench.open(clean=False)
        except Killed:
            done = False
        else:
            done = True
        bench.disk.kill_in = None
        if power:
            bench.lose_power()
        else:
            bench.kill()
        bench.open(clean=False)
        check(bench, closed=True)
        if done:
            return
    pytest.fail("it never came to its end")


def test_a_torn_tail_behind_offsets_too_far_apart_is_cut_as_any_other() -> None:
    bench = overflowed(closed=False)
    file = bench.mount.open(bench.path("00000000000000000000.log"))
    file.pwrite(b"torn", file.size())
    file.close()
    bench.open(clean=False)
    check(bench, closed=False)
