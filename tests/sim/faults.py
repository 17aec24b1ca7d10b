"""What the world does to the broker, by seed, inside an envelope.

Inside: kill -9 at any moment, also while starting; power loss (where the configuration promises to survive it); any
connection resets, stalls, or goes half-open; latency rises; the disk is slow and holds the loop; fsync takes seconds;
the disk is full for a while, or one of its operations fails, also while a broker starts (with one data directory it
ends itself, and is started again); the wall clock jumps. Outside, because no single broker can survive it: a disk that
loses what was synced.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from random import Random

from tests.sim.disk import Fault
from tests.sim.world import World

WALL_OFFSET_MAX_MS = 1_500_000
"""A broker refuses records that are an hour ahead of its clock; no two moments here are further apart than that."""


class FaultInjector:
    """Draws a fault every now and then, until stopped; then puts everything right."""

    def __init__(self, world: World, kinds: tuple[str, ...], mean_pause_s: float) -> None:
        self._world = world
        self._random = Random(world.random.getrandbits(64))
        self._mean_pause_s = mean_pause_s
        known: dict[str, Callable[[], None]] = {
            "reset": self._reset,
            "stall": self._stall,
            "half-open": self._half_open,
            "latency": self._latency,
            "slow disk": self._slow_disk,
            "full disk": self._full_disk,
            "wall jump": self._wall_jump,
        }
        self._faults = [known[kind] for kind in kinds if kind in known]
        self._ends = [kind for kind in kinds if kind in {"kill", "power", "broken disk", "bad start"}]
        self._latency_usual = world.loop.network.latency_max_s
        self._delay_usual = world.workers.delay_max_s

    async def run(self, seconds: float) -> None:
        """Faults for so long; in the end the broker has been started again."""
        end = self._world.loop.time() + seconds
        while True:
            await asyncio.sleep(round(self._random.expovariate(1 / self._mean_pause_s), 6))
            if self._world.loop.time() >= end:
                break
            if self._ends and (not self._faults or self._random.random() < 0.4):
                await self._end_and_start()
            elif self._faults:
                self._random.choice(self._faults)()
        self._put_right()
        await self._world.wait_started()

    async def _end_and_start(self) -> None:
        kind = self._random.choice(self._ends)
        end = self._world.lose_power if kind == "power" else self._world.kill_broker
        if kind == "broken disk":
            self._plan_failure()
            await self._look_after_disk()
        elif self._random.random() < 0.6:
            dead = self._world.end_in(self._random.randint(1, 40), end)
            await asyncio.wait((dead,), timeout=5)
        self._world.disk.kill_in = None
        if self._world.process.alive:
            end()
        await asyncio.sleep(round(self._random.uniform(0, 3), 6))
        self._world.disk.capacity = None
        if kind == "bad start":
            self._random.choice((self._full_disk, self._plan_failure))()
        if not self._world.process.alive:  # else it ended itself, and was started again
            self._world.start_broker()
        if kind == "bad start":
            await self._look_after_disk()
            self._world.disk.capacity = None
        if self._random.random() < 0.7:  # else the next fault may come while it starts
            await self._world.wait_started()

    def _reset(self) -> None:
        if connections := self._world.loop.network.connections:
            self._random.choice(connections).reset()

    def _stall(self) -> None:
        if connections := self._world.loop.network.connections:
            self._random.choice(connections).stall(round(self._random.uniform(0.01, 40), 3))

    def _half_open(self) -> None:
        if connections := self._world.loop.network.connections:
            self._random.choice(connections).half_open()

    def _latency(self) -> None:
        self._world.loop.network.latency_max_s = self._random.choice((self._latency_usual, 0.05, 0.5))

    def _slow_disk(self) -> None:
        slow = self._random.random() < 0.5
        self._world.disk.slow_s = 0.01 if slow else 0.0
        self._world.workers.delay_max_s = 2.0 if slow else self._delay_usual

    def _full_disk(self) -> None:
        """No room, or room for a little; the next time there is room again."""
        disk = self._world.disk
        disk.capacity = disk.used() + self._random.choice((0, 100, 5000)) if disk.capacity is None else None

    def _plan_failure(self) -> None:
        """One operation fails, some time from now."""
        operation = self._random.choice(("pwrite", "pread", "sync", "open", "rename", "truncate"))
        self._world.disk.faults.append(Fault(operation, self._random.choice((0, 0, 1, 5, 20)), errno.EIO))

    async def _look_after_disk(self) -> None:
        """Some time later it works again."""
        await asyncio.sleep(round(self._random.uniform(0, 3), 6))
        self._world.disk.faults.clear()

    def _wall_jump(self) -> None:
        self._world.clock.wall_offset_ms = self._random.randint(-WALL_OFFSET_MAX_MS, WALL_OFFSET_MAX_MS)

    def _put_right(self) -> None:
        self._world.loop.network.latency_max_s = self._latency_usual
        self._world.disk.slow_s = 0.0
        self._world.disk.capacity = None
        self._world.workers.delay_max_s = self._delay_usual
