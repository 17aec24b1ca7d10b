"""The real clock and workers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kbroker.host.real import RealWorkers, real_host


def test_a_timer_fires_on_the_loop_unless_cancelled() -> None:
    async def scenario() -> list[str]:
        host = real_host(asyncio.get_running_loop())
        fired: list[str] = []
        done = asyncio.Event()
        host.clock.call_later(0, fired.append, "cancelled").cancel()
        host.clock.call_later(0, fired.append, "first")
        host.clock.call_later(1, done.set)
        await done.wait()
        return fired

    assert asyncio.run(scenario()) == ["first"]


def test_the_monotonic_clock_shows_at_least_the_delay_of_a_timer() -> None:
    async def scenario() -> int:
        clock = real_host(asyncio.get_running_loop()).clock
        done = asyncio.Event()
        before = clock.monotonic_ms()
        clock.call_later(5, done.set)
        await done.wait()
        return clock.monotonic_ms() - before

    assert asyncio.run(scenario()) >= 5


def test_work_runs_in_a_thread_and_its_result_or_error_comes_back() -> None:
    def fail() -> None:
        raise OSError("no luck")

    async def scenario() -> None:
        workers = RealWorkers(asyncio.get_running_loop())
        assert await workers.run(threading.get_ident) != threading.get_ident()
        with pytest.raises(OSError, match="no luck"):
            await workers.run(fail)
        workers.close()

    asyncio.run(scenario())


def test_no_thread_is_made_before_there_is_work() -> None:
    before = threading.active_count()

    async def scenario() -> None:
        workers = RealWorkers(asyncio.get_running_loop())
        assert threading.active_count() == before
        workers.close()

    asyncio.run(scenario())
