"""Between sockets and handlers: faults happen here, and the journal is written here. No handler knows.

A ``MeddlingDispatcher`` takes the place of a server's dispatcher while somebody needs it; unused it costs nothing,
because it is not there. It is a dispatcher whose routes lead through ``_handle``. Every frame is copied, because a
request that is delayed outlives the receive buffer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Any

from kbroker.handlers import SERVED
from kbroker.handlers.context import ConnectionInfo, ConnectionMustCloseError, Node, RequestContext
from kbroker.host import Clock
from kbroker.protocol.apis import ApiKey
from kbroker.replies import settled
from kbroker.server.connection import Answered, Connection, Dispatch, Waiting
from kbroker.server.dispatch import Dispatcher
from kbroker.server.route import Route
from kbroker.testing import tree
from kbroker.testing.answers import Handle, asks_for_all_topics, failing, fetched
from kbroker.testing.fault_rules import FaultBook, Rule, Scope, groups_of
from kbroker.testing.journal import Entry, Journal, errors_in

logger = logging.getLogger(__name__)


class MeddlingDispatcher(Dispatcher):
    """Owner: the server, in the place of ``plain``."""

    __slots__ = ("_clock", "_cut", "_faults", "_journal", "plain")

    def __init__(
        self,
        node: Node,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        faults: FaultBook,
        journal: Journal,
        plain: Dispatch,
    ) -> None:
        super().__init__(node, loop, SERVED)
        self._clock = clock
        self._faults = faults
        self._journal = journal
        self.plain = plain
        self._cut: set[ConnectionInfo] = set()
        """Connections whose next answer is cut in the middle."""

    def __call__(self, connection: Connection, frame: memoryview) -> Answered | Waiting:
        answer = super().__call__(connection, memoryview(bytes(frame)))
        if isinstance(answer, Waiting):
            finish = answer.finish
            answer.finish = lambda future: self._leave(connection, finish(future))
            return answer
        return self._leave(connection, answer)

    def _leave(self, connection: Connection, answer: Answered) -> Answered:
        """An answer on its way out: whole or, by a fault, its first half and then the end of the connection."""
        if connection.info not in self._cut:
            return answer
        self._cut.discard(connection.info)
        parts = [answer] if isinstance(answer, bytes) else answer or []
        whole = b"".join(bytes(part) if not hasattr(part, "read") else part.read(0, len(part)) for part in parts)
        self._loop.call_soon(connection.close)
        return whole[: max(5, len(whole) // 2)]

    def _route(self, connection: Connection, api_key: int, version: int) -> Route | None:
        route = super()._route(connection, api_key, version)
        if route is not None:
            route.handle = partial(self._handle, route, route.handle)
            route.has_kept_answers = False
        return route

    def _handle(self, route: Route, handle: Handle, context: RequestContext, request: Any) -> Any:
        entry = None
        if self._journal.is_on:
            client = context.connection
            entry = self._journal.begin(
                self._clock.wall_ms(),
                (route.name, context.api_version),
                context.client_id,
                f"{client.client_host} {client.client_software_name}",
                request,
            )
        due = self._faults.due(lambda scope: self._matches(scope, context, request))
        if entry is None and not due:
            return handle(context, request)
        if entry is not None:
            entry.faults = tuple(map(str, due))
        if not due:
            assert entry is not None
            return self._noted(entry, handle, context, request)
        for rule in due:
            logger.info("%s of client %r: %s", route.name, context.client_id, rule)
        return self._meddled(due, entry, route, handle, context, request)

    def _matches(self, scope: Scope, context: RequestContext, request: Any) -> bool:
        if scope.api_key not in (None, context.api_key):
            return False
        if scope.client_id not in (None, context.client_id):
            return False
        if scope.group is not None and scope.group not in groups_of(request):
            return False
        if scope.topic is None or asks_for_all_topics(context, request):
            return True
        if context.api_key == ApiKey.FETCH:
            return any(
                topic == scope.topic and scope.partition in (None, partition)
                for topic, _, partition in fetched(context, request)
            )
        return tree.mentions(request, scope.topic, scope.partition, context.node.replicas.topic_name)

    def _noted(self, entry: Entry, handle: Handle, context: RequestContext, request: Any) -> Any:
        """Serve, and write down how it went."""
        start = time.perf_counter()
        try:
            response = handle(context, request)
        except Exception as error:
            _note(entry, start, error)
            raise
        if asyncio.isfuture(response):
            response.add_done_callback(lambda future: _note_future(entry, start, future))
            return response
        if hasattr(response, "__await__"):
            return self._noted_later(entry, start, response)
        _note(entry, start, response)
        return response

    async def _noted_later(self, entry: Entry, start: float, awaitable: Any) -> Any:
        try:
            response = await awaitable
        except Exception as error:
            _note(entry, start, error)
            raise
        _note(entry, start, response)
        return response

    async def _meddled(
        self, due: list[Rule], entry: Entry | None, route: Route, handle: Handle, context: RequestContext, request: Any
    ) -> Any:
        start = time.perf_counter()
        try:
            response = await self._carry_out(due, route, handle, context, request)
        except Exception as error:
            if entry is not None:
                _note(entry, start, error)
            raise
        if entry is not None:
            _note(entry, start, response)
        return response

    async def _carry_out(
        self, due: list[Rule], route: Route, handle: Handle, context: RequestContext, request: Any
    ) -> Any:
        """Hold, then fail or serve, then spoil the answer."""
        for rule in due:
            if rule.kind == "delay":
                await asyncio.sleep(rule.ms / 1000)
            elif rule.kind == "pause":
                await self._faults.hold(rule)
            elif rule.kind in ("drop_connection", "no_answer") and not rule.after:
                await self._lose(rule)
            elif rule.kind == "throttle":
                context.throttle_time_ms = int(rule.ms)
        error = next((rule for rule in due if rule.kind == "error"), None)
        if error is not None:
            response = await failing(error, route, handle, context, request)
            if response is None and getattr(request, "acks", None) != 0:
                raise ConnectionMustCloseError(f"{route.name} has no answer that can say {error}")
        else:
            response = await settled(handle(context, request))
        for rule in due:
            if rule.kind in ("drop_connection", "no_answer"):
                await self._lose(rule)
            elif rule.kind == "truncate_answer":
                self._cut.add(context.connection)
            elif rule.kind == "throttle" and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = int(rule.ms)
        return response

    async def _lose(self, rule: Rule) -> None:
        """The client gets no answer: its connection ends now, or stays silent until the broker or the fault goes."""
        if rule.kind == "no_answer":
            await self._faults.hold(rule)
        raise ConnectionMustCloseError(f"a fault of the test: {rule}")


def _note(entry: Entry, start: float, outcome: Any) -> None:
    entry.duration_ms = (time.perf_counter() - start) * 1000
    if isinstance(outcome, Exception):
        code = getattr(outcome, "code", None)
        entry.errors = (getattr(code, "name", None) or type(outcome).__name__,)
    elif outcome is not None:
        entry.errors = errors_in(outcome)


def _note_future(entry: Entry, start: float, future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        _note(entry, start, future.exception() or future.result())
