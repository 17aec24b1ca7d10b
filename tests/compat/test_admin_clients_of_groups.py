"""Groups, transactions and ACLs in the admin clients of confluent-kafka, kafka-python and aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove, OffsetSpec
from kafka.structs import OffsetAndMetadata

from tests.compat.test_confluent_kafka import make_topic

RECORDS = 5
SECONDS = 60.0


def commit(bootstrap: str, topic: str, offset: int) -> None:
    """A group without members, of the topic's name; the topic has records."""
    make_topic(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(SECONDS) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def leave_a_member(bootstrap: str, topic: str) -> None:
    """A static member stays in the group when its consumer ends."""
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "group.instance.id": "s"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()


def test_confluent_kafkas_admin_client_moves_and_deletes_a_group(bootstrap: str, topic: str) -> None:
    commit(bootstrap, topic, 2)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(SECONDS)
    assert topic in [each.group_id for each in listed.valid]
    described = admin.describe_consumer_groups([topic])[topic].result(SECONDS)
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])

    def offsets() -> list[int]:
        everything = [ConsumerGroupTopicPartitions(topic)]
        found = admin.list_consumer_group_offsets(everything)[topic].result(SECONDS)
        return [each.offset for each in found.topic_partitions]

    assert offsets() == [2]
    moved = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 4)])
    admin.alter_consumer_group_offsets([moved])[topic].result(SECONDS)
    assert offsets() == [4]
    admin.delete_consumer_groups([topic])[topic].result(SECONDS)
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        admin.delete_consumer_groups([topic])[topic].result(SECONDS)


def test_confluent_kafkas_admin_client_is_told_that_there_are_no_acls(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(everything).result(SECONDS) == []  # librdkafka tells nobody of the error
    with pytest.raises(KafkaException, match="No Authorizer is configured"):
        admin.delete_acls([everything])[everything].result(SECONDS)


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_kafka_pythons_admin_client_moves_and_deletes_a_group(bootstrap: str, topic: str, admin: Any) -> None:
    commit(bootstrap, topic, 2)
    partition = PythonTopicPartition(topic, 0)
    assert topic in [each["group_id"] for each in admin.list_groups(states_filter=["Empty"])]
    assert admin.describe_groups([topic])[topic]["group_state"] == "Empty"

    def offset() -> int:
        found: int = admin.list_group_offsets({topic: None})[topic][partition].offset
        return found

    assert offset() == 2
    admin.alter_group_offsets(topic, {partition: OffsetAndMetadata(4, "", None)})
    assert offset() == 4
    admin.reset_group_offsets(topic, {partition: OffsetSpec.EARLIEST})
    assert offset() == 0
    admin.delete_group_offsets(topic, [partition])
    assert admin.list_group_offsets({topic: None})[topic] == {}
    leave_a_member(bootstrap, topic)
    assert admin.describe_groups([topic])[topic]["group_state"] == "Stable"
    admin.remove_group_members(topic, [MemberToRemove(group_instance_id="s")])
    assert admin.describe_groups([topic])[topic]["group_state"] == "Empty"
    assert admin.delete_groups([topic])
    assert topic not in [each["group_id"] for each in admin.list_groups()]


def test_kafka_pythons_admin_client_asks_for_the_rest(bootstrap: str, topic: str, admin: Any) -> None:
    commit(bootstrap, topic, 2)
    admin.wait_for_topics([topic])
    (described,) = admin.describe_topic_partitions([topic])["topics"]
    assert len(described["partitions"]) == 1
    partition = PythonTopicPartition(topic, 0)
    assert admin.list_partition_offsets({partition: OffsetSpec.LATEST})[partition].offset == RECORDS
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(SECONDS)
    assert topic in str(admin.list_transactions(state_filters=["Ongoing"]))
    assert "Ongoing" in str(admin.describe_transactions([topic])[topic])
    assert topic not in str(admin.find_hanging_transactions())
    producer.abort_transaction(SECONDS)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "777000"})
    admin.alter_configs([resource])
    admin.reset_configs([resource])
    assert "777000" not in str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))


def test_aiokafkas_admin_client_sees_a_group(bootstrap: str, topic: str) -> None:
    commit(bootstrap, topic, 2)

    async def look() -> None:
        admin: Any = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            assert await admin.find_coordinator(topic) == 1
            assert topic in [group for group, *_ in await admin.list_consumer_groups()]
            assert topic in str(await admin.describe_consumer_groups([topic]))
            (offset,) = (await admin.list_consumer_group_offsets(topic)).values()
            assert offset.offset == 2
        finally:
            await admin.close()

    asyncio.run(look())
