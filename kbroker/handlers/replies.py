"""Operations of the quorum answer at once or later: one way to go on from either."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def then(reply: T | Awaitable[T], answer: Callable[[T], R]) -> R | Awaitable[R]:
    """What ``answer`` makes of the reply: at once when it is here, so that nothing waits that need not."""
    if inspect.isawaitable(reply):
        return _later(reply, answer)
    return answer(reply)


async def _later(reply: Awaitable[T], answer: Callable[[T], R]) -> R:
    return answer(await reply)
