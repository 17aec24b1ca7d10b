"""Listeners over real loopback sockets, on the stock event loop and on uvloop."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from kbroker.config import BrokerConfig
from kbroker.config.values import ConfigError
from kbroker.server.connection import Answered, Connection, Dispatch, Waiting
from kbroker.server.limits import BACKLOG, Limits
from kbroker.server.listeners import TURNS_OF_AN_ARRIVAL, Server
from kbroker.types import StartupError
from tests.event_loops import NEW_EVENT_LOOPS
from tests.patience import PATIENCE_S
from tests.unit.server.doubles import FileRangeOf, LoopClock, ManualClock, echo, framed

Run: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]


@dataclass(frozen=True)
class Listener:
    name: str
    host: str
    port: int


@pytest.fixture(params=NEW_EVENT_LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    def run_in(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(main, PATIENCE_S))

    return run_in


@contextlib.asynccontextmanager
async def serving(
    dispatch: Dispatch = echo, host: str = "127.0.0.1", limits: Limits | None = None, clock: Any = None
) -> AsyncIterator[Server]:
    loop = asyncio.get_running_loop()
    server = Server(
        [Listener("PLAINTEXT", host, 0)], dispatch, clock or LoopClock(), loop, limits, overwrite_buffers=True
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def receive(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the whole test has a time limit."""
    for _ in iter(condition, True):
        await asyncio.sleep(0)


async def ask(server: Server, *bodies: bytes, host: str = "127.0.0.1") -> list[bytes]:
    reader, writer = await asyncio.open_connection(host, server.port("PLAINTEXT"))
    writer.write(b"".join(map(framed, bodies)))
    answers = [await receive(reader) for _ in bodies]
    writer.close()
    await writer.wait_closed()
    return answers


def test_pipelined_requests_of_all_sizes_are_answered_in_order(run: Run) -> None:
    async def main() -> None:
        source = random.Random(3)
        bodies = [source.randbytes(source.choice((0, 10, 5_000, 200_000, 1_300_000))) for _ in range(30)]
        async with serving() as server:
            assert await ask(server, *bodies) == bodies

    run(main())


def test_many_connections_share_the_receive_buffer_without_mixing(run: Run) -> None:
    async def main() -> None:
        async with serving() as server:
            questions = [[bytes([n]) * size for size in (1, 3000, 90_000, 400_000)] for n in range(20)]
            assert await asyncio.gather(*(ask(server, *bodies) for bodies in questions)) == questions
            assert server.connection_count <= 20

    run(main())


def test_localhost_is_both_loopback_addresses_on_one_port(run: Run) -> None:
    async def main() -> None:
        async with serving(host="localhost") as server:
            hosts = [host for host, _ in server.addresses["PLAINTEXT"]]
            assert hosts[0] == "127.0.0.1"
            for host in hosts:
                assert await ask(server, b"hello", host=host) == [b"hello"]
            assert len({port for _, port in server.addresses["PLAINTEXT"]}) == 1

    run(main())


def test_a_port_in_use_is_said_in_one_line_with_what_to_do(run: Run) -> None:
    async def main() -> None:
        async with serving() as server:
            listener = Listener("EXTERNAL", "127.0.0.1", server.port("PLAINTEXT"))
            second = Server([listener], echo, LoopClock(), asyncio.get_running_loop())
            with pytest.raises(StartupError) as refused:
                await second.start()
            assert "EXTERNAL" in str(refused.value)
            assert "in use" in str(refused.value)
            assert "another port" in str(refused.value)
            assert "\n" not in str(refused.value)

    run(main())


def test_an_address_of_another_machine_is_refused_in_words(run: Run) -> None:
    async def main() -> None:
        second = Server([Listener("EXTERNAL", "192.0.2.1", 0)], echo, LoopClock(), asyncio.get_running_loop())
        with pytest.raises(StartupError, match="no such address"):
            await second.start()

    run(main())


