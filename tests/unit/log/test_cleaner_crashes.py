"""A cleaner that is interrupted at every disk operation loses nothing and leaves nothing."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

from kbroker.log.errors import LogOfflineError
from kbroker.log.log import Log
from tests.sim.disk import Fault
from tests.sim.process import Killed
from tests.unit.log.cleaning import CompactBench, all_records, keyed_batch

SIZE = len(keyed_batch((b"0", b"00")))
OPERATIONS_MAX = 400


def written(seed: int) -> CompactBench:
    """Several segments that become fewer, with an aborted transaction in them; all of it durable."""
    bench = CompactBench(seed, internal_segment_bytes=6 * SIZE, index_interval_bytes=0)
    for number in range(30):
        bench.put((b"%d" % (number % 4), b"%02d" % number), producer_id=5, sequence=number)
        if number == 9:
            bench.put((b"a", b"aborted"), producer_id=3, transactional=True)
            bench.end_transaction(3, commit=False)
    bench.log.roll(2000)
    bench.sync()
    return bench


def state_of(log: Log) -> dict[bytes | None, bytes | None]:
    return {key: value for _, key, value in all_records(log) if value != b"aborted"}


def check(bench: CompactBench, before: dict[bytes | None, bytes | None], end: int) -> None:
    log = bench.open(clean=False)
    assert state_of(log) == before
    assert log.log_end_offset == end
    assert log.active_producers()[5].last_sequence == 29
    aborted = [record.offset for record in all_records(log) if record.value == b"aborted"]
    listed = [each for each in log.aborted_transactions(0, end) if each.producer_id == 3]
    assert not aborted or listed, "aborted records that no fetch names"
    assert [name for name in bench.names() if name.endswith((".cleaned", ".swap", ".deleted"))] == []
    bench.log = log
    bench.clean()
    assert state_of(bench.log) == before
    for discarded in bench.discarded:
        discarded.remove()


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_disk_operation_of_a_cleaning_is_recovered(power: bool) -> None:
    done = False
    for kill_in in range(1, OPERATIONS_MAX):
        bench = written(kill_in)
        before, end = state_of(bench.log), bench.log.log_end_offset
        bench.disk.kill_in = kill_in
        try:
            bench.clean(roll=False)
        except Killed:
            pass
        else:
            done = True
        bench.disk.kill_in = None
        bench.discarded.clear()
        if power:
            bench.lose_power()
        else:
            bench.kill()
        check(bench, before, end)
        if done:
            break
    assert done


def test_a_crash_while_a_start_finishes_a_swap_is_recovered_too() -> None:
    for kill_in in range(60, 140, 3):
        for again in range(1, 60, 7):
            bench = written(kill_in)
            before, end = state_of(bench.log), bench.log.log_end_offset
            for attempt, countdown in enumerate((kill_in, again)):
                bench.disk.kill_in = countdown
                with suppress(Killed):
                    if attempt == 0:
                        bench.clean(roll=False)
                    else:
                        bench.open(clean=False)
                bench.disk.kill_in = None
                bench.discarded.clear()
                bench.lose_power()
            check(bench, before, end)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize(
    "operation", ["pwrite", "sync", "rename", "remove", "open", "sync_dir", "pread", "truncate", "size", "reserve"]
)
def test_a_disk_error_at_any_operation_of_a_cleaning_loses_nothing(operation: str, code: int) -> None:
    for nth in range(OPERATIONS_MAX):
        bench = written(nth)
        before, end = state_of(bench.log), bench.log.log_end_offset
        fault = Fault(operation, nth, code)
        bench.disk.faults.append(fault)
        with suppress(OSError, LogOfflineError):
            bench.clean(roll=False)
        bench.disk.faults.clear()
        if bench.log.offline_error is None:
            assert state_of(bench.log) == before
        bench.discarded.clear()
        bench.kill()
        check(bench, before, end)
        if fault.nth >= 0:
            break
