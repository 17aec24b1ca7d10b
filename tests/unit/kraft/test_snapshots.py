"""Snapshots of the metadata: their files, damage, when one is due, the bootstrap records."""

from random import Random

import pytest

from kbroker.host import Disk
from kbroker.kraft import snapshots
from kbroker.kraft.batches import CorruptMetadataError, control_batch, decode_batches
from kbroker.kraft.controller.features import bootstrap_records
from kbroker.kraft.snapshots import SnapshotId, SnapshotRule
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.records import metadata as m
from kbroker.protocol.messages.records.control import SnapshotFooterRecord
from kbroker.protocol.records.batch import read_header, read_records
from kbroker.protocol.records.control import ControlRecordType, control_type, read_end_transaction_marker
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Process

DIRECTORY = "/data/__cluster_metadata-0"


@pytest.fixture
def disk() -> Disk:
    loop = SimLoop(Random(1))
    disk = SimDisk(Random(1), loop.trace)
    loop.close()
    return disk.mount(Process("node"))


def write(disk: Disk, snapshot: SnapshotId, count: int = 3) -> None:
    records = [m.TopicRecord(name=f"t{number}", topic_id=number.to_bytes(16, "big")) for number in range(count)]
    snapshots.write_snapshot(disk, DIRECTORY, snapshot, records, last_timestamp=5, now_ms=6)


def test_a_snapshot_is_named_after_its_end_offset_and_epoch(disk: Disk) -> None:
    write(disk, SnapshotId(42, 7))
    assert disk.list_dir(DIRECTORY) == ["00000000000000000042-0000000007.checkpoint"]
    assert snapshots.list_snapshots(disk, DIRECTORY) == [SnapshotId(42, 7)]


def test_header_records_footer_stand_in_that_order(disk: Disk) -> None:
    write(disk, SnapshotId(42, 7), count=4500)
    data = disk.read(f"{DIRECTORY}/{SnapshotId(42, 7).file_name}")
    batches = list(decode_batches(data))
    assert [each.control for each in batches] == [True, False, False, False, True]
    assert [each.base_offset for each in batches] == [0, 1, 2001, 4001, 4501]
    assert all(each.epoch == 7 for each in batches)
    names = [each.name for each in snapshots.read_snapshot(disk, DIRECTORY, SnapshotId(42, 7)).records]
    assert names == [f"t{number}" for number in range(4500)]


@pytest.mark.parametrize("cut", [1, 20, 80, 200])
def test_a_snapshot_that_is_cut_is_not_read(disk: Disk, cut: int) -> None:
    write(disk, SnapshotId(42, 7))
    path = f"{DIRECTORY}/{SnapshotId(42, 7).file_name}"
    data = disk.read(path)
    disk.write_atomically(path, data[:-cut])
    with pytest.raises(CorruptMetadataError):
        snapshots.read_snapshot(disk, DIRECTORY, SnapshotId(42, 7))


@pytest.mark.parametrize("position", [9, 16, 150])
def test_a_flipped_bit_is_seen_and_the_file_named(disk: Disk, position: int) -> None:
    write(disk, SnapshotId(42, 7))
    path = f"{DIRECTORY}/{SnapshotId(42, 7).file_name}"
    data = bytearray(disk.read(path))
    data[position] ^= 4
    disk.write_atomically(path, bytes(data))
    with pytest.raises(CorruptMetadataError, match=path):
        snapshots.read_snapshot(disk, DIRECTORY, SnapshotId(42, 7))


def test_old_snapshots_go_and_the_bootstrap_records_stay(disk: Disk) -> None:
    snapshots.write_bootstrap(disk, "/data", bootstrap_records(), 1)
    write(disk, SnapshotId(5, 1))
    write(disk, SnapshotId(9, 1))
    snapshots.delete_snapshots_before(disk, DIRECTORY, 9)
    assert snapshots.list_snapshots(disk, DIRECTORY) == [SnapshotId(9, 1)]
    bootstrap = snapshots.read_bootstrap(disk, "/data")
    assert bootstrap is not None
    assert [(each.name, each.feature_level) for each in bootstrap.records] == [
        ("metadata.version", 33),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("share.version", 2),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]


def test_an_unformatted_directory_has_no_bootstrap_records(disk: Disk) -> None:
    assert snapshots.read_bootstrap(disk, "/data") is None
    assert snapshots.list_snapshots(disk, DIRECTORY) == []


@pytest.mark.parametrize(
    ("size", "elapsed_ms", "due"),
    [(0, 10_000, False), (99, 0, False), (100, 0, True), (1, 999, False), (1, 1000, True)],
)
def test_a_snapshot_is_due_by_size_or_by_time_but_never_for_nothing(size: int, elapsed_ms: int, due: bool) -> None:
    assert SnapshotRule(100, 1000).is_due(size, elapsed_ms) is due


def test_an_interval_of_zero_never_comes() -> None:
    assert not SnapshotRule(100, 0).is_due(1, 1 << 40)


def test_a_control_record_of_the_quorum_is_a_batch_of_its_own_that_names_no_producer() -> None:
    footer = SnapshotFooterRecord()
    batch = control_batch([(ControlRecordType.SNAPSHOT_FOOTER, footer)], 4, 2, 1000)
    header = read_header(batch)
    assert (header.is_control, header.is_transactional, header.has_producer_id) == (True, False, False)
    (record,) = read_records(batch, max_decompressed=100)
    assert (record.offset, control_type(record.key), record.value) == (
        4,
        ControlRecordType.SNAPSHOT_FOOTER,
        encode(footer, 0),
    )
    assert read_end_transaction_marker(record) is None