def test_when_one_listener_cannot_start_the_others_are_closed_again(run: Run) -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            free = Listener("A", "127.0.0.1", 0)
            server = Server(
                [free, Listener("B", "127.0.0.1", taken.getsockname()[1])],
                echo,
                LoopClock(),
                asyncio.get_running_loop(),
            )
            with pytest.raises(StartupError):
                await server.start()
            with pytest.raises(OSError, match=r"."):
                await asyncio.open_connection("127.0.0.1", server.addresses["A"][0][1])

    run(main())


def test_connections_beyond_the_limit_of_an_address_are_closed(run: Run) -> None:
    async def main() -> None:
        limits = Limits(connections_per_ip_max=5, connections_per_ip_overrides={"127.0.0.1": 1})
        async with serving(limits=limits) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
            writer.write(framed(b"first"))
            assert await receive(reader) == b"first"
            assert await is_closed_at_once(server)
            writer.close()
            await writer.wait_closed()
            await until(lambda: not server.connection_count)
            assert await ask(server, b"again") == [b"again"]

    run(main())


def test_connections_beyond_the_limit_of_the_broker_wait_for_their_turn(run: Run) -> None:
    async def main() -> None:
        async with serving(limits=Limits(connections_max=1)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
            writer.write(framed(b"first"))
            assert await receive(reader) == b"first"
            second, third = (asyncio.ensure_future(ask(server, body, body)) for body in (b"second", b"third"))
            await until(lambda: server.connection_count == 3)
            writer.write(framed(b"still"))
            assert await receive(reader) == b"still"
            assert not second.done()
            assert not third.done()
            writer.close()
            assert await second == [b"second", b"second"]
            assert await third == [b"third", b"third"]

    run(main())


async def is_closed_at_once(server: Server) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return True


def test_idle_connections_are_closed_and_busy_ones_stay(run: Run) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with serving(limits=Limits(idle_ms_max=8000), clock=clock) as server:
            assert not clock.timers
            idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
            for each_reader, each_writer in ((idle_reader, idle_writer), (reader, writer)):
                each_writer.write(framed(b"here"))
                assert await receive(each_reader) == b"here"
            for _ in range(9):
                clock.move(1000)
                writer.write(framed(b"still here"))
                assert await receive(reader) == b"still here"
            with contextlib.suppress(ConnectionError):
                assert await idle_reader.read() == b""
            assert server.connection_count == 1
            idle_writer.close()
            writer.close()

    run(main())


def test_a_slow_reader_of_a_file_stops_being_served_and_loses_nothing(run: Run) -> None:
    async def main() -> None:
        data = random.Random(5).randbytes(30 * 1024 * 1024)
        bodies: list[FileRangeOf] = []

        def fetch(_connection: Connection, _frame: memoryview) -> Answered:
            bodies.append(FileRangeOf(data))
            return [len(data).to_bytes(4, "big"), bodies[-1]]

        async with serving(fetch) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
            writer.write(framed(b"fetch") * 2)
            await until(lambda: bool(bodies))
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(bodies) == 1
            assert len(bodies[0].reads) < 20
            assert await receive(reader) == data
            assert await receive(reader) == data
            writer.close()
            await writer.wait_closed()

    run(main())


def test_stopping_answers_what_is_in_progress_and_refuses_what_is_new(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        parked: asyncio.Future[Answered] = loop.create_future()

        arrived = asyncio.Event()

        def park(_connection: Connection, _frame: memoryview) -> Waiting:
            arrived.set()
            return Waiting(parked, lambda future: future.result(), abandon=True)

        async with serving(park) as server:
            port = server.port("PLAINTEXT")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(framed(b"in progress"))
            await arrived.wait()
            stopping = loop.create_task(server.stop(grace_ms=60_000))
            for _ in range(TURNS_OF_AN_ARRIVAL + 1):
                await asyncio.sleep(0)
            with pytest.raises(ConnectionError):
                await asyncio.open_connection("127.0.0.1", port)
            parked.set_result(framed(b"answered"))
            assert await receive(reader) == b"answered"
            assert await reader.read() == b""
            await stopping
            writer.close()

    run(main())


def test_stopping_gives_up_what_does_not_end_within_the_grace(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        parked: asyncio.Future[Answered] = loop.create_future()

        arrived = asyncio.Event()

        def park(_connection: Connection, _frame: memoryview) -> Waiting:
            arrived.set()
            return Waiting(parked, lambda _: None, abandon=True)

        async with serving(park) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
            writer.write(framed(b"for ever"))
            await arrived.wait()
            started = loop.time()
            await server.stop(grace_ms=50)
            assert loop.time() - started < 1
            assert parked.cancelled()
            writer.close()

    run(main())


def test_a_bound_port_refuses_clients_until_the_broker_listens(run: Run) -> None:
    async def main() -> None:
        server = Server([Listener("PLAINTEXT", "localhost", 0)], echo, LoopClock(), asyncio.get_running_loop())
        await server.bind()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
        await server.listen()
        assert await ask(server, b"now") == [b"now"]
        await server.stop()

    run(main())


def test_dispatch_can_be_replaced_while_the_server_runs(run: Run) -> None:
    async def main() -> None:
        async with serving() as server:
            assert await ask(server, b"a") == [b"a"]
            server.dispatch = lambda *_: framed(b"fault")
            assert await ask(server, b"a") == [b"fault"]

    run(main())


def test_random_bytes_over_sockets_leave_a_well_behaved_client_alone(run: Run) -> None:
    async def main() -> None:
        source = random.Random(11)
        async with serving(limits=Limits(request_size_max=1 << 16)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
            for n in range(100):
                _, other = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
                other.write(source.randbytes(source.randrange(1, 2000)))
                body = source.randbytes(n)
                writer.write(framed(body))
                assert await receive(reader) == body
                other.close()
            writer.close()

    run(main())


def test_limits_are_read_from_the_configuration() -> None:
    config = BrokerConfig(
        {
            "socket.request.max.bytes": "1000",
            "max.connections": "10",
            "listener.name.plaintext.max.connections": "4",
            "max.connections.per.ip": "3",
            "max.connections.per.ip.overrides": "127.0.0.1:5, 0:0::1:6",
            "max.connection.creation.rate": "30",
            "listener.name.plaintext.max.connection.creation.rate": "20",
            "quota.window.num": "4",
            "quota.window.size.seconds": "2",
            "connections.max.idle.ms": "7000",
            "socket.listen.backlog.size": "60",
        }
    )
    assert Limits.of(config) == Limits(
        request_size_max=1000,
        connections_max=10,
        connections_per_listener_max={"PLAINTEXT": 4},
        connections_per_ip_max=3,
        connections_per_ip_overrides={"127.0.0.1": 5, "::1": 6},
        connection_rate_max=30,
        connection_rate_per_listener_max={"PLAINTEXT": 20},
        rate_windows=4,
        rate_window_ms=2000,
        idle_ms_max=7000,
        backlog=60,
    )
    assert Limits.of(BrokerConfig({})).backlog == BACKLOG


def test_a_limit_for_a_host_holds_for_its_addresses() -> None:
    overrides = Limits.of(
        BrokerConfig({"max.connections.per.ip.overrides": "localhost:7"})
    ).connections_per_ip_overrides
    assert overrides["127.0.0.1"] == 7


def test_a_limit_for_a_host_without_an_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="no address"):
        Limits.of(BrokerConfig({"max.connections.per.ip.overrides": "no-such-host.invalid:1"}))


def test_localhost_is_127_0_0_1_alone_on_a_machine_without_ipv6() -> None:
    class Loop:
        """Knows no address of IPv6, and passes over it as the stock event loop does."""

        async def create_server(self, _factory: object, host: str, _port: int, **_options: object) -> object:
            return type("Bound", (), {"sockets": [] if ":" in host else [Socket()], "close": lambda _: None})()

    class Socket:
        def getsockname(self) -> tuple[str, int]:
            return ("127.0.0.1", 4711)

    async def main() -> None:
        loop: Any = Loop()
        server = Server([Listener("PLAINTEXT", "localhost", 0)], echo, LoopClock(), loop)
        await server.bind()
        assert server.addresses == {"PLAINTEXT": [("127.0.0.1", 4711)]}

    asyncio.run(main())
