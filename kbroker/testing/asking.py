"""The engine asks its own broker, by the ordinary APIs: one road for every change, and for what coordinators know."""

from __future__ import annotations

from typing import Any

from kbroker.handlers import SERVED
from kbroker.handlers.context import ConnectionInfo, RequestContext
from kbroker.protocol.apis import API_BY_KEY, ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.replies import settled
from kbroker.testing.engine import Engine

ADMIN = "__admin_client"


async def ask(engine: Engine, key: ApiKey, **fields: Any) -> Any:
    """The answer to a request in the newest version that is served. Raises ``NotImplementedError``, ``ApiError``."""
    row = SERVED.get(key)
    api = API_BY_KEY[key]
    if row is None:
        raise NotImplementedError(f"this broker does not serve {api.name} yet")
    node = engine.node
    listener = node.config.broker_listeners[0].name
    context = RequestContext(node, ConnectionInfo(listener, "127.0.0.1"), key, row.latest, 0, ADMIN)
    return await settled(row.load().handle(context, api.request_class()(**fields)))


def serves(key: ApiKey) -> bool:
    return key in SERVED


def check(code: int, message: str | None, what: str) -> None:
    """Raises ``RuntimeError`` when an answer says that something failed."""
    if code != ErrorCode.NONE:
        raise RuntimeError(f"{what}: {ErrorCode(code).name}{f' ({message})' if message else ''}")
