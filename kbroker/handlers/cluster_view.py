"""What Metadata, DescribeTopicPartitions and DescribeCluster say of brokers and partitions, as one listener sees them.

A view is made for one request from the image (Kafka's ``KRaftMetadataCache``). A replica is offline when its broker is
unknown, fenced, does not listen here, or has lost the replica's directory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kbroker.kraft.image import BrokerImage, ClusterImage, Endpoint, PartitionImage
from kbroker.types import is_directory

ALL_TOPIC_OPERATIONS: Final = 0b1101_1111_1000
"""Read, write, create, delete, alter, describe, describe and alter configs: the bits of ``AclOperation`` codes."""
ALL_CLUSTER_OPERATIONS: Final = 0b1_1111_1010_0000
"""Create, alter, describe, cluster action, describe and alter configs, idempotent write."""


class ClusterView:
    """The brokers that listen here, fenced ones included in ``registered`` and left out of ``live``; both by id."""

    __slots__ = ("_directories", "live", "registered")

    def __init__(self, cluster: ClusterImage, listener: str) -> None:
        self.registered: list[tuple[BrokerImage, Endpoint]] = []
        self.live: dict[int, tuple[BrokerImage, Endpoint]] = {}
        self._directories: dict[int, tuple[bytes, ...]] = {}
        for broker in cluster.brokers.values():
            endpoint = broker.endpoints.get(listener)
            if endpoint is not None:
                self.registered.append((broker, endpoint))
                self._directories[broker.id] = broker.directories
                if not broker.fenced:
                    self.live[broker.id] = broker, endpoint

    def leader(self, partition: PartitionImage) -> int:
        """The leader as this listener may show it: -1 unless it is registered and listens here."""
        return partition.leader if partition.leader in self._directories else -1

    def live_among(self, replicas: Iterable[int]) -> list[int]:
        return [each for each in replicas if each in self.live]

    def offline(self, partition: PartitionImage) -> list[int]:
        """The replicas that cannot be reached, in the order of the replicas."""
        offline = []
        directories = partition.directories
        for index, replica in enumerate(partition.replicas):
            if replica not in self.live:
                offline.append(replica)
            elif directories:
                online = self._directories[replica]
                directory = directories[index]
                if directory not in online and online and is_directory(directory):
                    offline.append(replica)
        return offline

    def controller(self, leader_id: int) -> int:
        """A live broker that takes the controller's requests: itself when it is one, else the first, -1 without any."""
        return leader_id if leader_id in self.live else next(iter(self.live), -1)
