"""What a coordinator's pure shard takes and gives: records, decisions, replies that come later, deadlines.

Shared by the shards of groups and transactions; the runtime that hosts them is ``kbroker.coordinator.runtime``. A shard
decides on its state and returns a ``Decision``; the state changes when the decision's records are replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kbroker.protocol.declarations import Message
from kbroker.protocol.errors import ApiError

T = TypeVar("T")


class CoordinatorRecord(NamedTuple):
    """One record of an internal topic; a value of None is a tombstone. ``version`` is the value's."""

    key: Message
    value: Message | None
    version: int = 0


class Stamp(NamedTuple):
    """The producer in whose transaction a record stands."""

    producer_id: int
    producer_epoch: int


class Now(NamedTuple):
    """Both clocks at one moment: records carry the first, deadlines follow the second."""

    wall_ms: int
    monotonic_ms: int


class Deferred(Generic[T]):
    """A reply that the shard gives later, by ``complete``; the first one counts. Owner: who waits for it.

    The runtime sets ``listener`` to hear of it, unless ``is_done`` by then.
    """

    __slots__ = ("is_done", "listener", "reply")

    def __init__(self) -> None:
        self.is_done = False
        self.reply: T | None = None
        self.listener: Callable[[T], None] | None = None

    def complete(self, reply: T) -> None:
        if self.is_done:
            return
        self.is_done = True
        self.reply = reply
        if self.listener is not None:
            self.listener(reply)


class Decision(Generic[T]):
    """What an operation wants: records to write, and the reply once they are committed.

    ``failed`` is told when the records could not be written: it takes back what the operation changed in volatile state
    and answers who waits. What it returns is the reply, when there is more to say than the error. Records that are
    ``atomic`` go into one batch.
    """

    __slots__ = ("atomic", "failed", "records", "reply", "stamp")

    def __init__(
        self,
        reply: T | Deferred[T],
        records: list[CoordinatorRecord] | None = None,
        *,
        stamp: Stamp | None = None,
        atomic: bool = True,
        failed: Callable[[ApiError, Now], T | None] | None = None,
    ) -> None:
        self.reply = reply
        self.records: list[CoordinatorRecord] = records if records is not None else []
        self.stamp = stamp
        self.atomic = atomic
        self.failed = failed


class _Deadline:
    __slots__ = ("action", "at_ms", "queued_ms")

    def __init__(self, at_ms: int, action: Callable[[Now], Any]) -> None:
        self.at_ms = at_ms
        self.queued_ms = at_ms
        self.action = action


class Deadlines:
    """The timers of one shard by key; an action returns a decision, like any operation. Monotonic milliseconds.

    Putting a deadline off costs a dictionary's access: its entry in the heap stays where it is and is moved when it
    comes up, because sessions are put off far more often than they end.
    """

    __slots__ = ("_by_key", "_heap", "_numbers")

    def __init__(self) -> None:
        self._by_key: dict[Any, _Deadline] = {}
        self._heap: list[tuple[int, int, Any, _Deadline]] = []
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def set(self, key: Any, at_ms: int, action: Callable[[Now], Any]) -> None:
        """Have ``action`` called at ``at_ms``, in place of what the key had before."""
        known = self._by_key.get(key)
        if known is not None and known.queued_ms <= at_ms:
            known.at_ms = at_ms
            known.action = action
            return
        deadline = self._by_key[key] = _Deadline(at_ms, action)
        self._push(at_ms, key, deadline)

    def cancel(self, key: Any) -> None:
        """Forget a deadline; harmless when there is none."""
        self._by_key.pop(key, None)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._by_key):
            self._heap = [entry for entry in self._heap if self._by_key.get(entry[2]) is entry[3]]
            heapify(self._heap)

    def at(self, key: Any) -> int | None:
        """When a key's deadline is, None when it has none."""
        deadline = self._by_key.get(key)
        return None if deadline is None else deadline.at_ms

    def next_ms(self) -> int | None:
        """When to call ``pop_due`` next: not after the first deadline, perhaps before it."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Callable[[Now], Any] | None:
        """The action of the first deadline that is over, None when none is."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, _, key, deadline = heappop(self._heap)
        del self._by_key[key]
        return deadline.action

    def _push(self, at_ms: int, key: Any, deadline: _Deadline) -> None:
        self._numbers += 1
        heappush(self._heap, (at_ms, self._numbers, key, deadline))

    def _settle(self) -> None:
        """Bring to the top of the heap a deadline that stands where it belongs."""
        heap = self._heap
        while heap:
            queued_ms, _, key, deadline = heap[0]
            if self._by_key.get(key) is not deadline:
                heappop(heap)
            elif deadline.at_ms > queued_ms:
                heappop(heap)
                deadline.queued_ms = deadline.at_ms
                self._push(deadline.at_ms, key, deadline)
            else:
                return


NOTHING: Final[Decision[None]] = Decision(None)
"""The decision of a timer that found nothing to do. Nobody may add records to it."""
