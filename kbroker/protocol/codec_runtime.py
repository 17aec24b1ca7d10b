"""What the functions written by ``codec_source`` call when the straight line bends: long varints, tags, errors."""

from __future__ import annotations

import codecs
from typing import Final, NoReturn

from kbroker.protocol.declarations import NEW, UNSET, Buffer, Struct
from kbroker.protocol.errors import ProtocolError


class EncodeError(ValueError):
    """A message holds what the version it shall be written in cannot carry (Kafka's UnsupportedVersionException)."""


def varint_rest(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte had its high bit set: at most five bytes, 32 bits."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise ProtocolError("a varint does not fit 32 bits")


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint. Raises ``IndexError`` when the data end in it."""
    byte = data[position]
    return varint_rest(data, position + 1, byte) if byte > 127 else (byte, position + 1)


AS_JAVA: Final = "kbroker.as_java"
"""How errors in UTF-8 are handled: U+FFFD takes the place of each, as in Java."""


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Python sees two or three errors in a surrogate that was encoded by itself where Java sees one."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, end = error.object, error.end
    if data[error.start] == 0xED:
        while end < len(data) and end < error.start + 3 and 0x80 <= data[end] <= 0xBF:
            end += 1
    return "\ufffd", end


codecs.register_error(AS_JAVA, _replaced)

STRING_MAX: Final = 32767
SHORT_LENGTHS: Final = [bytes([length + 1]) for length in range(127)]
"""A compact length of each size that takes one byte: the length plus one."""


def nullable_length(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Finish a compact length that may be null, which in Java's numbers a negative one is, too."""
    length, position = varint_rest(data, position, first)
    return 0 if length > 0x80000000 else length, position


def nullable_string_length(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Finish the compact length of a string that may be null: the length plus one."""
    length, position = nullable_length(data, position, first)
    if length > STRING_MAX + 1:
        refuse("a string", length)
    return length, position


def length_not_null(data: Buffer, position: int, first: int, name: str) -> tuple[int, int]:
    """Finish a compact length that may not be null."""
    length, position = varint_rest(data, position, first) if first else (0, position)
    if not length:
        refuse(name, -1)
    return length, position


def string_length_not_null(data: Buffer, position: int, first: int, name: str) -> tuple[int, int]:
    """Finish the compact length of a string that may not be null."""
    length, position = length_not_null(data, position, first, name)
    if length > STRING_MAX + 1:
        refuse(name, length)
    return length, position


def long_length(length: int) -> bytes:
    """A compact length that takes more than one byte."""
    return write_varint(length + 1)


def long_string_length(length: int) -> bytes:
    if length > STRING_MAX:
        raise EncodeError(f"a string has {length} bytes, more than its length field can say")
    return write_varint(length + 1)


def write_varint(value: int) -> bytes:
    """An unsigned varint of at most 32 bits."""
    if not 0 <= value <= 0xFFFFFFFF:
        raise EncodeError(f"{value} does not fit an unsigned varint")
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(data: Buffer, position: int, count: int) -> int:
    """Pass over unknown tagged fields, ``count`` being the first byte of their number."""
    size = len(data)
    if count > 127:
        count, position = varint_rest(data, position, count)
    if count * 2 > size - position:
        refuse("tagged fields", count)
    for _ in range(count):
        _, position = read_varint(data, position)
        length, position = read_varint(data, position)
        position += length
    if position > size:
        refuse("tagged fields", position - size)
    return position


def refuse(what: str, length: int) -> NoReturn:
    """A count or length is more than what is left of the data, or says null where null is not allowed."""
    raise ProtocolError(f"{what}: the length {length} is null where it may not be, or more than there is")


def is_blank(value: Struct | None) -> bool:
    """Has a struct nothing but defaults?"""
    if value is None:
        return False
    for declared in value.fields.values():
        held = getattr(value, declared.slot)
        if declared.is_struct and declared.default is NEW:
            is_default = held is UNSET or is_blank(held)
        else:
            is_default = held == ([] if declared.default is NEW else declared.default)
        if not is_default:
            return False
    return True


def lacks(name: str, version: int) -> NoReturn:
    """A field was set that the version does not have and that may not be dropped."""
    raise EncodeError(f"{name} is set, but version {version} does not have it")
