"""The metadata image: made of records, never changed, and written as records again."""

import pytest

from kbroker.kraft.image import EMPTY, RESOURCE_BROKER, RESOURCE_TOPIC, MetadataDelta, MetadataError, MetadataImage
from kbroker.kraft.image_records import image_records
from kbroker.protocol.messages.records import metadata as m
from tests.unit.kraft.cluster_image import (
    TOPIC_ID,
    broker_record,
    features,
    image_of,
    partition_record,
    the_partition,
    three_brokers,
)


def applied(image: MetadataImage, *records: object) -> tuple[MetadataImage, MetadataDelta]:
    return image.apply(records, image.offset + 1, 2)


def test_an_image_is_never_changed_by_what_follows_it() -> None:
    before = three_brokers(partition_record())
    topics, brokers = dict(before.topics.by_id), dict(before.cluster.brokers)
    partitions = dict(before.topics.by_id[TOPIC_ID].partitions)
    applied(
        before,
        m.PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=2),
        m.TopicRecord(name="u", topic_id=b"u" * 16),
        m.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=101, fenced=1),
        m.ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="t", name="retention.ms", value="1"),
    )
    assert dict(before.topics.by_id) == topics
    assert dict(before.topics.by_id[TOPIC_ID].partitions) == partitions
    assert dict(before.cluster.brokers) == brokers
    assert before.configs.of_topic("t") == {}


def test_what_a_batch_does_not_touch_is_shared() -> None:
    before = three_brokers(partition_record())
    after, _ = applied(before, m.TopicRecord(name="u", topic_id=b"u" * 16))
    assert after.cluster is before.cluster
    assert after.configs is before.configs
    assert after.topics.by_id[TOPIC_ID] is before.topics.by_id[TOPIC_ID]


def test_a_metadata_log_that_began_before_kafka_4_is_read_on() -> None:
    before = three_brokers()
    after, _ = applied(before, m.ZkMigrationStateRecord(zk_migration_state=0))
    assert after.retained == before.retained


def test_a_named_leader_opens_a_leader_epoch_even_when_it_is_the_old_one() -> None:
    before = three_brokers(partition_record())
    after, delta = applied(before, m.PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=1))
    partition = the_partition(after)
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 6, 8)
    assert delta.changed_partitions == {TOPIC_ID: {0: partition}}
    assert not delta.created_topics


def test_a_change_without_a_leader_keeps_the_leader_epoch() -> None:
    before = three_brokers(partition_record())
    after, _ = applied(before, m.PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1, 2]))
    partition = the_partition(after)
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1, 2), 5, 8)


def test_a_created_topic_is_in_the_delta_with_its_partitions() -> None:
    _, delta = applied(EMPTY, m.TopicRecord(name="t", topic_id=TOPIC_ID), partition_record(0), partition_record(1))
    topic = delta.created_topics[TOPIC_ID]
    assert list(topic.partitions) == [0, 1]
    assert list(delta.changed_partitions[TOPIC_ID]) == [0, 1]


def test_a_topic_that_comes_and_goes_in_one_batch_leaves_no_trace() -> None:
    image, delta = applied(
        EMPTY,
        m.TopicRecord(name="a.b", topic_id=TOPIC_ID),
        partition_record(0),
        m.RemoveTopicRecord(topic_id=TOPIC_ID),
    )
    assert not image.topics.by_id
    assert not image.topics.by_name
    assert not image.topics.colliding
    assert not delta.created_topics
    assert not delta.deleted_topics
    assert not delta.changed_partitions


def test_a_deleted_topic_takes_its_configs_along_and_its_name_is_free_again() -> None:
    before = three_brokers(
        partition_record(),
        m.ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="t", name="retention.ms", value="1"),
    )
    after, delta = applied(before, m.RemoveTopicRecord(topic_id=TOPIC_ID), m.TopicRecord(name="t", topic_id=b"n" * 16))
    assert after.topics.by_name["t"].id == b"n" * 16
    assert after.configs.of_topic("t") == {}
    assert delta.deleted_topics == {TOPIC_ID: before.topics.by_id[TOPIC_ID]}
    assert delta.changed_configs == {(RESOURCE_TOPIC, "t"): {}}


def test_a_config_of_null_is_no_longer_set() -> None:
    before = image_of(m.ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name="a", value="1"))
    after, delta = applied(
        before, m.ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name="a", value=None)
    )
    assert after.configs.by_resource == {}
    assert delta.changed_configs == {(RESOURCE_BROKER, ""): {}}


