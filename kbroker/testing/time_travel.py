"""The broker's time, as a test says it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kbroker.testing.operations import Operations

if TYPE_CHECKING:
    from kbroker.testing import clock_orders as orders
else:
    orders = Operations("clock_orders")

Call = Callable[..., Any]
FAR_MS = 1000 * 365 * 86_400_000
Duration = timedelta | float
"""A ``timedelta``, or seconds."""


class Clock:
    """A broker's two clocks. Owner: the ``Broker``.

    ``wall`` stamps records and decides retention and expiry; ``timers`` drives sessions, time-outs and waiting. Moving
    the wall alone lets old records go without any consumer losing its group.
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    def advance(
        self,
        *,
        wall: Duration | None = None,
        timers: Duration | None = None,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
    ) -> None:
        """Move ``wall`` or ``timers``, or with plain units both, forward. What comes due has happened on return."""
        self._call(orders.advance, *distances(wall, timers, days, hours, minutes, seconds, ms))

    def freeze(self) -> None:
        """Both clocks stand still: nothing expires until ``advance`` or ``resume``."""
        self._call(orders.freeze)

    def resume(self) -> None:
        """Both clocks go on from where they stand."""
        self._call(orders.resume)

    @property
    def wall_ms(self) -> int:
        """What the broker would stamp a record with now: milliseconds since 1970."""
        return int(self._call(orders.wall_ms))


def distances(
    wall: Duration | None,
    timers: Duration | None,
    days: float,
    hours: float,
    minutes: float,
    seconds: float,
    ms: float,
) -> tuple[float, float]:
    """How far, in milliseconds. Raises ``ValueError`` for what is no step forward."""
    units = ((days, 86_400_000), (hours, 3_600_000), (minutes, 60_000), (seconds, 1000), (ms, 1))
    for given, _ in units:
        if not isinstance(given, (int, float)):
            raise ValueError(f"days, hours ... are numbers, not {given!r}")
    both = float(sum(given * length_ms for given, length_ms in units))
    steps = (_ms(wall) + both, _ms(timers) + both)
    if not all(0 <= step < FAR_MS for step in steps) or not any(steps):
        raise ValueError(
            "advance() goes forward, less than a thousand years: give wall=, timers=, or days, hours ... for both"
        )
    return steps


def _ms(duration: Duration | None) -> float:
    if duration is None:
        return 0.0
    if isinstance(duration, timedelta):
        return duration / timedelta(milliseconds=1)
    if not isinstance(duration, (int, float)):
        raise ValueError(f"a duration is a timedelta or seconds, not {duration!r}")
    return duration * 1000.0
