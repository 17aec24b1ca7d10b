"""Writes the source of decoders and encoders.

One function per (message, version), straight-line: a struct's fields are read where they stand, nested structs are
inlined into the loops over them. Fixed-size fields that follow each other become one ``struct.Struct``, together with
the first byte of the length, count or tag section after them. Most compact lengths and all empty tag sections are one
byte, so the common case is one comparison. The source goes into ``linecache``: tracebacks show it.

Names in the written code: ``d`` data, ``p`` position, ``z`` size of the data, ``n`` a length or count, ``t`` number of
tagged fields, ``o1`` ... objects, ``a1`` ... arrays, ``w`` append to the output.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from typing import Any

from kbroker.protocol import codec_runtime
from kbroker.protocol.declarations import NEW, UNSET, Field, Message, Struct
from kbroker.protocol.errors import ProtocolError

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


def make_decoder(cls: type[Message], version: int) -> Callable[[Any, int], tuple[Any, int]]:
    """Write and compile the function ``(data, position) -> (message, end)``."""
    return _Decoder(cls, version).make()


def make_encoder(cls: type[Message], version: int) -> Callable[[Any], list[Any]]:
    """Write and compile the function ``message -> parts``."""
    return _Encoder(cls, version).make()


class _Writer:
    """Lines of source with their indentation, and the constants that they name."""

    purpose = ""

    def __init__(self, cls: type[Message], version: int) -> None:
        self.cls = cls
        self.version = version
        self.message_is_flexible = cls.flexible_versions.includes(version)
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.constants: dict[str, object] = {}
        self.formats: dict[str, str] = {}
        self.has_records = False
        self.pending_format: list[str] = []
        self.pending_names: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.name(prefix)
        self.constants[name] = value
        return name

    def present(self, declared: Field) -> bool:
        return declared.versions.includes(self.version)

    def is_tagged(self, declared: Field) -> bool:
        return declared.tagged.includes(self.version)

    def is_nullable(self, declared: Field) -> bool:
        return declared.nullable.includes(self.version)

    def is_flexible(self, declared: Field) -> bool:
        """Are the lengths of this field compact?"""
        if declared.flexible is not None:
            return declared.flexible.includes(self.version)
        return self.message_is_flexible

    def fields_here(self, cls: type[Struct]) -> list[Field]:
        """The fields that stand in this version in wire order, tagged ones aside."""
        return [each for each in cls.fields.values() if self.present(each) and not self.is_tagged(each)]

    def tagged_here(self, cls: type[Struct]) -> list[Field]:
        tagged = [each for each in cls.fields.values() if self.present(each) and self.is_tagged(each)]
        return sorted(tagged, key=lambda each: each.tag or 0)

    def literal(self, declared: Field) -> str:
        """The default as source: a literal where it is one, an array or struct where each message gets its own."""
        value = declared.default
        if value is NEW:
            return "UNSET" if declared.is_struct else "[]"
        return repr(value)

    def compiled(self, header: str, part: str = "") -> Any:
        filename = f"<{self.purpose} of {self.cls.__name__} v{self.version}{part}>"
        source = "\n".join([header, *self.lines, ""])
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(source, filename, "exec"), self.constants)  # noqa: S102  # our own text
        return self.constants["function"]


class _Deferred:
    """A function that is written when it is first called: most messages have no tagged fields."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._make = make
        self._made: Callable[..., Any] | None = None

    def __call__(self, *arguments: object) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made(*arguments)