def test_registration_changes_touch_what_they_name() -> None:
    before = image_of(broker_record(2, fenced=True), broker_record(1))
    assert list(before.cluster.brokers) == [1, 2]
    change = m.BrokerRegistrationChangeRecord
    after, delta = applied(
        before,
        change(broker_id=2, broker_epoch=102, fenced=-1),
        change(broker_id=2, broker_epoch=102, in_controlled_shutdown=1),
        change(broker_id=2, broker_epoch=102, log_dirs=[b"x" * 16]),
        change(broker_id=2, broker_epoch=102, cordoned_log_dirs=[]),
    )
    broker = after.cluster.brokers[2]
    assert not broker.fenced
    assert broker.in_controlled_shutdown
    assert not broker.is_active
    assert broker.directories == (b"x" * 16,)
    assert broker.cordoned_directories == ()
    assert delta.changed_brokers == {2: broker}
    after, delta = applied(after, m.UnregisterBrokerRecord(broker_id=1, broker_epoch=101))
    assert list(after.cluster.brokers) == [2]
    assert delta.changed_brokers == {1: None}


@pytest.mark.parametrize(
    "record",
    [
        m.PartitionRecord(topic_id=b"?" * 16, partition_id=0),
        m.PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=9),
        m.RemoveTopicRecord(topic_id=b"?" * 16),
        m.TopicRecord(name="t", topic_id=b"?" * 16),
        m.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=1),
        m.UnregisterBrokerRecord(broker_id=9, broker_epoch=7),
        m.AbortTransactionRecord(),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_does_not_fit_is_an_error(record: object) -> None:
    with pytest.raises(MetadataError):
        applied(three_brokers(partition_record()), record)


def test_a_feature_of_level_zero_is_no_longer_finalized() -> None:
    before = image_of(*features())
    after, delta = applied(before, m.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0))
    assert after.features == {"metadata.version": 33}
    assert delta.changed_features == {"eligible.leader.replicas.version": 0}


def test_what_nobody_reads_yet_is_kept_for_snapshots() -> None:
    quota = m.ClientQuotaRecord(
        entity=[m.ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)], key="k", value=1.0
    )
    acl = m.AccessControlEntryRecord(id=b"a" * 16, principal="User:x")
    image = image_of(*features(), quota, acl, m.UserScramCredentialRecord(name="u", mechanism=1))
    assert {type(each).__name__ for each in image_records(image)} >= {
        "ClientQuotaRecord",
        "AccessControlEntryRecord",
        "UserScramCredentialRecord",
    }
    image, _ = applied(image, m.RemoveAccessControlEntryRecord(id=b"a" * 16))
    image, _ = applied(image, m.RemoveUserScramCredentialRecord(name="u", mechanism=1))
    quota.remove = True
    image, _ = applied(image, quota)
    assert not image.retained


def test_an_image_survives_the_way_through_its_records() -> None:
    image = three_brokers(
        partition_record(0, isr=(), leader=-1, elr=(2,), last_known_elr=(1,)),
        partition_record(1, (3, 1)),
        m.TopicRecord(name="b_c", topic_id=b"b" * 16),
        m.ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="t", name="retention.ms", value="1"),
        m.ProducerIdsRecord(broker_id=1, broker_epoch=101, next_producer_id=3000),
        m.RegisterControllerRecord(controller_id=1, incarnation_id=b"c" * 16),
    )
    records = list(image_records(image))
    assert isinstance(records[0], m.FeatureLevelRecord)
    assert records[0].name == "metadata.version"
    again, _ = EMPTY.apply_snapshot(records, image.offset, image.epoch)
    assert again.features == image.features
    assert again.topics == image.topics
    assert again.configs == image.configs
    assert again.next_producer_id == 3000
    assert again.cluster.controllers == image.cluster.controllers
    for broker_id, broker in image.cluster.brokers.items():
        assert again.cluster.brokers[broker_id]._replace(registered_at=broker.registered_at) == broker
    with pytest.raises(MetadataError):
        again.apply_snapshot(records, 99, 1)


def test_clearing_the_elr_bumps_only_partitions_that_had_one() -> None:
    before = three_brokers(partition_record(0, isr=(), leader=-1, elr=(2,)), partition_record(1))
    after, delta = applied(before, m.ClearElrRecord(topic_name="t"))
    assert the_partition(after, 0).elr == ()
    assert list(delta.changed_partitions[TOPIC_ID]) == [0]


def test_clearing_the_elr_of_the_cluster_touches_no_topic_without_one() -> None:
    before = three_brokers(partition_record(0), partition_record(1))
    after, delta = applied(before, m.ClearElrRecord())
    assert delta.changed_partitions == {}
    assert after.topics is before.topics
