"""One request in progress at a time, answers in order, and what happens to the bytes behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.handlers.context import ConnectionMustCloseError
from kbroker.server.connection import Answered, Connection, Waiting
from kbroker.server.outbox import PIECE_MAX
from tests.unit.server.doubles import (
    FailingRange,
    FileRangeOf,
    ManualClock,
    connected,
    echo,
    feed,
    framed,
    shared,
    unframed,
)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class Parking:
    """Echoes, but lets a request that begins with ``wait`` wait until ``release``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.parked: list[tuple[bytes, asyncio.Future[Any]]] = []
        self.served: list[bytes] = []

    def __call__(self, _connection: Connection, frame: memoryview) -> Answered | Waiting:
        body = bytes(frame)
        self.served.append(body)
        if not body.startswith(b"wait"):
            return framed(body)
        future = self.loop.create_future()
        self.parked.append((body, future))
        return Waiting(future, self.finish, abandon=True)

    def finish(self, future: asyncio.Future[Any]) -> Answered:
        if future.cancelled():
            raise ConnectionMustCloseError("given up")
        answer: Answered = future.result()
        return answer

    def release(self, answer: Answered | None = None) -> None:
        body, future = self.parked.pop(0)
        future.set_result(framed(body) if answer is None else answer)
        self.turn()

    def turn(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))


def test_requests_behind_one_that_waits_are_answered_after_it_and_in_order(loop: asyncio.AbstractEventLoop) -> None:
    parking = Parking(loop)
    connection, transport = connected(shared(parking))
    feed(connection, transport, b"".join(map(framed, (b"a", b"wait1", b"b", b"wait2", b"c"))))
    assert unframed(transport.written) == [b"a"]
    assert parking.served == [b"a", b"wait1"]
    parking.release()
    assert unframed(transport.written) == [b"a", b"wait1", b"b"]
    parking.release()
    assert unframed(transport.written) == [b"a", b"wait1", b"b", b"wait2", b"c"]


@pytest.mark.parametrize("chunk_size", [1, 5, 9, 700])
def test_frames_that_arrive_in_pieces_while_a_request_waits_are_kept(
    loop: asyncio.AbstractEventLoop, chunk_size: int
) -> None:
    parking = Parking(loop)
    connection, transport = connected(shared(parking))
    bodies = [b"wait", b"second", b"t" * 3000, b"wait again", b"last" * 500]
    rest = b"".join(map(framed, bodies))
    for _ in range(1000):
        rest = feed(connection, transport, rest, chunk_size)
        if parking.parked:
            parking.release()
    assert unframed(transport.written) == bodies


def test_reading_goes_on_behind_a_request_that_waits_until_something_arrives(loop: asyncio.AbstractEventLoop) -> None:
    parking = Parking(loop)
    connection, transport = connected(shared(parking))
    feed(connection, transport, framed(b"wait"))
    reading = [transport.reading]
    assert feed(connection, transport, framed(b"next")[:3], 1) == framed(b"next")[1:3]
    reading.append(transport.reading)
    parking.release()
    reading.append(transport.reading)
    assert reading == [True, False, True]


def test_a_large_frame_behind_a_request_that_waits_is_served_after_it(loop: asyncio.AbstractEventLoop) -> None:
    parking = Parking(loop)
    connection, transport = connected(shared(parking))
    large = b"L" * 900_000
    rest = feed(connection, transport, framed(b"wait") + framed(large) + framed(b"end"), 100_000)
    assert rest
    parking.release()
    assert not feed(connection, transport, rest, 100_000)
    assert unframed(transport.written) == [b"wait", large, b"end"]


def test_a_request_without_an_answer_does_not_hold_up_the_next() -> None:
    def silent(_connection: Connection, frame: memoryview) -> Answered:
        return None if bytes(frame) == b"acks=0" else framed(bytes(frame))

    connection, transport = connected(shared(silent))
    feed(connection, transport, framed(b"acks=0") + framed(b"a") + framed(b"acks=0") + framed(b"b"))
    assert unframed(transport.written) == [b"a", b"b"]


def test_a_waiting_request_without_an_answer_lets_the_next_one_in(loop: asyncio.AbstractEventLoop) -> None:
    parking = Parking(loop)
    connection, transport = connected(shared(parking))
    feed(connection, transport, framed(b"wait") + framed(b"a"))
    parking.parked.pop()[1].set_result(None)
    parking.turn()
    assert unframed(transport.written) == [b"a"]


