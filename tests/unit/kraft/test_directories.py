"""What the controller makes of replicas' data directories: assigned, lost, cordoned."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.brokers import BrokerSessions, broker_heartbeat
from kbroker.kraft.controller.directories import assign_replicas_to_dirs
from kbroker.kraft.controller.reassignments import alter_partition_reassignments
from kbroker.kraft.image import MetadataImage
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kbroker.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest as Request
from kbroker.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kbroker.protocol.messages.records import metadata as m
from kbroker.types import UNASSIGNED_DIRECTORY
from tests.unit.kraft.cluster_image import (
    TOPIC_ID,
    broker_record,
    directory_of,
    features,
    image_of,
    partition_record,
    the_partition,
    three_brokers,
)

CONFIG = BrokerConfig({})
ONE, TWO = b"1" * 16, b"2" * 16


def two_directories(*, elr: bool = True) -> MetadataImage:
    """Broker 1 of three has two directories, and a replica in the first."""
    record = broker_record(1)
    record.log_dirs = [ONE, TWO]
    partition = partition_record()
    partition.directories = [ONE, directory_of(2), directory_of(3)]
    return image_of(record, partition, base=three_brokers(elr=elr))


def assign(
    image: MetadataImage, directory: bytes, *, topic_id: bytes = TOPIC_ID, index: int = 0, broker: int = 1
) -> Any:
    request = Request(
        broker_id=broker,
        directories=[
            Request.DirectoryData(
                id=directory,
                topics=[
                    Request.TopicData(topic_id=topic_id, partitions=[Request.PartitionData(partition_index=index)])
                ],
            )
        ],
    )
    return assign_replicas_to_dirs(image, request, image.cluster.brokers[broker], CONFIG)


def heartbeat(image: MetadataImage, **fields: Any) -> list[Any]:
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=101, current_metadata_offset=image.offset, **fields)
    return broker_heartbeat(image, BrokerSessions(9000), request, image.offset + 1, CONFIG).records


def test_a_replica_is_where_its_broker_says_and_its_leader_epoch_stays() -> None:
    image = two_directories()
    result = assign(image, TWO)
    (record,) = result.records
    assert record.directories == [TWO, directory_of(2), directory_of(3)]
    after = the_partition(image_of(record, base=image))
    assert (after.directory_of(1), after.leader, after.leader_epoch) == (TWO, 1, 5)
    assert assign(image, ONE).records == []


@pytest.mark.parametrize(
    ("topic_id", "index", "broker", "code"),
    [
        (b"another-16-bytes", 0, 1, ErrorCode.UNKNOWN_TOPIC_ID),
        (TOPIC_ID, 7, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC_ID, 0, 4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (TOPIC_ID, 0, 1, ErrorCode.NONE),
    ],
)
def test_each_replica_gets_its_answer(topic_id: bytes, index: int, broker: int, code: ErrorCode) -> None:
    image = image_of(broker_record(4), base=two_directories())
    reply = assign(image, TWO, topic_id=topic_id, index=index, broker=broker).reply
    assert [each.error_code for each in reply.directories[0].topics[0].partitions] == [code]


def test_a_replica_that_is_found_in_another_directory_than_the_one_that_is_gone_leads_again() -> None:
    record = broker_record(1)
    record.log_dirs = [TWO]
    partition = partition_record(replicas=(1,))
    partition.directories, partition.leader = [ONE], -1
    topic = m.TopicRecord(name="t", topic_id=TOPIC_ID)
    image = image_of(*features(elr=True), record, topic, partition)
    after = the_partition(image_of(*assign(image, TWO).records, base=image))
    assert (after.leader, after.directory_of(1)) == (1, TWO)


def test_a_replica_in_a_directory_that_its_broker_has_lost_is_offline() -> None:
    image = two_directories()
    after = the_partition(image_of(*assign(image, b"lost-directory16").records, base=image))
    assert (after.leader, after.isr, after.directory_of(1)) == (2, (2, 3), b"lost-directory16")


def test_a_lost_directory_takes_its_replicas_out_and_leaves_the_others() -> None:
    second = partition_record(1)
    second.directories = [TWO, directory_of(2), directory_of(3)]
    image = image_of(second, base=two_directories())
    after = image_of(*heartbeat(image, offline_log_dirs=[ONE]), base=image)
    assert (the_partition(after).leader, the_partition(after).isr) == (2, (2, 3))
    assert (the_partition(after, 1).leader, the_partition(after, 1).isr) == (1, (1, 2, 3))
    assert after.cluster.brokers[1].directories == (TWO,)
    assert heartbeat(after, offline_log_dirs=[ONE]) == []


@pytest.mark.parametrize(("elr", "isr"), [(True, ()), (False, (1,))])
def test_an_only_replica_in_a_lost_directory_has_no_leader(elr: bool, isr: tuple[int, ...]) -> None:
    record = broker_record(1)
    record.log_dirs = [ONE, TWO]
    partition = partition_record(replicas=(1,))
    partition.directories = [ONE]
    topic = m.TopicRecord(name="t", topic_id=TOPIC_ID)
    image = image_of(*features(elr=elr), record, topic, partition)
    after = the_partition(image_of(*heartbeat(image, offline_log_dirs=[ONE]), base=image))
    assert (after.leader, after.isr, after.leader_epoch) == (-1, isr, 6)


def test_cordoned_directories_are_noted_when_they_change() -> None:
    image = two_directories()
    assert heartbeat(image) == []
    for cordoned in ([], [TWO], [TWO, ONE], []):
        records = heartbeat(image, cordoned_log_dirs=cordoned)
        assert [each.cordoned_log_dirs for each in records] == [cordoned]
        image = image_of(*records, base=image)
        assert heartbeat(image, cordoned_log_dirs=cordoned[::-1]) == []
        assert image.cluster.brokers[1].is_cordoned == (len(cordoned) == 2)


def test_a_replica_that_comes_to_a_broker_with_several_directories_is_unassigned() -> None:
    image = image_of(partition_record(replicas=(2, 3)), base=two_directories())
    request = AlterPartitionReassignmentsRequest
    partition = request.ReassignablePartition(partition_index=0, replicas=[1, 2])
    topics = [request.ReassignableTopic(name="t", partitions=[partition])]
    result = alter_partition_reassignments(image, request(topics=topics), CONFIG)
    after = the_partition(image_of(*result.records, base=image))
    assert after.directory_of(1) == UNASSIGNED_DIRECTORY
