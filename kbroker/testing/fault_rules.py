"""Request faults: what is to happen, to which requests, and how often. No sockets, no handlers.

A rule has a *kind* (what happens), a *scope* (which requests) and a *trigger* (which of those):

    always (unless said otherwise)   times(n)   on_call(n)   every(n)   probability(p, seed)   until(event)

Triggers add up: a request is hit when all that were said of the rule agree. Calls are counted per rule, over requests
in its scope.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from kbroker.protocol.errors import ErrorCode
from kbroker.testing.disk import DiskRule
from kbroker.testing.events import Event
from kbroker.testing.names import check_count

TIMED = ("delay", "throttle")
"""The kinds that take a time."""
GROUP_LISTS = ("groups", "group_ids", "groups_names")
"""Where requests name several groups."""


class Scope(NamedTuple):
    """Which requests: None stands for all."""

    api_key: int | None = None
    api: str = "every API"
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    group: str | None = None

    def __str__(self) -> str:
        named = {"topic": self.topic, "partition": self.partition, "client_id": self.client_id, "group": self.group}
        return ", ".join([self.api, *(f"{name}={value!r}" for name, value in named.items() if value is not None)])


@dataclass(slots=True)
class Trigger:
    """Which calls within the scope: all, unless a field says less. Raises ``ValueError`` for what can never be."""

    times: int | None = None
    on_call: int | None = None
    every: int | None = None
    probability: float | None = None
    seed: int = 0
    until: Event | None = None

    def __post_init__(self) -> None:
        for name in ("times", "on_call", "every"):
            number = getattr(self, name)
            if number is not None:
                check_count(name, number, 1)
        if self.probability is not None and not (
            isinstance(self.probability, (int, float)) and 0 <= self.probability <= 1
        ):
            raise ValueError(f"a probability lies between 0 and 1, not {self.probability!r}")


class Rule:
    """One fault of requests. Owner: the ``FaultBook``."""

    def __init__(self, kind: str, scope: Scope, *, code: int = 0, ms: float = 0.0, after: bool = False) -> None:
        self.kind = kind
        self.scope = scope
        self.code = code
        self.ms = ms
        self.after = after
        """Whether the request is served first, and only its answer suffers."""
        self.is_optional = False
        self.calls = 0
        self.fired = 0
        self.waiting: list[asyncio.Future[None]] = []
        """Requests held by a pause, or that are never answered."""
        self._trigger = Trigger()
        self._random = Random(0)
        self._is_over = False

    def __str__(self) -> str:
        what = self.kind
        if self.kind == "error":
            what = f"error {ErrorCode(self.code).name}"
        elif self.ms:
            what = f"{self.kind} {self.ms:g} ms"
        return f"{what} ({self.scope})"

    def __getstate__(self) -> dict[str, Any]:
        """Who waits does not travel."""
        return {**vars(self), "waiting": []}

    @property
    def count(self) -> str:
        """How often it has happened, for people."""
        return f"fired {self.fired} times, {self.calls} requests in its scope"

    def narrow(self, **words: Any) -> None:
        """Beside what was said before: ``every(2).times(3)`` is every second, and three in all."""
        self._trigger = replace(self._trigger, **words)
        self._random = Random(self._trigger.seed)

    def is_due(self) -> bool:
        """Count a call within the scope; whether the fault happens to it."""
        trigger = self._trigger
        self._is_over = self._is_over or (trigger.until is not None and trigger.until.is_set())
        if self._is_over:
            return False
        self.calls += 1
        if trigger.on_call is not None and self.calls != trigger.on_call:
            return False
        if trigger.every is not None and self.calls % trigger.every:
            return False
        if trigger.times is not None and self.fired >= trigger.times:
            return False
        if trigger.probability is not None and self._random.random() >= trigger.probability:
            return False
        self.fired += 1
        return True

    @property
    def is_spent(self) -> bool:
        """Whether it can never happen again."""
        trigger = self._trigger
        return (
            self._is_over
            or (trigger.times is not None and self.fired >= trigger.times)
            or (trigger.on_call is not None and self.fired > 0)
        )

    def end(self) -> int:
        """It happens no more, and those go who wait; how many they were."""
        self._is_over = True
        return self.release()

    def release(self) -> int:
        """Let those go who wait; how many they were."""
        held = [future for future in self.waiting if not future.done()]
        self.waiting = []
        for future in held:
            future.set_result(None)
        return len(held)


class FaultBookState(NamedTuple):
    """A book's contents."""

    rules: dict[int, Rule | DiskRule]
    last_number: int
    refusal: str | None


