"""Sequences, epochs, duplicates, transactions and their files."""

from __future__ import annotations

import pytest

from kbroker.log import producer_snapshot
from kbroker.log.errors import CorruptFileError
from kbroker.log.producer_snapshot import ProducerEntry
from kbroker.log.txn_index import AbortedTxn
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.control import ControlRecordType, EndTransactionMarker, build_end_transaction_marker
from tests.unit.log.logs import Bench

MAX = 2**31 - 1


def refused(bench: Bench, **stamp: int | bool) -> ErrorCode:
    end = bench.log.log_end_offset
    with pytest.raises(ApiError) as raised:
        bench.append(**stamp)
    assert bench.log.log_end_offset == end
    return raised.value.code


def end_transaction(bench: Bench, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 1) -> int:
    kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
    marker = build_end_transaction_marker(
        EndTransactionMarker(kind, coordinator_epoch), timestamp=1500, producer_id=producer_id, producer_epoch=epoch
    )
    return bench.append_internal(marker).first_offset


def test_a_repeated_batch_is_answered_with_its_first_offsets_and_its_stored_time() -> None:
    bench = Bench()
    bench.append(b"a", b"b", producer_id=1, sequence=0)
    bench.append(b"c", producer_id=1, sequence=2)
    again = bench.append(b"a", b"b", producer_id=1, sequence=0)
    assert again.is_duplicate
    assert (again.first_offset, again.last_offset, again.log_append_time_ms) == (0, 1, 1001)
    assert bench.log.log_end_offset == 3


