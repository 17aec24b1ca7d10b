"""The engine's smaller services: the journal, starting over, time."""

from __future__ import annotations

import os

from kbroker.testing.engine import Engine
from kbroker.testing.names import served_api
from kbroker.testing.values import Request

FIXED = frozenset({"listeners", "advertised.listeners", "node.id", "log.dirs", "log.dir", "kbroker.cluster.id"})
"""Configs that belong to the sockets and the identity, which a reset keeps."""


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


async def start_over(engine: Engine, copy: str | None, topics: dict[str, int], configs: dict[str, str]) -> None:
    """A new core, empty or with the data of ``copy``; faults, journal and clock are as at the start."""
    fixed = sorted(FIXED & configs.keys())
    if fixed:
        raise ValueError(f"{', '.join(fixed)} cannot change while the sockets stay: start a broker of its own for it")
    engine.faults.clear()
    engine.journal.switch("off")
    engine.journal.clear()
    engine.change(topics, configs)
    engine.clock.set_right()
    if copy is None:
        await engine.reset()
    else:
        await engine.restore(copy)


def process_id(_engine: Engine) -> int:
    return os.getpid()


def snapshot(engine: Engine) -> str:
    return engine.snapshot()


async def restore(engine: Engine, path: str) -> None:
    await engine.restore(path)


async def advance(engine: Engine, wall_ms: float, timers_ms: float) -> None:
    """Move the clocks; what that sets off is done when this returns."""
    await engine.clock.advance(wall_ms, timers_ms)
    if engine.is_alive:
        if wall_ms > 0:
            node = engine.node
            for name, high_watermark in node.replicas.high_watermarks().items():
                discarded = node.logs.take_old_segments(name, high_watermark)
                if discarded is not None:
                    discarded.rename()
                    node.logs.discard(node.logs.logs[name], discarded)
                    node.replicas.log_changed(name)
        await engine.settle()


def freeze(engine: Engine) -> None:
    engine.clock.freeze()


def resume(engine: Engine) -> None:
    engine.clock.resume()


def now_ms(engine: Engine) -> tuple[int, int]:
    """Wall and timers."""
    return engine.clock.wall_ms(), engine.clock.monotonic_ms()
