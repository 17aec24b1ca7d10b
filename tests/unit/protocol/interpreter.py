"""A slow, obvious reading of the declarations: what ``codec`` must agree with, written the other way round.

It walks the fields of a class one by one, over one reader and one writer of primitives, and asks every question about
the version where it arises. Nothing is shared with the codec but the declarations.
"""

from __future__ import annotations

import struct
from typing import Any

from kbroker.protocol.codec_runtime import AS_JAVA
from kbroker.protocol.declarations import Buffer, Field, Message, Struct

FIXED = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
    "uuid": ">16s",
}


class BadBytes(Exception):  # noqa: N818  # not an error of the program: an answer
    """The bytes are not a message."""


def interpret(cls: type[Message], version: int, data: Buffer) -> tuple[Any, int]:
    """Read a message and say where it ends. Raises ``BadBytes``."""
    reader = _Reader(bytes(data), version, cls)
    return reader.struct(cls), reader.position


def write(message: Message, version: int) -> bytes:
    writer = _Writer(version, type(message))
    writer.struct(message)
    return bytes(writer.out)


def _flexible(declared: Field, message: type[Message], version: int) -> bool:
    return (declared.flexible or message.flexible_versions).includes(version)


class _Reader:
    def __init__(self, data: bytes, version: int, message: type[Message]) -> None:
        self.data = data
        self.position = 0
        self.version = version
        self.message = message

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.position:
            raise BadBytes("too short")
        taken = self.data[self.position : self.position + size]
        self.position += size
        return taken

    def fixed(self, kind: str) -> Any:
        layout = FIXED[kind]
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def varint(self) -> int:
        value = 0
        for index in range(5):
            (byte,) = self.take(1)
            value += (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
        else:
            raise BadBytes("more than five bytes")
        if value > 0xFFFFFFFF:
            raise BadBytes("more than 32 bits")
        return value

    def length(self, kind: str, flexible: bool) -> int:
        if flexible:
            length = self.varint() - 1
            return length if length < 0x80000000 else -1
        return int(self.fixed("int16" if kind == "string" else "int32"))

    def struct(self, cls: type[Struct]) -> Any:
        made = cls()
        tagged: dict[int, Field] = {}
        for declared in cls.fields.values():
            if declared.tagged.includes(self.version) and declared.tag is not None:
                tagged[declared.tag] = declared
            elif declared.versions.includes(self.version):
                setattr(made, declared.name, self.value(declared, cls, is_tagged=False))
        if self.message.flexible_versions.includes(self.version):
            for _ in range(self.varint()):
                tag, size = self.varint(), self.varint()
                if size > len(self.data) - self.position:
                    raise BadBytes("too short")
                end = self.position + size
                if tag in tagged:
                    setattr(made, tagged[tag].name, self.value(tagged[tag], cls, is_tagged=True))
                    if self.position != end:
                        raise BadBytes("a tagged field of another size")
                self.position = end
        return made

    def value(self, declared: Field, cls: type[Struct], *, is_tagged: bool) -> Any:
        nullable = declared.nullable.includes(self.version)
        flexible = _flexible(declared, self.message, self.version)
        if declared.is_struct:
            if nullable and (self.varint() == 0 if is_tagged else self.fixed("int8") < 0):
                return None
            return self.struct(cls.struct(declared.kind))
        if declared.is_array:
            count = self.length(declared.kind, flexible)
            if count < 0:
                return self.null(nullable)
            if count > len(self.data) - self.position:
                raise BadBytes("too many")
            return [self.plain(declared.element, cls, flexible, nullable=False) for _ in range(count)]
        return self.plain(declared.kind, cls, flexible, nullable=nullable)

    def plain(self, kind: str, cls: type[Struct], flexible: bool, *, nullable: bool) -> Any:
        if kind in FIXED:
            return self.fixed(kind)
        if kind[0].isupper():
            return self.struct(cls.struct(kind))
        length = self.length(kind, flexible)
        if length < 0:
            return self.null(nullable)
        if kind != "string":
            return self.take(length)
        if length > 32767:
            raise BadBytes("too long for a string")
        return self.take(length).decode("utf-8", AS_JAVA)

    def null(self, nullable: bool) -> None:
        if not nullable:
            raise BadBytes("null")


class _Writer:
    def __init__(self, version: int, message: type[Message]) -> None:
        self.out = bytearray()
        self.version = version
        self.message = message

    def varint(self, value: int) -> None:
        while value >= 0x80:
            self.out.append(value % 0x80 + 0x80)
            value //= 0x80
        self.out.append(value)

    def length(self, length: int, kind: str, flexible: bool) -> None:
        if flexible:
            self.varint(length + 1)
        else:
            self.out += struct.pack(">h" if kind == "string" else ">i", length)

    def struct(self, source: Struct) -> None:
        cls = type(source)
        tagged: dict[int, Field] = {}
        for declared in cls.fields.values():
            if declared.tagged.includes(self.version) and declared.tag is not None:
                if getattr(source, declared.name) != getattr(cls(), declared.name):
                    tagged[declared.tag] = declared
            elif declared.versions.includes(self.version):
                self.value(declared, getattr(source, declared.name), is_tagged=False)
        if self.message.flexible_versions.includes(self.version):
            self.varint(len(tagged))
            for tag, declared in sorted(tagged.items()):
                inner = _Writer(self.version, self.message)
                inner.value(declared, getattr(source, declared.name), is_tagged=True)
                self.varint(tag)
                self.varint(len(inner.out))
                self.out += inner.out

    def value(self, declared: Field, value: Any, *, is_tagged: bool) -> None:
        flexible = _flexible(declared, self.message, self.version)
        if declared.is_struct:
            if declared.nullable.includes(self.version):
                present, absent = (b"\x01", b"\x00") if is_tagged else (b"\x01", b"\xff")
                self.out += absent if value is None else present
            if value is not None:
                self.struct(value)
        elif declared.is_array:
            self.length(-1 if value is None else len(value), declared.kind, flexible)
            for each in value or ():
                self.plain(declared.element, each, flexible)
        else:
            self.plain(declared.kind, value, flexible)

    def plain(self, kind: str, value: Any, flexible: bool) -> None:
        if kind in FIXED:
            self.out += struct.pack(FIXED[kind], value)
        elif kind[0].isupper():
            self.struct(value)
        elif value is None:
            self.length(-1, kind, flexible)
        else:
            text = value.encode() if kind == "string" else bytes(value)
            self.length(len(text), kind, flexible)
            self.out += text
