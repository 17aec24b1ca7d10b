"""The journal of requests: off until asked for, bounded in bytes, without the bytes of records.

In full it keeps the decoded requests; in short, for the story of a failed test, only who asked for what and how it
went.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbroker.protocol.errors import ErrorCode
from kbroker.testing.tree import fields_of, is_struct

if TYPE_CHECKING:
    from kbroker.testing.values import Request

SIZE_MAX = 4 * 1024 * 1024
ENTRY_OVERHEAD = 200
SHOWN_BYTES_MAX = 64
NAMES = {int(code): code.name for code in ErrorCode}


class Entry:
    """One request, answered or not."""

    __slots__ = ("api", "at_ms", "client", "client_id", "duration_ms", "errors", "faults", "fields", "number", "size")

    def __init__(self, number: int, at_ms: int, api: tuple[str, int], client_id: str | None, client: str) -> None:
        self.number = number
        self.at_ms = at_ms
        self.api = api
        self.client_id = client_id
        self.client = client
        self.fields: Mapping[str, Any] = {}
        self.errors: tuple[str, ...] = ()
        self.faults: tuple[str, ...] = ()
        self.duration_ms: float | None = None
        self.size = ENTRY_OVERHEAD

    def value(self) -> Request:
        from kbroker.testing.values import Request

        api, version = self.api
        return Request(
            self.number,
            self.at_ms,
            api,
            version,
            self.client_id,
            self.client,
            self.fields,
            self.errors,
            self.faults,
            self.duration_ms,
        )


class Journal:
    """Owner: the engine. ``level`` is ``"off"``, ``"short"`` or ``"full"``."""

    def __init__(self) -> None:
        self.level = "off"
        self.dropped = 0
        """Entries that had to go for newer ones."""
        self._size_max = SIZE_MAX
        self._entries: deque[Entry] = deque()
        self._size = 0
        self._numbers = itertools.count(1)

    @property
    def is_on(self) -> bool:
        return self.level != "off"

    def switch(self, level: str, size_max: int = SIZE_MAX) -> None:
        self.level = level
        self._size_max = size_max
        self._trim()

    def clear(self) -> None:
        self._entries.clear()
        self._size = self.dropped = 0

    def begin(self, at_ms: int, api: tuple[str, int], client_id: str | None, client: str, request: Any) -> Entry:
        entry = Entry(next(self._numbers), at_ms, api, client_id, client)
        if self.level == "full":
            entry.fields = plain(request)
            entry.size += len(repr(entry.fields))
        self._entries.append(entry)
        self._size += entry.size
        self._trim()
        return entry

    def entries(self) -> list[Request]:
        return [entry.value() for entry in self._entries]

    def _trim(self) -> None:
        while self._size > self._size_max and self._entries:
            self._size -= self._entries.popleft().size
            self.dropped += 1


def plain(value: Any) -> Any:
    """A message as dicts, lists and plain values; long bytes become their size."""
    if is_struct(value):
        return {name: plain(each) for name, each in fields_of(value)}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value) if len(value) <= SHOWN_BYTES_MAX and isinstance(value, bytes) else f"<{len(value)} bytes>"
    return value


def errors_in(response: Any) -> tuple[str, ...]:
    """The names of the errors that an answer says, each once."""
    found: dict[str, None] = {}
    _collect(response, found)
    return tuple(found)


def _collect(value: Any, found: dict[str, None]) -> None:
    for name, each in fields_of(value):
        if name == "error_code":
            if each:
                found[NAMES.get(each, str(each))] = None
        elif isinstance(each, list):
            for item in each:
                if is_struct(item):
                    _collect(item, found)
        elif is_struct(each):
            _collect(each, found)
