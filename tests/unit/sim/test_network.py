"""The simulated TCP: bytes arrive once, in order, however they are cut; its faults are those of a real one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any, cast

import pytest

from tests.sim.loop import SimLoop
from tests.sim.process import Process


class Echo(asyncio.BufferedProtocol):
    """Sends back what it gets, through one small buffer that is overwritten after every chunk."""

    def __init__(self, buffer_size: int = 1000) -> None:
        self.buffer = bytearray(buffer_size)
        self.lost: list[Exception | None] = []
        self.chunks: list[int] = []
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        assert sizehint > 0
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.chunks.append(nbytes)
        self.transport.write(memoryview(self.buffer)[:nbytes])
        self.buffer[:nbytes] = b"\xee" * nbytes

    def pause_writing(self) -> None:
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class World:
    """A loop and an echo server in a process of its own."""

    def __init__(self, seed: int) -> None:
        self.loop = SimLoop(Random(seed))
        self.echoes: list[Echo] = []
        self.server = Process("server")
        self.run(self._listen())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 10_000))

    async def _listen(self) -> None:
        def factory() -> Echo:
            self.echoes.append(Echo())
            return self.echoes[-1]

        await self.server.start(self.loop, self.loop.create_server(factory, "localhost", 9092))


@pytest.fixture(params=range(8))
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = World(request.param)
    yield world
    world.loop.close()
    assert world.loop.failures == []


def test_everything_comes_back_in_order_however_it_is_cut(world: World) -> None:
    data = Random(3).randbytes(300_000)

    async def scenario() -> bytes:
        reader, writer = await asyncio.open_connection("localhost", 9092)

        async def send() -> None:
            for start in range(0, len(data), 7001):
                writer.write(data[start : start + 7001])
                await writer.drain()

        sending = asyncio.create_task(send())
        back = await reader.readexactly(len(data))
        await sending
        writer.close()
        await writer.wait_closed()
        return back

    assert world.run(scenario()) == data
    world.run(asyncio.sleep(1))
    assert world.echoes[0].lost == [None]
    assert world.loop.network.connections == []


def test_a_reader_that_does_not_read_pauses_the_writer(world: World) -> None:
    async def scenario() -> None:
        reader, writer = await asyncio.open_connection("localhost", 9092)
        cast("asyncio.Transport", writer.transport).pause_reading()

        async def write_on() -> None:
            while True:
                writer.write(bytes(65536))
                await writer.drain()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(write_on(), 60)
        cast("asyncio.Transport", writer.transport).resume_reading()
        assert await reader.readexactly(65536)
        await writer.drain()
        writer.close()

    world.run(scenario())


def test_a_reset_is_seen_at_both_ends(world: World) -> None:
    async def scenario() -> None:
        reader, _writer = await asyncio.open_connection("localhost", 9092)
        world.loop.network.connections[0].reset()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        await asyncio.sleep(1)
        assert isinstance(world.echoes[0].lost[0], ConnectionResetError)

    world.run(scenario())


def test_a_stalled_connection_loses_nothing(world: World) -> None:
    async def scenario() -> None:
        reader, writer = await asyncio.open_connection("localhost", 9092)
        world.loop.network.connections[0].stall(30)
        before = world.loop.time()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert world.loop.time() - before >= 30
        writer.close()

    world.run(scenario())


def test_a_half_open_connection_is_silent_until_the_sender_gives_up(world: World) -> None:
    async def scenario() -> None:
        reader, writer = await asyncio.open_connection("localhost", 9092)
        world.loop.network.connections[0].half_open()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 600)
        writer.write(b"anybody there?")
        with pytest.raises(TimeoutError, match="does not answer"):
            await reader.read(1)
        assert world.echoes[0].lost == []

    world.run(scenario())


def test_a_killed_server_is_seen_as_an_end_or_a_reset_and_refuses_afterwards(world: World) -> None:
    async def scenario() -> None:
        reader, writer = await asyncio.open_connection("localhost", 9092)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        world.server.kill()
        world.loop.network.end_process(world.server)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read(1) == b""
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("localhost", 9092)
        writer.close()

    world.run(scenario())
    assert world.echoes[0].lost == []


def test_closing_sends_what_was_written_before(world: World) -> None:
    async def scenario() -> None:
        reader, writer = await asyncio.open_connection("localhost", 9092)
        writer.write(b"x" * 100_000)
        writer.write_eof()
        got = b""
        while len(got) < 100_000 and (piece := await reader.read(65536)):
            got += piece
        assert got == b"x" * len(got)
        assert sum(world.echoes[0].chunks) == 100_000
        writer.close()

    world.run(scenario())


def test_a_port_has_one_listener(world: World) -> None:
    with pytest.raises(OSError, match="already in use"):
        world.run(world.loop.create_server(Echo, "127.0.0.1", 9092))


def test_port_zero_takes_a_free_port_and_shows_it(world: World) -> None:
    server = world.run(world.loop.create_server(Echo, "127.0.0.1", 0))
    assert server.sockets[0].getsockname()[1] >= 49152
    server.close()
    assert not server.is_serving()


def test_the_same_seed_gives_the_same_trace() -> None:
    def run(seed: int) -> str:
        world = World(seed)

        async def scenario() -> None:
            reader, writer = await asyncio.open_connection("localhost", 9092)
            writer.write(bytes(10_000))
            await reader.readexactly(10_000)
            writer.close()
            await writer.wait_closed()

        world.run(scenario())
        world.loop.close()
        return world.loop.trace.digest()

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_a_connection_that_is_lost_while_it_is_made_is_lost_and_not_silent(world: World) -> None:
    async def scenario() -> None:
        connecting = asyncio.ensure_future(asyncio.open_connection("localhost", 9092))
        while not world.loop.network.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.00001)
        world.loop.network.connections[0].cut()
        reader, _ = await connecting
        with pytest.raises(ConnectionResetError):
            await reader.read(1)

    world.run(scenario())


def test_a_listener_that_does_not_serve_yet_has_its_port_and_refuses(world: World) -> None:
    async def scenario() -> None:
        server = await world.loop.create_server(Echo, "127.0.0.1", 9093, start_serving=False)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", 9093)
        await server.start_serving()
        _, writer = await asyncio.open_connection("127.0.0.1", 9093)
        writer.close()
        await writer.wait_closed()

    world.run(scenario())
