"""The same broker for coroutines: the methods of ``Broker``, to be awaited. Nothing here blocks the caller's loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kbroker.testing import seeds
from kbroker.testing.broker import TIMEOUT_S, Snapshot, text
from kbroker.testing.clients import Clients
from kbroker.testing.names import Topics, new_topics, several
from kbroker.testing.operations import Operations
from kbroker.testing.time_travel import Duration, distances
from kbroker.testing.values import Group, Producer, Record, Request, Topic, Transaction

if TYPE_CHECKING:
    from kbroker.testing import clock_orders, seeding, spying, state, waiting
    from kbroker.testing.broker import Broker
    from kbroker.testing.engine import Engine
    from kbroker.testing.faults import Fault, Faults
else:
    clock_orders, seeding, spying, state, waiting = map(
        Operations, ("clock_orders", "seeding", "spying", "state", "waiting")
    )

P = ParamSpec("P")
T = TypeVar("T")


class AsyncClock:
    """``Broker.clock``, to be awaited."""

    def __init__(self, broker: AsyncBroker) -> None:
        self._broker = broker

    async def advance(
        self,
        *,
        wall: Duration | None = None,
        timers: Duration | None = None,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
    ) -> None:
        await self._broker.run(clock_orders.advance, *distances(wall, timers, days, hours, minutes, seconds, ms))

    async def freeze(self) -> None:
        await self._broker.call(clock_orders.freeze)

    async def resume(self) -> None:
        await self._broker.call(clock_orders.resume)

    @property
    def wall_ms(self) -> int:
        """What the broker would stamp a record with now. A moment's question, not awaited."""
        return self._broker.sync.clock.wall_ms


class AsyncBroker(Clients):
    """Made by ``async with Broker(...)`` and by ``Broker.aio``. Each method is that of ``Broker``."""

    def __init__(self, broker: Broker) -> None:
        self.sync = broker
        """The broker itself."""
        self.clock = AsyncClock(self)

    @property
    def faults(self) -> Faults:
        """Setting faults up takes a moment and is not awaited; waiting for one is: ``wait_fired``."""
        return self.sync.faults

    @property
    def bootstrap_servers(self) -> str:
        return self.sync.bootstrap_servers

    async def call(self, operation: Callable[Concatenate[Engine, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Have the engine call a function."""
        result: T = await asyncio.wrap_future(self.sync.submit(operation, *args, **kwargs))
        return result

    async def run(
        self, operation: Callable[Concatenate[Engine, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Have the engine run a coroutine."""
        result: T = await asyncio.wrap_future(self.sync.submit(operation, *args, **kwargs))
        return result

    # --- life

    async def kill(self, *, lose_unsynced: bool = False) -> None:
        await asyncio.to_thread(self.sync.kill, lose_unsynced=lose_unsynced)

    async def restart(self) -> None:
        await asyncio.to_thread(self.sync.restart)

    async def verify_faults(self) -> None:
        await asyncio.to_thread(self.sync.verify_faults)

    # --- state

    async def topics(self, *, internal: bool = False) -> dict[str, Topic]:
        return await self.call(state.topics, internal=internal)

    async def records(self, topic: str, partition: int | None = None, start: int = 0) -> list[Record]:
        return await self.call(state.records, topic, partition, start)

    async def next_offset(self, topic: str, partition: int = 0) -> int:
        return await self.call(state.next_offset, topic, partition)

    async def producers(self, topic: str | None = None) -> list[Producer]:
        return await self.call(state.producers, topic)

    async def groups(self) -> dict[str, Group]:
        return await self.run(state.groups)

    async def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        return await self.run(state.committed, group, topic, partition)

    async def lag(self, group: str, topic: str | None = None) -> int:
        return await self.run(state.lag, group, topic)

    async def transactions(self) -> dict[str, Transaction]:
        return await self.run(state.transactions)

    async def record_requests(self, *, size_max: int = 4 * 1024 * 1024) -> None:
        await self.call(spying.record, "full", size_max)

    async def requests(self, api: str | None = None, client_id: str | None = None) -> list[Request]:
        return await self.call(spying.requests, api, client_id)

    async def story(self) -> str:
        return await asyncio.to_thread(self.sync.story)

    # --- waiting

    async def wait_for_records(
        self,
        topic: str,
        count: int = 1,
        *,
        partition: int | None = None,
        committed_only: bool = False,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 (told to the engine, which says what was there instead)
    ) -> list[Record]:
        return await self.run(waiting.for_records, topic, count, timeout, partition, committed_only)

    async def wait_for_assignment(
        self,
        group: str,
        *,
        members: int = 1,
        topic: str | None = None,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 (as above)
    ) -> Group:
        return await self.run(waiting.for_assignment, group, members, topic, timeout)

    async def wait_for_commit(
        self,
        group: str,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 (as above)
    ) -> int:
        return await self.run(waiting.for_commit, group, topic, offset, partition, timeout)

    async def wait_for_lag(
        self,
        group: str,
        lag: int = 0,
        *,
        topic: str | None = None,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 (as above)
    ) -> int:
        return await self.run(waiting.for_lag, group, lag, topic, timeout)

    async def wait_fired(
        self,
        fault: Fault,
        count: int = 1,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 (as above)
    ) -> int:
        """Return when a fault has happened ``count`` times."""
        return await asyncio.to_thread(fault.wait_fired, count, timeout)

    async def assert_no_records(self, topic: str, *, within: float = 0.2, beyond: int = 0) -> None:
        await self.run(waiting.for_no_records, topic, within, beyond)

    async def assert_exactly_once(self, topic: str, values: Iterable[Any], *, partition: int | None = None) -> None:
        wanted = [seeds.as_bytes(value) for value in several("assert_exactly_once()", values)]
        await self.call(waiting.exactly_once, topic, wanted, partition)

    # --- seeding

    async def create_topics(self, topics: Topics, configs: Mapping[str, object] | None = None) -> None:
        named = {name: text(value) for name, value in (configs or {}).items()}
        await self.run(seeding.create_topics, new_topics(topics), named)

    async def produce(self, topic: str, records: Iterable[Any]) -> list[int]:
        return await self.run(seeding.produce, topic, [seeds.as_record(each) for each in several("produce()", records)])

    async def load(self, source: Any) -> None:
        """As ``Broker.load``. A coroutine function is called with this, another with the broker, in a thread."""
        if inspect.iscoroutinefunction(source):
            await source(self)
        else:
            await asyncio.to_thread(self.sync.load, source)

    # --- starting over

    async def reset(self, *, topics: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        await asyncio.to_thread(self.sync.reset, topics=topics, groups=groups)

    async def snapshot(self) -> Snapshot:
        return await asyncio.to_thread(self.sync.snapshot)

    async def restore(self, snapshot: Snapshot) -> None:
        await asyncio.to_thread(self.sync.restore, snapshot)
