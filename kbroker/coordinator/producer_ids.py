"""Producer ids for idempotent producers, handed out from blocks that the controller allocates.

The controller writes each block into the metadata log (``ProducerIdsRecord``), so an id is never given twice, whatever
crashes; what is left of a block when the broker stops is lost on purpose. The next block is asked for before the
current one is used up, so that hardly any request waits. Follows Kafka's ``RPCProducerIdManager``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

PREFETCH_AT = 0.90
"""The share of a block after whose use the next is asked for."""


class ProducerIds:
    """The blocks at hand. Owner: the node. ``allocate`` answers the first id and the count of a new block."""

    def __init__(
        self, allocate: Callable[[], Awaitable[tuple[int, int]]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._allocate = allocate
        self._loop = loop
        self._next = 0
        self._end = 0
        self._prefetch_from = 0
        self._following: tuple[int, int] | None = None
        self._request: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        """An id nobody had before; None when a block must be waited for (``take_later``)."""
        if self._next == self._end:
            if self._following is None:
                return None
            self._begin(*self._following)
            self._following = None
        producer_id = self._next
        self._next += 1
        if self._next >= self._prefetch_from and self._following is None:
            self._ask()
        return producer_id

    async def take_later(self) -> int:
        """An id, when the controller has given a block. Raises what the allocation raises."""
        while True:
            producer_id = self.take()
            if producer_id is not None:
                return producer_id
            # Shielded: one request that gives up must not take the block away from the others that wait.
            await asyncio.shield(self._ask())

    def _begin(self, first: int, count: int) -> None:
        self._next = first
        self._end = first + count
        self._prefetch_from = first + int(count * PREFETCH_AT)

    def _ask(self) -> asyncio.Task[None]:
        if self._request is None:
            self._request = self._loop.create_task(self._fill())
            self._request.add_done_callback(self._on_answer)
        return self._request

    async def _fill(self) -> None:
        self._following = await self._allocate()

    def _on_answer(self, request: asyncio.Task[None]) -> None:
        self._request = None
        if not request.cancelled():
            request.exception()  # whoever waits is told; a failed prefetch is tried again by the next who needs it
