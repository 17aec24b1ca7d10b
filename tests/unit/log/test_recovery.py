"""What a start finds after a clean stop, a kill, a power loss, and damage to files."""

from __future__ import annotations

import logging

import pytest

from kbroker.log.errors import CorruptFileError
from kbroker.log.log import Log
from kbroker.protocol.errors import ApiError, ErrorCode
from tests.unit.log.logs import Bench, batch, read_all

LOG = "00000000000000000000.log"
INDEX = "00000000000000000000.index"
TIME_INDEX = "00000000000000000000.timeindex"
SIZE = len(batch(b"value"))


def cut_file(bench: Bench, name: str, size: int) -> None:
    file = bench.mount.open(bench.path(name))
    file.truncate(size)
    file.close()


def killed(count: int, **config: object) -> Bench:
    bench = Bench(0, **config)
    for number in range(count):
        bench.append(timestamp=1000 + number, epoch=number // 4)
    bench.kill()
    return bench


def content_of(log: Log) -> tuple[object, ...]:
    """All that a log answers from."""
    return (
        read_all(log),
        log.log_end_offset,
        log.epochs.entries,
        [segment.offset_index.entries() for segment in log.segments],
        [(segment.max_timestamp, segment.max_timestamp_offset) for segment in log.segments],
    )


def test_a_clean_stop_loses_nothing_and_leaves_files_without_a_zero_tail() -> None:
    bench = Bench(internal_segment_bytes=5 * SIZE, index_interval_bytes=0)
    for number in range(12):
        bench.append(timestamp=1000 + number, epoch=number // 4)
    before = content_of(bench.log)
    after = bench.reopen()
    assert content_of(after) == before
    assert len(bench.mount.read(bench.path(INDEX))) == 8 * 4  # the first batch needs no entry
    assert len(bench.mount.read(bench.path(TIME_INDEX))) == 12 * 4
    assert after.recovery_point == 12


def test_a_kill_loses_nothing_and_the_indexes_are_rebuilt() -> None:
    bench = Bench(internal_segment_bytes=5 * SIZE, index_interval_bytes=0)
    for number in range(12):
        bench.append(timestamp=1000 + number, epoch=number // 4)
    before = content_of(bench.log)
    bench.kill()
    assert content_of(bench.open(clean=False)) == before


@pytest.mark.parametrize("torn", [1, 11, 12, 60, 61, SIZE - 1])
def test_a_torn_tail_is_cut_at_the_last_whole_batch(torn: int, caplog: pytest.LogCaptureFixture) -> None:
    bench = killed(5)
    cut_file(bench, LOG, 4 * SIZE + torn)
    with caplog.at_level(logging.INFO):
        log = bench.open(clean=False)
    assert read_all(log) == [(number, b"value") for number in range(4)]
    assert len(bench.mount.read(bench.path(LOG))) == 4 * SIZE
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"cut at byte {4 * SIZE}, offset 4" in caplog.text
    assert log.append_as_leader(batch(b"next"), 1, 2000).first_offset == 4


def test_a_bad_last_batch_is_a_torn_tail() -> None:
    bench = killed(5)
    bench.flip(LOG, 5 * SIZE - 3)
    assert bench.open(clean=False).log_end_offset == 4


def test_a_batch_that_a_power_loss_left_as_zeros_is_cut_with_what_follows() -> None:
    bench = killed(5)
    file = bench.mount.open(bench.path(LOG))
    file.pwrite(bytes(SIZE), 2 * SIZE)
    file.close()
    assert bench.open(clean=False).log_end_offset == 2


def test_a_segment_that_lost_its_end_takes_the_later_ones_along() -> None:
    bench = killed(12, internal_segment_bytes=5 * SIZE)
    cut_file(bench, LOG, 3 * SIZE)
    log = bench.open(clean=False)
    assert read_all(log) == [(number, b"value") for number in range(3)]
    assert [name for name in bench.names() if name.endswith(".log")] == [LOG]
    assert log.epochs.entries == [(0, 0)]


def test_damage_with_good_batches_behind_it_takes_the_log_offline_with_file_and_position() -> None:
    bench = killed(5)
    bench.flip(LOG, 2 * SIZE + 70)
    with pytest.raises(CorruptFileError, match=rf"{LOG} is corrupt at byte {2 * SIZE}: .*no torn tail"):
        bench.open(clean=False)


def test_a_damaged_length_with_good_batches_behind_it_is_no_torn_tail_either() -> None:
    bench = killed(5)
    bench.flip(LOG, 2 * SIZE + 8)
    with pytest.raises(CorruptFileError, match="no torn tail"):
        bench.open(clean=False)


def test_damage_in_an_earlier_segment_takes_the_log_offline() -> None:
    bench = killed(12, internal_segment_bytes=5 * SIZE)
    bench.flip(LOG, 5 * SIZE - 3)
    with pytest.raises(CorruptFileError, match="no torn tail"):
        bench.open(clean=False)


def test_damage_below_the_recovery_point_takes_the_log_offline_even_at_the_tail() -> None:
    bench = Bench()
    for _ in range(3):
        bench.append()
    bench.sync()
    bench.kill()
    cut_file(bench, LOG, 2 * SIZE + 20)
    with pytest.raises(CorruptFileError, match="below the recovery point 3"):
        bench.open(clean=False)


def test_damage_found_by_a_reader_is_his_alone_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    for number in range(200):
        bench.append(timestamp=1000 + number)
    log = bench.reopen()
    bench.flip(LOG, 100 * SIZE + 16)
    for _ in range(3):
        with pytest.raises(ApiError, match=f"corrupt at byte {100 * SIZE}") as caught:
            log.read(101, 1000)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        assert log.segments[0].max_timestamp == 1199
    assert sum("cannot be read" in record.getMessage() for record in caplog.records) == 1
    assert sum("are made anew" in record.getMessage() for record in caplog.records) == 1
    assert len(log.read(99, SIZE)) == SIZE
    assert log.append_as_leader(batch(b"x"), 0, 2000).first_offset == 200
    assert len(log.read(200, SIZE)) > 0


def test_only_segments_from_the_recovery_point_on_are_read() -> None:
    bench = Bench(internal_segment_bytes=5 * SIZE)
    for _ in range(12):
        bench.append()
    bench.sync()
    bench.append()
    bench.kill()
    bench.flip(LOG, 80)
    assert bench.open(clean=False).log_end_offset == 13


@pytest.mark.parametrize("name", [INDEX, TIME_INDEX])
def test_a_lost_or_broken_index_is_rebuilt_when_it_is_needed(name: str) -> None:
    bench = Bench(internal_segment_bytes=5 * SIZE, index_interval_bytes=0)
    for number in range(12):
        bench.append(timestamp=1000 + number)
    before = content_of(bench.log)
    bench.reopen()
    cut_file(bench, name, 7)
    assert content_of(bench.open(clean=True)) == before
    bench.mount.remove(bench.path(name))
    assert content_of(bench.open(clean=True)) == before


def test_leader_epochs_are_found_again_in_the_batches() -> None:
    bench = killed(12)
    assert "leader-epoch-checkpoint" not in bench.names()
    assert bench.open(clean=False).epochs.entries == [(0, 0), (1, 4), (2, 8)]


def test_leftovers_are_tidied_and_foreign_files_left_alone() -> None:
    bench = killed(2)
    for name in ("00000000000000000007.index", "00000000000000000000.log.deleted", "00000000000000000002.snapshot.tmp"):
        bench.mount.open(bench.path(name), create=True).close()
    bench.mount.open(bench.path("quorum-state"), create=True).close()
    bench.open(clean=False)
    assert [name for name in bench.names() if name not in {LOG, INDEX, TIME_INDEX}] == [
        "partition.metadata",
        "quorum-state",
    ]


def test_a_log_that_ends_below_its_start_begins_anew_there() -> None:
    bench = killed(3)
    bench.log_start_offset = 10
    log = bench.open(clean=False)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert log.append_as_leader(batch(b"x"), 5, 2000).first_offset == 10


@pytest.mark.parametrize("seed", range(150))
def test_a_power_loss_keeps_what_was_synced_and_a_prefix_of_the_rest(seed: int) -> None:
    bench = Bench(seed, internal_segment_bytes=2000, index_interval_bytes=200)
    written = []
    synced = 0
    for number in range(80):
        value = bytes([65 + number % 26]) * bench.random.randint(1, 150)
        bench.append(value, producer_id=7, sequence=number, epoch=number // 30)
        written.append((number, value))
        if bench.random.random() < 0.05:
            bench.sync()
            synced = number + 1
    bench.lose_power()
    log = bench.open(clean=False)
    kept = read_all(log)
    assert kept == written[: len(kept)]
    assert len(kept) >= synced
    assert log.log_end_offset == len(kept)
    if kept:
        assert log.active_producers()[7].last_sequence == len(kept) - 1
    assert log.append_as_leader(batch(b"next", producer_id=7, sequence=len(kept)), 9, 2000).first_offset == len(kept)


@pytest.mark.parametrize("seed", range(20))
def test_the_indexes_of_a_segment_that_was_synced_before_it_was_rolled_are_made_durable_too(seed: int) -> None:
    bench = Bench(seed, index_interval_bytes=0)
    for number in range(5):
        bench.append(timestamp=1000 + number)
    bench.sync()
    bench.log.roll(2000)  # the recovery point stands where the new segment begins
    if seed % 2:
        bench.append(timestamp=2000)
        bench.sync()
    bench.lose_power()
    log = bench.open(clean=False)
    assert log.segments[0].max_timestamp == 1004
    assert log.offset_for_timestamp(1004) == (4, 1004, 0)


@pytest.mark.parametrize("seed", range(20))
def test_leader_epochs_below_the_recovery_point_survive_a_power_loss(seed: int) -> None:
    bench = Bench(seed, internal_segment_bytes=3 * SIZE)
    for number in range(9):
        bench.append(epoch=number // 2)
    bench.sync()
    bench.append(epoch=9)
    bench.lose_power()
    log = bench.open(clean=False)
    assert log.epochs.entries[:5] == [(0, 0), (1, 2), (2, 4), (3, 6), (4, 8)]


@pytest.mark.parametrize("seed", range(40))
def test_what_a_recovery_cut_does_not_come_back_with_the_next_power_loss(seed: int) -> None:
    bench = Bench(seed, internal_segment_bytes=4 * SIZE)
    lives: list[bytes] = []
    for life in range(4):
        for _ in range(9):
            bench.append(b"life%d" % life)
            lives.append(b"life%d" % life)
        bench.lose_power()
        kept = read_all(bench.open(clean=False))
        del lives[len(kept) :]
        assert [value for _, value in kept] == lives
