"""Compaction: what stays of a log, batch by batch."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.log.cleanable import cleaning_job
from kbroker.log.cleaner import clean
from kbroker.log.errors import CorruptFileError
from kbroker.log.log import Log
from kbroker.log.swapping import CleaningAbortedError, swap_in
from kbroker.protocol.records.batch import TimestampType, crc_is_right, read_records
from tests.unit.log.cleaning import CompactBench, Kept, all_batches, all_records, keyed_batch
from tests.unit.log.logs import read_all, topic_config

SIZE = len(keyed_batch((b"a", b"0")))


def test_of_every_key_the_last_record_stays() -> None:
    bench = CompactBench()
    bench.put((b"a", b"1"), (b"b", b"1"))
    bench.put((b"a", b"2"))
    bench.put((b"c", b"1"), (b"b", b"2"))
    bench.clean()
    assert all_records(bench.log) == [Kept(2, b"a", b"2"), Kept(3, b"c", b"1"), Kept(4, b"b", b"2")]
    assert bench.log.log_end_offset == 5
    assert all(crc_is_right(batch) for _, batch in all_batches(bench.log))


def test_the_active_segment_is_left_alone() -> None:
    bench = CompactBench()
    bench.put((b"a", b"1"))
    bench.log.roll(2000)
    bench.put((b"a", b"2"))
    bench.put((b"a", b"3"))
    bench.clean(roll=False)
    assert [record.offset for record in all_records(bench.log)] == [0, 1, 2]
    assert bench.log.clean_end_offset == 1


def test_a_batch_keeps_its_offsets_and_times_when_records_go() -> None:
    bench = CompactBench()
    bench.put((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), timestamp=5000)
    bench.put((b"a", b"2"), (b"c", b"2"), timestamp=4000)
    bench.clean()
    (header, _), _ = all_batches(bench.log)
    assert (header.base_offset, header.last_offset, header.record_count, header.max_timestamp) == (0, 2, 1, 5001)


@pytest.mark.parametrize("codec", range(3))
def test_a_batch_counts_time_from_the_first_record_that_stays(codec: int) -> None:
    bench = CompactBench()
    bench.put((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), timestamp=5000, codec=codec)
    bench.put((b"a", b"2"), timestamp=6000)
    bench.clean()
    (header, batch), _ = all_batches(bench.log)
    times = [record.timestamp for record in read_records(batch, max_decompressed=1 << 20)]
    assert (header.base_timestamp, header.max_timestamp, times) == (5001, 5002, [5001, 5002])


def test_a_tombstone_gets_a_horizon_and_goes_once_it_has_passed() -> None:
    bench = CompactBench(delete_retention_ms=1000)
    bench.put((b"a", b"1"))
    bench.put((b"a", None), timestamp=1500)
    bench.put((b"b", b"1"))
    bench.clean(now_ms=3000)
    assert all_records(bench.log) == [Kept(1, b"a", None), Kept(2, b"b", b"1")]
    header, _ = all_batches(bench.log)[0]
    assert (header.delete_horizon, header.max_timestamp) == (4000, 1500)
    bench.put((b"c", b"1"))
    bench.clean(now_ms=3999)
    assert Kept(1, b"a", None) in all_records(bench.log)
    bench.put((b"d", b"1"))
    bench.clean(now_ms=4000)
    assert Kept(1, b"a", None) not in all_records(bench.log)


def test_records_without_a_key_go() -> None:
    bench = CompactBench(cleanup_policy="delete")
    bench.append(b"keyless")
    bench.put((b"a", b"1"))
    bench.log.config = topic_config(cleanup_policy="compact")
    assert bench.clean().records_without_key == 1
    assert all_records(bench.log) == [Kept(1, b"a", b"1")]


@pytest.mark.parametrize("codec", range(5))
def test_codecs_are_kept(codec: int) -> None:
    bench = CompactBench()
    bench.put(*((b"%d" % number, b"x" * 50) for number in range(20)), codec=codec)
    bench.put((b"3", b"new"))
    bench.clean()
    header, _ = all_batches(bench.log)[0]
    assert (header.compression, header.record_count) == (codec, 19)
    assert len(all_records(bench.log)) == 20


def test_the_last_sequence_of_a_producer_survives_its_records() -> None:
    bench = CompactBench()
    bench.put((b"a", b"1"), producer_id=7, sequence=0)
    bench.put((b"a", b"2"), producer_id=7, sequence=1)
    bench.put((b"a", b"3"))
    bench.clean()
    headers = [header for header, _ in all_batches(bench.log)]
    assert [(header.base_offset, header.record_count, header.base_sequence) for header in headers] == [
        (1, 0, 1),
        (2, 1, -1),
    ]
    bench.kill()
    log = bench.open(clean=False)
    assert log.active_producers()[7].last_sequence == 1


@pytest.mark.parametrize("is_last", [True, False])
def test_the_last_batch_of_all_stays_empty_and_no_other(is_last: bool) -> None:
    bench = CompactBench()
    bench.put((b"a", b"1"))
    bench.put((b"b", None))
    bench.clean(now_ms=3000)
    if not is_last:
        bench.put((b"c", b"1"))
    bench.log.clean_end_offset = 0  # all of it once more
    bench.clean(now_ms=10_000, roll=False)
    found = [(header.base_offset, header.record_count) for header, _ in all_batches(bench.log)]
    assert found == ([(0, 1), (1, 0)] if is_last else [(0, 1), (2, 1)])


def test_aborted_records_go_at_once_and_their_marker_after_its_horizon() -> None:
    bench = CompactBench()
    bench.put((b"a", b"committed"))
    bench.put((b"a", b"aborted"), producer_id=3, transactional=True)
    bench.put((b"b", b"aborted"), producer_id=3, transactional=True, sequence=1)
    bench.end_transaction(3, commit=False)
    bench.put((b"z", b"1"))
    bench.clean(now_ms=3000)
    assert all_records(bench.log) == [Kept(0, b"a", b"committed"), Kept(4, b"z", b"1")]
    assert len(all_records(bench.log, control=True)) == 1
    assert [aborted.first_offset for aborted in bench.log.aborted_transactions(0, 10)] == [1]
    bench.put((b"y", b"1"), producer_id=3, sequence=2)  # until then an empty batch keeps its last sequence
    bench.clean(now_ms=3500)
    bench.put((b"x", b"1"))
    bench.clean(now_ms=4000)
    assert len(all_records(bench.log, control=True)) == 1
    bench.put((b"w", b"1"))
    bench.clean(now_ms=5000)
    assert all_records(bench.log, control=True) == []
    assert bench.log.aborted_transactions(0, 10) == []


def test_records_count_as_aborted_whose_marker_is_in_a_segment_that_is_not_cleaned() -> None:
    """They are not the last ones of their keys, and are gone at once."""
    bench = CompactBench()
    bench.put((b"a", b"committed"))
    bench.put((b"a", b"aborted"), producer_id=3, transactional=True)
    bench.log.roll(2000)
    bench.end_transaction(3, commit=False)
    bench.put((b"b", b"1"))
    bench.clean(roll=False)
    assert all_records(bench.log) == [Kept(0, b"a", b"committed"), Kept(3, b"b", b"1")]
    bench.clean()
    assert all_records(bench.log) == [Kept(0, b"a", b"committed"), Kept(3, b"b", b"1")]


def test_a_commit_marker_goes_only_after_the_records_of_its_transaction() -> None:
    bench = CompactBench()
    bench.put((b"a", b"1"), producer_id=3, transactional=True)
    bench.end_transaction(3, commit=True)
    bench.put((b"b", b"1"), producer_id=3, transactional=True, sequence=1)
    bench.end_transaction(3, commit=True)
    bench.put((b"z", b"1"))
    bench.clean(now_ms=3000)
    bench.put((b"y", b"1"))
    bench.clean(now_ms=9000)
    assert len(all_records(bench.log, control=True)) == 2
    bench.put((b"a", b"2"))
    bench.clean(now_ms=10_000)
    bench.put((b"x", b"2"))
    bench.clean(now_ms=20_000)
    bench.put((b"w", b"2"))
    bench.clean(now_ms=21_000)
    assert [record.offset for record in all_records(bench.log, control=True)] == [3]


def test_an_open_transaction_stops_the_cleaner() -> None:
    bench = CompactBench()
    bench.put((b"a", b"1"))
    bench.log.roll(2000)
    bench.put((b"a", b"2"), producer_id=3, transactional=True)
    bench.log.roll(2000)
    assert bench.part().first_uncleanable == 1


def test_small_segments_become_one_and_lookups_still_work() -> None:
    bench = CompactBench(internal_segment_bytes=4 * SIZE, index_interval_bytes=0)
    for number in range(40):
        bench.put((b"%d" % (number % 5), b"0"), timestamp=1000 + number)
    assert len(bench.log.segments) > 5
    bench.clean()
    assert [segment.base_offset for segment in bench.log.segments] == [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40]
    bench.clean()
    assert len(bench.log.segments) < 11
    bench.put((b"x", b"0"), timestamp=5000)
    bench.clean()
    assert [record.offset for record in all_records(bench.log)] == [35, 36, 37, 38, 39, 40]
    found = bench.log.offset_for_timestamp(1000)
    assert found is not None
    assert (found.offset, found.timestamp) == (35, 1035)
    found = bench.log.offset_for_timestamp(1037)
    assert found is not None
    assert found.offset == 37
    assert bench.log.read(0, 10_000) != b""


def test_a_map_that_is_too_small_takes_several_rounds() -> None:
    bench = CompactBench(internal_segment_bytes=10 * SIZE)
    for _ in range(2):
        for number in range(50):
            bench.put((b"%02d" % number, b"0"))
    rounds = 0
    bench.log.roll(2000)
    end = bench.log.log_end_offset
    while (bench.log.clean_end_offset or 0) < end:
        bench.clean(keys_max=22, roll=False)
        rounds += 1
    assert rounds > 2
    assert [record.offset for record in all_records(bench.log)] == list(range(50, 100))


def test_a_cleaner_reports_as_often_as_it_was_asked_to() -> None:
    bench = CompactBench()
    for number in range(200):
        bench.put(*((b"%d" % key, b"x" * 100) for key in range(number, number + 20)))
    bench.log.roll(2000)
    job = cleaning_job(bench.part(), 3000, 1000)
    reports = list(clean(bench.mount, job, report_cost=32 * 1024))
    assert len(reports) > 10
    assert all(after.bytes_moved - before.bytes_moved < 40 * 1024 for before, after in pairwise(reports[:-1]))


def test_readers_find_everything_at_every_step_of_a_swap() -> None:
    bench = CompactBench(internal_segment_bytes=4 * SIZE, index_interval_bytes=0)
    for number in range(40):
        bench.put((b"%d" % (number % 36), b"0"), timestamp=1000 + number)
    bench.log.roll(2000)
    fetched = bench.log.read(0, 10_000)
    assert not isinstance(fetched, bytes)
    expected = list(range(4, 40))
    for done in clean(bench.mount, cleaning_job(bench.part(), 3000, 1000)):
        if done.group:
            for job in swap_in(bench.log, done.group, bench.log.truncations, bench.discarded.append):
                job()
                bench.log.sync()
                assert [offset for offset, _ in read_all(bench.log) if offset >= 4] == expected
                found = bench.log.offset_for_timestamp(1020)
                assert found is not None
                assert found.offset == 20
    assert len(fetched.to_bytes()) == len(fetched)
    assert {segment.suffix for segment in bench.log.segments} == {""}


@pytest.mark.parametrize("steps", range(4))
def test_a_log_that_moves_during_a_swap_is_whole_where_it_moved_to(steps: int) -> None:
    bench = CompactBench(internal_segment_bytes=4 * SIZE)
    for number in range(12):
        bench.put((b"%d" % (number % 4), b"0"))
    bench.log.roll(2000)
    done = next(each for each in clean(bench.mount, cleaning_job(bench.part(), 3000, 1000)) if each.group)
    with suppress(CleaningAbortedError, FileNotFoundError):
        for step, job in enumerate(swap_in(bench.log, done.group, bench.log.truncations, bench.discarded.append)):
            if step == steps:
                bench.log.rename_directory("/data/elsewhere-0")
            job()
    if steps < 3:
        assert bench.log.directory == "/data/elsewhere-0"
    assert {record.key: record.offset for record in all_records(bench.log)} == {b"%d" % n: 8 + n for n in range(4)}
    names = bench.mount.list_dir(bench.log.directory)
    bases = [segment.base_offset for segment in bench.log.segments]
    assert [name for name in names if name.endswith((".swap", ".log"))] == [f"{base:020}.log" for base in bases]


def test_damage_is_found_and_the_log_left_as_it_was() -> None:
    bench = CompactBench()
    for _ in range(5):
        bench.put((b"a", b"1"))
    bench.flip("00000000000000000000.log", 2 * SIZE + 65)
    with pytest.raises(CorruptFileError, match=f"byte {2 * SIZE}: the CRC"):
        bench.clean()
    assert len(all_batches(bench.log)) == 5
    assert [name for name in bench.names() if name.endswith((".cleaned", ".swap"))] == []


def test_a_fetch_under_way_reads_on_from_what_was_replaced() -> None:
    bench = CompactBench()
    bench.put((b"a", b"1"))
    bench.put((b"a", b"2"))
    before = bench.log.read(0, 10_000)
    assert not isinstance(before, bytes)
    bench.clean()
    assert len(before.to_bytes()) == len(before)
    for discarded in bench.discarded:
        discarded.remove()
    assert [name for name in bench.names() if name.endswith(".deleted")] == []


def test_a_clean_stop_and_a_start_change_nothing() -> None:
    bench = CompactBench(internal_segment_bytes=4 * SIZE)
    for number in range(30):
        bench.put((b"%d" % (number % 7), b"0"), producer_id=5, sequence=number)
    bench.clean()
    before = all_records(bench.log)
    assert all_records(bench.reopen()) == before
    bench.kill()
    assert all_records(bench.open(clean=False)) == before


def appended_by_time(codec: int = 0) -> CompactBench:
    """Batches of three records that the broker stamped 100, 200, ... whatever their producer said."""
    bench = CompactBench(message_timestamp_type="LogAppendTime", index_interval_bytes=0, delete_retention_ms=1000)
    for number in range(10):
        keys = (b"%d" % (number % 4), b"last-%d" % number, b"gone")
        records = keyed_batch(*((key, b"v" * 20) for key in keys), timestamp=9000 - number, codec=codec)
        bench.log.append_as_leader(records, 0, 100 * (number + 1))
    return bench


def times_of(log: Log) -> list[tuple[int, int]]:
    """Offset and time of every record, as a consumer reads them."""
    return [
        (record.offset, record.timestamp)
        for _, batch in all_batches(log)
        for record in read_records(batch, max_decompressed=1 << 20)
    ]


@pytest.mark.parametrize("codec", range(5))
def test_the_time_of_appending_stays_when_records_of_a_batch_go(codec: int) -> None:
    bench = appended_by_time(codec)
    before = dict(times_of(bench.log))
    assert set(before.values()) == {100 * number for number in range(1, 11)}
    bench.clean()
    kept = times_of(bench.log)
    assert len(kept) == 15
    assert all(before[offset] == timestamp for offset, timestamp in kept)
    assert {header.timestamp_type for header, _ in all_batches(bench.log)} == {TimestampType.LOG_APPEND_TIME}
    for _ in range(2):
        for timestamp in range(50, 1001, 50):
            expected = next((offset, found) for offset, found in kept if found >= timestamp)
            found = bench.log.offset_for_timestamp(timestamp)
            assert found is not None
            assert (found.offset, found.timestamp) == expected
        assert bench.log.offset_for_timestamp(1001) is None
        latest = bench.log.offset_for_max_timestamp()
        assert latest is not None
        assert (latest.offset, latest.timestamp) == next(each for each in kept if each[1] == 1000)
        # The indexes that recovery makes of the batches say the same.
        bench.kill()
        bench.open(clean=False)


def test_a_tombstones_horizon_changes_no_time_of_appending() -> None:
    bench = appended_by_time()
    bench.log.append_as_leader(keyed_batch((b"last-3", None), timestamp=1), 0, 1100)
    bench.put((b"z", b"1"))
    bench.clean(now_ms=3000)
    (header, _), *_ = [each for each in all_batches(bench.log) if each[0].delete_horizon is not None]
    assert (header.delete_horizon, header.max_timestamp, header.base_timestamp) == (4000, 1100, 4000)
    assert dict(times_of(bench.log))[header.base_offset] == 1100
    found = bench.log.offset_for_timestamp(1001)
    assert found is not None
    assert (found.offset, found.timestamp) == (header.base_offset, 1100)
    bench.put((b"y", b"1"))
    bench.clean(now_ms=4000)
    assert header.base_offset not in dict(times_of(bench.log))


def test_a_segments_largest_time_is_that_of_the_records_that_stay() -> None:
    """So retention and ListOffsets go by what is there; an emptied batch counts with the time it had."""
    bench = CompactBench(index_interval_bytes=0)
    bench.put((b"a", b"1"), (b"b", b"1"), timestamp=5000)
    bench.put((b"b", b"2"), timestamp=300)
    bench.put((b"c", b"1"), timestamp=7000, producer_id=5)
    bench.put((b"c", b"2"), timestamp=400)
    assert bench.log.segments[0].max_timestamp == 7000
    bench.clean()
    assert [(header.record_count, header.max_timestamp) for header, _ in all_batches(bench.log)] == [
        (1, 5000),
        (1, 300),
        (0, 7000),
        (1, 400),
    ]
    assert bench.log.segments[0].max_timestamp == 7000
    assert bench.log.offset_for_timestamp(5001) is None
    bench.put((b"c", b"3"), producer_id=5, sequence=1, timestamp=100)
    bench.clean()
    assert bench.log.segments[0].max_timestamp == 5000
    found = bench.log.offset_for_max_timestamp()
    assert found is not None
    assert (found.offset, found.timestamp) == (0, 5000)


def visible(log: Log) -> dict[bytes | None, tuple[int, bytes | None]]:
    """What a reader from the start ends up with, tombstones applied."""
    state: dict[bytes | None, tuple[int, bytes | None]] = {}
    for offset, key, value in all_records(log):
        state[key] = (offset, value)
    return {key: found for key, found in state.items() if found[1] is not None}


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=6),
        min_size=1,
        max_size=25,
    ),
    st.integers(1, 8),
    st.integers(0, 4),
    st.integers(1, 3),
)
@settings(max_examples=60, deadline=None)
def test_a_reader_from_the_start_never_sees_a_difference(
    written: list[list[tuple[int, bool]]], batches_a_segment: int, codec: int, rounds: int
) -> None:
    bench = CompactBench(internal_segment_bytes=batches_a_segment * 200)
    now_ms = 3000
    for number in range(rounds):
        for batch in written:
            bench.put(*((b"%d" % key, b"v%d" % number if kept else None) for key, kept in batch), codec=codec)
        before = visible(bench.log)
        bench.clean(now_ms=now_ms)
        now_ms += 700
        assert visible(bench.log) == before
        keys = [record.key for record in all_records(bench.log)]
        assert len(keys) == len(set(keys))
    bench.kill()
    assert visible(bench.open(clean=False)) == before
