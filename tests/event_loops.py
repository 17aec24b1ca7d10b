"""The event loops that a broker can run on: the stock one always, uvloop where it is installed (not on Windows)."""

from __future__ import annotations

import asyncio
import contextlib
from types import ModuleType

import pytest

uvloop: ModuleType | None = None
with contextlib.suppress(ImportError):
    import uvloop


def new_uvloop() -> asyncio.AbstractEventLoop:
    assert uvloop is not None
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


NEW_EVENT_LOOPS = [
    pytest.param(asyncio.new_event_loop, id="asyncio"),
    pytest.param(new_uvloop, id="uvloop", marks=pytest.mark.skipif(uvloop is None, reason="needs uvloop")),
]
"""Parameters of a test that runs on each."""
