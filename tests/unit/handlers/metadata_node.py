"""A node with a real quorum and no data path: what the tests of the metadata handlers ask.

Requests and answers go through the codec, so that an answer which its version cannot carry fails here.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

from kbroker.handlers import SERVED
from kbroker.handlers.context import ConnectionInfo, Node, RequestContext
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.errors import ApiError
from tests.unit.kraft.world import CLUSTER_ID, World


class MetadataNode:
    """Node 1 of a cluster of one, serving."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, fsync: bool = False) -> None:
        self.world = World(settings=settings, fsync=fsync)
        self.world.start()
        self.connection = ConnectionInfo("PLAINTEXT", "127.0.0.1")
        services = SimpleNamespace(
            node_id=1,
            cluster_id=CLUSTER_ID,
            config=self.world.config,
            host=self.world.host,
            quorum=self.world.quorum,
        )
        self.node = cast("Node", services)

    @property
    def image(self) -> Any:
        return self.world.quorum.image

    def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        """The answer as a client of that version reads it."""
        handler = SERVED[key].load()
        context = RequestContext(self.node, self.connection, key, version)
        received = decode(type(request), version, encode(request, version))

        async def answer() -> Any:
            try:
                response = handler.handle(context, received)
                return await response if inspect.isawaitable(response) else response
            except ApiError as error:
                return handler.error_response(context, received, error)

        response = self.world.run(answer())
        return decode(type(response), version, encode(response, version))

    def close(self) -> None:
        self.world.close()
