"""The words in which Kafka's messages are declared: ``@message``, ``@struct``, ``field``.

A declared class is one plain slotted class for all versions of a message. Each field says Kafka's type, the versions
that carry it, those in which it may be null, its tag, its default and whether it may be dropped silently, in the
notation of Kafka's own message definitions (``"3+"``, ``"0-12"``). ``dataclass_transform`` shows type checkers a
constructor of keyword arguments; the constructor itself is written on first use: importing declarations costs little.

How messages become bytes is not here but in ``codec.py``.

Invariant: a field whose type is a struct and whose default is that struct's defaults keeps ``UNSET`` in a private slot
until somebody asks for it: an answer with three such fields per partition does not build three objects per partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar, cast, dataclass_transform

Buffer: TypeAlias = bytes | bytearray | memoryview
Records: TypeAlias = Sized
"""What an answer may carry as records: bytes, a view, or a range of a file; anything that knows its size."""

VERSION_MAX = 32767


class Versions(NamedTuple):
    """A range of versions, both ends included; empty when ``lowest > highest``."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read Kafka's notation: ``none``, ``3``, ``0-12`` or ``3+``."""
        parsed = _PARSED.get(text)
        if parsed is None:
            lowest, separator, highest = text.replace("+", f"-{VERSION_MAX}").partition("-")
            parsed = _PARSED[text] = cls(int(lowest), int(highest if separator else lowest))
        return parsed

    def includes(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def numbers(self) -> range:
        return range(self.lowest, self.highest + 1)


NO_VERSIONS: Final = Versions(0, -1)
_PARSED: Final = {"none": NO_VERSIONS}


class _Marker:
    """A value that no message can carry."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        """A copied or pickled message has the same markers."""
        return self._name


NEW: Final = cast("Any", _Marker("NEW"))
"""The default of arrays and structs: each message gets one of its own."""
UNSET: Final = cast("Any", _Marker("UNSET"))


class Field:
    """One field of a message or struct, as declared. ``slot`` is where instances keep it."""

    __slots__ = (
        "_flexible",
        "_nullable",
        "_tagged",
        "_versions",
        "default",
        "ignorable",
        "kind",
        "name",
        "slot",
        "tag",
    )

    def __init__(
        self,
        kind: str,
        versions: str,
        nullable: str,
        tag: int | None,
        tagged: str | None,
        default: object,
        ignorable: bool,
        flexible: str | None,
    ) -> None:
        self.name = self.slot = ""
        self.kind = kind
        self.tag = tag
        self.default = default
        self.ignorable = ignorable
        self._versions = versions
        self._nullable = nullable
        self._tagged = tagged
        self._flexible = flexible

    @property
    def versions(self) -> Versions:
        """The versions that carry the field."""
        return Versions.parse(self._versions)

    @property
    def nullable(self) -> Versions:
        return Versions.parse(self._nullable)

    @property
    def tagged(self) -> Versions:
        """The versions in which it is a tagged field (KIP-482)."""
        if self.tag is None:
            return NO_VERSIONS
        return Versions.parse(self._tagged or self._versions)

    @property
    def flexible(self) -> Versions | None:
        """The versions in which its length is compact, where they are not those of the message."""
        return None if self._flexible is None else Versions.parse(self._flexible)

    @property
    def is_array(self) -> bool:
        return self.kind.startswith("[]")

    @property
    def element(self) -> str:
        """The type of an array's elements; of any other field, its own."""
        return self.kind[2:] if self.is_array else self.kind

    @property
    def is_struct(self) -> bool:
        """Is this a single struct (not an array of them)?"""
        return self.kind[0].isupper()


def field(
    kind: str,
    versions: str,
    *,
    default: object,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    flexible: str | None = None,
) -> Any:
    """Declare a field. A tagged field is tagged in all its versions unless ``tagged`` says otherwise."""
    return Field(kind, versions, nullable, tag, tagged, default, ignorable, flexible)


class Struct:
    """What every declared class can do. ``outer`` is the message in which a struct is nested, or the message itself."""

    __slots__ = ()
    fields: ClassVar[dict[str, Field]] = {}
    outer: ClassVar[type[Message]]

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.fields)

    def __hash__(self) -> int:
        raise TypeError(f"{type(self).__name__} can change, so it has no hash")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.fields)})"

    @classmethod
    def struct(cls, name: str) -> type[Struct]:
        """The class of a nested struct by Kafka's name for it."""
        return cast("type[Struct]", getattr(cls.outer, name))

    @classmethod
    def structs(cls) -> Iterator[type[Struct]]:
        """The structs nested in a message."""
        for value in vars(cls).values():
            if isinstance(value, type) and issubclass(value, Struct) and value is not cls:
                yield value


