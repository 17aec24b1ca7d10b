"""Replies now and later: the same outcome, and no event loop where nothing waits."""

import asyncio

import pytest

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.replies import Reply, settled, then, together, unless_refused


async def later(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def refuse(code: ErrorCode) -> int:
    await asyncio.sleep(0)
    raise ApiError(code)


def code_of(error: ApiError) -> int:
    return error.code


def doubled(value: int) -> Reply[int]:
    return value * 2


def doubled_later(value: int) -> Reply[int]:
    return later(value * 2)


def test_what_is_here_is_answered_at_once() -> None:
    assert then(3, doubled) == 6
    assert together([1, 2]) == [1, 2]
    assert together([]) == []
    assert unless_refused(lambda: 4, code_of) == 4


def test_what_comes_later_is_answered_later_with_the_same() -> None:
    async def ask() -> list[int | list[int]]:
        return [
            await settled(then(later(3), doubled)),
            await settled(then(3, doubled_later)),
            await settled(then(later(3), doubled_later)),
            await settled(together([1, later(2), 3])),
            await settled(unless_refused(lambda: later(4), code_of)),
        ]

    assert asyncio.run(ask()) == [6, 6, 6, [1, 2, 3], 4]


def test_a_refusal_becomes_an_answer_whenever_it_comes() -> None:
    def refuse_now() -> int:
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    async def ask_later() -> int:
        return await settled(unless_refused(lambda: refuse(ErrorCode.NOT_COORDINATOR), code_of))

    assert unless_refused(refuse_now, code_of) == ErrorCode.NOT_COORDINATOR
    assert asyncio.run(ask_later()) == ErrorCode.NOT_COORDINATOR


def test_only_refusals_become_answers() -> None:
    def fail() -> int:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        unless_refused(fail, code_of)
