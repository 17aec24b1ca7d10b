"""One failed disk operation anywhere in the work of a log: nothing acknowledged is lost, nothing refused is seen."""

from __future__ import annotations

import errno

import pytest

from kbroker.log.errors import LogOfflineError
from kbroker.protocol.errors import ApiError
from tests.sim.disk import Fault
from tests.unit.log.logs import Bench, read_all

OPERATIONS = (
    "open",
    "pwrite",
    "pread",
    "truncate",
    "sync",
    "sync_dir",
    "rename",
    "make_dirs",
    "size",
    "reserve",
    "read",
)
REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
TURNS = 12


def work(bench: Bench, acknowledged: list[bytes]) -> None:
    """Appends, rolls and syncs that go on when something is refused. Raises ``LogOfflineError``."""
    for turn in range(TURNS):
        try:
            bench.append(b"%d" % turn, producer_id=7, sequence=len(acknowledged), timestamp=400 * turn)
            acknowledged.append(b"%d" % turn)
            if turn % 3 == 2:
                bench.log.mark_flushed(bench.log.sync(), 0)
        except LogOfflineError:
            raise
        except ApiError:
            continue


@pytest.mark.parametrize("code", [errno.EIO, *REFUSALS])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_fault_at_any_operation_loses_nothing_and_shows_nothing_that_was_refused(operation: str, code: int) -> None:
    for nth in range(200):
        bench = Bench(segment_ms=1000)
        fault = Fault(operation, nth, code)
        bench.disk.faults.append(fault)
        acknowledged: list[bytes] = []
        try:
            work(bench, acknowledged)
        except LogOfflineError:
            assert code == errno.EIO or operation not in ("pwrite", "open", "make_dirs"), "room would have helped"
        bench.disk.faults.clear()
        if bench.log.offline_error is None:
            assert [value for _, value in read_all(bench.log)] == acknowledged
        bench.kill()
        log = bench.open(clean=False)
        assert [value for _, value in read_all(log)] == acknowledged
        assert [offset for offset, _ in read_all(log)] == list(range(len(acknowledged)))
        if fault.nth >= 0:
            return
    raise AssertionError(f"more than 200 of {operation}")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_log_that_had_no_room_to_close_is_recovered(operation: str) -> None:
    for nth in range(50):
        bench = Bench(segment_ms=1000)
        acknowledged: list[bytes] = []
        work(bench, acknowledged)
        fault = Fault(operation, nth, errno.ENOSPC)
        bench.disk.faults.append(fault)
        clean = True
        try:
            bench.log.close()
            bench.log.sync()
            bench.log.release()
        except ApiError:
            clean = False
        bench.disk.faults.clear()
        bench.kill()
        log = bench.open(clean=clean)
        assert [value for _, value in read_all(log)] == acknowledged
        if fault.nth >= 0:
            return
