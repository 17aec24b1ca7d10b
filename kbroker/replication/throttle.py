"""A rate of bytes per second that nobody may exceed for long: of compaction, of moves between data directories."""

from __future__ import annotations

from kbroker.host import Clock


class Throttle:
    """Shared by all whose bytes count together. What was moved at once is paid for by waiting afterwards.

    Waiting is the caller's: each has reasons of its own to give it up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paid_ms = 0.0
        """Until when, by monotonic time, what was moved so far is enough."""

    def moved(self, size: int, rate_max: float) -> None:
        """``size`` bytes were moved."""
        self._paid_ms = max(self._paid_ms, self._clock.monotonic_ms()) + 1000 * size / rate_max

    @property
    def wait_ms(self) -> float:
        """How long to wait before more may be moved; 0 when it may be at once."""
        return max(0.0, self._paid_ms - self._clock.monotonic_ms())

    def forgive(self) -> None:
        """The rate is another: what was moved at the old one is paid for."""
        self._paid_ms = 0.0