def test_what_waits_is_cancelled_when_its_connection_is_lost(loop: asyncio.AbstractEventLoop) -> None:
    parking = Parking(loop)
    connection, transport = connected(shared(parking))
    feed(connection, transport, framed(b"wait") + framed(b"never"))
    connection.connection_lost(None)
    assert parking.parked[0][1].cancelled()
    parking.turn()
    assert parking.served == [b"wait"]


def test_a_request_that_fails_while_it_waits_closes_the_connection(loop: asyncio.AbstractEventLoop) -> None:
    parking = Parking(loop)
    connection, transport = connected(shared(parking))
    feed(connection, transport, framed(b"wait") + framed(b"never"))
    parking.parked.pop()[1].set_exception(RuntimeError("a bug"))
    parking.turn()
    assert transport.closed
    assert transport.written == b""


def test_a_slow_reader_is_not_served_while_its_answers_are_stuck() -> None:
    served: list[bytes] = []

    def count(_connection: Connection, frame: memoryview) -> Answered:
        served.append(bytes(frame))
        return framed(b"A" * 30_000)

    connection, transport = connected(shared(count), room=100_000)
    rest = feed(connection, transport, framed(b"r") * 1000)
    assert not rest
    assert len(served) < 10
    assert not transport.reading
    for _ in range(1000):
        if len(served) == 1000:
            break
        transport.drained(100_000)
    assert len(served) == 1000
    assert len(transport.written) == 1000 * 30_004
    transport.drained(100_000)
    assert transport.reading


def test_a_slow_reader_of_a_large_file_range_costs_one_piece() -> None:
    data = bytes(10 * 1024 * 1024)
    body = FileRangeOf(data)

    def fetch(_connection: Connection, frame: memoryview) -> Answered:
        return [len(data).to_bytes(4, "big"), body] if bytes(frame) == b"fetch" else framed(bytes(frame))

    connection, transport = connected(shared(fetch), room=1000)
    feed(connection, transport, framed(b"fetch") + framed(b"next"))
    assert len(body.reads) <= 1
    assert len(transport.written) <= PIECE_MAX + 4
    while len(transport.written) < len(data) + 4 + 8:
        before = len(body.reads)
        transport.drained(1000)
        assert len(body.reads) <= before + 1
    assert unframed(transport.written) == [data, b"next"]


def test_a_file_that_cannot_be_read_ends_the_connection_at_once(caplog: pytest.LogCaptureFixture) -> None:
    connection, transport = connected(shared(lambda *_: [b"\0\0\0\x03", FailingRange(b"abc")]))
    feed(connection, transport, framed(b"fetch") + framed(b"fetch"))
    assert transport.aborted
    assert "the disk is gone" in caplog.text


def test_a_muted_connection_gets_its_answer_at_once_and_is_served_again_later() -> None:
    def throttle(connection: Connection, frame: memoryview) -> Answered:
        if bytes(frame) == b"much":
            connection.mute(500)
        return framed(bytes(frame))

    clock = ManualClock()
    connection, transport = connected(shared(throttle, clock=clock))
    feed(connection, transport, framed(b"much") + framed(b"more"))
    assert unframed(transport.written) == [b"much"]
    clock.move(499)
    assert unframed(transport.written) == [b"much"]
    clock.move(1)
    assert unframed(transport.written) == [b"much", b"more"]
    assert transport.reading


def test_a_connection_that_leaves_answers_what_is_in_progress_and_nothing_more(
    loop: asyncio.AbstractEventLoop,
) -> None:
    parking = Parking(loop)
    connection, transport = connected(shared(parking))
    feed(connection, transport, framed(b"wait") + framed(b"late"))
    connection.leave()
    assert not transport.closed
    parking.release()
    assert unframed(transport.written) == [b"wait"]
    assert transport.closed


def test_a_connection_with_nothing_in_progress_leaves_at_once() -> None:
    connection, transport = connected(shared(echo))
    connection.leave()
    assert transport.closed


def test_a_request_that_only_waits_for_more_is_hurried_when_the_connection_leaves(
    loop: asyncio.AbstractEventLoop,
) -> None:
    class Hurried(asyncio.Future[Answered]):
        def hurry(self) -> None:
            self.set_result(framed(b"what there is"))

    future = Hurried(loop=loop)
    connection, transport = connected(shared(lambda *_: Waiting(future, lambda done: done.result(), abandon=True)))
    feed(connection, transport, framed(b"fetch"))
    connection.leave()
    loop.run_until_complete(asyncio.sleep(0))
    assert unframed(transport.written) == [b"what there is"]
    assert transport.closed
