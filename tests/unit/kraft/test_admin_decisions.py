"""Decisions that an administrator asks for: more partitions, elections, other replicas, features, brokers, configs."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.brokers import unregister_broker
from kbroker.kraft.controller.configs import legacy_alter_configs
from kbroker.kraft.controller.elections import PREFERRED, UNCLEAN, elect_leaders
from kbroker.kraft.controller.features import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, update_features
from kbroker.kraft.controller.new_partitions import create_partitions
from kbroker.kraft.controller.partitions import ELR_FEATURE, leader_and_isr_updates
from kbroker.kraft.controller.reassignments import alter_partition_reassignments, list_partition_reassignments
from kbroker.kraft.image import MetadataImage, PartitionImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from kbroker.protocol.messages.records import metadata as m
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest
from tests.unit.kraft.cluster_image import broker_record, image_of, partition_record, the_partition, three_brokers

CONFIG = BrokerConfig({})
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32


def grow(image: MetadataImage, count: int, assignments: list[list[int]] | None = None) -> tuple[int, MetadataImage]:
    assigned = (
        None
        if assignments is None
        else [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=each) for each in assignments]
    )
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=count, assignments=assigned)
    result = create_partitions(image, [topic], Random(1))
    return result.reply[0].error_code, image_of(*result.records, base=image) if result.records else image


def test_new_partitions_have_as_many_replicas_as_the_old_ones() -> None:
    code, image = grow(three_brokers(partition_record(replicas=(1, 2))), 3)
    assert code == ErrorCode.NONE
    assert [len(the_partition(image, number).replicas) for number in range(3)] == [2, 2, 2]


def test_an_assigned_partition_is_led_by_its_first_live_replica() -> None:
    image = three_brokers(partition_record(replicas=(1, 2)), broker_record(3, fenced=True))
    code, after = grow(image, 2, [[3, 2]])
    assert code == ErrorCode.NONE
    assert (the_partition(after, 1).leader, the_partition(after, 1).isr) == (2, (2,))
    assert grow(three_brokers(partition_record(), broker_record(3, fenced=True)), 2, [[3]])[0] == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


def elect(image: MetadataImage, kind: int) -> tuple[list[tuple[int, int]], MetadataImage]:
    result = elect_leaders(image, ElectLeadersRequest(topic_partitions=None, election_type=kind), CONFIG)
    codes = [(each.partition_id, each.error_code) for topic in result.reply for each in topic.partition_result]
    return codes, image_of(*result.records, base=image) if result.records else image


def test_a_preferred_election_gives_the_lead_back_to_the_first_replica() -> None:
    image = three_brokers(partition_record(0, leader=2), partition_record(1))
    codes, after = elect(image, PREFERRED)
    assert codes == [(0, ErrorCode.NONE)]
    assert (the_partition(after).leader, the_partition(after).leader_epoch) == (1, 6)


def test_a_preferred_leader_that_is_not_in_sync_is_not_available() -> None:
    codes, _ = elect(three_brokers(partition_record(leader=2, isr=(2, 3))), PREFERRED)
    assert codes == [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)]


def test_an_unclean_election_is_only_for_partitions_without_a_leader() -> None:
    image = three_brokers(
        partition_record(0, isr=(1,), leader=-1), partition_record(1), broker_record(1, fenced=True), elr=False
    )
    codes, after = elect(image, UNCLEAN)
    assert codes == [(0, ErrorCode.NONE)]
    assert (the_partition(after).leader, the_partition(after).isr) == (2, (2,))


def reassign(
    image: MetadataImage, replicas: list[int] | None, *, factor_may_change: bool = True
) -> tuple[int, PartitionImage, MetadataImage]:
    request = AlterPartitionReassignmentsRequest(
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(
                name="t",
                partitions=[
                    AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=replicas)
                ],
            )
        ],
        allow_replication_factor_change=factor_may_change,
    )
    result = alter_partition_reassignments(image, request, CONFIG)
    after = image_of(*result.records, base=image) if result.records else image
    return result.reply[0].partitions[0].error_code, the_partition(after), after


def test_a_move_to_another_broker_waits_until_it_is_in_sync_and_can_be_cancelled() -> None:
    image = three_brokers(partition_record(replicas=(1, 2)))
    code, moving, after = reassign(image, [1, 3])
    assert code == ErrorCode.NONE
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ((1, 3, 2), (3,), (2,))
    assert moving.leader == 1
    (topic,) = list_partition_reassignments(after, None)
    assert [(each.partition_index, each.replicas) for each in topic.partitions] == [(0, [1, 3, 2])]
    code, back, _ = reassign(after, None)
    assert (code, back.replicas, back.adding_replicas, back.removing_replicas) == (0, (1, 2), (), ())


def test_another_order_and_fewer_replicas_are_done_at_once() -> None:
    image = three_brokers(partition_record(replicas=(1, 2, 3)))
    _, partition, _ = reassign(image, [3, 1])
    assert (partition.replicas, partition.isr, partition.removing_replicas) == ((3, 1), (1, 3), ())
    assert partition.leader_epoch == 6
    _, partition, _ = reassign(image, [2, 3])
    assert (partition.leader, partition.isr) == (2, (2, 3))


def test_a_move_survives_changes_of_the_isr() -> None:
    _, _, moving = reassign(three_brokers(partition_record(replicas=(1, 2))), [1, 3])
    after = image_of(*leader_and_isr_updates(moving, CONFIG, removed=2), base=moving)
    assert the_partition(after).replicas == (1, 3, 2)
    assert the_partition(after).adding_replicas == (3,)


def test_the_number_of_replicas_stays_when_it_shall() -> None:
    image = three_brokers(partition_record(replicas=(1, 2)))
    assert reassign(image, [1], factor_may_change=False)[0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(image, [2, 1], factor_may_change=False)[0] == ErrorCode.NONE
    assert reassign(image, None)[0] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def update(image: MetadataImage, name: str, level: int, kind: int = UPGRADE) -> MetadataImage:
    key = UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    result = update_features(image, UpdateFeaturesRequest(feature_updates=[key]), 9, CONFIG, 0)
    return image_of(*result.records, base=image)


def with_features() -> MetadataImage:
    brokers = three_brokers(elr=False)
    feature = m.RegisterBrokerRecord.BrokerFeature
    record = broker_record(1)
    records = []
    for broker_id in (1, 2, 3):
        record = broker_record(broker_id)
        record.features = [
            feature(name=name, min_supported_version=0, max_supported_version=highest)
            for name, highest in (("group.version", 1), (ELR_FEATURE, 1), ("metadata.version", 33))
        ]
        records.append(record)
    return image_of(*records, m.FeatureLevelRecord(name="metadata.version", feature_level=22), base=brokers)


def test_a_feature_goes_up_and_down_and_a_level_nobody_supports_is_refused() -> None:
    image = update(with_features(), "group.version", 1)
    assert image.features["group.version"] == 1
    with pytest.raises(ApiError, match="Can't downgrade the version"):
        update(image, "group.version", 0)
    assert update(image, "group.version", 0, SAFE_DOWNGRADE).features.get("group.version", 0) == 0
    with pytest.raises(ApiError, match="only supports versions 0-1"):
        update(image, "group.version", 2)


def test_a_level_that_needs_another_feature_may_come_together_with_it() -> None:
    with pytest.raises(ApiError, match=r"could not be set to 1 because it depends on metadata\.version level 23"):
        update(with_features(), ELR_FEATURE, 1)
    keys = [
        UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=UPGRADE)
        for name, level in ((ELR_FEATURE, 1), ("metadata.version", 23))
    ]
    result = update_features(with_features(), UpdateFeaturesRequest(feature_updates=keys), 9, CONFIG, 0)
    after = image_of(*result.records, base=with_features())
    assert (after.features["metadata.version"], after.features[ELR_FEATURE]) == (23, 1)


def test_the_metadata_version_goes_down_where_no_record_changed_between() -> None:
    image = update(with_features(), "metadata.version", 29)
    for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        assert update(image, "metadata.version", 23, kind).features["metadata.version"] == 23
    with pytest.raises(ApiError, match="it might delete metadata information"):
        update(image, "metadata.version", 22, SAFE_DOWNGRADE)
    with pytest.raises(ApiError, match="Unsafe metadata downgrade is not supported"):
        update(image, "metadata.version", 22, UNSAFE_DOWNGRADE)


def test_with_eligible_leader_replicas_the_cluster_gets_one_minimum_isr() -> None:
    own = m.ConfigRecord(resource_type=BROKER, resource_name="2", name="min.insync.replicas", value="2")
    image = update(update(image_of(own, base=with_features()), "metadata.version", 23), ELR_FEATURE, 1)
    assert image.configs.of(BROKER, "") == {"min.insync.replicas": "1"}
    assert image.configs.of(BROKER, "2") == {}


def test_a_broker_that_is_unregistered_leads_nothing_any_more() -> None:
    image = three_brokers(partition_record())
    after = image_of(*unregister_broker(image, 1, CONFIG).records, base=image)
    assert 1 not in after.cluster.brokers
    assert (the_partition(after).leader, the_partition(after).isr) == (2, (2, 3))
    with pytest.raises(ApiError) as caught:
        unregister_broker(after, 1, CONFIG)
    assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def replace(image: MetadataImage, kind: int, name: str, values: Mapping[str, str]) -> tuple[int, MetadataImage]:
    result = legacy_alter_configs(image, {(kind, name): values}, CONFIG)
    error = result.reply[kind, name]
    after = image_of(*result.records, base=image) if result.records else image
    return ErrorCode.NONE if error is None else error.code, after


def test_the_old_way_of_altering_removes_what_it_does_not_name() -> None:
    code, image = replace(three_brokers(), TOPIC, "t", {"retention.ms": "5", "segment.ms": "6"})
    assert code == ErrorCode.NONE
    code, image = replace(image, TOPIC, "t", {"retention.ms": "7"})
    assert image.configs.of(TOPIC, "t") == {"retention.ms": "7"}
    code, after = replace(image, TOPIC, "t", {"retention.ms": "never"})
    assert code == ErrorCode.INVALID_CONFIG
    assert after is image


@pytest.mark.parametrize(
    ("kind", "values", "code"),
    [
        (GROUP, {"consumer.session.timeout.ms": "50000"}, ErrorCode.NONE),
        (GROUP, {"consumer.session.timeout.ms": "1"}, ErrorCode.INVALID_CONFIG),
        (GROUP, {"streams.num.standby.replicas": "3"}, ErrorCode.INVALID_CONFIG),
        (CLIENT_METRICS, {"interval.ms": "100", "match": "client_id=a.*"}, ErrorCode.NONE),
        (CLIENT_METRICS, {"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, {"match": "client_id=["}, ErrorCode.INVALID_CONFIG),
        (CLIENT_METRICS, {"match": "client_id=" + "(" * 9000 + ")" * 9000}, ErrorCode.INVALID_CONFIG),
        (CLIENT_METRICS, {"match": "client_id=a{99999999999}"}, ErrorCode.INVALID_CONFIG),
        (CLIENT_METRICS, {"no.such": "1"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_groups_and_client_metrics_have_rules_of_their_own(kind: int, values: dict[str, str], code: ErrorCode) -> None:
    assert replace(three_brokers(), kind, "x", values)[0] == code
