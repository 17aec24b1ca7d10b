"""Records between a topic and text: the formats of ``produce`` and ``consume``, with kcat's and rpk's letters.

    %k key   %v value   %h headers   %t topic   %p partition   %o offset   %T timestamp (ms)   %% a percent sign
    \\n \\t \\r \\0 \\\\ as usual; json: one JSON document a line

Pure: no connection, no files.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

JSON: Final = "json"
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_FIELDS: Final = ("key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp", "topic", "offset")
"""Of a JSON document; what ``consume`` shows may be given to ``produce``, which heeds neither topic nor offset."""
_TOKEN: Final = re.compile(r"%(?P<letter>.)|\\(?P<escape>.)|(?P<text>[^%\\]+)|(?P<rest>[%\\])", re.DOTALL)


class FormatError(ValueError):
    """A format that says nothing. ``str()`` says what is wrong with it."""


class Shown(NamedTuple):
    """A record with where it stands."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Given(NamedTuple):
    """A record to be produced."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None = None
    timestamp: int | None = None


_LETTERS: Final[dict[str, Callable[[Shown], bytes]]] = {
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "h": lambda record: b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers),
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
}


def printer(text: str, *, meta_only: bool = False) -> Callable[[Shown], bytes]:
    """A record as bytes to print. Raises ``FormatError``."""
    if text == JSON:
        return lambda record: json.dumps(as_json(record, meta_only=meta_only), ensure_ascii=False).encode() + b"\n"
    parts = list(_parse(text))

    def printed(record: Shown) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(record) for part in parts)

    return printed


def _parse(text: str) -> Iterator[bytes | Callable[[Shown], bytes]]:
    for found in _TOKEN.finditer(text):
        letter, escape = found["letter"], found["escape"]
        if letter == "%":
            yield b"%"
        elif letter is not None:
            if letter not in _LETTERS:
                raise FormatError(f"%{letter} stands for nothing; there are %{' %'.join(_LETTERS)} %%")
            yield _LETTERS[letter]
        elif escape is not None:
            if escape not in _ESCAPES:
                raise FormatError(f"\\{escape} stands for nothing; there are \\n \\t \\r \\0 \\\\")
            yield _ESCAPES[escape].encode()
        else:
            yield (found["text"] or found["rest"]).encode()


def as_json(record: Shown, *, meta_only: bool = False) -> dict[str, Any]:
    """What ``-f json`` shows. Bytes that are no UTF-8 stand under ``..._base64``, in a header under ``base64``."""
    shown: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
    if meta_only:
        shown["key_size"] = None if record.key is None else len(record.key)
        shown["value_size"] = None if record.value is None else len(record.value)
        return shown
    for name, data in (("key", record.key), ("value", record.value)):
        try:
            shown[name] = None if data is None else data.decode()
        except UnicodeDecodeError:
            shown[f"{name}_base64"] = base64.b64encode(data or b"").decode()
    if record.headers:
        shown["headers"] = [[name, _header_shown(value)] for name, value in record.headers]
    return shown


def _header_shown(value: bytes | None) -> str | dict[str, str] | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value or b"").decode()}


def reader(text: str) -> Callable[[bytes], Given]:
    """From a line of input (without its end) to a record. Raises ``FormatError``, for a format and for a line.

    A format is ``%v``, ``%k<separator>%v`` or json (the documents that ``printer`` makes).
    """
    if text == JSON:
        return _from_json
    body = text.removesuffix("\\n").removesuffix("\n")
    if body == "%v":
        return lambda line: Given(None, line, [])
    if not (body.startswith("%k") and body.endswith("%v") and len(body) > len("%k%v")):
        raise FormatError("an input format is %v, %k<separator>%v or json")
    separator = b"".join(part for part in _parse(body[2:-2]) if isinstance(part, bytes))
    if not separator:
        raise FormatError("between %k and %v stands a separator")

    def split(line: bytes) -> Given:
        key, found, value = line.partition(separator)
        if not found:
            raise FormatError(f"no {separator.decode(errors='replace')!r} in {line[:60].decode(errors='replace')!r}")
        return Given(key, value, [])

    return split


def _from_json(line: bytes) -> Given:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise FormatError(f"no JSON: {line[:60].decode(errors='replace')!r} ({error})") from error
    if not isinstance(document, dict):
        raise FormatError(f"no JSON object: {line[:60].decode(errors='replace')!r}")
    unknown = [name for name in document if name not in _FIELDS]
    if unknown:
        raise FormatError(f"no field {unknown[0]!r}; there are {', '.join(_FIELDS)}")
    return Given(
        key=_bytes_of(document, "key"),
        value=_bytes_of(document, "value"),
        headers=_headers_of(document.get("headers") or []),
        partition=_number_of(document, "partition"),
        timestamp=_number_of(document, "timestamp"),
    )


def _number_of(document: dict[str, Any], name: str) -> int | None:
    number = document.get(name)
    if number is not None and (type(number) is not int or not 0 <= number < 1 << 63):
        raise FormatError(f"{name} {number!r} is no number that it can be")
    return number


def _headers_of(given: Any) -> list[tuple[str, bytes | None]]:
    """From pairs of a name and a value, or an object."""
    try:
        pairs = [(str(name), value) for name, value in (given.items() if isinstance(given, dict) else given)]
    except (TypeError, ValueError):
        raise FormatError("headers are [[name, value], ...] or an object") from None
    return [(name, _header_given(value)) for name, value in pairs]


def _header_given(value: Any) -> bytes | None:
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return _decoded(value["base64"])
    return _written(value)


def _bytes_of(document: dict[str, Any], name: str) -> bytes | None:
    coded = document.get(f"{name}_base64")
    return _written(document.get(name)) if coded is None else _decoded(coded)


def _decoded(coded: Any) -> bytes:
    try:
        return base64.b64decode(coded, validate=True)
    except (TypeError, ValueError):
        raise FormatError(f"no base64: {str(coded)[:60]!r}") from None


def _written(value: Any) -> bytes | None:
    """A text as it is, other JSON as JSON."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()
