"""Ids and small values that every layer speaks of.

A Kafka UUID is 16 bytes on the wire and stays 16 bytes here (``Uuid``): it is compared and hashed on the hot path and
shown, in Kafka's URL-safe base64 of 22 characters, only to people.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple, TypeAlias

Uuid: TypeAlias = bytes

ZERO_UUID: Uuid = bytes(16)
METADATA_TOPIC_ID: Uuid = bytes(15) + b"\x01"
"""The id of ``__cluster_metadata`` (Kafka's ``Uuid.METADATA_TOPIC_ID``)."""

MIGRATING_DIRECTORY: Uuid = ZERO_UUID
UNASSIGNED_DIRECTORY: Uuid = bytes(15) + b"\x01"
LOST_DIRECTORY: Uuid = bytes(15) + b"\x02"
"""Words in the place of a directory's id (``DirectoryId``): of a replica whose broker never said where it is, has yet
to choose, or put it into a directory that failed before its id was known."""
RESERVED_DIRECTORIES = 100
"""Ids of directories below this number are words."""

METADATA_TOPIC = "__cluster_metadata"
GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})


class StartupError(Exception):
    """The broker cannot start; the text is one line that says why and what to do."""


class TopicPartition(NamedTuple):
    """A partition by its topic's name; printed as Kafka prints it, ``topic-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def is_directory(directory_id: Uuid | None) -> bool:
    """Whether it names a directory, and is not absent or one of the words."""
    return directory_id is not None and int.from_bytes(directory_id, "big") >= RESERVED_DIRECTORIES


def uuid_to_string(uuid: Uuid) -> str:
    """The 22 characters that Kafka shows for a UUID."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def uuid_from_string(text: str) -> Uuid:
    """Parse Kafka's 22 characters (padding allowed). Raises ``ValueError`` when they are not 16 bytes of base64."""
    try:
        uuid = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a Kafka UUID: 22 characters of URL-safe base64 are expected") from error
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a Kafka UUID: it holds {len(uuid)} bytes, 16 are expected")
    return uuid
