"""Every declared message, and Hypothesis strategies for random ones."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from hypothesis import strategies as st

import kbroker.protocol.messages
from kbroker.protocol.declarations import Field, Message, Struct

Draw = st.DrawFn


def declared_messages() -> list[type[Message]]:
    """All message classes, by name of module and class."""
    package = kbroker.protocol.messages
    modules = [each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.") if not each.ispkg]
    return [
        value
        for name in sorted(modules)
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, type) and issubclass(value, Message) and value.__module__ == name
    ]


MESSAGES = declared_messages()

PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(st.characters(codec="utf-8"), max_size=5) | st.just("long" * 40),
    "bytes": st.binary(max_size=5) | st.just(bytes(range(200))),
    "records": st.binary(max_size=5) | st.just(bytes(range(200))),
    "uuid": st.binary(min_size=16, max_size=16),
}


@st.composite
def messages(draw: Draw, cls: type[Struct], version: int) -> Any:
    """A message whose fields of this version have random values, and all others their defaults."""
    values: dict[str, Any] = {}
    for name, declared in cls.fields.items():
        if not declared.versions.includes(version) or (declared.tag is not None and draw(st.booleans())):
            continue
        if declared.nullable.includes(version) and draw(st.integers(0, 3)) == 0:
            values[name] = None
        else:
            values[name] = draw(_values(cls, declared, version))
    return cls(**values)


def _values(cls: type[Struct], declared: Field, version: int) -> st.SearchStrategy[Any]:
    element = declared.element
    one = messages(cls.struct(element), version) if element[0].isupper() else PRIMITIVES[element]
    return st.lists(one, max_size=2) if declared.is_array else one
