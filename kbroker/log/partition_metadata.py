"""``partition.metadata``: the topic id that a partition's directory belongs to (KIP-516)."""

from __future__ import annotations

from kbroker.host import Disk
from kbroker.log.errors import CorruptFileError, LogOfflineError
from kbroker.types import Uuid, uuid_from_string, uuid_to_string

NAME = "partition.metadata"
_VERSION = "0"


def read(disk: Disk, directory: str) -> Uuid | None:
    """The directory's topic id; None when it says none (no file, or one that a crash left empty)."""
    path = f"{directory}/{NAME}"
    try:
        text = disk.read(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    if not text.strip("\0 \n"):
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != _VERSION or "topic_id" not in fields:
        raise CorruptFileError(path, 0, f"a line 'version: {_VERSION}' and a line 'topic_id: ...' are expected")
    try:
        return uuid_from_string(fields["topic_id"])
    except ValueError as error:
        raise CorruptFileError(path, 0, str(error)) from error


def check_free(disk: Disk, directory: str, topic_id: Uuid) -> None:
    """A new log may have ``directory``. Raises ``LogOfflineError`` where it is another topic's.

    So it is with ``Orders`` on a disk that takes its name for that of ``orders``, as macOS's do.
    """
    try:
        owner = read(disk, directory)
    except (OSError, CorruptFileError):
        return  # whoever goes on with the directory meets the same
    if owner not in (None, topic_id):
        raise LogOfflineError(
            f"{directory} is the directory of another topic, whose name differs in upper and lower case only: this "
            "disk does not tell the two apart; give one of the topics another name"
        )


def write(disk: Disk, directory: str, topic_id: Uuid) -> None:
    """Not made durable here: ``Log.sync`` does that before the recovery point moves."""
    text = f"version: {_VERSION}\ntopic_id: {uuid_to_string(topic_id)}"
    disk.write_atomically(f"{directory}/{NAME}", text.encode(), sync=False)
