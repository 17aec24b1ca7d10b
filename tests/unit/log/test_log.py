"""Appending to a log, reading it back, rolling, truncating."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from kbroker.log.errors import LogOfflineError, UnexpectedOffsetError
from kbroker.log.file_records import FileRecords
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import TimestampType, read_header
from tests.sim.disk import Fault
from tests.unit.log.logs import Bench, batch, read_all, records_of, topic_config


def code_of(raised: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    return raised.value.code


def test_a_log_without_records_has_no_directory() -> None:
    bench = Bench()
    assert bench.mount.list_dir("/data") == []
    assert bench.log.log_end_offset == 0
    assert bench.log.read(0, 1000) == b""


def test_the_first_record_makes_the_log_file_and_a_sync_and_a_stop_make_the_rest_that_kafka_makes() -> None:
    bench = Bench()
    bench.append(b"one")
    assert bench.names() == ["00000000000000000000.log", "partition.metadata"]
    bench.sync()
    assert "leader-epoch-checkpoint" in bench.names()
    bench.log.close()
    assert {"00000000000000000000.index", "00000000000000000000.timeindex"} <= set(bench.names())


def test_what_was_appended_is_read_back_with_its_offsets() -> None:
    bench = Bench()
    first = bench.append(b"a", b"b")
    second = bench.append(b"c")
    assert (first.first_offset, first.last_offset) == (0, 1)
    assert (second.first_offset, second.last_offset) == (2, 2)
    assert read_all(bench.log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_writable_buffer_is_stamped_in_place_and_a_read_only_one_is_left_alone() -> None:
    bench = Bench()
    mine, borrowed = batch(b"a"), bytes(batch(b"b"))
    bench.log.append_as_leader(mine, 7, 2000)
    bench.log.append_as_leader(borrowed, 7, 2000)
    assert read_header(mine).partition_leader_epoch == 7
    assert read_header(borrowed).base_offset == 0
    assert read_all(bench.log) == [(0, b"a"), (1, b"b")]


def test_a_read_from_the_middle_of_a_batch_gives_the_whole_batch() -> None:
    bench = Bench()
    bench.append(b"a", b"b", b"c")
    assert records_of(bench.log.read(1, 1000)) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_read_ends_below_its_end_offset() -> None:
    bench = Bench()
    for value in (b"a", b"b", b"c"):
        bench.append(value)
    assert records_of(bench.log.read(0, 1000, end_offset=2)) == [(0, b"a"), (1, b"b")]
    assert bench.log.read(2, 1000, end_offset=2) == b""


def test_a_read_is_cut_at_its_size_unless_the_first_batch_is_larger() -> None:
    bench = Bench()
    bench.append(b"x" * 100)
    bench.append(b"y")
    size = len(batch(b"x" * 100))
    assert len(bench.log.read(0, size + 5)) == size + 5
    assert len(bench.log.read(0, 10)) == 10
    assert records_of(bench.log.read(0, 10, at_least_one=True)) == [(0, b"x" * 100)]


def test_a_read_outside_the_log_is_out_of_range() -> None:
    bench = Bench()
    bench.append(b"a")
    assert bench.log.read(1, 1000) == b""
    for offset in (-1, 2):
        with pytest.raises(ApiError) as raised:
            bench.log.read(offset, 1000)
        assert code_of(raised) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_every_offset_of_many_segments_is_found_through_the_indexes() -> None:
    bench = Bench(internal_segment_bytes=20_000)
    for number in range(600):
        bench.append(b"%d" % number * 30)
    assert len(bench.log.segments) > 3
    for offset in range(0, 600, 7):
        found = bench.log.read(offset, 100, at_least_one=True)
        assert records_of(found)[0] == (offset, b"%d" % offset * 30)


def test_every_offset_is_found_where_large_and_small_batches_stand_side_by_side() -> None:
    bench = Bench()
    sizes = [20_000, 10, 10, 3_000, 20_000, 20_000, 10, 9_000, 10, 20_000] * 5
    for size in sizes:
        bench.append(b"a", b"x" * size)
    bench.reopen()  # the latest batches are remembered
    for number, size in enumerate(sizes):
        for offset in (2 * number, 2 * number + 1):
            found = records_of(bench.log.read(offset, 100, at_least_one=True))
            assert found[1] == (2 * number + 1, b"x" * size)


def test_a_large_batch_is_found_with_one_read() -> None:
    bench = Bench()
    for _ in range(5):
        bench.append(b"a", b"x" * 20_000)
    bench.reopen()  # the latest batches are remembered
    bench.log.read(0, 100)
    bench.disk.faults.append(Fault("pread", 1, errno.EIO))
    found = bench.log.read(6, 100, at_least_one=True)
    assert isinstance(found, FileRecords)
    assert found.base_offset == 6


def test_a_small_answer_comes_from_the_chunk_that_found_it() -> None:
    bench = Bench()
    for number in range(400):
        bench.append(b"%d" % number)
    found = bench.log.read(100, 50, at_least_one=True)
    bench.disk.faults.append(Fault("pread", 0, errno.EIO))
    assert records_of(found) == [(100, b"100")]


def test_a_batch_larger_than_the_topic_takes_is_refused() -> None:
    bench = Bench(max_message_bytes=200)
    with pytest.raises(ApiError) as raised:
        bench.append(b"x" * 200)
    assert code_of(raised) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    bench = Bench(internal_segment_bytes=300)
    with pytest.raises(ApiError) as raised:
        bench.append(b"x" * 400)
    assert code_of(raised) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert bench.mount.list_dir("/data") == []


def test_log_append_time_replaces_the_largest_timestamp_and_is_told() -> None:
    bench = Bench(message_timestamp_type="LogAppendTime")
    info = bench.append(b"a", timestamp=5, now_ms=7777)
    assert (info.log_append_time_ms, info.max_timestamp) == (7777, 7777)
    found = bench.log.read(0, 1000)
    assert not isinstance(found, bytes)
    header = read_header(found.to_bytes())
    assert header.max_timestamp == 7777
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_a_full_segment_is_rolled_and_the_new_one_begins_at_the_next_offset() -> None:
    size = len(batch(b"x" * 100))
    bench = Bench(internal_segment_bytes=3 * size)
    for _ in range(7):
        bench.append(b"x" * 100)
    assert [segment.base_offset for segment in bench.log.segments] == [0, 3, 6]
    assert [segment.size for segment in bench.log.segments] == [3 * size, 3 * size, size]


def test_a_batch_that_its_producer_may_not_write_begins_a_segment_like_any_other() -> None:
    size = len(batch(b"x" * 100))
    for sequence in (0, 7):  # a repeat, and one that is out of order
        bench = Bench(internal_segment_bytes=size)
        bench.append(b"x" * 100, producer_id=1, sequence=0)
        with suppress(ApiError):
            bench.append(b"x" * 100, producer_id=1, sequence=sequence)
        assert [(segment.base_offset, segment.size) for segment in bench.log.segments] == [(0, size), (1, 0)]
        assert bench.log.log_end_offset == 1


def test_a_file_that_cannot_be_read_when_an_append_asks_whether_it_is_full_takes_the_log_offline() -> None:
    bench = Bench()
    bench.append()
    bench.kill()
    bench.open(clean=True)
    bench.disk.faults.append(Fault("pread", 0, errno.EIO))
    with pytest.raises(LogOfflineError):
        bench.append()
    assert bench.log.offline_error is not None


def test_a_segment_is_rolled_by_the_timestamps_of_its_first_and_the_next_batch() -> None:
    bench = Bench(segment_ms=1000, message_timestamp_after_max_ms=10_000_000)
    bench.append(timestamp=5000, now_ms=1)
    bench.append(timestamp=6000, now_ms=9_999_999)
    assert len(bench.log.segments) == 1
    bench.append(timestamp=6001, now_ms=1)
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2]


def test_a_segment_is_rolled_when_an_index_is_full() -> None:
    bench = Bench(segment_index_bytes=24, index_interval_bytes=0)
    for number in range(6):
        bench.append(timestamp=1000 + number)
    assert len(bench.log.segments) > 1
    assert read_all(bench.log) == [(number, b"value") for number in range(6)]


def test_a_segments_indexes_stay_as_they_were_begun_when_their_settings_change() -> None:
    bench = Bench(segment_index_bytes=10_000, index_interval_bytes=1_000_000)
    bench.append()
    bench.log.config = topic_config(segment_index_bytes=24, index_interval_bytes=0)
    for _ in range(5):
        bench.append()
    (segment,) = bench.log.segments
    assert segment.offset_index.entries() == []
    bench.log.roll(2000)
    for number in range(3):
        bench.append(timestamp=5000 + number)
    assert [each.base_offset for each in bench.log.segments] == [0, 6, 8]


def test_offsets_that_do_not_fit_a_segments_index_go_to_a_new_segment() -> None:
    bench = Bench()
    bench.log.append_as_follower(batch(b"a", base_offset=0, leader_epoch=1), 2000)
    bench.log.append_as_follower(batch(b"b", base_offset=2**31, leader_epoch=1), 2000)
    assert [segment.base_offset for segment in bench.log.segments] == [0, 2**31]
    assert records_of(bench.log.read(1, 1000)) == [(2**31, b"b")]


def test_indexes_get_an_entry_for_every_interval_of_bytes() -> None:
    bench = Bench(index_interval_bytes=1000)
    size = len(batch(b"x" * 400))
    for number in range(20):
        bench.append(b"x" * 400, timestamp=1000 + number)
    entries = bench.log.segments[0].offset_index.entries()
    every = 1000 // size + 1
    assert entries == [(number, number * size) for number in range(every, 20, every)]
    assert bench.log.segments[0].time_index.entries() == [(1000 + offset, offset) for offset, _ in entries]


def test_a_follower_takes_batches_as_they_are_numbered_and_leaves_a_cut_one_out() -> None:
    bench = Bench()
    whole = batch(b"a", b"b", base_offset=5, leader_epoch=2) + batch(b"c", base_offset=9, leader_epoch=3)
    info = bench.log.append_as_follower(whole + batch(b"d", base_offset=10)[:30], 2000)
    assert info is not None
    assert (info.first_offset, info.last_offset) == (5, 9)
    assert bench.log.log_end_offset == 10
    assert bench.log.epochs.entries == [(2, 5), (3, 9)]
    assert read_all(bench.log) == [(5, b"a"), (6, b"b"), (9, b"c")]


def test_a_follower_refuses_batches_that_it_has_already() -> None:
    bench = Bench()
    bench.log.append_as_follower(batch(b"a", b"b"), 2000)
    with pytest.raises(UnexpectedOffsetError):
        bench.log.append_as_follower(batch(b"a", base_offset=1), 2000)


@pytest.mark.parametrize("cut", range(13))
def test_a_truncated_log_holds_what_lies_below_and_goes_on_from_there(cut: int) -> None:
    bench = Bench(internal_segment_bytes=4 * len(batch(b"a")))
    for number in range(12):
        bench.append(b"%d" % (number % 10), epoch=number // 5)
    assert bench.log.truncate_to(cut, 2000) is (cut < 12)
    assert bench.log.log_end_offset == cut
    assert read_all(bench.log) == [(number, b"%d" % (number % 10)) for number in range(cut)]
    assert all(start < cut for _, start in bench.log.epochs.entries)
    bench.append(b"!", epoch=9)
    assert read_all(bench.log)[-1] == (cut, b"!")
    end = bench.log.log_end_offset
    bench.kill()
    assert bench.open(clean=False).log_end_offset == end


def test_a_log_truncated_fully_begins_where_it_is_told() -> None:
    bench = Bench()
    bench.append(b"a")
    bench.log.truncate_fully_and_start_at(100, 2000)
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (100, 100)
    assert bench.append(b"b").first_offset == 100
    assert read_all(bench.log) == [(100, b"b")]


def test_leader_epochs_are_answered_as_kafka_answers_them() -> None:
    bench = Bench()
    for epoch in (2, 2, 4, 7):
        bench.append(epoch=epoch)
    ends = {epoch: bench.log.offset_for_leader_epoch(epoch) for epoch in (-1, 1, 2, 3, 4, 6, 7, 8)}
    assert ends == {-1: (-1, -1), 1: (1, 0), 2: (2, 2), 3: (2, 2), 4: (4, 3), 6: (4, 3), 7: (7, 4), 8: (-1, -1)}
    assert [bench.log.epoch_at(offset) for offset in range(4)] == [2, 2, 4, 7]


def test_a_full_disk_refuses_the_append_and_the_log_goes_on_when_there_is_room() -> None:
    bench = Bench()
    bench.append(b"a")
    bench.disk.faults.append(Fault("pwrite", 0, errno.ENOSPC))
    with pytest.raises(ApiError) as raised:
        bench.append(b"b")
    assert code_of(raised) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not isinstance(raised.value, LogOfflineError)
    assert read_all(bench.log) == [(0, b"a")]
    bench.append(b"c")
    assert read_all(bench.log) == [(0, b"a"), (1, b"c")]


def test_an_input_output_error_takes_the_log_offline_until_it_is_recovered() -> None:
    bench = Bench()
    bench.append(b"a")
    bench.disk.faults.append(Fault("pwrite", 0, errno.EIO))
    for _ in range(2):
        with pytest.raises(LogOfflineError):
            bench.append(b"b")
    with pytest.raises(LogOfflineError):
        bench.log.read(0, 100)
    bench.kill()
    assert read_all(bench.open(clean=False)) == [(0, b"a")]


def test_a_failed_fsync_takes_the_log_offline() -> None:
    bench = Bench()
    bench.append(b"a")
    bench.disk.faults.append(Fault("sync", 0, errno.EIO))
    with pytest.raises(LogOfflineError):
        bench.log.sync()
    with pytest.raises(LogOfflineError):
        bench.append(b"b")


def test_a_sync_of_what_was_cut_meanwhile_does_not_move_the_recovery_point() -> None:
    bench = Bench()
    bench.append(b"a")
    bench.append(b"b")
    point = bench.log.sync()
    bench.log.truncate_to(1, 2000)
    bench.append(b"c")
    bench.log.mark_flushed(point, 2000)
    assert bench.log.recovery_point == 0
    bench.sync()
    assert bench.log.recovery_point == 2


def test_a_moved_log_start_hides_what_lies_below() -> None:
    bench = Bench()
    for number in range(5):
        bench.append(b"%d" % number)
    assert bench.log.update_log_start_offset(3)
    assert not bench.log.update_log_start_offset(2)
    with pytest.raises(ApiError):
        bench.log.read(2, 100)
    assert read_all(bench.log) == [(3, b"3"), (4, b"4")]


def test_lookups_by_time_find_the_first_record_that_is_not_older() -> None:
    bench = Bench(internal_segment_bytes=1000, index_interval_bytes=100)
    for number in range(50):
        bench.append(b"x" * 20, b"y", timestamp=1000 + 10 * number, epoch=3)
    for timestamp in (0, 1000, 1001, 1002, 1234, 1491):
        expected = next(
            (2 * n + i, 1000 + 10 * n + i, 3) for n in range(50) for i in range(2) if 1000 + 10 * n + i >= timestamp
        )
        assert bench.log.offset_for_timestamp(timestamp) == expected
    assert bench.log.offset_for_timestamp(1492) is None
    assert bench.log.offset_for_max_timestamp() == (99, 1491, 3)


def test_lookups_by_time_go_no_further_than_the_first_segment_that_is_young_enough() -> None:
    bench = Bench(internal_segment_bytes=150, index_interval_bytes=100)
    for number in range(4):
        bench.append(b"x" * 50, timestamp=1000 + number)
    assert len(bench.log.segments) == 4
    bench.log.update_log_start_offset(2)
    assert bench.log.offset_for_timestamp(1001) is None
    assert bench.log.offset_for_timestamp(1002) == (2, 1002, 0)


def test_lookups_by_time_take_a_segment_without_times_to_be_as_young_as_its_file() -> None:
    bench = Bench()
    bench.append(timestamp=-1, now_ms=2000)
    bench.log.roll(2000)
    bench.append(timestamp=1500)
    bench.append(timestamp=2500)
    assert bench.log.offset_for_timestamp(1500) is None
    assert bench.log.offset_for_timestamp(2400) == (2, 2500, 0)


def test_of_equal_largest_timestamps_the_first_record_is_found() -> None:
    bench = Bench()
    bench.append(b"a", timestamp=50)
    bench.append(b"b", timestamp=90)
    bench.append(b"c", timestamp=90)
    assert bench.log.offset_for_max_timestamp() == (1, 90, 0)
    assert Bench().log.offset_for_max_timestamp() is None
