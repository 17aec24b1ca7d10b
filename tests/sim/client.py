"""A client that speaks the raw wire protocol over one connection at a time.

No metadata cache, no retries, no batching: what a real client hides, the actors do in the open.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any, TypeVar, cast

from kbroker.protocol.apis import request_header_version, response_header_version
from kbroker.protocol.codec import decode, decode_from, encode
from kbroker.protocol.declarations import Message
from kbroker.protocol.messages.headers import RequestHeader, ResponseHeader
from tests.sim.loop import SimLoop

M = TypeVar("M", bound=Message)

REQUEST_TIMEOUT_S = 30.0


class Unavailable(Exception):  # noqa: N818 # what happened, not an error of ours
    """No answer came: whether the request took effect is not known."""


class Client:
    """One connection, opened at the first request and again after it was lost. Requests may be pipelined."""

    def __init__(self, loop: SimLoop, name: str, port: int) -> None:
        self.name = name
        self._loop = loop
        self._port = port
        self._link: _Link | None = None

    async def request(self, request: Message, version: int, answer_type: type[M]) -> M:
        """Send, and wait for the answer. Raises ``Unavailable``."""
        return await (await self.send(request, version, answer_type))

    async def send(self, request: Message, version: int, answer_type: type[M]) -> asyncio.Future[M]:
        """Send now; the answer comes later, in the order of the requests. Raises ``Unavailable``."""
        return cast("asyncio.Future[M]", (await self._connected()).send(request, version, answer_type))

    async def send_and_forget(self, request: Message, version: int) -> None:
        """Send what has no answer (acks=0). Raises ``Unavailable``."""
        (await self._connected()).send(request, version, None)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    async def _connected(self) -> _Link:
        if self._link is None or self._link.is_lost:
            try:
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    _, link = await self._loop.create_connection(
                        lambda: _Link(self._loop, self.name), "localhost", self._port
                    )
            except (OSError, TimeoutError) as error:
                raise Unavailable(f"no connection: {error}") from error
            self._link = cast("_Link", link)
        return self._link


class _Link(asyncio.Protocol):
    """A connection: frames out, frames in, matched by their order."""

    def __init__(self, loop: SimLoop, name: str) -> None:
        self.is_lost = False
        self._loop = loop
        self._name = name
        self._received = bytearray()
        self._correlation_id = 0
        self._waiting: deque[tuple[int, int, int, type[Message], asyncio.Future[Any]]] = deque()
        self._transport: asyncio.Transport
        self._watchdog: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, request: Message, version: int, answer_type: type[Message] | None) -> asyncio.Future[Any]:
        key = type(request).api_key
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._name,
        )
        body = encode(header, request_header_version(key, version)) + encode(request, version)
        future = self._loop.create_future()
        if answer_type is not None:
            future.add_done_callback(_retrieve)
            self._waiting.append((self._correlation_id, key, version, answer_type, future))
        self._transport.write(struct.pack(">i", len(body)) + body)
        if self._watchdog is None:
            self._watch()
        return future

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._on_frame(frame)

    def _on_frame(self, frame: bytes) -> None:
        if not self._waiting:
            raise AssertionError(f"{self._name}: an answer that nobody waits for")
        correlation_id, key, version, answer_type, future = self._waiting.popleft()
        header, position = decode_from(ResponseHeader, response_header_version(key, version), frame)
        if header.correlation_id != correlation_id:
            raise AssertionError(f"{self._name}: answer {header.correlation_id} came where {correlation_id} was due")
        if not future.done():
            future.set_result(decode(answer_type, version, frame, position))
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._watch()

    def _watch(self) -> None:
        self._watchdog = self._loop.call_later(REQUEST_TIMEOUT_S, self._on_silence) if self._waiting else None

    def _on_silence(self) -> None:
        """As every client: a broker that does not answer in time loses its connection."""
        self._transport.abort()

    def close(self) -> None:
        self.is_lost = True
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._watchdog is not None:
            self._watchdog.cancel()
        while self._waiting:
            *_, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(Unavailable(f"the connection was lost: {exc}"))


def _retrieve(future: asyncio.Future[Any]) -> None:
    """An actor that gave up on one answer need not look at those behind it."""
    if not future.cancelled():
        future.exception()
