"""Waiting for a time of the host's clock to pass, in a coroutine."""

from __future__ import annotations

import asyncio

from kbroker.host import Clock


async def pause(clock: Clock, delay_ms: float, until: asyncio.Future[None] | None = None) -> None:
    """Wait so long, or until ``until`` is done, which stays as it is."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_later(delay_ms, over.set_result, None)
    try:
        if until is None:
            await over
        else:
            await asyncio.wait((over, until), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
