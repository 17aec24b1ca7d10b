"""The wire client against nodes that are slow, strange or gone."""

from __future__ import annotations

import asyncio
import struct
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections.abc import Awaitable, Callable

import pytest

from kbroker.host.real import RealClock
from kbroker.peer import Peer, PeerError, UnsupportedByPeerError
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.api_versions import ApiVersionsResponse
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse

Answer = Callable[[int, int, Reader, Writer], Awaitable[None]]
LENGTH = struct.Struct(">i")
METADATA, API_VERSIONS = 3, 18


def frame(correlation_id: int, body: bytes, tags: bytes = b"") -> bytes:
    return LENGTH.pack(4 + len(tags) + len(body)) + LENGTH.pack(correlation_id) + tags + body


def versions(rows: list[tuple[int, int, int]], error_code: int = 0, version: int = 3) -> bytes:
    row = ApiVersionsResponse.ApiVersion
    answer = ApiVersionsResponse(
        error_code=error_code, api_keys=[row(api_key=k, min_version=low, max_version=high) for k, low, high in rows]
    )
    return encode(answer, version)


class Node:
    """A node that tells versions and answers the rest as it is told."""

    def __init__(self, answer: Answer, rows: list[tuple[int, int, int]] | None = None, *, old: bool = False) -> None:
        self.answer = answer
        self.rows = rows or [(METADATA, 0, 5), (API_VERSIONS, 0, 3)]
        self.old = old

    async def serve(self, reader: Reader, writer: Writer) -> None:
        try:
            while True:
                (size,) = LENGTH.unpack(await reader.readexactly(4))
                request = await reader.readexactly(size)
                key, version, correlation_id = struct.unpack_from(">hhi", request)
                if key != API_VERSIONS:
                    await self.answer(correlation_id, version, reader, writer)
                elif self.old and version > 0:
                    writer.write(frame(correlation_id, versions([], 35, 0)))
                else:
                    writer.write(frame(correlation_id, versions(self.rows, version=version)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def talk(node: Node, work: Callable[[Peer], Awaitable[None]]) -> None:
    async def main() -> None:
        server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server:
            peer = await Peer.connect(host, port, RealClock(asyncio.get_running_loop()))
            try:
                await work(peer)
            finally:
                peer.close()

    asyncio.run(main())


async def silence(_id: int, _version: int, _reader: Reader, _writer: Writer) -> None:
    return


async def metadata(correlation_id: int, version: int, _reader: Reader, writer: Writer) -> None:
    writer.write(frame(correlation_id, encode(MetadataResponse(controller_id=version), version)))


def test_the_newest_version_that_both_speak_is_taken() -> None:
    async def work(peer: Peer) -> None:
        assert (await peer.call(MetadataRequest())).controller_id == 5
        assert (await peer.call(MetadataRequest(), at_most=2)).controller_id == 2

    talk(Node(metadata), work)


def test_an_old_node_is_asked_again_in_version_0() -> None:
    async def work(peer: Peer) -> None:
        assert peer.versions[METADATA] == (0, 5)

    talk(Node(metadata, old=True), work)


def test_what_the_node_does_not_serve_is_an_error_before_anything_is_sent() -> None:
    async def work(peer: Peer) -> None:
        with pytest.raises(UnsupportedByPeerError, match="does not serve FindCoordinator"):
            await peer.call(FindCoordinatorRequest(key="g"))
        with pytest.raises(UnsupportedByPeerError, match="none of which fits"):
            peer.version_of(METADATA, at_most=-1)

    talk(Node(metadata), work)


def test_overlapping_calls_get_their_own_answers() -> None:
    async def work(peer: Peer) -> None:
        answers = await asyncio.gather(*(peer.call(MetadataRequest(), at_most=n) for n in (1, 5, 3)))
        assert [each.controller_id for each in answers] == [1, 5, 3]

    talk(Node(metadata), work)


def test_a_node_that_does_not_answer_ends_the_call_and_the_connection() -> None:
    async def work(peer: Peer) -> None:
        with pytest.raises(PeerError, match="did not answer Metadata within 20 ms"):
            await peer.call(MetadataRequest(), timeout_ms=20)
        with pytest.raises(PeerError, match="did not answer"):
            await peer.call(MetadataRequest())

    talk(Node(silence), work)


def test_a_connection_that_ends_ends_every_call() -> None:
    async def hang_up(_id: int, _version: int, _reader: Reader, writer: Writer) -> None:
        writer.close()

    async def work(peer: Peer) -> None:
        results = await asyncio.gather(*(peer.call(MetadataRequest()) for _ in range(3)), return_exceptions=True)
        assert {type(each) for each in results} == {PeerError}
        assert "closed the connection" in str(results[0])

    talk(Node(hang_up), work)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
        (frame(4711, b""), "cannot be read"),
        (frame(2, b"\x7f"), "cannot be read"),
    ],
)
def test_garbage_is_an_error_that_says_so(answer: bytes, reason: str) -> None:
    async def garbage(_id: int, _version: int, _reader: Reader, writer: Writer) -> None:
        writer.write(answer)

    async def work(peer: Peer) -> None:
        with pytest.raises(PeerError, match=reason):
            await peer.call(MetadataRequest())

    talk(Node(garbage), work)


def test_a_port_where_nobody_listens_is_named() -> None:
    async def main() -> None:
        with pytest.raises(PeerError, match=r"127\.0\.0\.1:1 cannot be reached: Connection refused"):
            await Peer.connect("127.0.0.1", 1, RealClock(asyncio.get_running_loop()))

    asyncio.run(main())
