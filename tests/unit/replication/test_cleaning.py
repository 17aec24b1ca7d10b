"""Retention and compaction as housekeeping runs them on a broker."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator

import pytest

from kbroker.log.log import Log
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.records.metadata import ConfigRecord
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.replication.housekeeping import Housekeeping
from tests.sim.disk import Fault
from tests.unit.log.cleaning import all_records, keyed_batch
from tests.unit.replication.one_node import OneNode
from tests.unit.replication.test_partition import refused

SETTINGS = {"log.retention.check.interval.ms": "1000", "log.cleaner.backoff.ms": "1000", "segment.bytes": "1048576"}


class KeptHouse:
    """A node with its housekeeping running."""

    def __init__(self, settings: dict[str, str] | None = None, before: OneNode | None = None) -> None:
        self.node = OneNode({**SETTINGS, **(settings or {})}, before=before)
        self.housekeeping = Housekeeping(
            self.node.logs, self.node.replicas, self.node.config, self.node.host, self.node.loop
        )
        self.housekeeping.start()

    def put(self, topic: str, key: bytes, value: bytes | None = b"value") -> None:
        now_ms = self.node.host.clock.wall_ms()
        self.node.partition(topic).append_as_leader(keyed_batch((key, value), timestamp=now_ms), 1, now_ms)

    def log(self, topic: str) -> Log:
        log = self.node.partition(topic).log
        assert log is not None
        return log

    def files(self, topic: str, ending: str) -> list[str]:
        return [name for name in self.node.host.disk.list_dir(f"/data/{topic}-0") if name.endswith(ending)]


@pytest.fixture
def house() -> Iterator[KeptHouse]:
    house = KeptHouse()
    yield house
    house.node.wait(house.housekeeping.stop())
    house.node.close()


@pytest.mark.parametrize(("initial_delay_ms", "first_s"), [(None, 1), ("0", 1), ("20000", 20)])
def test_the_first_look_is_after_the_initial_delay_or_the_interval(initial_delay_ms: str | None, first_s: int) -> None:
    house = KeptHouse({} if initial_delay_ms is None else {"log.initial.task.delay.ms": initial_delay_ms})
    house.node.create("t", configs={"retention.ms": "0"})
    house.put("t", b"a")
    house.node.turn(first_s - 0.5)
    assert house.log("t").log_start_offset == 0
    house.node.turn(2)
    assert house.log("t").log_start_offset == 1
    house.node.wait(house.housekeeping.stop())
    house.node.close()


def test_old_records_go_and_their_files_after_the_delay(house: KeptHouse) -> None:
    house.node.create("t", configs={"retention.ms": "10000", "file.delete.delay.ms": "5000"})
    house.put("t", b"a")
    house.node.turn(8)
    assert house.log("t").log_start_offset == 0
    house.node.turn(5)
    assert house.log("t").log_start_offset == house.log("t").log_end_offset == 1
    assert house.files("t", ".log.deleted") == ["00000000000000000000.log.deleted"]
    house.node.turn(6)
    assert house.files("t", ".deleted") == []


def test_thousands_of_segments_go_without_holding_the_loop(house: KeptHouse) -> None:
    house.node.create("t", configs={"retention.ms": "10000", "internal.segment.bytes": "100"})
    for number in range(300):
        house.put("t", b"%d" % number)
    house.node.turn(15)
    assert house.log("t").log_start_offset == 300
    assert len(house.log("t").segments) == 1


def test_an_empty_policy_keeps_everything_but_what_was_deleted(house: KeptHouse) -> None:
    house.node.create("t", configs={"cleanup.policy": "", "retention.ms": "1000", "internal.segment.bytes": "100"})
    for number in range(4):
        house.put("t", b"%d" % number)
    house.node.turn(10)
    assert len(house.log("t").segments) == 4
    house.log("t").update_log_start_offset(2)
    house.node.turn(3)
    assert [segment.base_offset for segment in house.log("t").segments] == [2, 3]


def test_a_compacted_topic_is_compacted_and_remembers_how_far(house: KeptHouse) -> None:
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "300"})
    for number in range(20):
        house.put("t", b"%d" % (number % 2))
    house.node.turn(5)
    clean_end = house.log("t").clean_end_offset
    assert clean_end == house.log("t").segments[-1].base_offset
    assert len(all_records(house.log("t"))) < 8
    checkpoint = house.node.host.disk.read("/data/cleaner-offset-checkpoint").decode()
    assert checkpoint == f"0\n1\nt 0 {clean_end}\n"
    again = house.node.restart()
    log = again.partition("t").log
    assert log is not None
    assert log.clean_end_offset == clean_end


def test_records_without_a_key_from_before_the_compaction_go_and_are_counted(
    house: KeptHouse, caplog: pytest.LogCaptureFixture
) -> None:
    house.node.create("t", configs={"internal.segment.bytes": "300"})
    now_ms = house.node.host.clock.wall_ms()
    keyless = build_batch([Record(0, now_ms, None, b"a"), Record(0, now_ms, None, b"b")])
    house.node.partition("t").append_as_leader(keyless, 1, now_ms)
    house.node.apply(ConfigRecord(resource_type=2, resource_name="t", name="cleanup.policy", value="compact"))
    for number in range(10):
        house.put("t", b"%d" % (number % 2))
    house.node.turn(5)
    assert all_records(house.log("t"))[0].key is not None
    assert "2 records of t-0 had no key and are gone" in caplog.text


def test_compaction_and_deletion_together(house: KeptHouse) -> None:
    configs = {"cleanup.policy": "compact,delete", "retention.ms": "20000", "internal.segment.bytes": "300"}
    house.node.create("t", configs=configs)
    for number in range(20):
        house.put("t", b"%d" % (number % 2))
    house.node.turn(5)
    assert 0 < len(all_records(house.log("t"))) < 8
    house.node.turn(30)
    assert house.log("t").log_start_offset == 20


def test_a_log_that_cannot_be_cleaned_is_named_and_goes_on_serving(
    house: KeptHouse, caplog: pytest.LogCaptureFixture
) -> None:
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "300"})
    for number in range(20):
        house.put("t", b"%d" % (number % 2))
    file = house.node.host.disk.open("/data/t-0/00000000000000000000.log")
    file.pwrite(b"\xff", 70)
    file.close()
    with caplog.at_level(logging.ERROR):
        house.node.turn(10)
    assert [record.getMessage() for record in caplog.records if "cannot be cleaned" in record.getMessage()] == [
        caplog.records[0].getMessage()
    ]
    assert "00000000000000000000.log is corrupt at byte 0" in caplog.text
    house.put("t", b"more")
    assert house.log("t").log_end_offset == 21


def test_a_topic_that_is_deleted_while_it_is_cleaned_is_gone(house: KeptHouse) -> None:
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "3000"})
    for number in range(500):
        house.put("t", b"%d" % (number % 300), b"x" * 100)
    house.node.turn(1.0015)
    house.node.delete("t")
    house.node.turn(5)
    assert house.node.replicas.get("t", 0) is None


@pytest.mark.parametrize("is_enabled", [True, False])
def test_old_segments_of_a_compacted_topic_are_the_cleaners_to_delete(is_enabled: bool) -> None:
    house = KeptHouse({"log.cleaner.enable": str(is_enabled).lower(), "log.retention.check.interval.ms": "600000"})
    house.node.create("t", configs={"cleanup.policy": "compact,delete", "retention.ms": "5000"})
    house.put("t", b"a")
    house.node.turn(4)
    assert house.log("t").log_start_offset == 0
    house.node.turn(4 if is_enabled else 2000)
    assert house.log("t").log_start_offset == int(is_enabled)
    house.node.wait(house.housekeeping.stop())
    house.node.close()


def test_a_disabled_cleaner_leaves_everything() -> None:
    house = KeptHouse({"log.cleaner.enable": "false"})
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "300"})
    for number in range(20):
        house.put("t", b"%d" % (number % 2))
    house.node.turn(20)
    assert len(all_records(house.log("t"))) == 20
    house.node.wait(house.housekeeping.stop())
    house.node.close()


def test_a_changed_backoff_acts(house: KeptHouse) -> None:
    house.node.apply(ConfigRecord(resource_type=4, resource_name="", name="log.cleaner.backoff.ms", value="60000"))
    house.node.turn(3)
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "300"})
    for number in range(20):
        house.put("t", b"%d" % (number % 2))
    house.node.turn(30)
    assert len(all_records(house.log("t"))) == 20
    house.node.turn(40)
    assert len(all_records(house.log("t"))) < 8


def test_a_slow_cleaner_keeps_to_its_rate() -> None:
    house = KeptHouse({"log.cleaner.io.max.bytes.per.second": "20000"})
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "30000"})
    for number in range(1500):
        house.put("t", b"%d" % (number % 300), b"x" * 100)
    house.node.turn(6)
    assert house.log("t").clean_end_offset is None
    house.node.turn(40)
    assert house.log("t").clean_end_offset is not None
    house.node.wait(house.housekeeping.stop())
    house.node.close()


def test_so_many_logs_are_cleaned_at_a_time_as_there_are_threads() -> None:
    for threads, most in (("1", 1), ("2", 2)):
        house = KeptHouse({"log.cleaner.threads": threads})
        topics = ("one", "two", "three")
        for topic in topics:
            house.node.create(topic, configs={"cleanup.policy": "compact", "internal.segment.bytes": "3000"})
            for number in range(200):
                house.put(topic, b"%d" % (number % 100), b"x" * 100)
        seen = set()
        for _ in range(4000):
            house.node.turn(0.001)
            seen.add(sum(bool(house.files(topic, ".cleaned")) for topic in topics))
        assert max(seen) == most
        assert all(house.log(topic).clean_end_offset is not None for topic in topics)
        house.node.wait(house.housekeeping.stop())
        house.node.close()


def test_a_stop_drops_what_is_being_cleaned_and_does_not_wait_for_the_rate() -> None:
    house = KeptHouse({"log.cleaner.io.max.bytes.per.second": "100"})
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "3000"})
    for number in range(500):
        house.put("t", b"%d" % (number % 300), b"x" * 100)
    while not house.log("t").segments[0].created_ms or not house.files("t", ".deleted"):
        house.node.turn(0.001)
    started_ms = house.node.host.clock.monotonic_ms()
    house.node.wait(house.housekeeping.stop())
    assert house.node.host.clock.monotonic_ms() - started_ms < 1000
    assert house.files("t", ".cleaned") == house.files("t", ".swap") == []
    assert {record.key for record in all_records(house.log("t"))} == {b"%d" % number for number in range(300)}
    house.node.close()


def test_a_log_that_is_cut_while_it_is_cleaned_is_cleaned_anew(house: KeptHouse) -> None:
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "3000"})
    for number in range(500):
        house.put("t", b"%d" % (number % 300), b"x" * 100)
    while not house.files("t", ".cleaned"):
        house.node.turn(0.001)
    house.log("t").truncate_to(400, house.node.host.clock.wall_ms())
    house.node.turn(10)
    assert house.files("t", ".cleaned") == house.files("t", ".swap") == []
    assert house.log("t").clean_end_offset == house.log("t").segments[-1].base_offset
    found = {record.key: record.offset for record in all_records(house.log("t"))}
    assert found == {b"%d" % (offset % 300): offset for offset in range(400)}


def test_a_cleaning_is_dropped_when_the_policy_is_compaction_no_more(house: KeptHouse) -> None:
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "3000"})
    for number in range(500):
        house.put("t", b"%d" % (number % 300), b"x" * 100)
    while not house.files("t", ".cleaned"):
        house.node.turn(0.001)
    count = len(all_records(house.log("t")))
    house.node.apply(ConfigRecord(resource_type=2, resource_name="t", name="cleanup.policy", value="delete"))
    house.node.turn(10)
    assert len(all_records(house.log("t"))) == count == 500
    assert house.files("t", ".cleaned") == house.files("t", ".swap") == []


def test_retention_renames_in_a_worker_and_the_log_can_be_deleted_meanwhile(house: KeptHouse) -> None:
    house.node.create("t", configs={"retention.ms": "10000", "internal.segment.bytes": "100"})
    for number in range(10):
        house.put("t", b"%d" % number)
    while house.log("t").log_start_offset == 0:
        house.node.turn(0.0001)
    assert house.files("t", ".deleted") == []
    house.node.delete("t")
    house.node.create("t")
    house.put("t", b"new")
    house.node.turn(5)
    assert house.files("t", ".log") == ["00000000000000000000.log"]
    assert [record.key for record in all_records(house.log("t"))] == [b"new"]


def test_a_disk_without_room_for_a_cleaning_is_tried_again_later(
    house: KeptHouse, caplog: pytest.LogCaptureFixture
) -> None:
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "3000"})
    for number in range(100):
        house.put("t", b"%d" % number, b"x" * 100)
    house.node.disk.faults.append(Fault("pwrite", 3, errno.ENOSPC, count=20))
    house.node.turn(10)
    assert house.log("t").offline_error is None
    assert "There is no room to clean t-0" in caplog.text
    assert "cannot be cleaned" not in caplog.text
    house.node.disk.faults.clear()
    house.node.turn(10)
    assert house.log("t").clean_end_offset == house.log("t").segments[-1].base_offset
    assert house.files("t", ".cleaned") == []


@pytest.mark.parametrize("operation", ["pread", "sync", "rename"])
def test_an_error_of_the_disk_while_cleaning_takes_the_data_directory_offline(
    house: KeptHouse, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    house.node.create("t", configs={"cleanup.policy": "compact", "internal.segment.bytes": "3000"})
    house.node.create("other")
    house.put("other", b"x")
    for number in range(100):
        house.put("t", b"%d" % (number % 10), b"x" * 100)
    while not house.files("t", ".cleaned"):
        house.node.turn(0.001)
    house.node.disk.faults.append(Fault(operation, 0, errno.EIO))
    house.node.turn(1)
    assert "cannot be cleaned" not in caplog.text
    for topic in ("t", "other"):
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            house.node.partition(topic)
