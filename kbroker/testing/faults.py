"""What a test can do to its broker: spoil requests, hold them, break connections and the disk.

Every fault has a scope: an API (or all), and of it a topic, a partition, a client id, a group. It happens to every
request in its scope unless a trigger says to which::

    broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS", topic="orders").times(2)
    broker.faults.delay("Fetch", ms=300, client_id="billing").until(event)
    with broker.faults.pause("JoinGroup") as barrier:
        ...
        barrier.wait_fired()

A fault that never fired fails the test when the broker ends, unless it is ``optional()``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from kbroker.testing.events import Event
from kbroker.testing.operations import Operations

if TYPE_CHECKING:
    from kbroker.testing import fault_orders as orders
else:
    orders = Operations("fault_orders")

Call = Callable[..., Any]
"""``call(operation, *arguments)``: the operation's result, from the engine."""
TIMEOUT_S = 10.0


class Scope(TypedDict, total=False):
    """Which requests of its API a fault is for; what is not named may be any."""

    topic: str
    partition: int
    client_id: str
    group: str


class AnyFault:
    """One fault that was set up. A context manager: removed at the end of the block."""

    def __init__(self, call: Call, number: int) -> None:
        self._call = call
        self._number = number

    def optional(self) -> Self:
        """It need not fire."""
        self._call(orders.set_optional, self._number)
        return self

    @property
    def fired(self) -> int:
        """How often it has happened."""
        return int(self._call(orders.fired, self._number))

    def remove(self) -> int:
        """End it; how often it has happened."""
        return int(self._call(orders.remove, self._number))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._call(orders.leave, self._number, keep_unused=kind is None)


class Fault(AnyFault):
    """A fault of requests."""

    def __init__(self, call: Call, wait: Call, number: int) -> None:
        super().__init__(call, number)
        self._wait = wait

    def once(self) -> Self:
        """Only to the first request."""
        return self.times(1)

    def times(self, count: int) -> Self:
        """Only to the first ``count`` requests."""
        return self._trigger(times=count)

    def on_call(self, number: int) -> Self:
        """Only to the ``number``-th request, counted from 1."""
        return self._trigger(on_call=number)

    def every(self, number: int) -> Self:
        """To every ``number``-th request."""
        return self._trigger(every=number)

    def probability(self, probability: float, seed: int = 0) -> Self:
        """To each request with this probability; the same seed chooses the same requests."""
        return self._trigger(probability=probability, seed=seed)

    def until(self, event: Event) -> Self:
        """To every request until ``event`` is set, and then never again. The broker asks at each request."""
        if not callable(getattr(event, "is_set", None)):
            self.remove()
            raise ValueError(f"until() takes an event, which has is_set(), not {event!r}")
        return self._trigger(until=event)

    def wait_fired(self, count: int = 1, timeout: float = TIMEOUT_S) -> int:
        """Return when it has happened ``count`` times. Raises ``WaitTimeoutError``."""
        __tracebackhide__ = True
        return int(self._wait(orders.wait_fired, self._number, count, timeout))

    def release(self) -> int:
        """Let the requests go that a pause holds, and hold no more; how many they were."""
        return int(self._call(orders.release, self._number))

    def _trigger(self, **words: Any) -> Self:
        self._call(orders.set_trigger, self._number, **words)
        return self


class DiskFault(AnyFault):
    """A fault of the disk."""


class Faults:
    """A broker's faults. Owner: the ``Broker``, whose ``wait`` refuses to hold a coroutine's loop."""

    def __init__(self, call: Call, wait: Call) -> None:
        self._call = call
        self._wait = wait
        self.disk = DiskFaults(call)

    def error(self, api: str, error: str | int, *, after: bool = False, **scope: Unpack[Scope]) -> Fault:
        """Answer with an error of Kafka's, by name, instead of serving.

        With a topic or partition only that fails, the rest of the request is served. ``after``: the request is served
        and its answer says the error nevertheless.
        """
        return self._add("error", api, error=error, after=after, **scope)

    def delay(self, api: str | None = None, ms: float = 0.0, **scope: Unpack[Scope]) -> Fault:
        """Serve ``ms`` milliseconds later. Requests behind it on the connection wait, as Kafka has them wait."""
        return self._add("delay", api, ms=ms, **scope)

    def throttle(self, api: str | None = None, ms: float = 0.0, **scope: Unpack[Scope]) -> Fault:
        """Serve, tell the client that it is throttled for ``ms``, and serve it nothing for so long, as quotas do."""
        return self._add("throttle", api, ms=ms, **scope)

    def drop_connection(self, api: str | None = None, *, after: bool = False, **scope: Unpack[Scope]) -> Fault:
        """Close the connection instead of serving; ``after``: instead of answering what was served."""
        return self._add("drop_connection", api, after=after, **scope)

    def no_answer(self, api: str | None = None, *, after: bool = False, **scope: Unpack[Scope]) -> Fault:
        """Never answer; the connection stays open until the fault is removed."""
        return self._add("no_answer", api, after=after, **scope)

    def truncate_answer(self, api: str | None = None, **scope: Unpack[Scope]) -> Fault:
        """Serve, send the first half of the answer, close the connection."""
        return self._add("truncate_answer", api, **scope)

    def pause(self, api: str | None = None, **scope: Unpack[Scope]) -> Fault:
        """Hold requests until ``release()``; ``wait_fired()`` returns when one has come."""
        return self._add("pause", api, **scope)

    def refuse_connections(self, *, drop: bool = True) -> None:
        """Close every new connection at once and, with ``drop``, those there are, until ``accept_connections()``."""
        self._call(orders.refuse_connections, refuse=True, drop=drop)

    def accept_connections(self) -> None:
        """Take connections again."""
        self._call(orders.refuse_connections, refuse=False, drop=False)

    def drop_connections(self) -> None:
        """Abort every connection that there is now."""
        self._call(orders.drop_connections)

    def clear(self) -> None:
        """End every fault and forget them."""
        self._call(orders.clear)

    def unused(self) -> list[str]:
        """The faults that never fired and are not optional."""
        found: list[str] = self._call(orders.unused)
        return found

    def _add(self, kind: str, api: str | None, **words: Any) -> Fault:
        return Fault(self._call, self._wait, self._call(orders.add, kind, api, **words))


class DiskFaults:
    """Faults of the broker's disk. ``path`` is a pattern over whole paths: ``"*/orders-0/*.log"``."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def fail(
        self, *operations: str, path: str = "*", error: str = "EIO", after: int = 0, times: int | None = None
    ) -> DiskFault:
        """``"read"``, ``"write"``, ``"sync"``, ``"open"`` fail, after ``after`` that go well, ``times`` times."""
        return self._add(operations or ("write", "sync"), path, error=error, after=after, times=times)

    def full(self, *, path: str = "*") -> DiskFault:
        """There is no room: writes fail with ENOSPC."""
        return self._add(("write",), path, error="ENOSPC")

    def slow(self, ms: float, *operations: str, path: str = "*") -> DiskFault:
        """Operations take ``ms`` milliseconds longer."""
        return self._add(operations or ("read", "write", "sync"), path, ms=ms)

    def _add(self, operations: tuple[str, ...], path: str, **words: Any) -> DiskFault:
        return DiskFault(self._call, self._call(orders.add_to_disk, operations, path, **words))
