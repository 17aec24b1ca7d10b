"""What ``kbroker storage`` knows of features: release versions, levels that are given by hand, what levels need.

The words are those of Kafka's ``StorageTool`` and ``Formatter`` (KIP-1022).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbroker.config.values import java_int
from kbroker.kraft import metadata_versions
from kbroker.kraft.controller.features import (
    DEPENDENCIES,
    KRAFT_VERSION,
    SUPPORTED,
    bootstrap_records,
    default_levels,
)
from kbroker.kraft.image import METADATA_VERSION
from kbroker.protocol.messages.records.metadata import FeatureLevelRecord

_SHORT_MAX = 2**15 - 1


class FeatureError(Exception):
    """A release or a level that there is not, in a line."""


def release_level(version: str) -> int:
    """The level of ``metadata.version`` of a release version."""
    level = metadata_versions.level_of(version)
    if level is None:
        known = ", ".join(metadata_versions.names())
        raise FeatureError(f"Unknown metadata.version '{version}'. Supported metadata.version are: {known}")
    return level


def records_to_format_with(
    release_version: str | None, features: Iterable[str], *, is_dynamic: bool = False
) -> list[FeatureLevelRecord]:
    """The bootstrap records for a release version and levels given as ``feature=level``, of which the last counts.

    Not among them is the level of ``kraft.version``, which is 1 of a dynamic quorum.
    """
    chosen: dict[str, int] = {}
    for text in features:
        name, level = _parsed(text)
        chosen[name] = level
    metadata_version = _chosen_metadata_version(release_version, chosen.pop(METADATA_VERSION, None))
    unknown = next((name for name in chosen if name not in SUPPORTED), None)
    if unknown is not None:
        known = ", ".join(sorted(name for name in SUPPORTED if name != METADATA_VERSION))
        raise FeatureError(f"Unsupported feature: {unknown}. Supported features are: {known}")
    kraft_version = chosen.pop(KRAFT_VERSION, int(is_dynamic))
    _check_level(KRAFT_VERSION, kraft_version)
    if kraft_version != is_dynamic:
        what = "if" if is_dynamic else "unless"
        advice = (
            "try removing the --feature flag for kraft.version."
            if is_dynamic
            else "try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing "
            "controller.quorum.voters."
        )
        raise FeatureError(
            f"Cannot set kraft.version to {kraft_version} {what} controller.quorum.voters is empty and one of the "
            "flags --standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers "
            f"support, {advice}"
        )
    levels = {METADATA_VERSION: metadata_version, **default_levels(metadata_version), **chosen}
    for name, level in chosen.items():
        _check_level(name, level)
        _check_dependency(name, level, levels)
    return bootstrap_records(metadata_version, chosen)


def _chosen_metadata_version(release_version: str | None, level: int | None) -> int:
    if level is None:
        return metadata_versions.LATEST if release_version is None else release_level(release_version)
    if release_version is not None:
        raise FeatureError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    if metadata_versions.name_of(level) is None:
        oldest, latest = metadata_versions.OLDEST, metadata_versions.LATEST
        raise FeatureError(
            f"No MetadataVersion with feature level {level}. Valid feature levels are from {oldest} to {latest}."
        )
    return level


def _parsed(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise FeatureError(f"Can't parse feature=level string {text}: equals sign not found.")
    number = _short(level)
    if number is None:
        raise FeatureError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
    return name.strip(), number


def _short(text: str) -> int | None:
    try:
        number = java_int(text)
    except ValueError:
        return None
    return number if -_SHORT_MAX - 1 <= number <= _SHORT_MAX else None


def _check_level(name: str, level: int) -> None:
    lowest, highest = SUPPORTED[name]
    if not lowest <= level <= highest:
        raise FeatureError(f"No feature:{name} with feature level {level}")


def _check_dependency(name: str, level: int, levels: Mapping[str, int]) -> None:
    needed = DEPENDENCIES.get((name, level))
    if needed is not None and levels[needed[0]] < needed[1]:
        raise FeatureError(f"{name} could not be set to {level} because it depends on {needed[0]} level {needed[1]}")


def mapping_lines(release_version: str | None) -> list[str]:
    """Which levels a release version stands for."""
    version = release_version
    if version is None:
        version = metadata_versions.name_of(metadata_versions.LATEST)
    level = release_level(str(version))
    defaults = [f"{name}={each}" for name, each in default_levels(level).items()]
    return [f"{METADATA_VERSION}={level} ({version})", *defaults]


def dependency_lines(features: Iterable[str]) -> list[str]:
    """What each of some levels, given as ``feature=level``, needs."""
    lines = []
    for text in features:
        name, equals, version = text.partition("=")
        if not equals:
            raise FeatureError(
                f"Invalid feature format: {text}. Expected format: 'feature=version' (e.g. 'group.version=1')"
            )
        level = _short(version)
        if level is None:
            raise FeatureError(f"Invalid version format: {version} for feature {name}")
        lines += _dependencies_of(name, level)
    return lines


def _dependencies_of(name: str, level: int) -> list[str]:
    if name == METADATA_VERSION:
        version = metadata_versions.name_of(level)
        if version is None:
            raise FeatureError(f"Unknown metadata.version {level}")
        return [f"{name}={level} ({version}) has no dependencies."]
    if name not in SUPPORTED:
        raise FeatureError(f"Unknown feature: {name}")
    lowest, highest = SUPPORTED[name]
    if not lowest <= level <= highest:
        raise FeatureError(f"Feature level {level} is not supported for feature {name}")
    needed = DEPENDENCIES.get((name, level))
    if needed is None:
        return [f"{name}={level} has no dependencies."]
    return [f"{name}={level} requires:", f"    {needed[0]}={needed[1]} ({metadata_versions.name_of(needed[1])})"]
