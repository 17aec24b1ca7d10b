"""A clean stop: few fsyncs for many logs, and a marker only where everything is on stable storage."""

from __future__ import annotations

import errno
from collections import Counter
from contextlib import suppress

import pytest

from kbroker.log.checkpoints import parse_lines
from kbroker.log.manager import LogManager
from kbroker.types import TopicPartition
from tests.sim.disk import Fault
from tests.sim.process import Killed
from tests.unit.log.logs import batch, read_all, topic_config
from tests.unit.log.test_manager import ID, ORDERS, Machine, filled

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
RECORDS = 3
INDEXED = topic_config(index_interval_bytes=0)


def fill(manager: LogManager, *, first: int, epoch: int) -> None:
    """``RECORDS`` records from offset ``first`` on in each log, all but one of them in a segment that is full."""
    for partition in PARTITIONS:
        log = manager.get_or_create(partition, ID, INDEXED)
        for number in range(first, first + RECORDS):
            records = batch(b"%d" % number, timestamp=number, producer_id=7, sequence=number)
            log.append_as_leader(records, epoch, 10_000)
            if number == first + 1:
                log.roll(10_000)


class SecondStop:
    """A broker that stopped cleanly once, and has taken more records since."""

    def __init__(self, *, syncs_together: bool = True, strict_names: bool = False) -> None:
        self.machine = Machine()
        self.machine.device.syncs_together = syncs_together
        self.machine.device.strict_names = strict_names
        manager = self.machine.manager()
        fill(manager, first=0, epoch=0)
        manager.close(broker_epoch=1)
        self.manager = self.machine.manager()
        for path in ("/", "/data"):  # the directory's own name, the end of the first marker: not what is looked at here
            self.machine.disk.sync_dir(path)
        fill(self.manager, first=RECORDS, epoch=1)

    def run(self) -> None:
        self.manager.close(broker_epoch=2, high_watermarks=dict.fromkeys(PARTITIONS, 2 * RECORDS))

    def check(self, *, power_was_lost: bool) -> bool:
        """Whether the marker is there; then all is there, and else what the first stop left at least."""
        disk = self.machine.disk
        for partition in PARTITIONS:
            path = f"/data/orders-{partition.partition}/leader-epoch-checkpoint"
            assert parse_lines(path, disk.read(path), 2)[0] == ["0", "0"], "what was sure before is lost"
        manager = self.machine.manager()
        is_clean = manager.directories[0].clean
        for partition in PARTITIONS:
            log = manager.get_or_create(partition, ID, INDEXED)
            end = log.log_end_offset
            assert [value for _, value in read_all(log)] == [b"%d" % number for number in range(end)]
            assert end == 2 * RECORDS or (not is_clean and power_was_lost and end >= RECORDS)
            assert log.epochs.entries == [(0, 0), (1, RECORDS)][: 1 + (end > RECORDS)]
            for number in range(end):
                found = log.offset_for_timestamp(number)
                assert found is not None
                assert found.offset == number
            repeated = batch(b"again", timestamp=0, producer_id=7, sequence=end - 1)
            assert log.append_as_leader(repeated, 1, 10_000).is_duplicate
        return is_clean


@pytest.mark.parametrize("strict_names", [False, True], ids=["journal", "strict"])
@pytest.mark.parametrize("syncs_together", [True, False], ids=["together", "file by file"])
@pytest.mark.parametrize("power", [True, False], ids=["without power", "killed"])
def test_a_crash_at_any_operation_of_a_stop_leaves_a_marker_only_where_all_is_on_stable_storage(
    power: bool, syncs_together: bool, strict_names: bool
) -> None:
    outcomes: Counter[bool] = Counter()
    for nth in range(1, 1000):
        stop = SecondStop(syncs_together=syncs_together, strict_names=strict_names)
        device = stop.machine.device
        device.kill_in, device.on_kill_due = nth, stop.machine.process.kill
        with suppress(Killed):
            stop.run()
        is_whole, device.kill_in = device.kill_in is not None, None
        if power:
            stop.machine.lose_power()
        else:
            stop.machine.kill()
        is_clean = stop.check(power_was_lost=power)
        outcomes[is_clean] += 1
        if is_whole:
            assert is_clean
            assert outcomes[False] > 20
            return
    raise AssertionError("a stop has less than a thousand operations")


