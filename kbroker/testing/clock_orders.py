"""What a test says about time, carried out by the engine. The words of the test are in ``time_travel``."""

from __future__ import annotations

from kbroker.testing.engine import Engine


async def advance(engine: Engine, wall_ms: float, timers_ms: float) -> None:
    """Move the clocks; what that sets off is done when this returns."""
    await engine.clock.advance(wall_ms, timers_ms)
    if engine.is_alive:
        if wall_ms > 0:
            _retain(engine)
        await engine.settle()


def _retain(engine: Engine) -> None:
    """What is old by the wall clock goes now; the next look of retention itself comes by the timers."""
    node = engine.node
    for name, high_watermark in node.replicas.high_watermarks().items():
        discarded = node.logs.take_old_segments(name, high_watermark)
        if discarded is not None:
            discarded.rename()
            node.logs.discard(node.logs.logs[name], discarded)
            node.replicas.log_changed(name)


def freeze(engine: Engine) -> None:
    engine.clock.freeze()


def resume(engine: Engine) -> None:
    engine.clock.resume()


def wall_ms(engine: Engine) -> int:
    return engine.clock.wall_ms()
