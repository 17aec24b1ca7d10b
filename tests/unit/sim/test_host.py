"""The simulated host: its clocks and workers obey virtual time."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from kbroker.host import Host
from tests.sim.disk import SimDisk
from tests.sim.host import SimClock, SimWorkers, sim_host
from tests.sim.loop import SimLoop
from tests.sim.process import Process


def make_host(loop: SimLoop, process: Process, seed: int = 1, *, clock: SimClock | None = None) -> Host:
    random = Random(seed)
    return sim_host(process, SimDisk(random, loop.trace), clock or SimClock(loop), SimWorkers(loop, random), random)


def test_the_wall_clock_may_jump_and_the_monotonic_clock_may_not() -> None:
    loop = SimLoop(Random(1))
    clock = SimClock(loop)
    host = make_host(loop, Process("one"), clock=clock)
    wall, monotonic = host.clock.wall_ms(), host.clock.monotonic_ms()
    clock.wall_offset_ms = -60_000
    loop.run_until_complete(asyncio.sleep(1))
    assert host.clock.wall_ms() == wall - 59_000
    assert host.clock.monotonic_ms() == monotonic + 1000
    loop.close()


@pytest.mark.parametrize("seed", range(5))
def test_work_takes_effect_later_and_its_result_is_seen_later_still(seed: int) -> None:
    loop = SimLoop(Random(seed))
    host = make_host(loop, Process("one"), seed)

    async def scenario() -> None:
        assert 0 < await host.workers.run(loop.time) < loop.time()

    loop.run_until_complete(scenario())
    loop.close()


def test_a_killed_process_does_not_get_the_result_of_its_work() -> None:
    loop = SimLoop(Random(1))
    process = Process("victim")
    host = make_host(loop, process)
    done: list[object] = []

    async def work() -> None:
        done.append(await host.workers.run(lambda: "result"))

    process.start(loop, work())
    loop.run_until_complete(asyncio.sleep(0))
    process.kill()
    loop.run_until_complete(asyncio.sleep(5))
    assert done == []
    loop.close()
    process.bury()
