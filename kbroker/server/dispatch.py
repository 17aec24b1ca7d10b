"""From a frame to its answer: header, route, handler, errors.

Every API reaches its handler by the one table, ``kbroker.handlers.SERVED``; nothing here knows an API, but for one rule
of ApiVersions: a version of it that is not served is answered in version 0, so that a newer client can step down.

Errors are mapped here and nowhere else:

| raised | outcome |
|---|---|
| ``ProtocolError`` | the connection is closed |
| ``ConnectionMustCloseError`` | the connection is closed |
| ``ApiError`` | the API's error response; where it has none, the connection is closed |
| anything else (our bug) | the same with UNKNOWN_SERVER_ERROR, and the request in the log |
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import struct
from functools import partial
from typing import Any

from kbroker.handlers.context import ConnectionInfo, ConnectionMustCloseError, Node, RequestContext
from kbroker.protocol.apis import API_BY_KEY
from kbroker.protocol.codec_runtime import AS_JAVA
from kbroker.protocol.errors import ApiError, ErrorCode, ProtocolError
from kbroker.server.connection import Answered, Connection, Waiting
from kbroker.server.kept_answers import KeptAnswers
from kbroker.server.outbox import JOIN_MAX, whole
from kbroker.server.route import Route, Table, find_route, skip_tagged_fields

logger = logging.getLogger(__name__)

API_VERSIONS = 18
CLIENT_IDS_MAX = 1024
"""Client ids kept as strings."""
SHOWN_MAX = 2000
"""Characters of a failed request that go to the log."""

_header = struct.Struct(">hhih").unpack_from
_answer_header = struct.Struct(">ii").pack
_flexible_answer_header = struct.Struct(">iib").pack
_refused_api_versions = struct.Struct(">iihihhh").pack


class Dispatcher:
    """Serves frames for one node. An instance is the ``dispatch`` of a ``Server``."""

    __slots__ = ("_client_ids", "_kept", "_loop", "_node", "_routes", "_table")

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop, table: Table) -> None:
        self._node = node
        self._loop = loop
        self._table = table
        self._routes: dict[int, Route] = {}
        self._client_ids: dict[bytes, str] = {}
        self._kept = KeptAnswers()

    def __call__(self, connection: Connection, frame: memoryview) -> Answered | Waiting:
        try:
            api_key, version, correlation_id, id_size = _header(frame)
        except struct.error as error:
            raise ProtocolError(f"a request of {len(frame)} bytes has no room for its header") from error
        route = self._routes.get(api_key * 65536 + version)
        if route is None:
            route = self._route(connection, api_key, version)
            if route is None:
                return self._refuse_api_versions(frame, version, correlation_id, id_size)
        client_id: str | None = None
        position = 10
        if id_size >= 0:
            position += id_size
            raw = bytes(frame[10:position])
            client_id = self._client_ids.get(raw)
            if client_id is None:
                client_id = self._remember_client_id(raw, id_size)
        if route.has_tagged_header:
            position = skip_tagged_fields(frame, position)
        if route.needs_copy:
            frame = memoryview(bytes(frame))
        info = connection.info
        if info is None:
            info = connection.info = ConnectionInfo(
                connection.listener, connection.peer_address[0], server_host=connection.local_address[0]
            )
        context = RequestContext(self._node, info, api_key, version, correlation_id, client_id)
        if route.has_kept_answers:
            return self._kept_or_new(connection, route, context, frame, position)
        return self._made(connection, route, context, frame, position)

    def _kept_or_new(
        self, connection: Connection, route: Route, context: RequestContext, frame: memoryview, position: int
    ) -> Answered | Waiting:
        """Give an answer of before again, if it still holds; make and keep one if not."""
        quorum = self._node.quorum
        image = quorum.image
        info = context.connection
        question = bytes(frame[position:])
        key = (route, info.listener, info.principal, info.server_host, question)
        kept = self._kept.find(key, image, quorum.leader_id)
        if kept is not None:
            return kept[:4] + frame[4:8] + kept[8:]
        answer = self._made(connection, route, context, frame, position)
        if context.follows_from_image and not context.throttle_time_ms and isinstance(answer, bytes):
            self._kept.keep(key, answer, image, len(question))
        return answer

    def _made(
        self, connection: Connection, route: Route, context: RequestContext, frame: memoryview, position: int
    ) -> Answered | Waiting:
        """Have the handler make the answer."""
        request = route.decode(frame, position)[0]
        try:
            response = route.handle(context, request)
        except Exception as error:  # noqa: BLE001 (every error of a handler is mapped in one place)
            response = self._failed(connection, route, context, request, error)
        if type(response) is route.response_class:
            return self._answer(connection, route, context, request, response)
        if response is None:
            return None
        return self._wait(connection, route, context, request, response)

    # --- answers

    def _answer(
        self, connection: Connection, route: Route, context: RequestContext, request: Any, response: Any
    ) -> Answered:
        try:
            parts = route.encode_parts(response)
        except Exception as error:  # noqa: BLE001 (an answer that cannot be written is a bug like any other)
            parts = route.encode_parts(self._failed(connection, route, context, request, error))
        if context.throttle_time_ms:
            connection.mute(context.throttle_time_ms)
        if len(parts) == 1:
            body = parts[0]
            if type(body) is bytes:
                if route.has_tagged_answer_header:
                    return _flexible_answer_header(len(body) + 5, context.correlation_id, 0) + body
                return _answer_header(len(body) + 4, context.correlation_id) + body
        size = sum(map(len, parts))
        header = (
            _flexible_answer_header(size + 5, context.correlation_id, 0)
            if route.has_tagged_answer_header
            else _answer_header(size + 4, context.correlation_id)
        )
        if size <= JOIN_MAX:
            return b"".join([header, *map(whole, parts)])
        return [header, *parts]

    def _wait(
        self, connection: Connection, route: Route, context: RequestContext, request: Any, awaitable: Any
    ) -> Answered | Waiting:
        finish = partial(self._finish, connection, route, context, request)
        if asyncio.isfuture(awaitable):
            if awaitable.done():
                return finish(awaitable)
            return Waiting(awaitable, finish, abandon=True)
        if inspect.isawaitable(awaitable):
            task = asyncio.ensure_future(awaitable, loop=self._loop)
            return Waiting(task, finish, abandon=False)
        error = TypeError(f"a handler returned {type(awaitable).__name__} where {route.response_class.__name__} is due")
        return self._answer(
            connection, route, context, request, self._failed(connection, route, context, request, error)
        )

    def _finish(
        self, connection: Connection, route: Route, context: RequestContext, request: Any, future: asyncio.Future[Any]
    ) -> Answered:
        """The answer of a request that waited."""
        if future.cancelled():
            raise ConnectionMustCloseError(f"its {route.name} request was given up")
        error = future.exception()
        if error is None:
            response = future.result()
            if response is None:
                return None
        elif isinstance(error, Exception):
            response = self._failed(connection, route, context, request, error)
        else:
            raise error
        return self._answer(connection, route, context, request, response)

    # --- errors

    def _failed(
        self, connection: Connection, route: Route, context: RequestContext, request: Any, error: Exception
    ) -> Any:
        """The response that says ``error``. Raises what closes the connection where no response can say it."""
        if isinstance(error, (ProtocolError, ConnectionMustCloseError)):
            raise error
        if not isinstance(error, ApiError):
            logger.error(
                "%s: %s version %d failed (client id %r, correlation id %d): %s",
                connection,
                route.name,
                context.api_version,
                context.client_id,
                context.correlation_id,
                repr(request)[:SHOWN_MAX],
                exc_info=error,
            )
            error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The server failed; its log says how.")
        response = route.error_response(context, request, error)
        if response is None:
            raise ConnectionMustCloseError(f"{route.name} has no answer that can say {error}")
        return response

    # --- headers

    def _remember_client_id(self, raw: bytes, size: int) -> str:
        if len(raw) != size:
            raise ProtocolError(f"a client id of {size} bytes is announced where {len(raw)} are left")
        client_id = raw.decode(errors=AS_JAVA)
        if len(self._client_ids) >= CLIENT_IDS_MAX:
            self._client_ids.clear()
        self._client_ids[raw] = client_id
        return client_id

    def _route(self, connection: Connection, api_key: int, version: int) -> Route | None:
        """The route of an API's version, made at its first request. None: ApiVersions in a version not served."""
        served = self._table.get(api_key)
        if served is None:
            api = API_BY_KEY.get(api_key)
            name = f"{api.name} (key {api_key})" if api is not None else f"key {api_key}"
            raise ProtocolError(f"{name} is not served{_software(connection)}")
        if not served.oldest <= version <= served.latest:
            if api_key == API_VERSIONS:
                return None
            name = API_BY_KEY[api_key].name
            raise ProtocolError(
                f"{name} version {version} is not served, {served.oldest} to {served.latest} are{_software(connection)}"
            )
        route = find_route(api_key, version, served)
        self._routes[api_key * 65536 + version] = route
        return route

    def _refuse_api_versions(self, frame: memoryview, version: int, correlation_id: int, id_size: int) -> bytes:
        """Version 0, UNSUPPORTED_VERSION, and of the table only the row of ApiVersions (KIP-511)."""
        if version >= 3:
            skip_tagged_fields(frame, 10 + max(id_size, 0))
        served = self._table[API_VERSIONS]
        return _refused_api_versions(
            16, correlation_id, ErrorCode.UNSUPPORTED_VERSION, 1, API_VERSIONS, served.oldest, served.latest
        )


def _software(connection: Connection) -> str:
    info = connection.info
    if info is None or info.client_software_name == "unknown":
        return ""
    return f" (the client is {info.client_software_name} {info.client_software_version})"
