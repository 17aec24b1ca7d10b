"""Messages to bytes and back, for every declared message in every version.

For each (class, version) one straight-line function is written on first use by ``codec_source`` and kept on the class.
What comes in is never trusted: counts and lengths are held against what is left of the data before anything is
allocated, and whatever is wrong with it ends in ``ProtocolError``. What goes out is ours: a value that a version cannot
carry is a mistake of the caller and raises ``EncodeError``.

Follows KIP-482 (flexible versions): unknown tagged fields are skipped, tagged fields with their default are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from kbroker.protocol.codec_runtime import EncodeError
from kbroker.protocol.declarations import Buffer, Message, Records
from kbroker.protocol.errors import ProtocolError

__all__ = ["EncodeError", "Part", "decode", "decode_from", "decoder", "encode", "encode_parts", "encoder"]

Part: TypeAlias = Records
"""A piece of an encoded message: bytes, or the object that was given as ``records``."""

_M = TypeVar("_M", bound=Message)


def decode(cls: type[_M], version: int, data: Buffer, position: int = 0) -> _M:
    """Read one message. What follows it is ignored. A ``records`` field is a view into ``data``."""
    message: _M = (cls.decoders.get(version) or decoder(cls, version))(data, position)[0]
    return message


def decode_from(cls: type[_M], version: int, data: Buffer, position: int = 0) -> tuple[_M, int]:
    """Read one message and say where it ends."""
    return (cls.decoders.get(version) or decoder(cls, version))(data, position)


def encode(message: Message, version: int) -> bytes:
    """Write one message whose ``records``, if it has any, are bytes or views."""
    parts: list[Any] = (message.encoders.get(version) or encoder(type(message), version))(message)
    return b"".join(parts)


def encode_parts(message: Message, version: int) -> list[Part]:
    """Write one message as parts: each ``records`` is one, as it was given; the others, and the first, are bytes."""
    return (message.encoders.get(version) or encoder(type(message), version))(message)


def decoder(cls: type[_M], version: int) -> Callable[[Buffer, int], tuple[_M, int]]:
    """The function that reads this class in this version. Raises ``ProtocolError`` when there is no such version."""
    made = cls.decoders.get(version)
    if made is None:
        if not cls.valid_versions.includes(version):
            raise ProtocolError(f"{cls.__name__} has no version {version}")
        from kbroker.protocol.codec_source import make_decoder

        made = cls.decoders[version] = make_decoder(cls, version)
    return made


def encoder(cls: type[Message], version: int) -> Callable[[Any], list[Part]]:
    """The function that writes this class in this version. Raises ``EncodeError`` when there is no such version."""
    made = cls.encoders.get(version)
    if made is None:
        if not cls.valid_versions.includes(version):
            raise EncodeError(f"{cls.__name__} has no version {version}")
        from kbroker.protocol.codec_source import make_encoder

        made = cls.encoders[version] = make_encoder(cls, version)
    return made
