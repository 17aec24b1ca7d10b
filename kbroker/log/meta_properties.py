"""``meta.properties``: whose a data directory is. Follows Kafka's ``MetaProperties`` version 1 (KIP-858)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kbroker.config.properties import format_properties, load_properties
from kbroker.config.values import java_int
from kbroker.host import Disk
from kbroker.log.errors import InconsistentDirectoryError
from kbroker.types import Uuid, is_directory, uuid_from_string, uuid_to_string

NAME = "meta.properties"
_VERSION = "1"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The owner of a data directory. ``directory_id`` is absent in directories that old Kafka versions formatted."""

    cluster_id: str
    node_id: int
    directory_id: Uuid | None = None


def read(disk: Disk, directory: str) -> MetaProperties | None:
    """None when the directory was not formatted. Raises ``InconsistentDirectoryError``."""
    path = f"{directory}/{NAME}"
    try:
        text = disk.read(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    if "\ufffd" in text:
        raise InconsistentDirectoryError(f"{path} is no text: restore it, or format the directory again")
    try:
        values = load_properties(text)
        if values["version"] != _VERSION:
            raise InconsistentDirectoryError(
                f"{path}: version {values['version']} is not served, {_VERSION} is expected"
            )
        directory_id = uuid_from_string(values["directory.id"]) if "directory.id" in values else None
        return MetaProperties(values["cluster.id"], _node_id(values["node.id"]), directory_id)
    except KeyError as error:
        raise InconsistentDirectoryError(f"{path}: {error.args[0]} is missing; format the directory again") from error
    except ValueError as error:
        raise InconsistentDirectoryError(f"{path}: {error}") from error


def _node_id(text: str) -> int:
    try:
        return java_int(text)
    except ValueError as error:
        raise ValueError("Unable to read node.id as a base-10 number.") from error


def write(disk: Disk, directory: str, properties: MetaProperties, *, sync: bool = True) -> None:
    disk.write_atomically(f"{directory}/{NAME}", format_properties(values_of(properties)).encode(), sync=sync)


def values_of(properties: MetaProperties) -> dict[str, str]:
    """The entries of the file, by name."""
    values = {"cluster.id": properties.cluster_id}
    if properties.directory_id is not None:
        values["directory.id"] = uuid_to_string(properties.directory_id)
    return {**values, "node.id": str(properties.node_id), "version": _VERSION}


def check_ids(found: Iterable[tuple[str, MetaProperties]]) -> None:
    """Raises ``InconsistentDirectoryError`` unless each data directory has an id of its own, none of Kafka's words."""
    seen: dict[Uuid, str] = {}
    for directory, properties in found:
        directory_id = properties.directory_id
        if directory_id is None:
            continue
        shown = uuid_to_string(directory_id)
        if not is_directory(directory_id):
            what = f"remove directory.id from its {NAME} to get another"
            raise InconsistentDirectoryError(f"Invalid reserved directory ID {shown} found in {directory}: {what}")
        if directory_id in seen:
            raise InconsistentDirectoryError(
                f"Duplicate directory ID {shown} found. It was the ID of {seen[directory_id]}, but also of {directory}"
            )
        seen[directory_id] = directory


def check_owner(directory: str, properties: MetaProperties, cluster_id: str | None, node_id: int) -> None:
    """Raises ``InconsistentDirectoryError`` when the directory is another cluster's or another node's."""
    if cluster_id is not None and properties.cluster_id != cluster_id:
        raise InconsistentDirectoryError(
            f"data directory {directory} belongs to cluster {properties.cluster_id}, not to {cluster_id}: "
            f"give that cluster id, or another data directory"
        )
    if properties.node_id != node_id:
        raise InconsistentDirectoryError(
            f"data directory {directory} belongs to node {properties.node_id}, not to {node_id}: "
            f"give that node id, or another data directory"
        )
