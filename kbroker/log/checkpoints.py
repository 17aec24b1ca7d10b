"""Kafka's checkpoint files: a version, a count, and one line of numbers and names per entry.

``recovery-point-offset-checkpoint``, ``log-start-offset-checkpoint``, ``replication-offset-checkpoint`` and
``cleaner-offset-checkpoint`` lie in a data directory and say an offset per partition; ``leader-epoch-checkpoint``
lies in a partition's directory. An empty file is an empty checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbroker.host import Disk
from kbroker.log.errors import CorruptFileError
from kbroker.types import TopicPartition

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
LEADER_EPOCH = "leader-epoch-checkpoint"

_VERSION = 0


def format_lines(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in (_VERSION, len(lines), *lines)).encode()


def parse_lines(path: str, data: bytes, fields: int) -> list[list[str]]:
    """The entries of a checkpoint file, each as its fields. Raises ``CorruptFileError``."""
    lines = data.decode("utf-8", "replace").split("\n")
    if lines == [""]:
        return []
    if lines[0] != str(_VERSION):
        raise CorruptFileError(path, 0, f"version {lines[0]!r}, {_VERSION} is expected")
    if len(lines) < 2 or not lines[1].isdigit():
        raise CorruptFileError(path, 0, "the second line is no count of entries")
    if lines[-1] != "":
        raise CorruptFileError(path, 0, "the last line has no end")  # half a number is a number too
    count = int(lines[1])
    entries = [line.split() for line in lines[2 : 2 + count]]
    if len(entries) != count or any(line.strip() for line in lines[2 + count :]):
        raise CorruptFileError(path, 0, f"{count} entries are announced, {len(lines) - 3} lines follow")
    for number, entry in enumerate(entries):
        if len(entry) != fields:
            raise CorruptFileError(path, 0, f"entry {number} has {len(entry)} fields, {fields} are expected")
    return entries


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The offsets of a checkpoint file; empty when there is none. Raises ``CorruptFileError``."""
    try:
        data = disk.read(path)
    except FileNotFoundError:
        return {}
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in parse_lines(path, data, 3)
        }
    except ValueError as error:
        raise CorruptFileError(path, 0, str(error)) from error


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int], *, sync: bool) -> None:
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
    disk.write_atomically(path, format_lines(lines), sync=sync)
