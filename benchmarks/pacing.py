"""A load at a fixed rate over many connections: each request and its answer always have the same bytes.

The client only sends, receives and compares, so that it is not the limit. A connection that has not answered yet gets
its next request nevertheless, as a client that pipelines would send it: a broker that cannot keep up falls behind, and
its delays say so.
"""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.targets import Meter, Target, metered
from benchmarks.wire import RECEIVE_SIZE, Connection, WireError

DRAIN_S = 30
"""How long the last answers may take."""


@dataclass
class Peer:
    """One connection, the request it repeats, and the answer that is right."""

    connection: Connection
    request: bytes
    answer: bytes
    sent_at: deque[float] = field(default_factory=deque)
    arrived: bytes = b""


@dataclass
class Paced:
    """What a load at a fixed rate came to."""

    meter: Meter
    delays_ms: list[float]
    """From each request to its answer, ascending."""

    @property
    def rate(self) -> float:
        return len(self.delays_ms) / self.meter.wall_s

    def delay_ms(self, part: float) -> float:
        return self.delays_ms[min(len(self.delays_ms) - 1, int(len(self.delays_ms) * part))]


def pace(target: Target, peers: Sequence[Peer], rate: float, duration_s: float) -> Paced:
    """Send ``rate`` requests a second, to each connection in turn, and read every answer."""
    delays: list[float] = []
    count = int(rate * duration_s)
    with selectors.DefaultSelector() as selector, metered(target) as meter:
        for peer in peers:
            selector.register(peer.connection.socket, selectors.EVENT_READ, peer)
        began = now = time.perf_counter()
        sent = 0
        while len(delays) < count:
            due = min(count, int((now - began) * rate) + 1)
            while sent < due:
                peer = peers[sent % len(peers)]
                peer.sent_at.append(time.perf_counter())
                peer.connection.socket.sendall(peer.request)
                sent += 1
            wait_s = began + sent / rate - time.perf_counter() if sent < count else 0.1
            for key, _ in selector.select(max(0.0, wait_s)):
                _receive(key.data, delays)
            now = time.perf_counter()
            if now > began + duration_s + DRAIN_S:
                raise WireError(f"{len(delays)} of {sent} requests are answered after {DRAIN_S} s")
    delays.sort()
    return Paced(meter, delays)


def _receive(peer: Peer, delays: list[float]) -> None:
    data = peer.connection.socket.recv(RECEIVE_SIZE)
    if not data:
        raise WireError("the broker closed the connection")
    now = time.perf_counter()
    arrived = peer.arrived + data
    size = len(peer.answer)
    whole = len(arrived) // size
    if arrived[: whole * size] != peer.answer * whole:
        raise WireError(f"an answer is {arrived[:size].hex()} where {peer.answer.hex()} is due")
    peer.arrived = arrived[whole * size :]
    delays.extend((now - peer.sent_at.popleft()) * 1000 for _ in range(whole))
