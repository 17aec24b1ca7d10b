"""Producer ids for idempotent producers, handed out from blocks that the controller allocates.

The controller writes each block into the metadata log (``ProducerIdsRecord``), so an id is never given twice, whatever
crashes; what is left of a block when the broker stops is lost on purpose. The next block is asked for before the
current one is used up, so that hardly any request waits. Follows Kafka's ``RPCProducerIdManager``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kbroker.protocol.errors import ApiError
from kbroker.replies import Reply

logger = logging.getLogger(__name__)

PREFETCH_AT = 0.90
"""The share of a block after whose use the next is asked for."""

Block: TypeAlias = tuple[int, int]
"""The first id and the count."""


class ProducerIds:
    """The blocks at hand. Owner: the node. ``allocate`` gives a new block, at once or later."""

    __slots__ = ("_allocate", "_end", "_following", "_loop", "_next", "_prefetch_from", "_request")

    def __init__(self, allocate: Callable[[], Reply[Block]], loop: asyncio.AbstractEventLoop) -> None:
        self._allocate = allocate
        self._loop = loop
        self._next = 0
        self._end = 0
        self._prefetch_from = 0
        self._following: Block | None = None
        self._request: asyncio.Task[None] | None = None

    def take(self) -> Reply[int]:
        """An id nobody had before; later, when a block must be waited for. Raises what the allocation raises."""
        producer_id = self._take()
        if producer_id is None:
            self._ask()
            producer_id = self._take()
        return self._take_later(self._request) if producer_id is None else producer_id

    def take_if_at_hand(self) -> int | None:
        """An id nobody had before, unless a block must be waited for: then None, and the next block is asked for."""
        producer_id = self._take()
        if producer_id is None:
            self._prefetch()
            producer_id = self._take()
        return producer_id

    def _take(self) -> int | None:
        if self._next == self._end:
            if self._following is None:
                return None
            self._next, count = self._following
            self._end = self._next + count
            self._prefetch_from = self._next + int(count * PREFETCH_AT)
            self._following = None
        producer_id = self._next
        self._next += 1
        if self._next == self._prefetch_from:
            self._prefetch()
        return producer_id

    async def _take_later(self, request: asyncio.Task[None] | None) -> int:
        while True:
            if request is not None:
                # Shielded: one request that gives up must not take the block away from the others that wait.
                await asyncio.shield(request)
            producer_id = self._take()
            if producer_id is not None:
                return producer_id
            self._ask()
            request = self._request

    def _prefetch(self) -> None:
        try:
            self._ask()
        except ApiError as error:
            logger.info("No block of producer ids ahead of time, the next producer asks again: %s", error)

    def _ask(self) -> None:
        if self._request is not None or self._following is not None:
            return
        reply = self._allocate()
        if isinstance(reply, Awaitable):
            self._request = self._loop.create_task(self._receive(reply))
            self._request.add_done_callback(self._on_answer)
        else:
            self._following = reply

    async def _receive(self, reply: Awaitable[Block]) -> None:
        self._following = await reply

    def _on_answer(self, request: asyncio.Task[None]) -> None:
        self._request = None
        if not request.cancelled():
            request.exception()  # whoever waits is told; a failed prefetch is tried again by the next who needs it
