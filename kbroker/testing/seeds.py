"""What a test gives to be written: values, mappings, files of them; as records.

A file for ``load`` is JSON lines: ``{"topic": "orders", "value": ...}``, with ``key``, ``partition``, ``headers`` and
``timestamp_ms`` as wanted. A value or key that is no text is written as JSON; ``value_base64`` and ``key_base64`` give
bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from kbroker.testing.names import check_new_topic


class NewRecord(NamedTuple):
    """A record to be written. ``timestamp_ms`` None is now, ``partition`` None is by key, or the first."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


def as_record(given: Any) -> NewRecord:
    """A value, or a mapping with ``value``, ``key``, ``headers``, ``timestamp_ms``, ``partition``; or a record."""
    if isinstance(given, NewRecord):
        return given
    if hasattr(given, "timestamp_ms") and hasattr(given, "headers"):  # a record that was read
        return NewRecord(given.value, given.key, tuple(given.headers), given.timestamp_ms, given.partition)
    if isinstance(given, Mapping) and "value" in given:
        unknown = sorted(set(given) - {"value", "key", "headers", "timestamp_ms", "partition"})
        if unknown:
            raise ValueError(f"a record has value, key, headers, timestamp_ms and partition, not {', '.join(unknown)}")
        return NewRecord(
            as_bytes(given["value"]),
            as_bytes(given.get("key")),
            _headers(given.get("headers") or ()),
            _number(given, "timestamp_ms"),
            _number(given, "partition"),
        )
    return NewRecord(as_bytes(given))


def _headers(given: Any) -> tuple[tuple[str, bytes | None], ...]:
    try:
        pairs = [(str(name), value) for name, value in (given.items() if isinstance(given, Mapping) else given)]
    except (TypeError, ValueError) as error:
        raise ValueError(f"headers are a dict or a list of pairs, not {given!r}") from error
    return tuple((name, as_bytes(value)) for name, value in pairs)


def _number(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is not None and not isinstance(value, int):
        raise ValueError(f"{name} is a whole number, not {value!r}")
    return value


def as_bytes(value: Any) -> bytes | None:
    """Bytes as they are, text as UTF-8, None as None, everything else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return (value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))).encode()


def read_lines(path: str) -> dict[str, list[NewRecord]]:
    """The records of a file of JSON lines, by topic. Raises ``ValueError`` with the number of the wrong line."""
    found: dict[str, list[NewRecord]] = {}
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                topic, record = _read_line(line.decode("utf-8-sig"))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
            found.setdefault(topic, []).append(record)
    return found


def _read_line(line: str) -> tuple[str, NewRecord]:
    import base64

    row = json.loads(line)
    if not isinstance(row, dict) or "topic" not in row:
        raise ValueError(f'a record is {{"topic": ..., "value": ...}}, not {line.strip()}')
    topic = row.pop("topic")
    check_new_topic(topic)
    for name in ("value", "key"):
        encoded = row.pop(f"{name}_base64", None)
        if encoded is None:
            continue
        if name in row:
            raise ValueError(f"{name} and {name}_base64 exclude each other")
        row[name] = base64.b64decode(str(encoded), validate=True)
    row.setdefault("value", None)
    return topic, as_record(row)
