"""What a test says about faults, carried out by the engine. The words of the test are in ``faults``."""

from __future__ import annotations

import errno
from typing import Any

from kbroker.testing import state
from kbroker.testing.disk import OPERATIONS, DiskRule
from kbroker.testing.engine import Engine
from kbroker.testing.fault_rules import Scope, Trigger
from kbroker.testing.names import check_name, error_code, served_api
from kbroker.testing.values import WaitTimeoutError

REFUSED = "a fault of the test refuses connections"


def add(
    engine: Engine, kind: str, api: str | None, error: str | int | None, scope: dict[str, Any], ms: float, after: bool
) -> int:
    """The number of the new fault. Raises ``ValueError`` for names that there are not."""
    key, name = (None, "every API") if api is None else served_api(api)
    code = 0 if error is None else error_code(error)
    if scope.get("partition") is not None and scope.get("topic") is None:
        raise ValueError("a partition needs its topic")
    if scope.get("topic") is not None:
        state.partitions_of(engine, scope["topic"], scope.get("partition"))
    rule = engine.faults.add(kind, Scope(key, name, **scope), code=code, ms=ms, after=after)
    engine.meddle()
    return rule.number


def set_trigger(engine: Engine, number: int, trigger: Trigger) -> None:
    engine.faults.get(number).set_trigger(trigger)
    engine.meddle()


def set_optional(engine: Engine, number: int) -> None:
    engine.faults.get(number).is_optional = True


def fired(engine: Engine, number: int) -> int:
    return engine.faults.get(number).fired


def remove(engine: Engine, number: int) -> None:
    engine.faults.remove(number)
    engine.meddle()


def leave(engine: Engine, number: int, *, keep_unused: bool) -> None:
    """The end of a fault's block: removed, or kept in the book, spent, to be told as unused."""
    for rule in engine.faults.rules:
        if rule.number == number and keep_unused and not rule.fired:
            release(engine, number)
            return
    remove(engine, number)


def release(engine: Engine, number: int) -> int:
    """Let the held requests go and hold no more; how many they were."""
    rule = engine.faults.get(number)
    held = sum(not each.done() for each in rule.waiting)
    rule.set_trigger(Trigger(times=0))
    rule.release()
    engine.meddle()
    return held


def clear(engine: Engine) -> None:
    engine.faults.clear()
    engine.disk_rules.clear()
    engine.meddle()


def unused(engine: Engine) -> list[str]:
    return engine.faults.unused()


def refuse_connections(engine: Engine, *, refuse: bool, drop: bool) -> None:
    engine.faults.refusal = REFUSED if refuse else None
    engine.meddle()
    if drop:
        engine.server.disconnect()


def drop_connections(engine: Engine) -> None:
    engine.server.disconnect()


async def wait_fired(engine: Engine, number: int, count: int, timeout_s: float) -> int:
    try:
        return await engine.faults.until_fired(number, count, timeout_s)
    except TimeoutError:
        rule = engine.faults.get(number)
        raise WaitTimeoutError(
            f"the fault {rule} was expected to fire {count} times; it fired {rule.fired} times, "
            f"{rule.calls} requests were in its scope (waited {timeout_s:g} s)"
        ) from None


# --- disk


def add_disk_rule(
    engine: Engine, operations: tuple[str, ...], path: str, code: int, delay_ms: float, after: int, times: int | None
) -> int:
    for operation in operations:
        check_name("disk operation", operation, OPERATIONS)
    number = max((rule.id for rule in engine.disk_rules), default=0) + 1
    engine.disk_rules.append(DiskRule(number, operations, path, code, delay_ms, after, times))
    return number


def remove_disk_rule(engine: Engine, number: int) -> int:
    """How often it has happened."""
    rule = next((each for each in engine.disk_rules if each.id == number), None)
    if rule is None:
        return 0
    engine.disk_rules.remove(rule)
    return rule.count


def errno_of(name: str) -> int:
    """The number of an operating system's error. Raises ``ValueError``."""
    names = {errno.errorcode[code]: code for code in errno.errorcode}
    return names[check_name("error of the operating system", name, names)]
