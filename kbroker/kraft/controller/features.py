"""Features: the levels this software supports, what formatting finalizes, what the first controller writes (KIP-584).

The levels are those of Apache Kafka 4.4's production release. Those of ``metadata.version`` are in
``kraft.metadata_versions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kbroker.config import BrokerConfig
from kbroker.config.java_maps import in_map_order
from kbroker.kraft.controller.partitions import ELR_FEATURE, MIN_ISR
from kbroker.kraft.controller.result import ControllerResult
from kbroker.kraft.image import METADATA_VERSION, RESOURCE_BROKER, MetadataImage
from kbroker.kraft.metadata_versions import CHANGES, ELIGIBLE_REPLICAS, LATEST, OLDEST, TRANSACTIONS
from kbroker.kraft.raft.voters import KRAFT_VERSIONS
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.records import metadata as m
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest

KRAFT_VERSION: Final = "kraft.version"

SUPPORTED: Final[dict[str, tuple[int, int]]] = {
    "group.version": (0, 1),
    KRAFT_VERSION: KRAFT_VERSIONS,
    METADATA_VERSION: (OLDEST, LATEST),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
    ELR_FEATURE: (0, 1),
}
"""What brokers and controllers of this release register: the lowest and the highest level of each feature."""

_DEFAULT_SINCE: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    KRAFT_VERSION: ((21, 1),),
    "transaction.version": ((24, 2),),
    "group.version": ((22, 1),),
    ELR_FEATURE: ((26, 1),),
    "share.version": ((31, 2), (28, 1)),
    "streams.version": ((29, 1),),
}
"""From which level of metadata.version on a feature has which level by default, newest first; 0 before."""

DEPENDENCIES: Final = {(ELR_FEATURE, 1): (METADATA_VERSION, ELIGIBLE_REPLICAS)}
"""What levels need: another feature, at least at a level."""

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


def default_levels(metadata_version: int) -> dict[str, int]:
    """What each other feature is set to in a cluster that begins at this level of ``metadata.version``."""
    return {
        name: next((level for since, level in steps if metadata_version >= since), 0)
        for name, steps in _DEFAULT_SINCE.items()
    }


def bootstrap_records(
    metadata_version: int = LATEST, chosen: Mapping[str, int] | None = None
) -> list[m.FeatureLevelRecord]:
    """What a freshly formatted directory holds; ``chosen`` are levels of other features that are not the default."""
    levels = {**default_levels(metadata_version), **(chosen or {})}
    finalized = [(name, levels[name]) for name in sorted(levels) if levels[name] and name != KRAFT_VERSION]
    return [
        m.FeatureLevelRecord(name=name, feature_level=level)
        for name, level in [(METADATA_VERSION, metadata_version), *finalized]
    ]


def activation_records(image: MetadataImage, bootstrap: list[Any], config: BrokerConfig) -> list[Any]:
    """What a controller writes when it becomes active: on an empty log the bootstrap records, as one transaction if the
    level of ``metadata.version`` has them.

    With ELR the minimum ISR is the cluster's business, not each broker's: the configured value becomes the cluster's.
    """
    if not image.is_empty:
        return []
    records: list[Any] = list(bootstrap)
    levels = {each.name: each.feature_level for each in bootstrap if isinstance(each, m.FeatureLevelRecord)}
    if levels.get(ELR_FEATURE, 0) > 0:
        minimum = str(config.integer(MIN_ISR))
        records.append(m.ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name=MIN_ISR, value=minimum))
    if levels.get(METADATA_VERSION, LATEST) < TRANSACTIONS:
        return records
    return [m.BeginTransactionRecord(name="Bootstrap records"), *records, m.EndTransactionRecord()]


def update_features(
    image: MetadataImage, request: UpdateFeaturesRequest, node_id: int, config: BrokerConfig, kraft_version: int
) -> ControllerResult[None]:
    """Raise or lower finalized levels, all or none (``FeatureControlManager``). Raises INVALID_UPDATE_VERSION.

    ``kraft_version`` is the level of that feature now: it is no matter of the image, but of the quorum itself.
    """
    now = {**image.features, KRAFT_VERSION: kraft_version}
    wanted = {each.feature: (each.max_version_level, each.upgrade_type) for each in request.feature_updates}
    proposed = {**now, **{name: level for name, (level, _) in wanted.items()}}
    result: ControllerResult[None] = ControllerResult(None)
    for name in in_map_order(wanted):
        level, upgrade_type = wanted[name]
        _check_update(image, name, now.get(name, 0), level, upgrade_type, node_id)
        _check_dependency(name, level, proposed)
        if name == ELR_FEATURE and level > 0 and now.get(name, 0) == 0:
            result.records += _common_min_isr(image, config)
        if name != KRAFT_VERSION:
            result.records.append(m.FeatureLevelRecord(name=name, feature_level=level))
        elif level > kraft_version:
            result.kraft_version = level
    return result


def _check_update(image: MetadataImage, name: str, current: int, level: int, upgrade_type: int, node_id: int) -> None:
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refused(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _refused(name, level, "A feature version cannot be less than 0.")
    reason = _reason_not_supported(image, name, level, node_id)
    if reason is not None:
        raise _refused(name, level, reason)
    if level < current and upgrade_type == UPGRADE:
        raise _refused(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if level > current and upgrade_type != UPGRADE:
        raise _refused(name, level, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION and not CHANGES.isdisjoint(range(level + 1, current + 1)):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if upgrade_type == UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise ApiError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {current} to {level}. {reason}",
        )
    if name == KRAFT_VERSION and level < current:
        raise _refused(name, level, "Can't downgrade the version of this feature.")


def _check_dependency(name: str, level: int, proposed: Mapping[str, int]) -> None:
    needed = DEPENDENCIES.get((name, level))
    if needed is not None and proposed.get(needed[0], 0) < needed[1]:
        reason = f"{name} could not be set to {level} because it depends on {needed[0]} level {needed[1]}"
        raise _refused(name, level, reason)


def _reason_not_supported(image: MetadataImage, name: str, level: int, node_id: int) -> str | None:
    supported = [(f"Local controller {node_id}", SUPPORTED.get(name))]
    supported += [(f"Broker {each.id}", each.features.get(name)) for each in image.cluster.brokers.values()]
    supported += [
        (f"Controller {each.id}", each.features.get(name))
        for each in image.cluster.controllers.values()
        if each.id != node_id
    ]
    for who, levels in supported:
        if levels is None:
            if level:
                return f"{who} does not support this feature."
            if name not in SUPPORTED:
                return f"Feature {name} not found."
        elif not levels[0] <= level <= levels[1]:
            return f"{who} only supports versions {levels[0]}-{levels[1]}"
    return None


def _common_min_isr(image: MetadataImage, config: BrokerConfig) -> list[Any]:
    """With ELR the cluster has one minimum ISR and no broker its own (KIP-966)."""
    records = []
    if MIN_ISR not in image.configs.of(RESOURCE_BROKER, ""):
        records.append(
            m.ConfigRecord(
                resource_type=RESOURCE_BROKER,
                resource_name="",
                name=MIN_ISR,
                value=str(config.integer(MIN_ISR)),
            )
        )
    for (resource_type, name), values in image.configs.by_resource.items():
        if resource_type == RESOURCE_BROKER and name and MIN_ISR in values:
            records.append(m.ConfigRecord(resource_type=RESOURCE_BROKER, resource_name=name, name=MIN_ISR, value=None))
    return records


def _refused(name: str, level: int, reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {reason}")
