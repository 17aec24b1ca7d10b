"""A load at a fixed rate, against a server of a few lines."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.pacing import Peer, pace
from benchmarks.targets import Target
from benchmarks.wire import WireError

REQUEST, ANSWER = b"request.", b"\0\0\0\x04pong"


@contextmanager
def server(answer: bytes, *, takes: int) -> Iterator[Target]:
    """Answers every request of ``takes`` connections, in two pieces."""

    def serve(connection: socket.socket) -> None:
        with connection:
            while connection.recv(len(REQUEST), socket.MSG_WAITALL):
                connection.sendall(answer[:3])
                connection.sendall(answer[3:])

    def accept() -> None:
        for _ in range(takes):
            threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepting = threading.Thread(target=accept)
        accepting.start()
        yield Target("test", "127.0.0.1", listening.getsockname()[1], None)
        accepting.join()


def test_every_request_of_a_paced_load_is_answered_at_the_rate_asked_for() -> None:
    with server(ANSWER, takes=3) as target:
        peers = [Peer(target.connect(10), REQUEST, ANSWER) for _ in range(3)]
        paced = pace(target, peers, 1000, 0.1)
        for peer in peers:
            assert not peer.sent_at
            peer.connection.socket.close()
    assert len(paced.delays_ms) == 100
    assert paced.rate <= 1100  # no faster than asked for; how much slower is the machine's business
    assert paced.delays_ms == sorted(paced.delays_ms)
    assert 0 < paced.delay_ms(0.5) <= paced.delay_ms(0.99)


def test_another_answer_than_the_right_one_ends_a_paced_load() -> None:
    with server(b"\0\0\0\x04oops", takes=1) as target:
        peer = Peer(target.connect(10), REQUEST, ANSWER)
        with pytest.raises(WireError, match="is due"):
            pace(target, [peer], 1000, 0.1)
        peer.connection.socket.close()
