"""The names of a partition's directory and of the files in it, as Apache Kafka gives them.

Base offsets are 20 decimal digits, so that names sort as offsets do. Suffixes mark what is on its way: ``.deleted``
files and ``-delete`` directories wait for their removal, ``.cleaned`` and ``.swap`` belong to the cleaner, ``-stray``
directories belong to no known topic, ``-future`` ones to a move between directories.
"""

from __future__ import annotations

import re

from kbroker.types import TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
INDEX_SUFFIXES = SEGMENT_SUFFIXES[1:]

DELETE_DIRECTORY = "delete"
STRAY_DIRECTORY = "stray"
FUTURE_DIRECTORY = "future"

_MOVED = re.compile(r"^(\S+)-(\d+)\.([0-9a-f]{32})-(delete|stray|future)$")
_PLAIN = re.compile(r"^(\S+)-(\d+)$")
_DIRECTORY_NAME_MAX = 255
_OFFSET_DIGITS = 20


def offset_name(offset: int) -> str:
    """The part of a file's name that says its first offset."""
    return f"{offset:0{_OFFSET_DIGITS}d}"


def offset_of(name: str) -> int | None:
    """The offset a file's name begins with, None when it begins with none or is written in another way."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit() else None


def directory_name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def moved_directory_name(partition: TopicPartition, unique: str, kind: str) -> str:
    """The name of a directory on its way out; the topic is cut to what a file system takes."""
    tail = f"-{partition.partition}.{unique}-{kind}"
    return partition.topic[: _DIRECTORY_NAME_MAX - len(tail)] + tail


def is_too_long(partition: TopicPartition, kind: str) -> bool:
    """Whether such a name would have to be cut, and could not be told from another's."""
    return len(f"{directory_name(partition)}.{'0' * 32}-{kind}") > _DIRECTORY_NAME_MAX


def parse_directory(name: str) -> tuple[TopicPartition, str | None] | None:
    """The partition a directory belongs to and the kind of a moved one; None for a directory of something else."""
    if moved := _MOVED.match(name):
        return TopicPartition(moved[1], int(moved[2])), moved[4]
    if plain := _PLAIN.match(name):
        return TopicPartition(plain[1], int(plain[2])), None
    return None
