"""What Metadata, DescribeTopicPartitions and DescribeCluster say of brokers and partitions, as one listener sees them.

Pure functions of the image (Kafka's ``KRaftMetadataCache``). A replica is offline when its broker is unknown, fenced,
does not listen here, or has lost the replica's directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kbroker.kraft.image import BrokerImage, ClusterImage, Endpoint, PartitionImage

ALL_TOPIC_OPERATIONS: Final = 0b1101_1111_1000
"""Read, write, create, delete, alter, describe, describe and alter configs: the bits of ``AclOperation`` codes."""
ALL_CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000
"""Create, alter, describe, cluster action, describe and alter configs, idempotent write."""


def live_brokers(cluster: ClusterImage, listener: str) -> Iterator[tuple[BrokerImage, Endpoint]]:
    """The unfenced brokers that listen here, by id."""
    for broker in cluster.brokers.values():
        endpoint = broker.endpoints.get(listener)
        if endpoint is not None and not broker.fenced:
            yield broker, endpoint


def is_live(cluster: ClusterImage, broker_id: int, listener: str) -> bool:
    broker = cluster.brokers.get(broker_id)
    return broker is not None and not broker.fenced and listener in broker.endpoints


def offline_replicas(cluster: ClusterImage, partition: PartitionImage, listener: str) -> list[int]:
    offline = []
    for index, replica in enumerate(partition.replicas):
        broker = cluster.brokers.get(replica)
        if broker is None or broker.fenced or listener not in broker.endpoints:
            offline.append(replica)
        elif partition.directories and broker.directories:
            directory = partition.directories[index]
            if directory not in broker.directories and int.from_bytes(directory, "big") >= _RESERVED_DIRECTORIES:
                offline.append(replica)
    return offline


_RESERVED_DIRECTORIES: Final = 100
"""Directory ids below it are words ("unassigned", "migrating"), not directories (``DirectoryId``)."""


def leader_seen(cluster: ClusterImage, partition: PartitionImage, listener: str) -> int:
    """The leader as this listener may show it: -1 unless it is registered and listens here."""
    broker = cluster.brokers.get(partition.leader)
    return partition.leader if broker is not None and listener in broker.endpoints else -1


def controller_seen(cluster: ClusterImage, leader_id: int, listener: str) -> int:
    """A live broker that takes the controller's requests: itself when it is one, else the first, -1 without any."""
    live = [broker.id for broker, _ in live_brokers(cluster, listener)]
    return leader_id if leader_id in live else next(iter(live), -1)
