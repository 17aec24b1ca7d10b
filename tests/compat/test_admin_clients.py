"""The admin clients of kafka-python, aiokafka and confluent-kafka: topics grow, configs change, records go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import RecordsToDelete as AioRecordsToDelete
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType as PythonConfigResourceType

from tests.compat.test_confluent_kafka import make_topic
from tests.patience import PATIENCE_S


def fill(bootstrap: str, topic: str, count: int = 5) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=0)
    producer.flush()


def test_confluent_kafkas_admin_client(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    fill(bootstrap, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    assert len(admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions) == 3
    entry = ConfigEntry("retention.ms", "777000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    plain = ConfigResource(ResourceType.TOPIC, topic)
    assert admin.describe_configs([plain])[plain].result(PATIENCE_S)["retention.ms"].value == "777000"
    legacy = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "8888"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        altered = admin.alter_configs([legacy])
    altered[legacy].result(PATIENCE_S)
    after = admin.describe_configs([plain])[plain].result(PATIENCE_S)
    assert after["segment.ms"].value == "8888"
    assert after["retention.ms"].source != ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    first = TopicPartition(topic, 0, 3)
    (deleted,) = admin.delete_records([first]).values()
    assert deleted.result(PATIENCE_S).low_watermark == 3
    earliest = TopicPartition(topic, 0)
    assert admin.list_offsets({earliest: OffsetSpec.earliest()})[earliest].result(PATIENCE_S).offset == 3
    elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(PATIENCE_S)
    assert [str(error.name()) for error in elected.values()] == ["ELECTION_NOT_NEEDED"]
    acl = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:x", "*", AclOperation.ALL, AclPermissionType.ALLOW
    )
    with pytest.raises(KafkaException, match="No Authorizer is configured"):
        admin.create_acls([acl])[acl].result(PATIENCE_S)


def test_kafka_pythons_admin_client(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    fill(bootstrap, topic)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_partitions({topic: 3})
        assert len(admin.describe_topics([topic])[0]["partitions"]) == 3
        resource = PythonConfigResource(PythonConfigResourceType.TOPIC, topic, {"retention.ms": "777000"})
        admin.alter_configs([resource])
        assert "777000" in str(admin.describe_configs([PythonConfigResource(PythonConfigResourceType.TOPIC, topic)]))
        partition = PythonTopicPartition(topic, 0)
        assert "3" in str(admin.delete_records({partition: 3}))
        assert topic in str(admin.describe_log_dirs({topic: [0]}))
        assert admin.describe_producers([partition])
        assert "1" in str(admin.describe_metadata_quorum())
        assert "metadata.version" in str(admin.describe_features())
        assert topic in str(admin.list_config_resources(["TOPIC"]))
        admin.alter_partition_reassignments({partition: [1]})
        assert not admin.list_partition_reassignments()
        admin.update_features({"group.version": 1}, validate_only=True)
    finally:
        admin.close()


def test_aiokafkas_admin_client(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    fill(bootstrap, topic)

    async def administer() -> None:
        admin: Any = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_partitions({topic: AioNewPartitions(3)})
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 3
            resource = AioConfigResource(AioConfigResourceType.TOPIC, topic, {"retention.ms": "777000"})
            await admin.alter_configs([resource])
            described = await admin.describe_configs([AioConfigResource(AioConfigResourceType.TOPIC, topic)])
            assert "777000" in str(described)
            partition = AioTopicPartition(topic, 0)
            deleted = await admin.delete_records({partition: AioRecordsToDelete(before_offset=3)})
            assert deleted[partition] == 3
        finally:
            await admin.close()

    asyncio.run(administer())
