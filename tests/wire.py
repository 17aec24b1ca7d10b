"""A small blocking client for tests: requests as declared messages, or raw bytes, over one connection."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self, TypeVar

from kbroker.protocol.apis import API_BY_KEY, ApiKey, request_header_version, response_header_version
from kbroker.protocol.codec import decode, decode_from, encode
from kbroker.protocol.messages.headers import RequestHeader, ResponseHeader
from tests.patience import PATIENCE_S

R = TypeVar("R")
LENGTH = struct.Struct(">i")
FRAME_SIZE_MAX = 64 * 1024 * 1024


class ConnectionClosedError(Exception):
    """The broker closed the connection instead of answering."""


def request_frame(request: Any, version: int, correlation_id: int, client_id: str | None = "test") -> bytes:
    """A whole request: length, header, body."""
    key = request.api_key
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    payload = encode(header, request_header_version(key, version)) + encode(request, version)
    return LENGTH.pack(len(payload)) + payload


class WireClient:
    """One connection; one request at a time unless ``send`` and ``receive`` are used apart."""

    def __init__(self, bootstrap: str, timeout_seconds: float = PATIENCE_S, client_id: str = "test") -> None:
        host, port = bootstrap.split(",", maxsplit=1)[0].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._correlation_id = 0

    def call(self, request: Any, version: int) -> Any:
        """Send and wait for the answer, as the response class of the request's API."""
        self.send(request, version)
        return self.receive(request.api_key, version)

    def send(self, request: Any, version: int) -> None:
        self._correlation_id += 1
        self.socket.sendall(request_frame(request, version, self._correlation_id, self.client_id))

    def receive(self, api_key: int, version: int) -> Any:
        frame = self.receive_frame()
        header, position = decode_from(ResponseHeader, response_header_version(api_key, version), frame, 0)
        if header.correlation_id != self._correlation_id:
            raise AssertionError(f"answer {header.correlation_id} came, {self._correlation_id} was expected")
        return decode(API_BY_KEY[ApiKey(api_key)].response_class(), version, frame, position)

    def receive_frame(self) -> bytes:
        """One answer without its length. Raises ``ConnectionClosedError``."""
        (size,) = LENGTH.unpack(self._exactly(4))
        if not 0 <= size <= FRAME_SIZE_MAX:
            raise AssertionError(f"an answer of {size} bytes is announced")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self.socket.recv(min(size, 1 << 20))
            except ConnectionError:
                part = b""
            if not part:
                raise ConnectionClosedError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
