"""Operations of the quorum: too late for one, and one way to go on whether it answers at once or later."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kbroker.protocol.errors import ApiError, ErrorCode

T = TypeVar("T")
R = TypeVar("R")


def check_deadline(timeout_ms: int) -> None:
    """Raise REQUEST_TIMED_OUT where no time was given.

    Kafka's controller finds the deadline passed before it looks at the request. A request that leaves it nothing to do
    never gets there: check only then.
    """
    if timeout_ms <= 0:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT)


def then(reply: T | Awaitable[T], answer: Callable[[T], R]) -> R | Awaitable[R]:
    """What ``answer`` makes of the reply: at once when it is here, so that nothing waits that need not."""
    if inspect.isawaitable(reply):
        return _later(reply, answer)
    return answer(reply)


async def _later(reply: Awaitable[T], answer: Callable[[T], R]) -> R:
    return answer(await reply)
