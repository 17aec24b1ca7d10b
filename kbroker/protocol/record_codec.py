"""How messages stand inside records: the metadata log's frame, and coordinators' keys and values.

A metadata record's value is frame version 1, record type and version as unsigned varints, then the body (Kafka's
MetadataRecordSerde). A coordinator's key is its record type in two bytes and the body in version 0; its value is a
version in two bytes and the body, or null for a tombstone (Kafka's CoordinatorRecordSerde).
"""

from __future__ import annotations

import importlib
from typing import Final

from kbroker.protocol.codec import decode, decode_from, encode
from kbroker.protocol.codec_runtime import read_varint, write_varint
from kbroker.protocol.declarations import Buffer, Message
from kbroker.protocol.errors import ProtocolError

FRAME_VERSION: Final = 1
_RECORDS = "kbroker.protocol.messages.records."


class UnknownRecordTypeError(ProtocolError):
    """A record of a type that is not known here: from a later Kafka, most likely. Coordinators pass over it."""

    def __init__(self, record_type: int) -> None:
        super().__init__(f"record type {record_type} is not known")
        self.record_type = record_type


class RecordTypes:
    """The key and value classes of one log by record type; their modules are imported on first use."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._keys: dict[int, type[Message]] = {}
        self._values: dict[int, type[Message]] = {}

    def key_class(self, record_type: int) -> type[Message]:
        return self._known(self._loaded()[0], record_type)

    def value_class(self, record_type: int) -> type[Message]:
        return self._known(self._loaded()[1], record_type)

    def _loaded(self) -> tuple[dict[int, type[Message]], dict[int, type[Message]]]:
        if not self._values:
            for name in self._modules:
                for cls in vars(importlib.import_module(_RECORDS + name)).values():
                    if isinstance(cls, type) and issubclass(cls, Message) and cls.api_key >= 0:
                        (self._keys if cls.__name__.endswith("Key") else self._values)[cls.api_key] = cls
        return self._keys, self._values

    @staticmethod
    def _known(classes: dict[int, type[Message]], record_type: int) -> type[Message]:
        cls = classes.get(record_type)
        if cls is None:
            raise UnknownRecordTypeError(record_type)
        return cls


METADATA: Final = RecordTypes("metadata")
GROUP: Final = RecordTypes("group", "consumer_group", "share_group", "streams_group")
"""Records of ``__consumer_offsets``."""
TRANSACTION: Final = RecordTypes("transaction")
"""Records of ``__transaction_state``."""


def encode_metadata_record(message: Message, version: int) -> bytes:
    """The value of a record in ``__cluster_metadata``."""
    frame = write_varint(FRAME_VERSION) + write_varint(message.api_key) + write_varint(version)
    return frame + encode(message, version)


def decode_metadata_record(data: Buffer) -> Message:
    """The message in the value of a metadata record. Raises ``ProtocolError``, as Kafka also for bytes left over."""
    return decode_metadata_record_version(data)[0]


def decode_metadata_record_version(data: Buffer) -> tuple[Message, int]:
    """The message in the value of a metadata record, and the version it was written in."""
    try:
        frame_version, position = read_varint(data, 0)
        if frame_version != FRAME_VERSION:
            raise ProtocolError(f"a metadata record has frame version {frame_version}, only {FRAME_VERSION} is known")
        record_type, position = read_varint(data, position)
        version, position = read_varint(data, position)
    except IndexError as error:
        raise ProtocolError("a metadata record is cut short") from error
    message, end = decode_from(METADATA.value_class(record_type), version, data, position)
    if end != len(data):
        raise ProtocolError(f"a {type(message).__name__} is followed by {len(data) - end} bytes of something else")
    return message, version


def encode_coordinator_key(message: Message) -> bytes:
    """The key of a coordinator's record: its type, then the body in version 0."""
    return message.api_key.to_bytes(2, "big") + encode(message, 0)


def encode_coordinator_value(message: Message, version: int) -> bytes:
    """The value of a coordinator's record. A tombstone has none: its value is null, not an encoded message."""
    return version.to_bytes(2, "big") + encode(message, version)


def decode_coordinator_key(types: RecordTypes, data: Buffer) -> Message:
    """The key of a coordinator's record. Raises ``UnknownRecordTypeError`` for a type that is to be passed over."""
    return decode(types.key_class(_prefix(data)), 0, data, 2)


def decode_coordinator_value(types: RecordTypes, record_type: int, data: Buffer) -> Message:
    """The value of a coordinator's record, whose key has this type (``key.api_key``)."""
    return decode(types.value_class(record_type), _prefix(data), data, 2)


def _prefix(data: Buffer) -> int:
    if len(data) < 2:
        raise ProtocolError("a coordinator's record is cut short")
    return int.from_bytes(data[:2], "big", signed=True)
