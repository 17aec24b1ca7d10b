import pytest

from kbroker.config import BrokerConfig
from kbroker.kraft.batches import data_batch, decode_batches
from kbroker.kraft.controller.brokers import BrokerSessions, broker_heartbeat, register_broker
from kbroker.kraft.controller.features import activation_records, bootstrap_records, default_levels
from kbroker.kraft.image import EMPTY, METADATA_VERSION, MetadataImage
from kbroker.kraft.metadata_versions import LATEST, OLDEST, level_of, name_of
from kbroker.kraft.record_versions import version_of
from kbroker.kraft.snapshots import SnapshotId, encode_snapshot
from kbroker.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kbroker.protocol.messages.broker_registration import BrokerRegistrationRequest
from kbroker.protocol.messages.records import metadata as m
from kbroker.protocol.record_codec import decode_metadata_record_version
from kbroker.protocol.records.batch import batches, read_records
from tests.unit.kraft.cluster_image import broker_record, image_of, partition_record
from tests.unit.kraft.test_topics import create, made
from tests.unit.kraft.world import topic

DIRECTORY = b"0123456789abcdef"


def level(number: int) -> m.FeatureLevelRecord:
    return m.FeatureLevelRecord(name=METADATA_VERSION, feature_level=number)


def at(number: int) -> MetadataImage:
    return image_of(level(number), broker_record(1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4.4-IV2", 33),
        ("4.4", 33),
        ("4.4.0", 33),
        ("3.9.2", 21),
        ("3.7-IV2", 17),
        ("3.7", 19),
        ("3.3-IV3", OLDEST),
        ("3.3", OLDEST),
        ("3.3-IV2", None),
        ("4.5", None),
        ("4", None),
        ("33", None),
        ("", None),
    ],
)
def test_a_release_version_is_a_level_or_the_newest_of_a_release(text: str, expected: int | None) -> None:
    assert level_of(text) == expected


def test_every_level_has_a_name_and_no_other() -> None:
    assert [level_of(str(name_of(each))) for each in range(OLDEST, LATEST + 1)] == list(range(OLDEST, LATEST + 1))
    assert (name_of(OLDEST - 1), name_of(LATEST + 1), name_of(LATEST)) == (None, None, "4.4-IV2")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (20, {}),
        (21, {"kraft.version": 1}),
        (25, {"kraft.version": 1, "group.version": 1, "transaction.version": 2}),
    ],
)
def test_a_cluster_begins_with_the_features_of_its_release(number: int, expected: dict[str, int]) -> None:
    assert {name: each for name, each in default_levels(number).items() if each} == expected


def test_formatting_writes_levels_above_nothing_by_name_and_leaves_the_quorum_as_it_is() -> None:
    records = bootstrap_records(LATEST, {"group.version": 0, "transaction.version": 1})
    assert [(each.name, each.feature_level) for each in records] == [
        (METADATA_VERSION, LATEST),
        ("eligible.leader.replicas.version", 1),
        ("share.version", 2),
        ("streams.version", 1),
        ("transaction.version", 1),
    ]


def test_records_that_count_together_are_written_where_there_are_such() -> None:
    kinds = [type(each) for each in activation_records(EMPTY, bootstrap_records(12), BrokerConfig({}))]
    assert kinds == [m.FeatureLevelRecord]
    kinds = [type(each) for each in activation_records(EMPTY, bootstrap_records(13), BrokerConfig({}))]
    assert kinds == [m.BeginTransactionRecord, m.FeatureLevelRecord, m.EndTransactionRecord]


@pytest.mark.parametrize(
    ("number", "partition", "broker"),
    [(7, 0, 1), (8, 0, 2), (16, 0, 2), (17, 1, 3), (23, 2, 3), (30, 2, 4), (33, 2, 4)],
)
def test_records_have_the_versions_of_the_level(number: int, partition: int, broker: int) -> None:
    assert version_of(m.PartitionRecord(), number) == version_of(m.PartitionChangeRecord(), number) == partition
    assert version_of(m.RegisterBrokerRecord(), number) == broker


def test_a_new_partition_has_directories_where_the_level_has_them() -> None:
    for number, known in ((16, False), (17, True)):
        image = at(number)
        result = create(topic("t", 1), image=image)
        assert bool(made(result, image).partitions[0].directories) is known
        (batch,) = decode_batches(data_batch(result.records, 0, 1, 1, number))
        assert batch.records == result.records


def registration() -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(broker_id=2, cluster_id="c", incarnation_id=bytes(16), log_dirs=[DIRECTORY])


def test_a_broker_is_registered_with_its_directories_where_the_level_has_them() -> None:
    for number, directories in ((16, []), (17, [DIRECTORY])):
        request = registration()
        request.features = [
            BrokerRegistrationRequest.Feature(
                name=METADATA_VERSION, min_supported_version=OLDEST, max_supported_version=LATEST
            )
        ]
        config = BrokerConfig({})
        result = register_broker(
            at(number), request, cluster_id="c", next_offset=9, has_valid_session=False, config=config
        )
        assert [each.log_dirs for each in result.records] == [directories]


def test_cordoned_directories_are_written_down_where_the_level_has_them() -> None:
    for number, kinds in ((29, []), (30, [m.BrokerRegistrationChangeRecord])):
        image = at(number)
        request = BrokerHeartbeatRequest(
            broker_id=1,
            broker_epoch=image.cluster.brokers[1].epoch,
            current_metadata_offset=image.offset,
            cordoned_log_dirs=[],
        )
        result = broker_heartbeat(image, BrokerSessions(9000), request, 9, BrokerConfig({}))
        assert [type(each) for each in result.records] == kinds


@pytest.mark.parametrize(("number", "version"), [(16, 0), (17, 1), (33, 2)])
def test_a_snapshot_is_written_at_the_level_that_it_begins_with(number: int, version: int) -> None:
    partition = partition_record()
    partition.directories = []
    data = encode_snapshot(SnapshotId(5, 1), [level(number), partition], 1, 1)
    records = [
        decode_metadata_record_version(each.value or b"")
        for header, batch in batches(data)
        if not header.is_control
        for each in read_records(batch, max_decompressed=10_000)
    ]
    assert records == [(level(number), 0), (partition, version)]
