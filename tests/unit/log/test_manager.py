"""The data directories of a broker: whose they are, what is loaded, set aside, removed, and left behind by a stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest

from kbroker.host import Disk, Host, Timer
from kbroker.log import checkpoints, meta_properties
from kbroker.log.errors import InconsistentDirectoryError, LogOfflineError
from kbroker.log.manager import REMOVALS_IN_A_JOB, LogManager
from kbroker.types import TopicPartition
from tests.sim import disk as sim_disk
from tests.sim.disk import SimDisk
from tests.sim.process import Process
from tests.sim.trace import Trace
from tests.unit.log.logs import batch, read_all, topic_config

ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 3)
ID, OTHER_ID = bytes(15) + b"\x07", bytes(15) + b"\x08"
CONFIG = topic_config()


class StillClock:
    """Both clocks, moved by the test."""

    def __init__(self) -> None:
        self.now_ms = 10_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def call_later(self, delay_ms: float, callback: Callable[..., None], *arguments: object) -> Timer:
        raise NotImplementedError


class NoWorkers:
    def run(self, work: Callable[[], object]) -> object:
        raise NotImplementedError


class Machine:
    """A disk on which one broker after the other keeps its logs."""

    def __init__(self, directories: tuple[str, ...] = ("/data",)) -> None:
        self.device = SimDisk(Random(1), Trace(lambda: 0.0))
        self.clock = StillClock()
        self.directories = directories
        self.process = Process("broker")

    @property
    def disk(self) -> Disk:
        return self.device.mount(self.process)

    def manager(self, *, node_id: int = 1, cluster_id: str = "cluster") -> LogManager:
        host = Host(self.clock, self.disk, Random(2), NoWorkers())  # type: ignore[arg-type] # nothing is run in them
        manager = LogManager(host, self.directories)
        manager.open(node_id, cluster_id)
        manager.format(cluster_id, node_id)
        return manager

    def kill(self) -> None:
        self.process.kill()
        self.process = Process("broker")

    def lose_power(self) -> None:
        self.process.kill()
        self.device.lose_power()
        self.process = Process("broker")

    def damage(self, path: str, position: int) -> None:
        file = self.disk.open(path)
        file.pwrite(b"\xff\xff\xff\xff", position)
        file.close()


def filled(manager: LogManager, *partitions: TopicPartition, records: int = 3) -> None:
    for partition in partitions:
        log = manager.get_or_create(partition, ID, CONFIG)
        for number in range(records):
            log.append_as_leader(batch(b"%d" % number), 0, 10_000)


def remove_due(manager: LogManager) -> None:
    job = manager.removal_job()
    if job is not None:
        job()


def test_a_stopped_broker_leaves_markers_and_checkpoints_in_kafkas_formats() -> None:
    machine = Machine()
    manager = machine.manager()
    filled(manager, ORDERS, PAYMENTS)
    manager.logs[PAYMENTS].update_log_start_offset(2)
    manager.close(broker_epoch=42, high_watermarks={ORDERS: 3, PAYMENTS: 3})
    disk = machine.disk
    assert json.loads(disk.read("/data/.kafka_cleanshutdown")) == {"version": 0, "brokerEpoch": 42}
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n2\norders 0 3\npayments 3 3\n"
    assert disk.read("/data/log-start-offset-checkpoint") == b"0\n1\npayments 3 2\n"
    assert disk.read("/data/replication-offset-checkpoint") == b"0\n2\norders 0 3\npayments 3 3\n"
    assert disk.read("/data/payments-3/partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw"


def test_a_clean_marker_is_taken_away_by_the_next_start_which_knows_the_broker_epoch() -> None:
    machine = Machine()
    machine.manager().close(broker_epoch=42)
    manager = machine.manager()
    assert manager.directories[0].clean
    assert manager.directories[0].previous_broker_epoch == 42
    assert not machine.disk.exists("/data/.kafka_cleanshutdown")


@pytest.mark.parametrize("clean", [True, False])
def test_the_next_start_finds_the_records_and_the_log_start(clean: bool) -> None:
    machine = Machine()
    manager = machine.manager()
    filled(manager, ORDERS)
    manager.logs[ORDERS].update_log_start_offset(1)
    if clean:
        manager.close()
    else:
        manager.checkpoint_job({})()
        machine.kill()
    log = machine.manager().get_or_create(ORDERS, ID, CONFIG)
    assert read_all(log) == [(1, b"1"), (2, b"2")]


def test_five_thousand_empty_partitions_touch_no_disk() -> None:
    machine = Machine()
    manager = machine.manager()
    machine.device.capacity = 0
    for number in range(5000):
        manager.get_or_create(TopicPartition("wide", number), ID, CONFIG)
    assert [name for name in machine.disk.list_dir("/data") if name.startswith("wide")] == []


def test_a_directory_in_use_is_refused_in_one_line() -> None:
    machine = Machine()
    machine.manager()
    with pytest.raises(InconsistentDirectoryError, match="/data is in use by another process"):
        machine.manager()


def test_a_directory_of_another_node_or_cluster_is_refused() -> None:
    machine = Machine()
    machine.manager().close()
    machine.kill()
    with pytest.raises(InconsistentDirectoryError, match="belongs to node 1, not to 2"):
        machine.manager(node_id=2)
    machine.kill()
    with pytest.raises(InconsistentDirectoryError, match="belongs to cluster cluster, not to other"):
        machine.manager(cluster_id="other")


def test_a_copy_of_a_directory_is_refused_beside_it() -> None:
    machine = Machine(("/one", "/two"))
    machine.manager()
    machine.kill()
    machine.disk.write_atomically("/two/meta.properties", machine.disk.read("/one/meta.properties"))
    with pytest.raises(InconsistentDirectoryError, match="It was the ID of /one, but also of /two"):
        machine.manager()


def test_a_reserved_directory_id_is_refused_by_name() -> None:
    machine = Machine()
    machine.manager().close()
    path = "/data/meta.properties"
    lines = machine.disk.read(path).decode().splitlines()
    kept = [line for line in lines if not line.startswith("directory.id")]
    machine.disk.write_atomically(path, "\n".join([*kept, "directory.id=AAAAAAAAAAAAAAAAAAAAFQ", ""]).encode())
    with pytest.raises(InconsistentDirectoryError, match="Invalid reserved directory ID AAAAAAAAAAAAAAAAAAAAFQ"):
        machine.manager()
    machine.kill()
    machine.disk.write_atomically(path, "\n".join([*kept, ""]).encode())
    assert machine.manager().directories[0].id is not None


def test_meta_properties_are_read_as_kafka_writes_them() -> None:
    machine = Machine()
    machine.disk.make_dirs("/data")
    text = (
        b"#\n#Sun Nov 29 17:51:13 UTC 2026\nnode.id=1\ndirectory.id=ZGBmTYnXohtf7ceDVRpxbA\nversion=1\ncluster.id=c\n"
    )
    machine.disk.write_atomically("/data/meta.properties", text)
    properties = meta_properties.read(machine.disk, "/data")
    assert properties is not None
    assert (properties.cluster_id, properties.node_id) == ("c", 1)
    meta_properties.write(machine.disk, "/data", properties)
    assert meta_properties.read(machine.disk, "/data") == properties


def test_a_deleted_log_is_renamed_at_once_and_removed_after_the_delay() -> None:
    machine = Machine()
    manager = machine.manager()
    filled(manager, ORDERS)
    records = manager.logs[ORDERS].read(0, 1000)
    manager.delete(ORDERS)
    (moved,) = [name for name in machine.disk.list_dir("/data") if name.startswith("orders")]
    assert moved.startswith("orders-0.")
    assert moved.endswith("-delete")
    assert not isinstance(records, bytes)
    assert len(records.to_bytes()) == len(records)
    machine.clock.now_ms += 59_999
    remove_due(manager)
    assert machine.disk.exists(f"/data/{moved}")
    machine.clock.now_ms += 1
    remove_due(manager)
    assert not machine.disk.exists(f"/data/{moved}")


def test_a_deletion_that_a_kill_interrupted_is_finished_by_the_next_broker() -> None:
    machine = Machine()
    manager = machine.manager()
    filled(manager, ORDERS)
    manager.delete(ORDERS)
    machine.kill()
    manager = machine.manager()
    machine.clock.now_ms += 60_000
    remove_due(manager)
    assert [name for name in machine.disk.list_dir("/data") if name.startswith("orders")] == []


def test_a_topic_made_again_under_its_name_does_not_see_the_old_records() -> None:
    machine = Machine()
    manager = machine.manager()
    filled(manager, ORDERS)
    machine.kill()
    manager = machine.manager()
    log = manager.get_or_create(ORDERS, OTHER_ID, CONFIG)
    assert log.log_end_offset == 0
    (stray,) = [name for name in machine.disk.list_dir("/data") if name.startswith("orders")]
    assert stray.endswith("-stray")


@pytest.mark.parametrize("opened_before", [False, True])
def test_where_case_does_not_count_a_second_topic_of_a_name_is_offline_and_the_first_unharmed(
    monkeypatch: pytest.MonkeyPatch, opened_before: bool
) -> None:
    parts, parent = sim_disk._parts, sim_disk.Mount._parent  # noqa: SLF001 # as on macOS
    monkeypatch.setattr(sim_disk, "_parts", lambda path: parts(path.lower()))
    monkeypatch.setattr(sim_disk.Mount, "_parent", lambda mount, path: parent(mount, path.lower()))
    other = TopicPartition("Orders", 0)
    machine = Machine()
    manager = machine.manager()
    if opened_before:
        manager.get_or_create(other, OTHER_ID, CONFIG)
    filled(manager, ORDERS)
    for _ in range(2):
        with pytest.raises(LogOfflineError, match="upper and lower case"):
            manager.get_or_create(other, OTHER_ID, CONFIG).append_as_leader(batch(b"x"), 0, 10_000)
    assert read_all(manager.logs[ORDERS]) == [(0, b"0"), (1, b"1"), (2, b"2")]
    machine.kill()
    manager = machine.manager()
    assert len(read_all(manager.get_or_create(ORDERS, ID, CONFIG))) == 3
    manager.delete(ORDERS)
    manager.get_or_create(other, OTHER_ID, CONFIG).append_as_leader(batch(b"x"), 0, 10_000)


def test_directories_that_no_partition_asks_for_are_set_aside() -> None:
    machine = Machine()
    manager = machine.manager()
    filled(manager, ORDERS, PAYMENTS, TopicPartition("__cluster_metadata", 0))
    machine.kill()
    manager = machine.manager()
    manager.get_or_create(ORDERS, ID, CONFIG)
    (stray,) = manager.mark_strays()
    assert stray.startswith("/data/payments-3.")
    assert machine.disk.exists("/data/__cluster_metadata-0")


def test_one_damaged_log_does_not_stop_the_others_and_spoils_the_clean_marker() -> None:
    machine = Machine()
    manager = machine.manager()
    filled(manager, ORDERS, PAYMENTS)
    machine.kill()
    machine.damage("/data/orders-0/00000000000000000000.log", 17)
    manager = machine.manager()
    with pytest.raises(LogOfflineError, match="orders-0"):
        manager.get_or_create(ORDERS, ID, CONFIG)
    assert len(read_all(manager.get_or_create(PAYMENTS, ID, CONFIG))) == 3
    manager.close()
    assert not machine.disk.exists("/data/.kafka_cleanshutdown")


def test_a_damaged_log_stays_offline_where_it_is_until_its_topic_is_deleted() -> None:
    machine = Machine(("/one", "/two"))
    manager = machine.manager()
    filled(manager, ORDERS)
    machine.kill()
    machine.damage("/one/orders-0/00000000000000000000.log", 17)
    manager = machine.manager()
    for _ in range(3):
        with pytest.raises(LogOfflineError, match=r"/one/orders-0/0{20}\.log is corrupt at byte 0"):
            manager.get_or_create(ORDERS, ID, CONFIG)
    assert manager.mark_strays() == []
    manager.delete(ORDERS)
    assert manager.get_or_create(ORDERS, OTHER_ID, CONFIG).log_end_offset == 0
    machine.clock.now_ms += 60_000
    remove_due(manager)
    assert [name for name in machine.disk.list_dir("/one") if name.startswith("orders")] == []


def test_new_logs_go_to_the_directory_with_the_fewest() -> None:
    machine = Machine(("/one", "/two"))
    manager = machine.manager()
    filled(manager, *(TopicPartition("wide", number) for number in range(4)))
    for path in machine.directories:
        assert len([name for name in machine.disk.list_dir(path) if name.startswith("wide")]) == 2


def test_a_rolled_log_is_due_for_a_sync_and_an_appended_one_only_by_its_settings() -> None:
    machine = Machine()
    manager = machine.manager()
    filled(manager, ORDERS)
    assert manager.due_for_sync() == []
    manager.logs[ORDERS].config = topic_config(flush_messages=3)
    assert manager.due_for_sync() == [manager.logs[ORDERS]]
    manager.logs[ORDERS].config = topic_config(flush_ms=1000)
    assert manager.due_for_sync() == []
    machine.clock.now_ms += 1000
    assert manager.due_for_sync() == [manager.logs[ORDERS]]
    manager.logs[ORDERS].config = CONFIG
    manager.logs[ORDERS].roll(10_000)
    assert manager.due_for_sync() == [manager.logs[ORDERS]]


def test_what_a_kill_left_unsynced_is_synced_before_it_is_served_where_flush_messages_asks_for_it() -> None:
    """Else a power loss could take what readers, and coordinators, have seen since."""
    for flush_messages, left in ((1, 4), (2**63 - 1, 3)):
        machine = Machine()
        manager = machine.manager()
        filled(manager, ORDERS)
        log = manager.logs[ORDERS]
        log.mark_flushed(log.sync(), 10_000)
        log.append_as_leader(batch(b"unsynced"), 0, 10_000)
        machine.kill()
        machine.device.random.seed(3)
        config = topic_config(flush_messages=flush_messages)
        log = machine.manager().get_or_create(ORDERS, ID, config)
        assert log.log_end_offset == 4
        assert log.recovery_point == (4 if flush_messages == 1 else 0)
        machine.lose_power()
        assert len(read_all(machine.manager().get_or_create(ORDERS, ID, config))) == left


def test_many_removals_are_done_in_pieces_so_that_fsyncs_come_between() -> None:
    machine = Machine()
    manager = machine.manager()
    partitions = [TopicPartition("orders", number) for number in range(REMOVALS_IN_A_JOB + 10)]
    filled(manager, *partitions)
    for partition in partitions:
        manager.delete(partition)
    machine.clock.now_ms += 60_000
    left = []
    for _ in range(3):
        remove_due(manager)
        left.append(len([name for name in machine.disk.list_dir("/data") if name.endswith("-delete")]))
    assert left == [10, 0, 0]


def test_an_unreadable_checkpoint_counts_as_empty() -> None:
    machine = Machine()
    filled(machine.manager(), ORDERS)
    machine.kill()
    machine.disk.write_atomically(f"/data/{checkpoints.RECOVERY_POINT}", b"7\nrubbish")
    assert len(read_all(machine.manager().get_or_create(ORDERS, ID, CONFIG))) == 3
