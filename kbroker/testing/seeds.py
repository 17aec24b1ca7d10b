"""What a test gives to be written: values, mappings, files of them; as records.

A file for ``load`` is JSON lines: ``{"topic": "orders", "value": ...}``, with ``key``, ``partition``, ``headers`` and
``timestamp_ms`` as wanted. A value or key that is no text is written as JSON; ``value_base64`` and ``key_base64`` give
bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


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
        headers = given.get("headers") or ()
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        return NewRecord(
            as_bytes(given["value"]),
            as_bytes(given.get("key")),
            tuple((str(name), as_bytes(value)) for name, value in pairs),
            given.get("timestamp_ms"),
            given.get("partition"),
        )
    return NewRecord(as_bytes(given))


def as_bytes(value: Any) -> bytes | None:
    """Bytes as they are, text as UTF-8, None as None, everything else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return (value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))).encode()


def read_lines(path: str) -> dict[str, list[NewRecord]]:
    """The records of a file of JSON lines, by topic. Raises ``ValueError`` with the number of the wrong line."""
    import base64

    found: dict[str, list[NewRecord]] = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                topic = row.pop("topic")
                for name in ("value", "key"):
                    if (encoded := row.pop(f"{name}_base64", None)) is not None:
                        row[name] = base64.b64decode(encoded)
                row.setdefault("value", None)
                found.setdefault(topic, []).append(as_record(row))
            except KeyError as error:
                raise ValueError(f"{path}:{number}: a record needs {error}") from error
            except (ValueError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}:{number}: {error}") from error
    return found
