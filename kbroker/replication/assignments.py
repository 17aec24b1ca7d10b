"""Tells the controller in which data directory this broker has each replica (KIP-858). Follows ``AssignmentsManager``.

What is to be told waits until the broker is registered, and again when the controller cannot be reached; of several
words about one replica the last counts. One request carries all that has come together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice

from kbroker.host import Clock
from kbroker.protocol.errors import ApiError
from kbroker.types import Uuid

logger = logging.getLogger(__name__)

Replica = tuple[Uuid, int]
"""Topic id and partition."""
Send = Callable[[Mapping[Replica, Uuid]], Awaitable[None]]

REPLICAS_IN_A_REQUEST = 2250
"""Kafka's ``AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST``."""
RETRY_MS = 500


class DirectoryAssignments:
    """Owner: ``ReplicaManager``."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._send: Send | None = None
        self._wanted: dict[Replica, Uuid] = {}
        self._waiting: dict[Replica, asyncio.Future[None]] = {}
        self._task: asyncio.Task[None] | None = None

    def connect(self, send: Send) -> None:
        """The broker is registered: tell what has come together, and from now on what comes."""
        self._send = send
        self._begin()

    def disconnect(self) -> None:
        """The broker stops: nothing is told any more."""
        self._send = None

    def assign(self, topic_id: Uuid, index: int, directory_id: Uuid) -> asyncio.Future[None]:
        """Say where the replica is; done when the controller has written it down, or knows of no such replica."""
        replica = (topic_id, index)
        self._wanted[replica] = directory_id
        waiting = self._waiting.get(replica)
        if waiting is None:
            waiting = self._waiting[replica] = self._loop.create_future()
        self._begin()
        return waiting

    def _begin(self) -> None:
        if self._task is None and self._send is not None and self._wanted:
            self._task = self._loop.create_task(self._tell_all())

    async def _tell_all(self) -> None:
        try:
            while self._wanted and self._send is not None:
                told = dict(islice(self._wanted.items(), REPLICAS_IN_A_REQUEST))
                try:
                    await self._send(told)
                except ApiError as error:
                    logger.warning("The controller does not take in which directories replicas are: %s", error)
                    self._clock.call_later(RETRY_MS, self._begin)
                    return
                for replica, directory_id in told.items():
                    if self._wanted.get(replica) == directory_id:
                        del self._wanted[replica]
                        self._waiting.pop(replica).set_result(None)
        finally:
            self._task = None