class _Decoder(_Writer):
    purpose = "decoder"

    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__(cls, version)
        self.constants = {
            "StructError": struct.error,
            "ProtocolError": ProtocolError,
            "UNSET": UNSET,
            "create": object.__new__,
            "unpack_from": struct.unpack_from,
            "more": codec_runtime.varint_rest,
            "more_nullable": codec_runtime.nullable_length,
            "more_nullable_text": codec_runtime.nullable_string_length,
            "more_sure": codec_runtime.length_not_null,
            "more_sure_text": codec_runtime.string_length_not_null,
            "read_varint": codec_runtime.read_varint,
            "skip_tags": codec_runtime.skip_tags,
            "refuse": codec_runtime.refuse,
        }

    def make(self) -> Callable[[Any, int], tuple[Any, int]]:
        self.line("z = len(d)")
        start = len(self.lines)
        self.line("try:")
        self.depth += 1
        self.read_struct(self.cls, "o")
        self.depth -= 1
        self.line("except (IndexError, StructError) as error:")
        self.line(f" raise ProtocolError('{self.cls.__name__} v{self.version} is cut short') from error")
        self.line(f"if p > z: raise ProtocolError('{self.cls.__name__} v{self.version} is cut short')")
        self.line("return o, p")
        if self.has_records:
            # Slices of a view are views.
            self.lines.insert(start, " if type(d) is not memoryview: d = memoryview(d)")
        made: Callable[[Any, int], tuple[Any, int]] = self.compiled("def function(d, p):")
        return made

    def flush(self, last_format: str = "", last_name: str = "") -> None:
        """Read the fixed-size fields that wait, and with them the length that follows."""
        if last_format:
            self.pending_format.append(last_format)
            self.pending_names.append(last_name)
        if not self.pending_format:
            return
        layout = ">" + "".join(self.pending_format)
        size = struct.calcsize(layout)
        if layout == ">B":
            self.line(f"{self.pending_names[0]} = d[p]; p += 1")
        else:
            unpack = self.formats.get(layout)
            if unpack is None:
                unpack = self.formats[layout] = self.constant("u", struct.Struct(layout).unpack_from)
            self.line(f"{', '.join(self.pending_names)}{',' if len(self.pending_names) == 1 else ''} = {unpack}(d, p)")
            self.line(f"p += {size}")
        self.pending_format.clear()
        self.pending_names.clear()

    def read_struct(self, cls: type[Struct], target: str) -> None:
        new = self.constant("T", cls)
        self.line(f"{target} = create({new})")
        tagged = self.tagged_here(cls)
        for each in cls.fields.values():
            if each in tagged or not self.present(each):
                self.line(f"{target}.{each.slot} = {self.literal(each)}")
        for each in self.fields_here(cls):
            self.read_field(each, cls, f"{target}.{each.slot}")
        if not self.message_is_flexible:
            self.flush()
        else:
            self.flush("B", "t")
            if tagged:
                inner = _Decoder(self.cls, self.version)
                read = self.constant("tags", _Deferred(lambda: inner.make_tags(cls, tagged)))
                self.line(f"if t: p = {read}({target}, d, p, t, z)")
            else:
                self.line("if t: p = skip_tags(d, p, t)")

    def make_tags(self, cls: type[Struct], tagged: list[Field]) -> Callable[..., int]:
        """Write and compile the function ``(object, data, position, count, size) -> end`` for a section of tags."""
        self.read_tags(cls, tagged, "o")
        self.line("return p")
        made: Callable[..., int] = self.compiled("def function(o, d, p, t, z):", f", tags of {cls.__name__}")
        return made

    def read_tags(self, cls: type[Struct], tagged: list[Field], target: str) -> None:
        tag, end = "tag", "end"
        self.line("if t > 127: t, p = more(d, p, t)")
        self.line("if t * 2 > z - p: refuse('tagged fields', t)")
        self.line("for _ in range(t):")
        self.depth += 1
        self.line(f"{tag}, p = read_varint(d, p)")
        self.line("n, p = read_varint(d, p)")
        self.line(f"{end} = p + n")
        self.line(f"if {end} > z: refuse('tagged fields', n)")
        for index, each in enumerate(tagged):
            self.line(f"{'elif' if index else 'if'} {tag} == {each.tag}:")
            self.depth += 1
            if each.is_struct and self.is_nullable(each):
                self.line("n, p = read_varint(d, p)")
                self.line("if n:")
                self.depth += 1
                self.read_single(each, cls, f"{target}.{each.slot}")
                self.depth -= 1
                self.line(f"else: {target}.{each.slot} = None")
            else:
                self.read_field(each, cls, f"{target}.{each.slot}")
                self.flush()
            self.line(f"if p != {end}: raise ProtocolError('tagged field {each.name} has another size than it says')")
            self.depth -= 1
        self.line(f"else: p = {end}")
        self.depth -= 1

    def read_single(self, declared: Field, cls: type[Struct], target: str) -> None:
        local = self.name("o")
        self.read_struct(cls.struct(declared.kind), local)
        self.line(f"{target} = {local}")

    def read_field(self, declared: Field, cls: type[Struct], target: str) -> None:
        kind = declared.kind
        if kind in FORMATS:
            self.pending_format.append(FORMATS[kind])
            self.pending_names.append(target)
        elif declared.is_struct:
            if self.is_nullable(declared):
                self.flush("b", "n")
                self.line(f"if n < 0: {target} = None")
                self.line("else:")
                self.depth += 1
                self.read_single(declared, cls, target)
                self.depth -= 1
            else:
                self.read_single(declared, cls, target)
        elif declared.is_array:
            self.read_array(declared, cls, target)
        else:
            self.read_sized(kind, target, self.is_flexible(declared), self.is_nullable(declared), declared.name)

    def read_length(self, flexible: bool, nullable: bool, width: str, name: str) -> None:
        """Leave in ``n`` a length: as it is, or plus one where lengths are compact, and then not 0 unless nullable."""
        text = "_text" if width == "h" else ""
        if not flexible:
            self.flush(width, "n")
            return
        self.flush("B", "n")
        if nullable:
            self.line(f"if n > 127: n, p = more_nullable{text}(d, p, n)")
        else:
            self.line(f"if not 0 < n < 128: n, p = more_sure{text}(d, p, n, '{name}')")

    def read_sized(self, kind: str, target: str, flexible: bool, nullable: bool, name: str) -> None:
        """Read a string, bytes or records into the target."""
        self.read_length(flexible, nullable, "h" if kind == "string" else "i", name)
        if nullable:
            self.line("if n:" if flexible else "if n >= 0:")
            self.depth += 1
        elif not flexible:
            self.line(f"if n < 0: refuse('{name}', n)")
        self.line(f"e = p + n{' - 1' if flexible else ''}")
        if kind == "string":
            self.line(f"{target} = str(d[p:e], 'utf-8', '{codec_runtime.AS_JAVA}')")
        elif kind == "bytes":
            self.line(f"{target} = bytes(d[p:e])")
        else:
            self.has_records = True
            self.line(f"{target} = d[p:e]")
        self.line("p = e")
        if nullable:
            self.depth -= 1
            self.line(f"else: {target} = None")

    def read_array(self, declared: Field, cls: type[Struct], target: str) -> None:
        flexible = self.is_flexible(declared)
        self.read_length(flexible, self.is_nullable(declared), "i", declared.name)
        if flexible:
            self.line("n -= 1")
        element = declared.element
        element_size = self.size_min(element, cls, flexible)
        times = f" * {element_size}" if element_size > 1 else ""
        if self.is_nullable(declared):
            self.line(f"if n < 0: {target} = None")
            self.line(f"elif n{times} > z - p: refuse('{declared.name}', n)")
            self.line("else:")
            self.depth += 1
        else:
            condition = f"n{times} > z - p" if flexible else f"not 0 <= n{times} <= z - p"
            self.line(f"if {condition}: refuse('{declared.name}', n)")
        if element in FORMATS and element != "uuid":
            self.line(f"{target} = list(unpack_from('>%d{FORMATS[element]}' % n, d, p))")
            self.line(f"p += n{times}")
        else:
            array = self.name("a")
            self.line(f"{target} = {array} = []")
            self.line("for _ in range(n):")
            self.depth += 1
            item = self.name("o")
            if element == "uuid":
                self.line(f"{item} = bytes(d[p:p + 16]); p += 16")
            elif element[0].isupper():
                self.read_struct(cls.struct(element), item)
            else:
                self.read_sized(element, item, flexible, False, declared.name)
            self.line(f"{array}.append({item})")
            self.depth -= 1
        if self.is_nullable(declared):
            self.depth -= 1

    def size_min(self, element: str, cls: type[Struct], flexible: bool) -> int:
        """The least that one element takes, but never nothing: garbage must pay for what it makes us build."""
        if element in FORMATS:
            return struct.calcsize(">" + FORMATS[element])
        if not element[0].isupper():
            return 1 if flexible else (2 if element == "string" else 4)
        return max(1, self.struct_size_min(cls.struct(element)))

    def struct_size_min(self, cls: type[Struct]) -> int:
        size = 1 if self.message_is_flexible else 0
        for each in self.fields_here(cls):
            if each.kind in FORMATS:
                size += struct.calcsize(">" + FORMATS[each.kind])
            elif each.is_struct:
                size += 1 if self.is_nullable(each) else self.struct_size_min(cls.struct(each.kind))
            else:
                size += 1 if self.is_flexible(each) else (2 if each.kind == "string" else 4)
        return size