def test_the_fifth_batch_back_is_a_duplicate_and_the_sixth_is_out_of_order() -> None:
    bench = Bench()
    for sequence in range(6):
        bench.append(producer_id=1, sequence=sequence)
    assert bench.append(producer_id=1, sequence=1).is_duplicate
    assert refused(bench, producer_id=1, sequence=0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_sequences_is_out_of_order() -> None:
    bench = Bench()
    bench.append(producer_id=1, sequence=0)
    assert refused(bench, producer_id=1, sequence=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_with_any_sequence_and_epoch() -> None:
    bench = Bench()
    bench.append(producer_id=1, producer_epoch=5, sequence=42)
    assert bench.log.active_producers()[1].last_sequence == 42


def test_a_producer_without_an_epoch_may_go_on_with_any_sequence() -> None:
    bench = Bench()
    for sequence in (0, 7, 3):
        bench.append(producer_id=1, producer_epoch=-1, sequence=sequence)
    assert bench.append(producer_id=1, producer_epoch=-1, sequence=7).is_duplicate
    bench.append(producer_id=1, producer_epoch=0, sequence=9)
    assert refused(bench, producer_id=1, producer_epoch=0, sequence=11) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_go_on_from_zero_after_the_largest() -> None:
    bench = Bench()
    bench.append(b"a", b"b", producer_id=1, sequence=MAX)
    assert bench.log.active_producers()[1].last_sequence == 0
    bench.append(producer_id=1, sequence=1)
    assert bench.append(b"a", b"b", producer_id=1, sequence=MAX).is_duplicate


def test_an_older_epoch_is_fenced_even_when_it_repeats() -> None:
    bench = Bench()
    bench.append(producer_id=1, producer_epoch=0, sequence=0)
    bench.append(producer_id=1, producer_epoch=1, sequence=0)
    assert refused(bench, producer_id=1, producer_epoch=0, sequence=0) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_with_sequence_zero() -> None:
    bench = Bench()
    bench.append(producer_id=1, producer_epoch=0, sequence=0)
    assert refused(bench, producer_id=1, producer_epoch=1, sequence=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert bench.append(producer_id=1, producer_epoch=1, sequence=0).first_offset == 1


@pytest.mark.parametrize("clean", [True, False])
def test_after_a_restart_the_sequence_is_known_and_the_last_batch_is_a_duplicate(clean: bool) -> None:
    bench = Bench(internal_segment_bytes=300)
    for sequence in range(8):
        bench.append(producer_id=1, sequence=sequence)
    if clean:
        bench.reopen()
    else:
        bench.kill()
        bench.open(clean=False)
    assert bench.append(producer_id=1, sequence=7).is_duplicate
    assert refused(bench, producer_id=1, sequence=9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    bench.append(producer_id=1, sequence=8)


def test_truncation_takes_the_sequences_back() -> None:
    bench = Bench(internal_segment_bytes=300)
    for sequence in range(8):
        bench.append(producer_id=1, sequence=sequence)
    bench.log.truncate_to(5, 2000)
    assert bench.log.active_producers()[1].last_sequence == 4
    bench.append(producer_id=1, sequence=5)


def test_an_unreadable_snapshot_is_removed_and_the_log_read_instead() -> None:
    bench = Bench(internal_segment_bytes=300)
    for sequence in range(8):
        bench.append(producer_id=1, sequence=sequence)
    bench.log.close()
    newest = [name for name in bench.names() if name.endswith(".snapshot")][-1]
    bench.flip(newest, 20)
    log = bench.open(clean=True)
    assert log.active_producers()[1].last_sequence == 7
    assert newest not in bench.names()


def test_producers_that_wrote_nothing_for_long_are_forgotten() -> None:
    bench = Bench()
    bench.append(producer_id=1, sequence=0, timestamp=1000)
    bench.append(producer_id=2, sequence=0, timestamp=5000, transactional=True)
    day = 24 * 3600 * 1000
    bench.log.remove_expired_producers(1000 + day - 1)
    assert sorted(bench.log.active_producers()) == [1, 2]
    bench.log.remove_expired_producers(9000 + day)
    assert sorted(bench.log.active_producers()) == [2]


def test_an_open_transaction_holds_the_last_stable_offset_until_its_marker_is_replicated() -> None:
    bench = Bench()
    bench.append()
    bench.append(producer_id=1, sequence=0, transactional=True)
    bench.append(producer_id=2, sequence=0, transactional=True)
    assert bench.log.first_unstable_offset == 1
    marker = end_transaction(bench, 1, commit=True)
    assert bench.log.first_unstable_offset == 1
    bench.log.on_high_watermark(marker)
    assert bench.log.first_unstable_offset == 1
    bench.log.on_high_watermark(marker + 1)
    assert bench.log.first_unstable_offset == 2
    end_transaction(bench, 2, commit=True)
    bench.log.on_high_watermark(bench.log.log_end_offset)
    assert bench.log.first_unstable_offset is None


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    bench = Bench()
    bench.append(producer_id=1, sequence=0, transactional=True)
    assert refused(bench, producer_id=1, sequence=1) is ErrorCode.INVALID_TXN_STATE


def test_a_transaction_of_version_2_ends_with_a_later_epoch_unless_there_is_none() -> None:
    bench = Bench()
    kind = ControlRecordType.COMMIT

    def end(epoch: int) -> None:
        marker = EndTransactionMarker(kind, 1)
        batch = build_end_transaction_marker(marker, timestamp=1500, producer_id=epoch, producer_epoch=epoch)
        bench.append_internal(batch, transaction_version=2)

    for epoch in (5, 32_767):
        bench.append(producer_id=epoch, producer_epoch=epoch, sequence=0, transactional=True)
    with pytest.raises(ApiError) as raised:
        end(5)
    assert raised.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    end(32_767)
    assert bench.log.active_producers()[32_767].txn_first_offset is None


def test_a_marker_of_an_older_coordinator_is_fenced() -> None:
    bench = Bench()
    bench.append(producer_id=1, sequence=0, transactional=True)
    end_transaction(bench, 1, commit=True, coordinator_epoch=5)
    with pytest.raises(ApiError) as raised:
        end_transaction(bench, 1, commit=True, coordinator_epoch=4)
    assert raised.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize("clean", [None, True, False])
def test_aborted_transactions_are_listed_for_the_range_that_was_read(clean: bool | None) -> None:
    bench = Bench()
    bench.append(producer_id=1, sequence=0, transactional=True)
    bench.append(producer_id=2, sequence=0, transactional=True)
    end_transaction(bench, 1, commit=False)
    bench.append(producer_id=3, sequence=0, transactional=True)
    end_transaction(bench, 3, commit=True)
    end_transaction(bench, 2, commit=False)
    if clean is not None:
        bench.log.close()
        bench.kill()
        bench.open(clean=clean)
    first = AbortedTxn(producer_id=1, first_offset=0, last_offset=2, last_stable_offset=1)
    second = AbortedTxn(producer_id=2, first_offset=1, last_offset=5, last_stable_offset=6)
    assert bench.log.aborted_transactions(0, 6) == [first, second]
    assert bench.log.aborted_transactions(3, 6) == [second]
    assert bench.log.aborted_transactions(0, 1) == [first]


def test_an_open_transaction_survives_a_restart() -> None:
    bench = Bench(internal_segment_bytes=300)
    for sequence in range(6):
        bench.append(producer_id=1, sequence=sequence, transactional=True)
    bench.kill()
    log = bench.open(clean=False)
    assert log.first_unstable_offset == 0
    end_transaction(bench, 1, commit=False)
    assert log.aborted_transactions(0, 7) == [AbortedTxn(1, 0, 6, 7)]


def test_producers_stand_in_a_snapshot_in_the_order_of_javas_map() -> None:
    bench = Bench()
    for producer_id in (17, 1, 4000, 33):
        bench.append(producer_id=producer_id, sequence=0)
    bench.log.roll(2000)
    path = bench.log.producers.snapshot_path(4)
    entries = producer_snapshot.decode(path, bench.mount.read(path))
    assert [each.producer_id for each in entries] == [4000, 17, 1, 33]


def test_a_snapshot_is_read_as_it_was_written() -> None:
    entries = [ProducerEntry(7, 3, MAX, 99, 4, 1234, 2, -1), ProducerEntry(2**40, 0, -1, -1, 0, -1, -1, 55)]
    data = producer_snapshot.encode(entries)
    assert producer_snapshot.decode("file", data) == entries
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptFileError):
            producer_snapshot.decode("file", bytes(damaged))
