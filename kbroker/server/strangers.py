"""Who speaks there instead of a Kafka client? A length that cannot be one is usually the begin of another protocol.

Kafka says "Invalid receive (size = 369295617)", which is a TLS ClientHello read as a length; here the log says so.
"""

from __future__ import annotations

HTTP_METHODS = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"PRI ")

HTTP_PAGE = (
    b"This port speaks Kafka's protocol, not HTTP. Point a Kafka client's bootstrap.servers at it.\r\n"
)  # fmt: skip
HTTP_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
    b"Connection: close\r\n\r\n" % len(HTTP_PAGE)
) + HTTP_PAGE


def stranger(begin: bytes, size: int, size_max: int) -> tuple[str, bytes]:
    """A line for the log about a frame whose length is impossible, and what to answer before closing (may be empty)."""
    if begin[:2] == b"\x16\x03":
        text = "a TLS handshake came in on a listener without TLS: set security.protocol=PLAINTEXT in the client"
        return f"{text}, or connect to a TLS listener", b""
    if begin[:4] in HTTP_METHODS:
        line = begin.split(b"\r\n", 1)[0].decode("latin-1")
        return f"an HTTP request came in ({line!r}): this port speaks Kafka's protocol", HTTP_ANSWER
    if size < 0:
        return f"a request with the negative length {size} came in: not a Kafka client", b""
    text = f"a request of {size} bytes came in, more than socket.request.max.bytes={size_max}"
    return f"{text}: raise it, or send less at once", b""
