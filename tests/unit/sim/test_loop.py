"""The simulated loop: virtual time, order, processes that can be killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from tests.sim.loop import Deadlock, Livelock, SimLoop
from tests.sim.process import Process


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop(Random(1))
    yield loop
    loop.close()


def test_an_hour_of_sleep_takes_no_time_and_moves_the_clock_an_hour(loop: SimLoop) -> None:
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.time() == pytest.approx(3600)


def test_callbacks_run_first_in_first_out_and_timers_by_their_time(loop: SimLoop) -> None:
    order: list[str] = []
    loop.call_later(2, order.append, "late")
    loop.call_later(1, order.append, "early")
    loop.call_soon(order.append, "first")
    loop.call_soon(order.append, "second")
    loop.run_until_complete(asyncio.sleep(3))
    assert order == ["first", "second", "early", "late"]


def test_waiting_for_what_never_comes_is_a_deadlock(loop: SimLoop) -> None:
    with pytest.raises(Deadlock):
        loop.run_until_complete(loop.create_future())


def test_turning_forever_without_time_passing_is_a_livelock(loop: SimLoop) -> None:
    def spin() -> None:
        loop.call_soon(spin)

    loop.call_soon(spin)
    with pytest.raises(Livelock):
        loop.run_until_complete(asyncio.sleep(1))


def test_nothing_of_a_killed_process_runs_again(loop: SimLoop) -> None:
    ran: list[str] = []
    process = Process("victim")

    async def work() -> None:
        asyncio.get_running_loop().call_later(1, ran.append, "timer")
        child = asyncio.create_task(asyncio.sleep(0.5))
        child.add_done_callback(lambda _: ran.append("child"))
        try:
            await asyncio.sleep(2)
        except asyncio.CancelledError:
            ran.append("cancelled")
        finally:
            ran.append("finally")

    process.start(loop, work())
    loop.run_until_complete(asyncio.sleep(0.75))
    assert ran == ["child"]
    process.kill()
    loop.run_until_complete(asyncio.sleep(10))
    assert ran == ["child"]
    loop.close()
    process.bury()


def test_the_end_of_a_process_is_seen_by_the_operating_system_once() -> None:
    process = Process("victim")
    seen: list[str] = []
    process.on_kill(lambda: seen.append("closed"))
    process.kill()
    process.kill()
    assert seen == ["closed"]


def test_what_no_code_handled_is_collected(loop: SimLoop) -> None:
    def fail() -> None:
        raise ValueError("oops")

    loop.call_soon(fail)
    loop.run_until_complete(asyncio.sleep(0))
    assert len(loop.failures) == 1
    assert "ValueError('oops')" in loop.failures[0]


def test_real_threads_are_refused(loop: SimLoop) -> None:
    with pytest.raises(RuntimeError, match=r"host\.workers"):
        loop.run_in_executor(None, print)
