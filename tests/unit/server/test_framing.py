"""Frames in a stream that is cut anywhere, and answers that leave together."""

from __future__ import annotations

import random

import pytest

from kbroker.protocol.errors import ProtocolError
from kbroker.server.connection import Connection
from kbroker.server.receive import RECEIVE_SIZE, SIZES, BufferPool
from tests.unit.server.doubles import connected, echo, feed, framed, shared, unframed

BODIES = [b"one", b"", b"three" * 50, b"x" * 2000, b"last"]


def test_frames_are_found_wherever_the_stream_is_split_in_two() -> None:
    stream = b"".join(map(framed, BODIES))
    for split in range(len(stream) + 1):
        connection, transport = connected(shared())
        feed(connection, transport, stream[:split])
        feed(connection, transport, stream[split:])
        assert unframed(transport.written) == BODIES


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 7, 1000])
def test_frames_are_found_in_chunks_of_any_size(chunk_size: int) -> None:
    connection, transport = connected(shared())
    feed(connection, transport, b"".join(map(framed, BODIES)), chunk_size)
    assert unframed(transport.written) == BODIES


def test_answers_of_one_chunk_leave_in_one_write() -> None:
    connection, transport = connected(shared())
    feed(connection, transport, framed(b"request") * 100)
    assert len(transport.writes) == 1
    assert unframed(transport.written) == [b"request"] * 100


def test_large_frames_and_small_ones_mix_in_chunks_of_random_sizes() -> None:
    source = random.Random(1)
    place = shared()
    for _ in range(20):
        bodies = [source.randbytes(source.choice((0, 5, 300, 70_000, 300_000, 1_500_000))) for _ in range(8)]
        stream = b"".join(map(framed, bodies))
        connection, transport = connected(place)
        while stream:
            size = source.choice((1, 100, 10_000, 65_536, 1 << 20))
            rest = feed(connection, transport, stream[:size])
            assert not rest
            stream = stream[size:]
        assert unframed(transport.written) == bodies


def test_the_buffer_of_a_large_frame_grows_with_what_arrives_and_is_used_again() -> None:
    place = shared()
    connection, transport = connected(place)
    feed(connection, transport, (90 * 1024 * 1024).to_bytes(4, "big") + b"begin" * 300)
    assert connection.buffered_size == SIZES[0]
    connection.connection_lost(None)
    assert place.pool.kept == SIZES[0]
    assert connection.buffered_size == 0


def test_a_pool_keeps_a_bounded_number_of_bytes() -> None:
    pool = BufferPool()
    buffers = [pool.take(4 * 1024 * 1024, 4 * 1024 * 1024) for _ in range(5)]
    for buffer in buffers:
        pool.give_back(buffer)
    assert pool.kept == 8 * 1024 * 1024
    pool.give_back(bytearray(5 * 1024 * 1024))
    assert pool.kept == 8 * 1024 * 1024


def test_a_view_of_a_frame_is_overwritten_once_its_chunk_is_done() -> None:
    views: list[memoryview] = []

    def keep(_connection: Connection, frame: memoryview) -> bytes:
        views.append(frame)
        return framed(bytes(frame))

    connection, transport = connected(shared(keep))
    feed(connection, transport, framed(b"small"))
    feed(connection, transport, framed(b"large" * 100_000))
    assert unframed(transport.written) == [b"small", b"large" * 100_000]
    assert bytes(views[0]) == b"\xdb" * 5
    assert set(bytes(views[1])) == {0xDB}


def test_an_idle_connection_holds_no_buffer() -> None:
    connection, transport = connected(shared())
    feed(connection, transport, framed(b"r" * 500_000))
    assert connection.buffered_size == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_an_impossible_length_closes_the_connection_and_earlier_requests_are_answered(size: int) -> None:
    connection, transport = connected(shared(size_max=1000))
    feed(connection, transport, framed(b"good") + size.to_bytes(4, "big", signed=True) + b"rest")
    assert unframed(transport.written) == [b"good"]
    assert transport.closed


def test_a_frame_of_exactly_the_largest_size_is_served() -> None:
    connection, transport = connected(shared(size_max=100_000))
    feed(connection, transport, framed(b"m" * 100_000))
    assert len(transport.written) == 100_004


def test_a_tls_client_is_told_apart_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    connection, transport = connected(shared())
    feed(connection, transport, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500))
    assert transport.closed
    assert "TLS handshake" in caplog.text


def test_an_http_client_gets_a_page_that_says_what_this_port_is(caplog: pytest.LogCaptureFixture) -> None:
    connection, transport = connected(shared())
    feed(connection, transport, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert transport.closed
    assert transport.written.startswith(b"HTTP/1.1 400 ")
    assert b"not HTTP" in transport.written
    assert "GET /health HTTP/1.1" in caplog.text


def test_bytes_that_break_the_protocol_close_the_connection_after_earlier_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(_connection: Connection, frame: memoryview) -> bytes:
        if bytes(frame) == b"bad":
            raise ProtocolError("that is no request")
        return framed(bytes(frame))

    connection, transport = connected(shared(refuse))
    feed(connection, transport, framed(b"good") + framed(b"bad") + framed(b"never"))
    assert unframed(transport.written) == [b"good"]
    assert transport.closed
    assert "that is no request" in caplog.text


def test_a_dispatch_that_fails_closes_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_connection: Connection, frame: memoryview) -> bytes:
        if bytes(frame) == b"bug":
            raise RuntimeError("a bug")
        return framed(bytes(frame))

    place = shared(fail)
    failing, failing_transport = connected(place)
    other, other_transport = connected(place)
    feed(failing, failing_transport, framed(b"bug"))
    feed(other, other_transport, framed(b"well"))
    assert failing_transport.closed
    assert unframed(other_transport.written) == [b"well"]
    assert "RuntimeError: a bug" in caplog.text


def test_random_bytes_never_do_more_than_close_their_connection() -> None:
    source = random.Random(7)
    place = shared(echo, size_max=1 << 20)
    for _ in range(2000):
        connection, transport = connected(place)
        feed(connection, transport, source.randbytes(source.randrange(1, 400)), source.choice((1, 13, 1000)))
        connection.connection_lost(None)
        assert not place.connections
    assert place.pool.kept <= 8 * 1024 * 1024
    assert len(place.receive_buffer) == RECEIVE_SIZE
