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
from typing import Any, Self

from kbroker.testing import fault_orders as orders
from kbroker.testing.fault_rules import Event, Trigger

Call = Callable[..., Any]
"""``call(operation, *arguments)``: the operation's result, from the engine."""
TIMEOUT_S = 10.0


class Fault:
    """One fault that was set up. A context manager: removed at the end of the block."""

    def __init__(self, call: Call, number: int) -> None:
        self._call = call
        self._number = number

    def once(self) -> Self:
        """Only to the first request."""
        return self.times(1)

    def times(self, count: int) -> Self:
        """Only to the first ``count`` requests."""
        return self._trigger(times=self._positive(count))

    def on_call(self, number: int) -> Self:
        """Only to the ``number``-th request, counted from 1."""
        return self._trigger(on_call=self._positive(number))

    def every(self, number: int) -> Self:
        """To every ``number``-th request."""
        return self._trigger(every=self._positive(number))

    def probability(self, probability: float, seed: int = 0) -> Self:
        """To each request with this probability; the same seed chooses the same requests."""
        if not 0 <= probability <= 1:
            self.remove()
            raise ValueError(f"a probability lies between 0 and 1, not {probability}")
        return self._trigger(probability=probability, seed=seed)

    def until(self, event: Event) -> Self:
        """To every request until ``event`` (a ``threading.Event``, or what has ``is_set()``) is set."""
        return self._trigger(until=event)

    def optional(self) -> Self:
        """It need not fire."""
        self._call(orders.set_optional, self._number)
        return self

    @property
    def fired(self) -> int:
        """How often it has happened."""
        return int(self._call(orders.fired, self._number))

    def wait_fired(self, count: int = 1, timeout: float = TIMEOUT_S) -> int:
        """Return when it has happened ``count`` times. Raises ``WaitTimeoutError``."""
        return int(self._call(orders.wait_fired, self._number, count, timeout))

    def release(self) -> int:
        """Let the requests go that a pause holds, and hold no more; how many they were."""
        return int(self._call(orders.release, self._number))

    def remove(self) -> None:
        """End it."""
        self._call(orders.remove, self._number)

    def _trigger(self, **words: Any) -> Self:
        """A fault whose trigger is refused must not go on happening to everything."""
        try:
            self._call(orders.set_trigger, self._number, Trigger(**words))
        except ValueError:
            self.remove()
            raise
        return self

    def _positive(self, number: int) -> int:
        if number < 1:
            self.remove()
            raise ValueError(f"at least 1 is needed, not {number}")
        return number

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._call(orders.leave, self._number, keep_unused=kind is None)


class Faults:
    """A broker's faults. Owner: the ``Broker``."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.disk = DiskFaults(call)

    def error(
        self,
        api: str,
        error: str | int,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
        after: bool = False,
    ) -> Fault:
        """Answer with an error of Kafka's, by name, instead of serving.

        With a topic or partition only that fails, the rest of the request is served. ``after``: the request is served
        and its answer says the error nevertheless.
        """
        return self._add("error", api, topic, partition, client_id, group, error=error, after=after)

    def delay(
        self,
        api: str | None = None,
        ms: float = 0.0,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
    ) -> Fault:
        """Serve ``ms`` milliseconds later. Requests behind it on the connection wait, as Kafka has them wait."""
        if ms <= 0:
            raise ValueError("a delay needs ms, more than 0")
        return self._add("delay", api, topic, partition, client_id, group, ms=ms)

    def drop_connection(
        self,
        api: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
        after: bool = False,
    ) -> Fault:
        """Close the connection instead of serving; ``after``: instead of answering what was served."""
        return self._add("drop_connection", api, topic, partition, client_id, group, after=after)

    def no_answer(
        self,
        api: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
        after: bool = False,
    ) -> Fault:
        """Never answer; the connection stays open until the fault is removed."""
        return self._add("no_answer", api, topic, partition, client_id, group, after=after)

    def truncate_answer(
        self,
        api: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
    ) -> Fault:
        """Serve, send the first half of the answer, close the connection."""
        return self._add("truncate_answer", api, topic, partition, client_id, group)

    def throttle(
        self,
        api: str | None = None,
        ms: float = 0.0,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
    ) -> Fault:
        """Serve, tell the client that it is throttled for ``ms``, and serve it nothing for so long, as quotas do."""
        if ms <= 0:
            raise ValueError("a throttle needs ms, more than 0")
        return self._add("throttle", api, topic, partition, client_id, group, ms=ms)

    def pause(
        self,
        api: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
    ) -> Fault:
        """Hold requests until ``release()``; ``wait_fired()`` returns when one has come."""
        return self._add("pause", api, topic, partition, client_id, group)

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

    def _add(
        self,
        kind: str,
        api: str | None,
        topic: str | None,
        partition: int | None,
        client_id: str | None,
        group: str | None,
        *,
        error: str | int | None = None,
        ms: float = 0.0,
        after: bool = False,
    ) -> Fault:
        scope = {"topic": topic, "partition": partition, "client_id": client_id, "group": group}
        return Fault(self._call, self._call(orders.add, kind, api, error, scope, ms, after))


class DiskFault:
    """One fault of the disk. A context manager: removed at the end of the block."""

    def __init__(self, call: Call, number: int) -> None:
        self._call = call
        self._number = number

    def remove(self) -> int:
        """End it; how often it has happened."""
        return int(self._call(orders.remove_disk_rule, self._number))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


class DiskFaults:
    """Faults of the broker's disk. ``path`` is a pattern over whole paths: ``"*/orders-0/*.log"``."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def fail(
        self, *operations: str, path: str = "*", error: str = "EIO", after: int = 0, times: int | None = None
    ) -> DiskFault:
        """``"read"``, ``"write"``, ``"sync"``, ``"open"`` fail, after ``after`` that go well, ``times`` times."""
        return self._add(operations or ("write", "sync"), path, orders.errno_of(error), 0.0, after, times)

    def full(self, *, path: str = "*") -> DiskFault:
        """There is no room: writes fail with ENOSPC."""
        return self._add(("write",), path, orders.errno_of("ENOSPC"), 0.0, 0, None)

    def slow(self, ms: float, *operations: str, path: str = "*") -> DiskFault:
        """Operations take ``ms`` milliseconds longer."""
        return self._add(operations or ("read", "write", "sync"), path, 0, ms, 0, None)

    def _add(
        self, operations: tuple[str, ...], path: str, code: int, delay_ms: float, after: int, times: int | None
    ) -> DiskFault:
        return DiskFault(self._call, self._call(orders.add_disk_rule, operations, path, code, delay_ms, after, times))
