"""Events of a test, until which a fault goes on: the test's own, and what stands for one in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Event(Protocol):
    """What ``until`` takes: a ``threading.Event`` or anything else that can say whether it has happened."""

    def is_set(self) -> bool: ...


class DistantEvent:
    """In the child: an event of its caller's. (And on its way from one child to the next, in the caller.)"""

    def __init__(self, ask: Callable[[int], bool], number: int) -> None:
        self.ask = ask
        self.number = number

    def is_set(self) -> bool:
        return self.ask(self.number)
