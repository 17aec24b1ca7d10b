"""Features: the levels this software supports, what formatting finalizes, what the first controller writes (KIP-584).

The levels are those of Apache Kafka 4.4's production release, as ``kafka-storage format`` finalizes them.
"""

from __future__ import annotations

from typing import Any, Final

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.partitions import ELR_FEATURE
from kbroker.kraft.image import METADATA_VERSION, RESOURCE_BROKER, MetadataImage
from kbroker.protocol.messages.records import metadata as m

METADATA_VERSION_LATEST: Final = 33
METADATA_VERSION_NAME: Final = "4.4-IV2"

SUPPORTED: Final[dict[str, tuple[int, int]]] = {
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    METADATA_VERSION: (7, METADATA_VERSION_LATEST),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
    ELR_FEATURE: (0, 1),
}
"""What brokers and controllers of this release register: the lowest and the highest level of each feature."""

DEFAULTS: Final[dict[str, int]] = {
    METADATA_VERSION: METADATA_VERSION_LATEST,
    ELR_FEATURE: 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""What formatting finalizes, in the order in which Kafka writes it."""


def bootstrap_records() -> list[Any]:
    """What a freshly formatted directory holds."""
    return [m.FeatureLevelRecord(name=name, feature_level=level) for name, level in DEFAULTS.items()]


def activation_records(image: MetadataImage, bootstrap: list[Any], config: BrokerConfig) -> list[Any]:
    """What a controller writes when it becomes active: on an empty log the bootstrap records, as one transaction.

    With ELR the minimum ISR is the cluster's business, not each broker's: the configured value becomes the cluster's.
    """
    if not image.is_empty:
        return []
    records: list[Any] = [m.BeginTransactionRecord(name="Bootstrap records"), *bootstrap]
    levels = {each.name: each.feature_level for each in bootstrap if isinstance(each, m.FeatureLevelRecord)}
    if levels.get(ELR_FEATURE, 0) > 0:
        minimum = str(config.integer("min.insync.replicas"))
        records.append(
            m.ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name="min.insync.replicas", value=minimum)
        )
    return [*records, m.EndTransactionRecord()]
