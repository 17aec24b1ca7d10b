"""Requests of every served API, mutated: an answer or a closed connection, and nothing else."""

from __future__ import annotations

import asyncio
import random
import struct
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.handlers import SERVED
from kbroker.handlers.context import Node
from kbroker.protocol import codec
from kbroker.protocol.apis import API_BY_KEY, request_header_version
from kbroker.server.dispatch import Dispatcher
from tests.unit.server.doubles import connected, feed, framed, shared, unframed

MUTATIONS = 40
"""Of every API in every version."""


class AnsweringRow:
    """Serves what the real row serves, with a handler that always answers the same."""

    def __init__(self, key: int, oldest: int, latest: int) -> None:
        self.oldest = oldest
        self.latest = latest
        response = API_BY_KEY[key].response_class()
        self._module = SimpleNamespace(handle=lambda _context, _request: response())

    def load(self) -> ModuleType:
        return cast("ModuleType", self._module)


def mutated(source: random.Random, frame: bytes) -> bytes:
    changed = bytearray(frame)
    for _ in range(source.randrange(1, 4)):
        position = source.randrange(8, len(changed))  # the key, version and correlation id stay
        kind = source.randrange(4)
        if kind == 0:
            changed[position] = source.randrange(256)
        elif kind == 1:
            del changed[position:]
        elif kind == 2:
            changed[position:position] = source.randbytes(source.randrange(1, 9))
        else:
            changed[position : position + 4] = source.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0"))
        if len(changed) <= 8:
            break
    return bytes(changed)


def test_mutated_requests_are_answered_or_close_their_connection(caplog: pytest.LogCaptureFixture) -> None:
    source = random.Random(20)
    loop = asyncio.new_event_loop()
    rows: dict[int, Any] = {key: AnsweringRow(key, row.oldest, row.latest) for key, row in SERVED.items()}
    place = shared(Dispatcher(cast("Node", None), loop, rows), size_max=1 << 20)
    answered = closed = 0
    for key, row in sorted(rows.items()):
        for version in range(row.oldest, row.latest + 1):
            body = codec.encode(API_BY_KEY[key].request_class()(), version)
            tags = b"\0" if request_header_version(key, version) >= 2 else b""
            whole = struct.pack(">hhih", key, version, 7, 2) + b"me" + tags + body
            for n in range(MUTATIONS):
                connection, transport = connected(place)
                feed(connection, transport, framed(mutated(source, whole) if n else whole))
                answers = unframed(transport.written)
                assert transport.closed == (not answers)
                assert all(answer[:4] == b"\0\0\0\x07" for answer in answers)
                answered += bool(answers)
                closed += transport.closed
                connection.connection_lost(None)
    loop.close()
    assert "Traceback" not in caplog.text
    assert answered > 100
    assert closed > 100
