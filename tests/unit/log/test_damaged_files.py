"""Damage to the files of a log: what is said of which file, at which position, and what becomes of the log."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from kbroker.log import partition_metadata
from kbroker.log.errors import CorruptFileError, LogOfflineError
from kbroker.log.inspection import entries_of
from kbroker.log.log import Log
from kbroker.log.verification import verify_partition
from tests.unit.log.logs import DIRECTORY, Bench, read_all
from tests.unit.log.test_manager import CONFIG, ID, ORDERS, Machine, filled
from tests.unit.log.test_producer_state import end_transaction

COUNT = 40
EXPECTED = [(number, b"%d" % number) for number in range(COUNT)]


def stopped() -> Bench:
    """A log of two segments, closed cleanly, its indexes full of entries."""
    bench = Bench(index_interval_bytes=0)
    for number in range(COUNT):
        bench.append(b"%d" % number, timestamp=1000 + number)
        if number == COUNT // 2:
            bench.log.roll(2000)
    bench.recovery_point = COUNT
    bench.log.close()
    bench.log.mark_flushed(bench.log.sync(), 0)
    bench.log.release()
    return bench


def rewrite(bench: Bench, name: str, change: Callable[[bytes], bytes]) -> None:
    bench.mount.write_atomically(bench.path(name), change(bench.mount.read(bench.path(name))))


def lookups_are_right(log: Log) -> None:
    assert read_all(log) == EXPECTED
    for number in range(COUNT):
        found = log.offset_for_timestamp(1000 + number)
        assert found is not None
        assert (found.offset, found.timestamp) == (number, 1000 + number)
    assert log.offset_for_max_timestamp() is not None
    assert log.log_end_offset == COUNT


def entry(position: int, *fields: int) -> Callable[[bytes], bytes]:
    """Another entry in an offset index (8 bytes) at a position."""
    packed = struct.pack(f">{len(fields)}i", *fields)
    return lambda data: data[:position] + packed + data[position + len(packed) :]


FIRST, SECOND = f"{0:020d}", f"{COUNT // 2 + 1:020d}"


@pytest.mark.parametrize("segment", [FIRST, SECOND])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (entry(40, -5, 300), "byte 40: an entry does not follow the one before"),
        (entry(40, 6, -300), "byte 40: an entry does not follow the one before"),
        (entry(0, -1, 300), "byte 0: the first entry lies before the segment"),
        (lambda data: data[:-3], "are no multiple of 8"),
        (lambda data: entry(len(data) - 8, 100, 10**8)(data), "the last entry lies outside the segment"),
    ],
)
def test_a_damaged_offset_index_is_named_and_made_anew(
    segment: str, change: Callable[[bytes], bytes], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = stopped()
    rewrite(bench, f"{segment}.index", change)
    lookups_are_right(bench.open(clean=True))
    assert f"{segment}.index is corrupt at" in caplog.text
    assert said in caplog.text
    assert "are rebuilt" in caplog.text


def test_an_offset_index_that_leads_between_batches_is_found_out_by_a_read_and_made_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = stopped()
    rewrite(bench, f"{FIRST}.index", lambda data: b"".join(_one_byte_on(data)))
    lookups_are_right(bench.open(clean=True))
    assert f"{FIRST}.log is corrupt at byte" in caplog.text
    assert "are made anew, they may have led there" in caplog.text


def _one_byte_on(data: bytes) -> list[bytes]:
    return [struct.pack(">2i", offset, position + 1) for offset, position in struct.iter_unpack(">2i", data)]


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda data: data[:-1],
        lambda data: data[:12] + struct.pack(">qi", 5, 3) + data[24:],
        lambda data: struct.pack(">qi", 5, -3) + data[12:],
    ],
)
def test_a_damaged_time_index_is_named_and_made_anew(
    change: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    bench = stopped()
    rewrite(bench, f"{FIRST}.timeindex", change)
    lookups_are_right(bench.open(clean=True))
    assert f"{FIRST}.timeindex is corrupt at byte" in caplog.text


@pytest.mark.parametrize("size", [0, 500])
def test_a_log_that_lost_its_end_while_it_was_closed_is_offline(size: int) -> None:
    bench = stopped()
    end = len(bench.mount.read(bench.path(f"{SECOND}.log")))
    batch_size = end // (COUNT - COUNT // 2 - 1)
    size -= size % batch_size
    rewrite(bench, f"{SECOND}.log", lambda data: data[:size])
    with pytest.raises(CorruptFileError, match=f"{SECOND}.log is corrupt at byte {size}: the log ends at offset"):
        bench.open(clean=True)


@pytest.mark.parametrize("rubbish", [b"abc", bytes(300), b"\xff" * 300])
def test_a_log_with_rubbish_behind_its_end_is_cut_there_although_it_was_closed(
    rubbish: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    bench = stopped()
    rewrite(bench, f"{SECOND}.log", lambda data: data + rubbish)
    log = bench.open(clean=True)
    lookups_are_right(log)
    assert "the log is recovered, although it was closed" in caplog.text
    assert f"{len(rubbish)} bytes behind it" in caplog.text
    assert bench.append(b"%d" % COUNT).first_offset == COUNT


def test_a_log_whose_last_batch_was_torn_while_it_was_closed_is_offline() -> None:
    bench = stopped()
    rewrite(bench, f"{SECOND}.log", lambda data: data[:-1])
    with pytest.raises(CorruptFileError, match=f"lies below the recovery point {COUNT}"):
        bench.open(clean=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-3],
        lambda data: b"\0\1" + data[2:],
        lambda data: data[:10] + bytes(16) + data[26:],
        lambda _: b"\xff" * 68,
    ],
)
@pytest.mark.parametrize("with_snapshots", [True, False])
def test_a_damaged_transaction_index_is_named_and_made_anew(
    change: Callable[[bytes], bytes], with_snapshots: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.append(producer_id=1, sequence=0, transactional=True)
    bench.log.roll(2000)
    bench.append(producer_id=2, sequence=0, transactional=True)
    end_transaction(bench, 1, commit=False)
    bench.append(producer_id=3, sequence=0, transactional=True)
    end_transaction(bench, 2, commit=False)
    end_transaction(bench, 3, commit=True)
    bench.log.roll(2000)
    bench.append()
    before = bench.log.aborted_transactions(0, 7)
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in before] == [(1, 0, 2), (2, 1, 4)]
    bench.log.close()
    bench.kill()
    rewrite(bench, f"{1:020d}.txnindex", change)
    if not with_snapshots:
        for name in bench.mount.list_dir(DIRECTORY):
            if name.endswith(".snapshot"):
                bench.mount.remove(bench.path(name))
    log = bench.open(clean=True)
    assert log.aborted_transactions(0, 7) == before
    assert f"{1:020d}.txnindex is corrupt at byte" in caplog.text
    assert "it is made anew" in caplog.text
    assert bench.reopen().aborted_transactions(0, 7) == before
    assert caplog.text.count("it is made anew") == 1


def test_a_cleaned_segment_that_cannot_be_read_takes_nobodys_place() -> None:
    bench = stopped()
    bench.mount.write_atomically(bench.path(f"{FIRST}.log.swap"), b"\xff" * 100)
    before = bench.mount.read(bench.path(f"{FIRST}.log"))
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=f"{FIRST}.log.swap is corrupt at byte 0"):
            bench.open(clean=True)
    assert bench.mount.read(bench.path(f"{FIRST}.log")) == before
    bench.mount.remove(bench.path(f"{FIRST}.log.swap"))
    lookups_are_right(bench.open(clean=True))


def test_files_named_otherwise_than_kafkas_are_left_alone() -> None:
    bench = stopped()
    for name in ("15.log", "hello.log", "hello.index", "hello.swap", f"{5:019d}.cleaned"):
        bench.mount.write_atomically(bench.path(name), b"x")
    lookups_are_right(bench.open(clean=True))
    assert {"15.log", "hello.log", "hello.index"} < set(bench.names())


@pytest.mark.parametrize("content", [b"version: 0\ntopic_id: AAAA", b"rubbish", b"version: 7\n"])
@pytest.mark.parametrize(("clean", "synced"), [(True, False), (False, True), (False, False)])
def test_a_log_whose_topic_cannot_be_read_is_offline_unless_it_was_never_synced(
    content: bytes, clean: bool, synced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    manager = machine.manager()
    filled(manager, ORDERS)
    if synced:
        log = manager.logs[ORDERS]
        log.mark_flushed(log.sync(), 0)
        manager.checkpoint_job()()
    if clean:
        manager.close()
    else:
        machine.kill()
    path = f"/data/orders-0/{partition_metadata.NAME}"
    machine.disk.write_atomically(path, content)
    manager = machine.manager()
    if clean or synced:
        for _ in range(2):
            with pytest.raises(LogOfflineError, match=f"{path} is corrupt at byte 0: .*; restore it"):
                manager.get_or_create(ORDERS, ID, CONFIG)
        assert manager.mark_strays([ORDERS]) == []
        assert machine.disk.read(path) == content
    else:
        assert len(read_all(manager.get_or_create(ORDERS, ID, CONFIG))) == 3
        assert partition_metadata.read(machine.disk, "/data/orders-0") == ID
        assert "it was never synced, and is written anew" in caplog.text


# --- preallocated files


def preallocated() -> Bench:
    """The active segment as Apache Kafka leaves it when it is killed: zeros up to ``segment.bytes``."""
    bench = Bench(preallocate="true", segment_bytes=1 << 20)
    for number in range(COUNT):
        bench.append(b"%d" % number, timestamp=1000 + number)
    bench.log.release()
    bench.kill()
    file = bench.mount.open(bench.path(f"{FIRST}.log"))
    file.truncate(1 << 20)
    file.close()
    return bench


def test_a_preallocated_segment_is_as_large_as_its_records() -> None:
    bench = Bench(preallocate="true", segment_bytes=1 << 20)
    bench.append(b"value")
    assert len(bench.mount.read(bench.path(f"{FIRST}.log"))) == bench.log.size < 1000


def test_room_that_a_killed_broker_did_not_give_back_is_cut_by_the_next_start() -> None:
    bench = preallocated()
    lookups_are_right(bench.open(clean=False))
    assert bench.log.size == len(bench.mount.read(bench.path(f"{FIRST}.log"))) < 10_000
    bench.append(b"more", timestamp=5000)
    assert read_all(bench.log) == [*EXPECTED, (COUNT, b"more")]


def test_verifying_and_dumping_read_over_room_that_was_taken_in_advance() -> None:
    bench = preallocated()
    report = verify_partition(bench.mount, DIRECTORY)
    assert (report.problems, report.batches) == ([], COUNT)
    end = bench.log.size
    found = list(entries_of(bench.mount, bench.path(f"{FIRST}.log")))
    assert [each["kind"] for each in found] == ["file", *["batch"] * COUNT, "reserved"]
    assert found[-1] == {"kind": "reserved", "position": end, "size": (1 << 20) - end}
    rewrite(bench, f"{FIRST}.log", lambda data: data[:-1] + b"x")
    assert len(verify_partition(bench.mount, DIRECTORY).problems) == 1
    with pytest.raises(CorruptFileError, match="a batch of 12 bytes, 61 are the least"):
        list(entries_of(bench.mount, bench.path(f"{FIRST}.log")))
