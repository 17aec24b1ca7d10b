"""One failed disk operation anywhere in the work of a log: nothing acknowledged is lost, nothing refused is seen.

That of a cleaning is in ``test_cleaner_crashes``.
"""

from __future__ import annotations

import errno

import pytest

from kbroker.log import checkpoints
from kbroker.log.errors import LogOfflineError
from kbroker.protocol.errors import ApiError
from tests.sim.disk import Fault
from tests.unit.log.logs import Bench, batch, read_all
from tests.unit.log.test_manager import CONFIG, ID, ORDERS, Machine, filled

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


@pytest.mark.parametrize("power", [False, True], ids=["killed", "without power"])
@pytest.mark.parametrize("code", [errno.EIO, *REFUSALS])
@pytest.mark.parametrize("operation", ["open", "truncate", "pwrite", "sync", "rename", "sync_dir"])
def test_a_fault_at_any_operation_of_a_checkpoint_leaves_the_old_or_the_new_one(
    operation: str, code: int, power: bool
) -> None:
    for nth in range(20):
        machine = Machine()
        manager = machine.manager()
        filled(manager, ORDERS)
        log = manager.logs[ORDERS]
        log.mark_flushed(log.sync(), 0)
        assert manager.checkpoint_job({ORDERS: 3})()
        log.append_as_leader(batch(b"3"), 0, 10_000)
        log.mark_flushed(log.sync(), 0)
        fault = Fault(operation, nth, code)
        machine.device.faults.append(fault)
        is_whole = manager.checkpoint_job({ORDERS: 4})()
        machine.device.faults.clear()
        for name in (checkpoints.RECOVERY_POINT, checkpoints.HIGH_WATERMARK):
            assert checkpoints.read_offsets(machine.disk, f"/data/{name}")[ORDERS] in ((4,) if is_whole else (3, 4))
        if code == errno.EIO:
            assert (log.offline_error is None) == is_whole
        else:
            assert manager.checkpoint_job({ORDERS: 4})(), "there was room again"
        if power:
            machine.lose_power()
        else:
            machine.kill()
        found = machine.manager().get_or_create(ORDERS, ID, CONFIG)
        assert [value for _, value in read_all(found)] == [b"0", b"1", b"2", b"3"]
        if fault.nth >= 0:
            assert nth > 1
            return
    raise AssertionError(f"more than 20 of {operation}")
