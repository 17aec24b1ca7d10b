"""What a test says about starting over, carried out by the engine: a new core, empty or with the data of a copy."""

from __future__ import annotations

from kbroker.testing.engine import Engine

FIXED = frozenset({"listeners", "advertised.listeners", "node.id", "log.dirs", "log.dir", "kbroker.cluster.id"})
"""Configs that belong to the sockets and the identity, which a reset keeps."""


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


def snapshot(engine: Engine) -> str:
    return engine.snapshot()


async def restore(engine: Engine, path: str) -> None:
    await engine.restore(path)
