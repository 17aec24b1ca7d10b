"""The wire protocol from this side: one connection to a node, on an event loop.

``Peer`` connects, asks which versions the node serves, and sends requests as declared messages in the newest version
that both speak. Requests may overlap; answers come in their order. Used by the command line today; brokers will talk
to each other through it. Not here: which node to ask (``kbroker.cli.cluster_client``), retries, security.

Invariants: every call ends, with its answer, its time-out or the end of the connection. After a call has timed out the
connection is of no more use (an answer may still come) and is closed.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from kbroker.host import Clock, Timer
from kbroker.protocol.apis import API_BY_KEY, ApiKey, request_header_version, response_header_version
from kbroker.protocol.codec import decode, decode_from, encode
from kbroker.protocol.errors import ErrorCode, ProtocolError
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.headers import RequestHeader, ResponseHeader

FRAME_SIZE_MAX: Final = 512 * 1024 * 1024
TIMEOUT_MS: Final = 30_000
_LENGTH: Final = struct.Struct(">i")
_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class PeerError(Exception):
    """The node cannot be reached, does not answer, or speaks another language. ``str()`` says which, in a line."""


class UnsupportedByPeerError(PeerError):
    """The node does not serve the API, or in no version that is spoken here."""


@dataclass(slots=True)
class _Call:
    """A request that waits for its answer."""

    correlation_id: int
    api_key: int
    version: int
    answer: asyncio.Future[Any]
    timer: Timer


class Peer(asyncio.Protocol):
    """One connection. Made by ``connect``; the maker closes it."""

    def __init__(self, address: str, clock: Clock, loop: asyncio.AbstractEventLoop, client_id: str) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        """What the node serves: key -> oldest and latest version."""
        self._clock = clock
        self._loop = loop
        self._client_id = client_id
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._calls: deque[_Call] = deque()
        self._correlation_id = 0
        self._ended: PeerError | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can still be asked."""
        return self._ended is None

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        clock: Clock,
        *,
        client_id: str = "kbroker",
        software: str = "kbroker",
        software_version: str = "0",
        timeout_ms: int = TIMEOUT_MS,
    ) -> Peer:
        """Connect and learn what the node serves. Raises ``PeerError``."""
        loop = asyncio.get_running_loop()
        address = f"{host}:{port}"
        making = loop.create_task(loop.create_connection(lambda: cls(address, clock, loop, client_id), host, port))
        timer = clock.call_later(timeout_ms, _cancel, making)
        try:
            _, peer = await making
        except asyncio.CancelledError:
            raise PeerError(f"{address} does not answer") from None
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
            raise PeerError(f"{address} cannot be reached: {reason}") from error
        finally:
            timer.cancel()
        try:
            await peer.learn_versions(software, software_version, timeout_ms)
        except BaseException:
            peer.close()
            raise
        return peer

    async def learn_versions(self, software: str, software_version: str, timeout_ms: int) -> None:
        """Ask what the node serves; the first thing on a connection. Raises ``PeerError``."""
        request = ApiVersionsRequest(client_software_name=software, client_software_version=software_version)
        answer: ApiVersionsResponse = await self._send(request, 3, timeout_ms)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = await self._send(ApiVersionsRequest(), 0, timeout_ms)
        if answer.error_code != ErrorCode.NONE:
            raise PeerError(f"{self.address} does not say what it serves: {ErrorCode(answer.error_code).name}")
        self.versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def version_of(self, api_key: int, *, at_most: int | None = None) -> int:
        """The newest version that both sides speak. Raises ``UnsupportedByPeerError``."""
        api = API_BY_KEY[ApiKey(api_key)]
        served = self.versions.get(api_key)
        if served is None:
            raise UnsupportedByPeerError(f"{self.address} does not serve {api.name}")
        latest = min(served[1], api.latest_stable)
        if at_most is not None:
            latest = min(latest, at_most)
        if latest < max(served[0], api.oldest_declared):
            raise UnsupportedByPeerError(
                f"{self.address} serves {api.name} in the versions {served[0]} to {served[1]}, none of which fits here"
            )
        return latest

    async def call(self, request: Any, *, at_most: int | None = None, timeout_ms: int = TIMEOUT_MS) -> Any:
        """Send a request and wait for its response. Raises ``PeerError``.

        ``at_most`` is for requests that are written for a version and would say something else in a newer one.
        """
        return await self._send(request, self.version_of(request.api_key, at_most=at_most), timeout_ms)

    def send_only(self, request: Any, *, at_most: int | None = None) -> None:
        """Send a request that gets no answer (Produce with acks=0). Raises ``PeerError``."""
        self._write(request, self.version_of(request.api_key, at_most=at_most))

    async def _send(self, request: Any, version: int, timeout_ms: int) -> Any:
        self._write(request, version)
        key = request.api_key
        answer: asyncio.Future[Any] = self._loop.create_future()
        timer = self._clock.call_later(timeout_ms, self._on_timeout, key, timeout_ms)
        self._calls.append(_Call(self._correlation_id, key, version, answer, timer))
        return await answer

    def _write(self, request: Any, version: int) -> None:
        if self._ended is not None:
            raise self._ended
        key = request.api_key
        try:
            body = encode(request, version)
        except ValueError as error:
            raise UnsupportedByPeerError(
                f"{self.address} serves {API_BY_KEY[ApiKey(key)].name} only up to version {version}: {error}"
            ) from error
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        head = encode(header, request_header_version(key, version))
        assert self._transport is not None
        self._transport.write(_LENGTH.pack(len(head) + len(body)) + head + body)

    def close(self) -> None:
        """End the connection; who still waits is told."""
        self._end(PeerError(f"the connection to {self.address} was closed"))

    # --- what asyncio reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _error: Exception | None) -> None:
        self._end(PeerError(f"{self.address} closed the connection"))

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        position = 0
        while len(received) - position >= _LENGTH.size and self._ended is None:
            (size,) = _LENGTH.unpack_from(received, position)
            if not 0 <= size <= FRAME_SIZE_MAX:
                self._end(PeerError(f"{self.address} does not speak Kafka's protocol"))
                return
            end = position + _LENGTH.size + size
            if len(received) < end:
                break
            self._on_frame(bytes(memoryview(received)[position + _LENGTH.size : end]))
            position = end
        del received[:position]

    def _on_frame(self, frame: bytes) -> None:
        if not self._calls:
            self._end(PeerError(f"{self.address} answers what nobody asked"))
            return
        call = self._calls.popleft()
        call.timer.cancel()
        try:
            header, position = decode_from(
                ResponseHeader, response_header_version(call.api_key, call.version), frame, 0
            )
            if header.correlation_id != call.correlation_id:
                raise ProtocolError(f"answer {header.correlation_id} instead of {call.correlation_id}")
            version = call.version
            if call.api_key == ApiKey.API_VERSIONS and frame[position : position + 2] == _UNSUPPORTED_VERSION:
                # Who does not know the version answers in version 0, whatever was asked.
                version = 0
            response = decode(API_BY_KEY[ApiKey(call.api_key)].response_class(), version, frame, position)
        except ProtocolError as error:
            self._calls.appendleft(call)
            self._end(PeerError(f"{self.address} sent what cannot be read: {error}"))
            return
        if not call.answer.done():
            call.answer.set_result(response)

    def _on_timeout(self, key: int, timeout_ms: int) -> None:
        name = API_BY_KEY[ApiKey(key)].name
        self._end(PeerError(f"{self.address} did not answer {name} within {timeout_ms} ms"))

    def _end(self, reason: PeerError) -> None:
        if self._ended is not None:
            return
        self._ended = reason
        if self._transport is not None:
            self._transport.abort()
        calls, self._calls = self._calls, deque()
        for call in calls:
            call.timer.cancel()
            if not call.answer.done():
                call.answer.set_exception(reason)


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
