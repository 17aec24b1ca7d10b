"""``meta.properties``: whose a data directory is. Follows Kafka's ``MetaProperties`` version 1 (KIP-858)."""

from __future__ import annotations

from dataclasses import dataclass

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
    pairs = (
        line.partition("=") for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "!"))
    )
    values = {key.strip(): value.strip().replace("\\", "") for key, _, value in pairs}
    try:
        if values["version"] != _VERSION:
            raise InconsistentDirectoryError(
                f"{path}: version {values['version']} is not served, {_VERSION} is expected"
            )
        directory_id = uuid_from_string(values["directory.id"]) if "directory.id" in values else None
        if directory_id is not None and not is_directory(directory_id):
            raise InconsistentDirectoryError(
                f"{path}: the directory id {values['directory.id']} is reserved; remove the line to get another"
            )
        return MetaProperties(values["cluster.id"], int(values["node.id"]), directory_id)
    except KeyError as error:
        raise InconsistentDirectoryError(f"{path}: {error.args[0]} is missing; format the directory again") from error
    except ValueError as error:
        raise InconsistentDirectoryError(f"{path}: {error}") from error


def write(disk: Disk, directory: str, properties: MetaProperties, *, sync: bool = True) -> None:
    lines = ["#", f"cluster.id={properties.cluster_id}", f"node.id={properties.node_id}", f"version={_VERSION}"]
    if properties.directory_id is not None:
        lines.insert(2, f"directory.id={uuid_to_string(properties.directory_id)}")
    disk.write_atomically(f"{directory}/{NAME}", "".join(f"{line}\n" for line in lines).encode(), sync=sync)


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
