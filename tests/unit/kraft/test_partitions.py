"""How leader, ISR and ELR follow brokers that come and go (KIP-966)."""

from typing import Any

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.partitions import leader_and_isr_updates
from kbroker.kraft.image import RECOVERING, RESOURCE_BROKER, RESOURCE_TOPIC, MetadataImage, PartitionImage
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

CONFIG = BrokerConfig({})


def after(image: MetadataImage, **event: Any) -> PartitionImage:
    records = list(leader_and_isr_updates(image, CONFIG, **event))
    return the_partition(image_of(*records, base=image))


def min_isr(value: int) -> Any:
    return m.ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name="min.insync.replicas", value=str(value))


def unclean() -> Any:
    return m.ConfigRecord(
        resource_type=RESOURCE_TOPIC, resource_name="t", name="unclean.leader.election.enable", value="true"
    )


def alone(*records: Any, fenced: bool = False, elr: bool = True) -> MetadataImage:
    return image_of(
        *features(elr=elr), broker_record(1, fenced=fenced), m.TopicRecord(name="t", topic_id=TOPIC_ID), *records
    )


def test_a_fenced_leader_is_followed_by_the_next_in_the_isr() -> None:
    partition = after(three_brokers(partition_record()), removed=1)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2, 3), 6)


def test_a_fenced_follower_leaves_the_isr_and_the_leader_epoch_stays() -> None:
    partition = after(three_brokers(partition_record()), removed=3)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1, 2), 5)


def test_who_leaves_an_isr_below_the_minimum_stays_eligible() -> None:
    partition = after(three_brokers(partition_record(isr=(1, 2)), min_isr(2)), removed=2)
    assert (partition.isr, partition.elr) == ((1,), (2,))


def test_who_leaves_an_isr_that_stays_large_enough_is_not_eligible() -> None:
    partition = after(three_brokers(partition_record(), min_isr(2)), removed=3)
    assert (partition.isr, partition.elr) == ((1, 2), ())


def test_the_last_leader_leaves_an_empty_isr_and_is_remembered() -> None:
    partition = after(alone(partition_record(replicas=(1,))), removed=1)
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (1,), (1,))


def test_an_eligible_replica_leads_cleanly_when_it_is_back() -> None:
    image = alone(partition_record(replicas=(1,), isr=(), elr=(1,), last_known_elr=(1,)), fenced=True)
    partition = after(image, added=1)
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (1, (1,), (), ())
    assert partition.leader_recovery_state != RECOVERING


def test_an_unclean_shutdown_takes_isr_and_eligibility() -> None:
    partition = after(alone(partition_record(replicas=(1,))), unclean_shutdown=1)
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (), (1,))
    partition = after(alone(partition_record(replicas=(1,), isr=(), elr=(1,), last_known_elr=(1,))), unclean_shutdown=1)
    assert (partition.leader, partition.elr, partition.last_known_elr) == (-1, (), (1,))


def test_the_last_leader_is_elected_when_nobody_else_can_be_and_must_recover() -> None:
    image = alone(partition_record(replicas=(1,), isr=(), last_known_elr=(1,)), fenced=True)
    partition = after(image, added=1)
    assert (partition.leader, partition.isr, partition.last_known_elr) == (1, (1,), ())
    assert partition.leader_recovery_state == RECOVERING


def test_a_replica_outside_isr_and_elr_does_not_lead() -> None:
    image = three_brokers(partition_record(isr=(), elr=(1,)), broker_record(1, fenced=True))
    records = list(leader_and_isr_updates(image, CONFIG, added=3))
    assert records == []


def test_an_unclean_election_takes_any_live_replica_where_it_is_allowed() -> None:
    image = three_brokers(partition_record(isr=(1,)), broker_record(2, fenced=True), unclean(), min_isr(1), elr=False)
    partition = after(image, removed=1)
    assert (partition.leader, partition.isr) == (3, (3,))
    assert partition.leader_recovery_state == RECOVERING


def test_without_elr_the_last_replica_stays_in_the_isr() -> None:
    partition = after(alone(partition_record(replicas=(1,)), elr=False), removed=1)
    assert (partition.leader, partition.isr, partition.elr) == (-1, (1,), ())


def test_a_broker_in_controlled_shutdown_does_not_become_leader() -> None:
    image = three_brokers(partition_record(), broker_record(2, shutting_down=True))
    assert after(image, removed=1).leader == 3


def test_a_lost_directory_does_not_lead() -> None:
    change = m.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=102, log_dirs=[b"another-directory"[:16]])
    image = three_brokers(partition_record(), change)
    assert after(image, removed=1).leader == 3


def test_the_minimum_isr_is_never_more_than_the_replicas() -> None:
    image = alone(partition_record(replicas=(1,)), min_isr(3))
    records = list(leader_and_isr_updates(image, CONFIG, added=1))
    assert records == []