def syncs_of_a_stop(monkeypatch: pytest.MonkeyPatch, logs: int, *, syncs_together: bool) -> int:
    machine = Machine()
    machine.device.syncs_together = syncs_together
    manager = machine.manager()
    filled(manager, *(TopicPartition("wide", number) for number in range(logs)))
    asked: list[str] = []
    monkeypatch.setattr(machine.device, "check", lambda operation, _path: asked.append(operation))
    manager.close(broker_epoch=1)
    return len([operation for operation in asked if operation.startswith("sync")])


def test_a_stop_needs_no_more_fsyncs_for_many_logs_than_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one = syncs_of_a_stop(monkeypatch, 1, syncs_together=True)
    assert one <= 10
    assert syncs_of_a_stop(monkeypatch, 100, syncs_together=True) == one


def test_where_files_have_to_be_synced_one_by_one_a_log_of_one_record_takes_eight_fsyncs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few, more = (syncs_of_a_stop(monkeypatch, logs, syncs_together=False) for logs in (10, 11))
    assert more - few == 8


def test_logs_that_nobody_wrote_to_are_not_synced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = SecondStop()
    stop.run()
    manager = stop.machine.manager()
    for partition in PARTITIONS:
        manager.get_or_create(partition, ID, INDEXED)
    asked: list[str] = []
    monkeypatch.setattr(stop.machine.device, "check", lambda _operation, path: asked.append(path))
    manager.close(broker_epoch=3)
    assert [path for path in asked if "/orders-" in path] == []


@pytest.mark.parametrize("nth", [0, 1])
def test_what_could_not_be_synced_in_one_go_is_synced_file_by_file(nth: int) -> None:
    stop = SecondStop()
    stop.machine.device.faults.append(Fault("sync_together", nth, errno.EIO))
    stop.run()
    assert stop.machine.device.faults[0].nth < 0
    stop.machine.lose_power()
    assert stop.check(power_was_lost=True)


def test_a_log_whose_file_cannot_be_synced_costs_its_directory_the_marker_and_not_the_other() -> None:
    machine = Machine(("/one", "/two"))
    machine.device.syncs_together = False
    manager = machine.manager()
    filled(manager, *PARTITIONS[:2])
    machine.device.faults.append(Fault("sync", 0, errno.EIO))
    manager.close(broker_epoch=1)
    assert not machine.disk.exists("/one/.kafka_cleanshutdown")
    assert machine.disk.exists("/two/.kafka_cleanshutdown")


def test_a_full_disk_at_a_stop_costs_the_marker_only() -> None:
    for nth in range(100):
        stop = SecondStop()
        fault = Fault("pwrite", nth, errno.ENOSPC, count=1000)
        stop.machine.device.faults.append(fault)
        stop.run()
        stop.machine.device.faults.clear()
        stop.machine.lose_power()
        if stop.check(power_was_lost=True):
            assert fault.nth >= 0
            assert nth > len(PARTITIONS)
            return
    raise AssertionError("a stop writes less than a hundred times")


@pytest.mark.parametrize("operation", ["open", "pwrite", "rename", "sync", "sync_dir"])
def test_a_log_that_is_deleted_while_a_worker_syncs_it_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Its directory gets another name: what the worker was about to sync there is nowhere to be found."""
    for nth in range(20):
        machine = Machine()
        manager = machine.manager()
        filled(manager, ORDERS)
        log = manager.logs[ORDERS]
        left = [nth]

        def delete(asked: str, _path: str, left: list[int] = left, manager: LogManager = manager) -> None:
            if asked == operation and ORDERS in manager.logs:
                left[0] -= 1
                if left[0] < 0:
                    manager.delete(ORDERS)

        monkeypatch.setattr(machine.device, "check", delete)
        log.sync()
        assert manager.directories[0].error is None
        if ORDERS in manager.logs:
            assert nth > 0
            return
    raise AssertionError(f"a sync asks less than twenty times for {operation}")


def test_what_a_start_finds_is_the_same_whichever_way_it_was_synced() -> None:
    contents = []
    for syncs_together in (True, False):
        stop = SecondStop(syncs_together=syncs_together)
        stop.run()
        disk = stop.machine.disk
        files = {f"{path}/{name}" for path in ("/data/orders-0", "/data/orders-2") for name in disk.list_dir(path)}
        contents.append({path: disk.read(path) for path in sorted(files)})
    assert contents[0] == contents[1]
