"""Long computations, in a thread and in a process of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from kbroker.host import LostWorkerError
from kbroker.host.apart import NICENESS, RealApart
from kbroker.log.errors import CorruptFileError, CutBatchError
from tests.unit.host.computations import count_to, die, fail, fail_unspeakably, leave_a_trace, own_process

T = TypeVar("T")

NICEST = 19
BOTH = pytest.mark.parametrize("in_process", [False, True])


def with_apart(scenario: Callable[[RealApart], Awaitable[T]], *, in_process: bool = True) -> T:
    async def run() -> T:
        apart = RealApart(asyncio.get_running_loop(), in_process=in_process)
        try:
            return await scenario(apart)
        finally:
            await apart.close()

    return asyncio.run(run())


async def all_of(apart: RealApart, make: Callable[[], Generator[T, None, None]]) -> list[T]:
    steps = apart.run(make)
    found = []
    while (value := await steps.next()) is not None:
        found.append(value)
    assert await steps.next() is None
    await steps.close()
    return found


@BOTH
def test_a_generator_is_taken_step_by_step_and_another_after_it(in_process: bool) -> None:
    async def scenario(apart: RealApart) -> list[list[int]]:
        return [await all_of(apart, partial(count_to, end)) for end in (3, 0, 2)]

    assert with_apart(scenario, in_process=in_process) == [[1, 2, 3], [], [1, 2]]


def test_a_process_is_another_one_that_yields_to_the_broker_and_serves_all_in_turn() -> None:
    async def scenario(apart: RealApart) -> list[tuple[int, int]]:
        return await all_of(apart, own_process) + await all_of(apart, own_process)

    (first, niceness), again = with_apart(scenario)
    assert first != os.getpid()
    assert niceness == min(os.nice(0) + NICENESS, NICEST)
    assert again[0] == first


@BOTH
@pytest.mark.parametrize(
    "error", [OSError(28, "no room", "file"), CorruptFileError("file", 7, "bad"), CutBatchError("file", 1, "cut")]
)
def test_an_error_is_raised_where_its_step_was_asked_for(in_process: bool, error: Exception) -> None:
    async def scenario(apart: RealApart) -> None:
        steps = apart.run(partial(fail, error))
        assert await steps.next() == 1
        with pytest.raises(type(error)) as raised:
            await steps.next()
        assert str(raised.value) == str(error)
        assert raised.value.__dict__ == error.__dict__
        await steps.close()
        assert await all_of(apart, partial(count_to, 1)) == [1]

    with_apart(scenario, in_process=in_process)


def test_an_error_that_cannot_travel_says_what_it_was() -> None:
    async def scenario(apart: RealApart) -> None:
        with pytest.raises(RuntimeError, match="UnspeakableError: so bad"):
            await all_of(apart, fail_unspeakably)

    with_apart(scenario)


@BOTH
def test_closing_the_steps_closes_the_generator(in_process: bool, tmp_path: Path) -> None:
    trace = tmp_path / "trace"

    async def scenario(apart: RealApart) -> None:
        steps = apart.run(partial(leave_a_trace, trace))
        await steps.next()
        assert not trace.exists()
        await steps.close()
        assert trace.read_text() == "closed"

    with_apart(scenario, in_process=in_process)


def test_a_process_that_dies_is_told_of_and_replaced() -> None:
    async def scenario(apart: RealApart) -> None:
        with pytest.raises(LostWorkerError, match="code 3"):
            await all_of(apart, die)
        assert await all_of(apart, partial(count_to, 1)) == [1]

    with_apart(scenario)


def test_a_process_ends_when_its_parent_lets_go_of_it() -> None:
    async def scenario(apart: RealApart) -> int:
        steps = apart.run(own_process)
        found = await steps.next()
        assert found is not None
        return found[0]

    child = with_apart(scenario)
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
