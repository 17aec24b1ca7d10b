"""How fast connections come, as Kafka reckons it: its ``Rate`` over the windows of a ``SampledStat``. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class _Window:
    begin_ms: float
    last_ms: float
    count: int


class ConnectionRate:
    """Connections per second, over ``windows`` windows of ``window_ms``.

    A window begins with the first arrival after the one before it has passed, and counts as long as its last arrival
    is within the whole time. That whole time is never taken for less than all windows but one: a burst after a quiet
    time is let through, and paid for later.
    """

    __slots__ = ("_past", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._past: deque[_Window] = deque(maxlen=windows + 1)

    def arrived(self, now_ms: float) -> None:
        """One more connection."""
        if not self._past or now_ms - self._past[-1].begin_ms >= self._window_ms:
            self._past.append(_Window(now_ms, now_ms, 0))
        window = self._past[-1]
        window.count += 1
        window.last_ms = now_ms

    def wait_ms(self, rate_max: int, now_ms: float) -> float:
        """How long nobody should come for the rate to fall to ``rate_max``, at most one window; 0 when it is there."""
        past = self._past
        while past and now_ms - past[0].last_ms >= self._windows * self._window_ms:
            past.popleft()
        count = sum(window.count for window in past)
        if not count:
            return 0
        elapsed_ms = now_ms - past[0].begin_ms
        lacking = self._windows - 1 - elapsed_ms // self._window_ms
        elapsed_ms = max(1.0, elapsed_ms + max(0, lacking) * self._window_ms)
        excess = count - rate_max * elapsed_ms / 1000
        if excess <= 0:
            return 0
        return min(self._window_ms, 1000 * excess / rate_max) if rate_max else self._window_ms