class Message(Struct):
    """A top-level message: what ``codec`` reads and writes."""

    __slots__ = ()
    api_key: ClassVar[int] = -1
    valid_versions: ClassVar[Versions] = NO_VERSIONS
    flexible_versions: ClassVar[Versions] = NO_VERSIONS
    decoders: ClassVar[dict[int, Callable[[Any, int], tuple[Any, int]]]]
    encoders: ClassVar[dict[int, Callable[[Any], list[Any]]]]


_Class = TypeVar("_Class", bound=type[Struct])
_Message = TypeVar("_Message", bound=type[Message])


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: _Class) -> _Class:
    """Declare a struct nested in a message."""
    return _slotted(cls, {})


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(valid: str, *, flexible: str = "none", api_key: int = -1) -> Callable[[_Message], _Message]:
    """Declare a message: its versions, those in the flexible encoding (KIP-482), and its API key or record type."""

    def declare(cls: _Message) -> _Message:
        declared = _slotted(
            cls,
            {
                "api_key": api_key,
                "valid_versions": Versions.parse(valid),
                "flexible_versions": Versions.parse(flexible),
                "decoders": {},
                "encoders": {},
            },
        )
        declared.outer = declared
        for nested in declared.structs():
            nested.outer = declared
        return declared

    return declare


def _slotted(cls: _Class, namespace: dict[str, Any]) -> _Class:
    """Make the class again with a slot per field: slots cannot be added to a class that exists."""
    fields: dict[str, Field] = {}
    slots: list[str] = []
    for name, value in cls.__dict__.items():
        if type(value) is not Field:
            if name not in {"__dict__", "__weakref__"}:
                namespace[name] = value
            continue
        value.name = value.slot = name
        if value.default is NEW and value.kind[0] != "[":
            value.slot = f"_{name}"
            namespace[name] = _lazy_struct(value)
        fields[name] = value
        slots.append(value.slot)
    namespace["__qualname__"] = cls.__qualname__
    namespace["__slots__"] = slots
    namespace["fields"] = fields
    namespace["__init__"] = _first_init
    return cast("_Class", type(cls.__name__, cls.__bases__, namespace))


def _lazy_struct(declared: Field) -> property:
    slot, kind = declared.slot, declared.kind

    def read(self: Struct) -> object:
        value = getattr(self, slot)
        if value is UNSET:
            value = self.struct(kind)()
            setattr(self, slot, value)
        return value

    def write(self: Struct, value: object) -> None:
        setattr(self, slot, value)

    return property(read, write)


def _first_init(self: Struct, **values: object) -> None:
    """Write the class's constructor, then run it."""
    cls = type(self)
    constants: dict[str, object] = {"NEW": NEW, "UNSET": UNSET}
    parameters: list[str] = []
    body: list[str] = []
    for name, declared in cls.fields.items():
        if declared.slot != name:
            parameters.append(f"{name}=UNSET")
            body.append(f" self.{declared.slot} = {name}")
        elif declared.default is NEW:
            parameters.append(f"{name}=NEW")
            body.append(f" self.{name} = [] if {name} is NEW else {name}")
        else:
            constants[f"default_{name}"] = declared.default
            parameters.append(f"{name}=default_{name}")
            body.append(f" self.{name} = {name}")
    signature = ", ".join(["self", "*", *parameters] if parameters else ["self"])
    exec(f"def __init__({signature}):\n" + "\n".join(body or [" pass"]), constants)  # noqa: S102  # our own text
    cls.__init__ = constants["__init__"]  # type: ignore[method-assign,assignment]  # that is the point
    cls.__init__(self, **values)