class _Encoder(_Writer):
    purpose = "encoder"

    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__(cls, version)
        self.constants = {
            "StructError": struct.error,
            "EncodeError": codec_runtime.EncodeError,
            "UNSET": UNSET,
            "pack": struct.pack,
            "short": codec_runtime.SHORT_LENGTHS,
            "varint": codec_runtime.write_varint,
            "long": codec_runtime.long_length,
            "long_text": codec_runtime.long_string_length,
            "lacks": codec_runtime.lacks,
            "is_blank": codec_runtime.is_blank,
            "join": b"".join,
        }

    def make(self) -> Callable[[Any], list[Any]]:
        self.line("parts = []; out = []; w = out.append")
        self.line("try:")
        self.depth += 1
        self.write_struct(self.cls, "o")
        self.flush()
        self.line("parts.append(join(out))")
        self.depth -= 1
        self.line("except (StructError, AttributeError, TypeError) as error:")
        self.line(f" raise EncodeError(f'{self.cls.__name__} v{self.version}: {{error}}') from error")
        self.line("return parts")
        made: Callable[[Any], list[Any]] = self.compiled("def function(o):")
        return made

    def add(self, layout: str, value: str) -> None:
        self.pending_format.append(layout)
        self.pending_names.append(value)

    def flush(self) -> None:
        """Write the fixed-size values that wait; constants among themselves are bytes already."""
        if not self.pending_format:
            return
        layout = ">" + "".join(self.pending_format)
        if all(name.lstrip("-").isdigit() for name in self.pending_names):
            self.line(f"w({struct.pack(layout, *map(int, self.pending_names))!r})")
        else:
            name = self.formats.get(layout)
            if name is None:
                name = self.formats[layout] = self.constant("k", struct.Struct(layout).pack)
            self.line(f"w({name}({', '.join(self.pending_names)}))")
        self.pending_format.clear()
        self.pending_names.clear()

    def write_length(self, flexible: bool, width: str) -> None:
        """Write the length in ``n``. A plain one joins the values that wait, a compact one is looked up."""
        if flexible:
            self.flush()
            self.line(f"w(short[n] if n < 127 else long{'_text' if width == 'h' else ''}(n))")
        else:
            self.add(width, "n")
            self.flush()

    def write_null(self, flexible: bool, width: str) -> None:
        self.add("B" if flexible else width, "0" if flexible else "-1")
        self.flush()

    def write_struct(self, cls: type[Struct], source: str) -> None:
        for each in cls.fields.values():
            if not self.present(each) and not each.ignorable:
                self.refuse_unless_default(cls, each, source)
        for each in self.fields_here(cls):
            self.write_field(each, cls, f"{source}.{each.slot}", f"{source}.{each.name}")
        if not self.message_is_flexible:
            return
        tagged = self.tagged_here(cls)
        if not tagged:
            self.add("B", "0")
            return
        self.flush()
        condition = " and ".join(self.is_default(each, f"{source}.{each.slot}") for each in tagged)
        inner = _Encoder(self.cls, self.version)
        write = self.constant("tags", _Deferred(lambda: inner.make_tags(cls, tagged)))
        self.line(f"w(b'\\0' if {condition} else {write}({source}))")

    def is_default(self, declared: Field, value: str) -> str:
        default = declared.default
        if default is None:
            return f"{value} is None"
        if default is not NEW:
            return f"{value} == {default!r}"
        if declared.is_struct:
            return f"({value} is UNSET or is_blank({value}))"
        # Null is another value than the empty array only where there can be null.
        return f"{value} is not None and not {value}" if declared.nullable.highest >= 0 else f"not {value}"

    def refuse_unless_default(self, cls: type[Struct], declared: Field, source: str) -> None:
        name = f"{cls.__qualname__}.{declared.name}"
        condition = self.is_default(declared, f"{source}.{declared.slot}")
        self.line(f"if not ({condition}): lacks('{name}', {self.version})")

    def make_tags(self, cls: type[Struct], tagged: list[Field]) -> Callable[[Any], bytes]:
        """Write and compile the function ``object -> section of tags``; each field's size comes before it."""
        self.line("count = 0; section = []")
        for each in tagged:
            value = f"o.{each.slot}"
            self.line(f"if not ({self.is_default(each, value)}):")
            self.depth += 1
            self.line("count += 1; out = []; w = out.append")
            if each.is_struct and self.is_nullable(each):
                self.line(f"if {value} is None: w(b'\\0')")
                self.line("else:")
                self.depth += 1
                self.add("B", "1")
                self.write_single(each, cls, value)
                self.flush()
                self.depth -= 1
            else:
                self.write_field(each, cls, value, f"o.{each.name}")
                self.flush()
            tag = codec_runtime.write_varint(each.tag or 0)
            self.line(f"out = join(out); section += ({tag!r}, varint(len(out)), out)")
            self.depth -= 1
        self.line("return varint(count) + join(section)")
        made: Callable[[Any], bytes] = self.compiled("def function(o):", f", tags of {cls.__name__}")
        return made

    def write_single(self, declared: Field, cls: type[Struct], value: str) -> None:
        local = self.name("o")
        self.line(f"{local} = {value}")
        self.write_struct(cls.struct(declared.kind), local)

    def write_field(self, declared: Field, cls: type[Struct], slot: str, public: str) -> None:
        kind = declared.kind
        if kind in FORMATS:
            self.add(FORMATS[kind], slot)
        elif not declared.is_struct:
            self.write_sized_or_array(declared, cls, slot)
        elif self.is_nullable(declared):
            # The public name makes the struct when nobody asked for it yet.
            self.flush()
            self.line(f"if {slot} is None: w(b'\\xff')")
            self.line("else:")
            self.depth += 1
            self.add("B", "1")
            self.write_single(declared, cls, public)
            self.flush()
            self.depth -= 1
        else:
            self.write_single(declared, cls, public)

    def write_sized_or_array(self, declared: Field, cls: type[Struct], slot: str) -> None:
        flexible = self.is_flexible(declared)
        value = self.name("a") if declared.is_array else "b"
        if self.is_nullable(declared):
            self.flush()
            self.line(f"{value} = {slot}")
            self.line(f"if {value} is None:")
            self.depth += 1
            self.write_null(flexible, "h" if declared.kind == "string" else "i")
            self.depth -= 1
            self.line("else:")
            self.depth += 1
        else:
            self.line(f"{value} = {slot}")
        if declared.is_array:
            self.write_array(declared, cls, value, flexible)
        else:
            self.write_sized(declared.kind, value, flexible)
        if self.is_nullable(declared):
            self.depth -= 1

    def write_sized(self, kind: str, value: str, flexible: bool) -> None:
        """Write a string, bytes or records that are not null."""
        if kind == "string":
            self.line(f"b = {value}.encode()")
            value = "b"
        self.line(f"n = len({value})")
        self.write_length(flexible, "h" if kind == "string" else "i")
        if kind == "records":
            self.line(f"if n: parts.append(join(out)); parts.append({value}); out.clear()")
        else:
            self.line(f"w({value})")

    def write_array(self, declared: Field, cls: type[Struct], value: str, flexible: bool) -> None:
        """Write an array that is not null."""
        self.line(f"n = len({value})")
        self.write_length(flexible, "i")
        element = declared.element
        if element in FORMATS and element != "uuid":
            self.line(f"if n: w(pack('>%d{FORMATS[element]}' % n, *{value}))")
            return
        item = self.name("o")
        self.line(f"for {item} in {value}:")
        self.depth += 1
        body = len(self.lines)
        if element == "uuid":
            self.add("16s", item)
        elif element[0].isupper():
            self.write_struct(cls.struct(element), item)
        else:
            self.write_sized(element, item, flexible)
        self.flush()
        if len(self.lines) == body:
            self.line("pass")
        self.depth -= 1