class FaultBook:
    """All faults of one broker, in the order in which they were set up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rules: dict[int, Rule | DiskRule] = {}
        self.disk_rules: list[DiskRule] = []
        """Those of the disk once more: one list for all disks, which follow each other, and read it at each step."""
        self._count = 0
        self._listeners: list[Callable[[], None]] = []
        self.refusal: str | None = None

    def state(self) -> FaultBookState:
        return FaultBookState(self._rules, self._count, self.refusal)

    def take_up(self, state: FaultBookState) -> None:
        """Go on with what another book had, before anything is in this one."""
        self._rules, self._count, self.refusal = state
        self.disk_rules += [rule for rule in self._rules.values() if isinstance(rule, DiskRule)]

    @property
    def rules(self) -> list[Rule | DiskRule]:
        return list(self._rules.values())

    @property
    def _request_rules(self) -> list[Rule]:
        return [rule for rule in self._rules.values() if isinstance(rule, Rule)]

    @property
    def is_needed(self) -> bool:
        """Whether requests have to be looked at."""
        return any(not rule.is_spent for rule in self._request_rules)

    def add(self, rule: Rule | DiskRule) -> int:
        """The number of the fault."""
        self._count += 1
        self._rules[self._count] = rule
        if isinstance(rule, DiskRule):
            self.disk_rules.append(rule)
        return self._count

    def get(self, number: int) -> Rule | DiskRule:
        """Raises ``ValueError`` for a fault that was removed."""
        rule = self._rules.get(number)
        if rule is None:
            raise ValueError("this fault was removed, or belonged to the broker before a reset")
        return rule

    def of_requests(self, number: int) -> Rule:
        """Raises ``ValueError`` for a fault that was removed."""
        rule = self.get(number)
        assert isinstance(rule, Rule), "a fault of the disk has no trigger"
        return rule

    def remove(self, number: int) -> int:
        """How often it has happened; 0 when it was removed before."""
        rule = self._rules.pop(number, None)
        if rule is None:
            return 0
        rule.end()
        if isinstance(rule, DiskRule):
            self.disk_rules.remove(rule)
        return rule.fired

    def clear(self) -> None:
        for number in list(self._rules):
            self.remove(number)
        self.refusal = None

    def release_all(self) -> None:
        """The broker goes: who is held need not be held any more."""
        for rule in self._request_rules:
            rule.release()

    def unused(self) -> list[str]:
        """What never fired and should have."""
        return [str(rule) for rule in self._rules.values() if not rule.fired and not rule.is_optional]

    def due(self, matches: Callable[[Scope], bool]) -> list[Rule]:
        """The faults that happen to a request, once each is counted."""
        due = [rule for rule in self._request_rules if matches(rule.scope) and rule.is_due()]
        if due:
            for listener in list(self._listeners):
                listener()
        return due

    def hold(self, rule: Rule) -> asyncio.Future[None]:
        """A future that is done when the fault lets go."""
        future: asyncio.Future[None] = self._loop.create_future()
        rule.waiting.append(future)
        return future

    async def until_fired(self, number: int, count: int, timeout_s: float) -> int:
        """Return when the fault has fired ``count`` times. Raises ``TimeoutError``."""
        rule = self.of_requests(number)
        done: asyncio.Future[None] = self._loop.create_future()

        def look() -> None:
            if rule.fired >= count and not done.done():
                done.set_result(None)

        self._listeners.append(look)
        look()
        try:
            await asyncio.wait_for(done, timeout_s)
        finally:
            self._listeners.remove(look)
        return rule.fired


def groups_of(request: Any) -> frozenset[str]:
    """The groups that a request names, in whichever of its fields its version has them."""
    found = {getattr(request, "group_id", "")}
    if getattr(request, "key_type", None) == 0:
        found.update({request.key, *request.coordinator_keys})
    for name in GROUP_LISTS:
        for each in getattr(request, name, None) or ():
            found.add(each if isinstance(each, str) else getattr(each, "group_id", ""))
    return frozenset(found - {""})
