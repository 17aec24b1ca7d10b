"""What leaves a connection: parts joined or not, and ranges of files as the transport takes them."""

from __future__ import annotations

import pytest

from kbroker.server.outbox import JOIN_MAX, PIECE_MAX, Outbox, TornAnswerError
from tests.unit.server.doubles import FailingRange, FileRangeOf, MemoryTransport


def test_small_parts_leave_in_one_write() -> None:
    transport = MemoryTransport()
    assert Outbox(transport).put([b"header", FileRangeOf(b"records"), b"trailer"])
    assert transport.writes == [b"headerrecordstrailer"]


def test_a_large_body_is_written_by_itself() -> None:
    transport = MemoryTransport()
    body = b"b" * (JOIN_MAX + 1)
    assert Outbox(transport).put([b"header", body, b"trailer"])
    assert transport.writes == [b"header", body, b"trailer"]


def test_many_small_parts_are_joined_up_to_a_bound() -> None:
    transport = MemoryTransport()
    assert Outbox(transport).put([b"p" * 40_000] * 10)
    assert transport.written == b"p" * 400_000
    assert max(map(len, transport.writes)) <= 2 * JOIN_MAX


def test_a_large_range_is_read_in_pieces_as_the_transport_takes_them() -> None:
    transport = MemoryTransport(room=1)
    data = bytes(range(256)) * (3 * 4096 + 1)
    body = FileRangeOf(data)
    pauses = 0

    class Pausing:
        def write(self, data: bytes | bytearray | memoryview) -> None:
            transport.write(data)
            outbox.paused = True

    outbox = Outbox(Pausing())
    assert not outbox.put([b"header", body, b"trailer"])
    while not outbox.is_empty:
        pauses += 1
        outbox.paused = False
        outbox.pump()
    assert transport.written == b"header" + data + b"trailer"
    assert max(size for _, size in body.reads) == PIECE_MAX
    assert len(body.reads) == 4
    assert pauses >= 4


def test_nothing_is_read_of_a_file_while_the_transport_is_full() -> None:
    outbox = Outbox(MemoryTransport())
    outbox.paused = True
    body = FileRangeOf(b"r" * 200_000)
    assert not outbox.put([b"header", body])
    assert body.reads == []


def test_a_range_that_ends_early_is_an_error_because_its_length_was_announced() -> None:
    class Short(FileRangeOf):
        def read(self, position: int, size: int) -> bytes:
            return super().read(position, size)[:-1]

    for body in (Short(b"abc"), FailingRange(b"abc"), Short(b"a" * 100_000)):
        with pytest.raises(TornAnswerError):
            Outbox(MemoryTransport()).put([b"header", body])
