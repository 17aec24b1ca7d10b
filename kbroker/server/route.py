"""How one version of one API is served: its codec, its handler, its headers. Found once, at the first request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, Protocol, TypeAlias, cast

from kbroker.protocol import codec
from kbroker.protocol.apis import API_BY_KEY, request_header_version, response_header_version
from kbroker.protocol.errors import ApiError, ProtocolError
from kbroker.server.outbox import Part


class Row(Protocol):
    """A row of the table of handlers (``kbroker.handlers.Served``)."""

    @property
    def oldest(self) -> int: ...

    @property
    def latest(self) -> int: ...

    def load(self) -> ModuleType: ...


Table: TypeAlias = Mapping[int, Row]


class Route:
    """Everything that dispatch needs for one version of one API. Only ``handle`` may be replaced.

    Whoever replaces it and must see every request unsets ``has_kept_answers``.
    """

    __slots__ = (
        "decode",
        "encode_parts",
        "error_response",
        "handle",
        "has_kept_answers",
        "has_tagged_answer_header",
        "has_tagged_header",
        "name",
        "needs_copy",
        "response_class",
    )

    def __init__(
        self,
        name: str,
        *,
        decode: Callable[[memoryview, int], tuple[Any, int]],
        encode_parts: Callable[[Any], list[Part]],
        response_class: type,
        handle: Callable[[Any, Any], Any],
        error_response: Callable[[Any, Any, ApiError], Any],
        has_tagged_header: bool,
        has_tagged_answer_header: bool,
        has_kept_answers: bool = False,
    ) -> None:
        self.name = name
        self.decode = decode
        self.encode_parts = encode_parts
        self.response_class = response_class
        self.handle = handle
        self.error_response = error_response
        self.has_tagged_header = has_tagged_header
        self.has_tagged_answer_header = has_tagged_answer_header
        self.has_kept_answers = has_kept_answers
        self.needs_copy = inspect.iscoroutinefunction(handle)
        """A coroutine begins to run after the receive buffer has gone to somebody else."""


def find_route(api_key: int, version: int, row: Row) -> Route:
    api = API_BY_KEY[api_key]
    module = row.load()
    request_class, response_class = api.request_class(), api.response_class()
    return Route(
        api.name,
        decode=codec.decoder(request_class, version),
        encode_parts=cast("Callable[[Any], list[Part]]", codec.encoder(response_class, version)),
        response_class=response_class,
        handle=module.handle,
        error_response=getattr(module, "error_response", partial(top_level_error, response_class)),
        has_tagged_header=request_header_version(api_key, version) >= 2,
        has_tagged_answer_header=response_header_version(api_key, version) >= 1,
        has_kept_answers=getattr(module, "ANSWERS_FOLLOW_FROM_IMAGE", False),
    )


def top_level_error(response_class: type, _context: Any, _request: Any, error: ApiError) -> Any:
    """An otherwise empty response with its error fields set; None when it has none."""
    response = response_class()
    if not hasattr(response, "error_code"):
        return None
    response.error_code = int(error.code)
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response


def skip_tagged_fields(data: memoryview, position: int) -> int:
    """The position after the tagged fields that begin at ``position``. Raises ``ProtocolError``."""
    try:
        if data[position] == 0:
            return position + 1
        count, position = _unsigned_varint(data, position)
        for _ in range(count):
            _, position = _unsigned_varint(data, position)
            size, position = _unsigned_varint(data, position)
            position += size
            if position > len(data):
                raise ProtocolError("a tagged field of a request header is longer than its request")
    except IndexError as error:
        raise ProtocolError("a request ends within its header") from error
    return position


def _unsigned_varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise ProtocolError("a number in a request header is too long")
