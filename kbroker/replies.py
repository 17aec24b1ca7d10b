"""A reply that is here at once or comes later, and one way to go on with either.

What can be decided now is answered now: an event loop's task costs more than most decisions. What waits, for a commit
or for the quorum, is an awaitable of the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from kbroker.protocol.errors import ApiError

T = TypeVar("T")
R = TypeVar("R")
Reply: TypeAlias = T | Awaitable[T]


def then(reply: Reply[T], answer: Callable[[T], Reply[R]]) -> Reply[R]:
    """What ``answer`` makes of the reply: at once when both are here."""
    if inspect.isawaitable(reply):
        return _later(reply, answer)
    return answer(reply)


async def _later(reply: Awaitable[T], answer: Callable[[T], Reply[R]]) -> R:
    return await settled(answer(await reply))


def together(replies: list[Reply[T]]) -> Reply[list[T]]:
    """All replies in their order: at once when none of them has to be waited for. Raises what the first raises."""
    if any(inspect.isawaitable(reply) for reply in replies):
        return _all(replies)
    return replies  # type: ignore[return-value]


async def _all(replies: list[Reply[T]]) -> list[T]:
    return [await settled(reply) for reply in replies]


def unless_refused(ask: Callable[[], Reply[T]], refused: Callable[[ApiError], T]) -> Reply[T]:
    """The reply to a question, or what ``refused`` makes of the error that it ends with, now or later."""
    try:
        reply = ask()
    except ApiError as error:
        return refused(error)
    return _unless_refused(reply, refused) if inspect.isawaitable(reply) else reply


async def _unless_refused(reply: Awaitable[T], refused: Callable[[ApiError], T]) -> T:
    try:
        return await reply
    except ApiError as error:
        return refused(error)


async def settled(reply: Reply[T]) -> T:
    """The reply, waited for if it must be."""
    return await reply if inspect.isawaitable(reply) else reply
