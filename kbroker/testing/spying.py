"""What a test asks about its clients, by the journal of their requests, and which process answers them."""

from __future__ import annotations

import os

from kbroker.testing.engine import Engine
from kbroker.testing.names import served_api
from kbroker.testing.values import Request


def record(engine: Engine, level: str, size_max: int) -> None:
    engine.journal.switch(level, size_max)
    engine.meddle()


def requests(engine: Engine, api: str | None = None, client_id: str | None = None) -> list[Request]:
    if engine.journal.level != "full":
        raise RuntimeError("the journal is off: call record_requests() before the requests that you want to see")
    name = None if api is None else served_api(api)[1]
    return [
        each for each in engine.journal.entries() if name in (None, each.api) and client_id in (None, each.client_id)
    ]


def process_id(_engine: Engine) -> int:
    return os.getpid()
