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
STRING_MAX = 32767


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

    def compiled(self, header: str) -> Any:
        filename = f"<{self.purpose} of {self.cls.__name__} v{self.version}>"
        source = "\n".join([header, *self.lines, ""])
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(source, filename, "exec"), self.constants)  # noqa: S102  # our own text
        return self.constants["function"]


class _Decoder(_Writer):
    purpose = "decoder"

    def make(self) -> Callable[[Any, int], tuple[Any, int]]:
        self.constants = {
            "IndexError": IndexError,
            "StructError": struct.error,
            "ProtocolError": ProtocolError,
            "UNSET": UNSET,
            "unpack_from": struct.unpack_from,
            "more": codec_runtime.varint_rest,
            "read_varint": codec_runtime.read_varint,
            "skip_tags": codec_runtime.skip_tags,
            "refuse": codec_runtime.refuse,
        }
        self.line("z = len(d)")
        self.line("try:")
        self.depth += 1
        self.read_struct(self.cls, "o")
        self.depth -= 1
        self.line("except (IndexError, StructError) as error:")
        self.line(f" raise ProtocolError('{self.cls.__name__} v{self.version} is cut short') from error")
        self.line(f"if p > z: raise ProtocolError('{self.cls.__name__} v{self.version} is cut short')")
        self.line("return o, p")
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
        self.constants["create"] = object.__new__
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
            self.line("if t:")
            self.depth += 1
            if tagged:
                self.read_tags(cls, tagged, target)
            else:
                self.line("p = skip_tags(d, p, t)")
            self.depth -= 1

    def read_tags(self, cls: type[Struct], tagged: list[Field], target: str) -> None:
        tag, end = self.name("tag"), self.name("end")
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

    def read_length(self, flexible: bool, width: str) -> None:
        """Leave in ``n`` a length: as it is, or plus one where lengths are compact."""
        if flexible:
            self.flush("B", "n")
            self.line("if n > 127: n, p = more(d, p, n)")
        else:
            self.flush(width, "n")

    def read_sized(self, kind: str, target: str, flexible: bool, nullable: bool, name: str) -> None:
        """Read a string, bytes or records into the target."""
        self.read_length(flexible, "h" if kind == "string" else "i")
        self.line("if n:" if flexible else "if n >= 0:")
        self.line(f" e = p + n{' - 1' if flexible else ''}")
        if kind == "string":
            if flexible:
                self.line(f" if n > {STRING_MAX + 1}: refuse('{name}', n)")
            self.line(f" {target} = str(d[p:e], 'utf-8', 'replace')")
        elif kind == "bytes":
            self.constants["bytes"] = bytes
            self.line(f" {target} = bytes(d[p:e])")
        else:
            self.constants["memoryview"] = memoryview
            self.line(f" {target} = memoryview(d)[p:e]")
        self.line(" p = e")
        self.line(f"else: {f'{target} = None' if nullable else f'refuse({name!r}, n)'}")

    def read_array(self, declared: Field, cls: type[Struct], target: str) -> None:
        flexible = self.is_flexible(declared)
        self.read_length(flexible, "i")
        if flexible:
            self.line("n -= 1")
        element = declared.element
        element_size = self.size_min(element, cls, flexible)
        times = f" * {element_size}" if element_size > 1 else ""
        self.line(f"if n{times} > z - p: refuse('{declared.name}', n)")
        if self.is_nullable(declared):
            self.line(f"if n < 0: {target} = None")
            self.line("else:")
            self.depth += 1
        else:
            self.line(f"if n < 0: refuse('{declared.name}', n)")
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
                self.constants["bytes"] = bytes
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

    def make(self) -> Callable[[Any], list[Any]]:
        self.constants = {
            "StructError": struct.error,
            "EncodeError": codec_runtime.EncodeError,
            "UNSET": UNSET,
            "pack": struct.pack,
            "varint": codec_runtime.write_varint,
            "lacks": codec_runtime.lacks,
            "too_long": codec_runtime.too_long,
            "join": b"".join,
        }
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

    def packer(self, layout: str) -> str:
        name = self.formats.get(layout)
        if name is None:
            name = self.formats[layout] = self.constant("k", struct.Struct(layout).pack)
        return name

    def add(self, layout: str, value: str) -> None:
        self.pending_format.append(layout)
        self.pending_names.append(value)

    def pack_call(self, formats: list[str], names: list[str]) -> str:
        """An expression for the bytes of these values; of constants, the bytes themselves."""
        layout = ">" + "".join(formats)
        if all(name.lstrip("-").isdigit() for name in names):
            return repr(struct.pack(layout, *map(int, names)))
        return f"{self.packer(layout)}({', '.join(names)})"

    def flush(self) -> None:
        if self.pending_format:
            self.line(f"w({self.pack_call(self.pending_format, self.pending_names)})")
        self.pending_format.clear()
        self.pending_names.clear()

    def flush_with_length(self, flexible: bool, width: str) -> None:
        """Write what waits and the length in ``n``; a compact length of one byte goes into the same pack."""
        formats, names = list(self.pending_format), list(self.pending_names)
        self.pending_format.clear()
        self.pending_names.clear()
        if not flexible:
            self.line(f"w({self.pack_call([*formats, width], [*names, 'n'])})")
            return
        self.line(f"if n < 127: w({self.pack_call([*formats, 'B'], [*names, 'n + 1'])})")
        before = f"w({self.pack_call(formats, names)}); " if formats else ""
        self.line(f"else: {before}w(varint(n + 1))")

    def write_null(self, flexible: bool, width: str) -> None:
        """Write what waits and the length of null."""
        formats, names = self.pending_format, self.pending_names
        extra = ("B", "0") if flexible else (width, "-1")
        self.line(f"w({self.pack_call([*formats, extra[0]], [*names, extra[1]])})")

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
        condition = " and ".join(self.is_default(cls, each, f"{source}.{each.slot}") for each in tagged)
        self.line(f"if {condition}: w(b'\\0')")
        self.line("else:")
        self.depth += 1
        self.write_tags(cls, tagged, source)
        self.depth -= 1

    def is_default(self, cls: type[Struct], declared: Field, value: str) -> str:
        default = declared.default
        if default is NEW:
            if not declared.is_struct:
                return f"{value} == []"
            blank = self.constant("D", cls.struct(declared.kind)())
            return f"({value} is UNSET or {value} == {blank})"
        if default is None or default is True or default is False:
            return f"{value} is {default}" if default is None else f"{value} == {default}"
        return f"{value} == {default!r}"

    def refuse_unless_default(self, cls: type[Struct], declared: Field, source: str) -> None:
        name = f"{cls.__qualname__}.{declared.name}"
        self.line(
            f"if not ({self.is_default(cls, declared, f'{source}.{declared.slot}')}): lacks('{name}', {self.version})"
        )

    def write_tags(self, cls: type[Struct], tagged: list[Field], source: str) -> None:
        """Each tagged field is written into a list of its own, since its size comes before it."""
        count, body, outer = self.name("c"), self.name("body"), self.name("w")
        self.line(f"{count} = 0; {body} = []; {outer} = w")
        for each in tagged:
            value = f"{source}.{each.slot}"
            self.line(f"if not ({self.is_default(cls, each, value)}):")
            self.depth += 1
            inner = self.name("out")
            self.line(f"{count} += 1; {inner} = []; w = {inner}.append")
            if each.is_struct and self.is_nullable(each):
                self.line(f"if {value} is None: w(b'\\0')")
                self.line("else:")
                self.depth += 1
                self.add("B", "1")
                self.write_single(each, cls, value)
                self.flush()
                self.depth -= 1
            else:
                self.write_field(each, cls, value, f"{source}.{each.name}")
                self.flush()
            self.line(f"{inner} = join({inner})")
            tag = codec_runtime.write_varint(each.tag or 0)
            self.line(f"{body} += ({tag!r}, varint(len({inner})), {inner})")
            self.depth -= 1
        self.line(f"w = {outer}; w(varint({count})); w(join({body}))")

    def write_single(self, declared: Field, cls: type[Struct], value: str) -> None:
        local = self.name("o")
        self.line(f"{local} = {value}")
        self.write_struct(cls.struct(declared.kind), local)

    def write_field(self, declared: Field, cls: type[Struct], slot: str, public: str) -> None:
        kind = declared.kind
        if kind in FORMATS:
            self.add(FORMATS[kind], slot)
        elif declared.is_struct:
            # The public name makes the struct when it was never asked for.
            if self.is_nullable(declared):
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
        elif declared.is_array:
            self.write_array(declared, cls, slot)
        else:
            self.write_sized(kind, slot, self.is_flexible(declared), self.is_nullable(declared), declared.name)

    def write_sized(self, kind: str, value: str, flexible: bool, nullable: bool, name: str) -> None:
        """Write a string, bytes or records."""
        width = "h" if kind == "string" else "i"
        self.constants["len"] = len
        self.line(f"b = {value}")
        if nullable:
            self.line("if b is None:")
            self.depth += 1
            self.write_null(flexible, width)
            self.depth -= 1
            self.line("else:")
            self.depth += 1
        if kind == "string":
            self.line("b = b.encode(); n = len(b)")
            self.line(f"if n > {STRING_MAX}: too_long('{name}', n)")
        else:
            self.line("n = len(b)")
        self.flush_with_length(flexible, width)
        if kind == "records":
            self.line("if n: parts.append(join(out)); parts.append(b); out.clear()")
        else:
            self.line("w(b)")
        if nullable:
            self.depth -= 1

    def write_array(self, declared: Field, cls: type[Struct], value: str) -> None:
        flexible = self.is_flexible(declared)
        array = self.name("a")
        self.constants["len"] = len
        self.line(f"{array} = {value}")
        if self.is_nullable(declared):
            self.line(f"if {array} is None:")
            self.depth += 1
            self.write_null(flexible, "i")
            self.depth -= 1
            self.line("else:")
            self.depth += 1
        self.line(f"n = len({array})")
        self.flush_with_length(flexible, "i")
        element = declared.element
        if element in FORMATS and element != "uuid":
            self.line(f"if n: w(pack('>%d{FORMATS[element]}' % n, *{array}))")
        else:
            item = self.name("o")
            self.line(f"for {item} in {array}:")
            self.depth += 1
            if element == "uuid":
                self.add("16s", item)
            elif element[0].isupper():
                self.write_struct(cls.struct(element), item)
            else:
                self.write_sized(element, item, flexible, False, declared.name)
            self.flush()
            # A struct that has nothing in this version leaves nothing in the loop.
            self.line("pass")
            self.depth -= 1
        if self.is_nullable(declared):
            self.depth -= 1
