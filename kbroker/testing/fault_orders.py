"""What a test says about faults, carried out by the engine. The words of the test are in ``faults``."""

from __future__ import annotations

import contextlib
from typing import Any

from kbroker.protocol.apis import API_BY_KEY, ApiKey
from kbroker.testing import state, tree
from kbroker.testing.answers import READS
from kbroker.testing.disk import OPERATIONS, DiskRule
from kbroker.testing.engine import Engine
from kbroker.testing.fault_rules import GROUP_LISTS, TIMED, Rule, Scope
from kbroker.testing.names import (
    check_count,
    check_ms,
    check_name,
    check_new_topic,
    check_timeout,
    errno_of,
    error_code,
    served_api,
)
from kbroker.testing.values import WaitTimeoutError

REFUSED = "a fault of the test refuses connections"


def add(
    engine: Engine,
    kind: str,
    api: str | None,
    *,
    error: str | int | None = None,
    ms: float = 0.0,
    after: bool = False,
    topic: str | None = None,
    partition: int | None = None,
    client_id: str | None = None,
    group: str | None = None,
) -> int:
    """The number of the new fault. Raises ``ValueError`` for names that there are not, and what can never happen."""
    if kind in TIMED:
        check_ms(kind, ms)
    key, name = (None, "every API") if api is None else served_api(api)
    code = error_code(error) if kind == "error" else 0  # type: ignore[arg-type]  # None is refused as a name
    scope = Scope(key, name, topic, partition, client_id, group)
    _check_scope(engine, scope)
    number = engine.faults.add(Rule(kind, scope, code=code, ms=ms, after=after))
    engine.meddle()
    return number


def _check_scope(engine: Engine, scope: Scope) -> None:
    """Raises ``ValueError`` for topics that there are not, and for what requests of the API cannot name."""
    if scope.topic is None and scope.partition is not None:
        raise ValueError("a partition needs its topic")
    if scope.topic is not None and scope.api_key == ApiKey.CREATE_TOPICS:
        check_new_topic(scope.topic)
    elif scope.topic is not None:
        state.partitions_of(engine, scope.topic, scope.partition)
    if scope.api_key is None:
        return
    request = API_BY_KEY[scope.api_key].request_class()
    if scope.topic is not None and not tree.can_name_topics(request):
        raise ValueError(f"{scope.api} names no topics: leave topic= out")
    if scope.partition is not None and scope.api_key not in READS and not tree.can_name_partitions(request):
        raise ValueError(f"{scope.api} names no partitions: leave partition= out")
    if scope.group is not None and not request.fields.keys() & {"group_id", "key_type", *GROUP_LISTS}:
        raise ValueError(f"{scope.api} names no groups: leave group= out")


def add_to_disk(
    engine: Engine,
    operations: tuple[str, ...],
    path: str,
    *,
    error: str | None = None,
    ms: float = 0.0,
    after: int = 0,
    times: int | None = None,
) -> int:
    """The number of the new fault. Raises ``ValueError`` for names that there are not."""
    for operation in operations:
        check_name("disk operation", operation, OPERATIONS)
    if error is None:
        check_ms("slow disk", ms)
    if not isinstance(path, str):
        raise ValueError(f"path is a pattern over whole paths, not {path!r}")
    check_count("after", after, 0)
    if times is not None:
        check_count("times", times, 1)
    code = 0 if error is None else errno_of(error)
    return engine.faults.add(DiskRule(operations, path, code, ms, after, times))


def set_trigger(engine: Engine, number: int, **words: Any) -> None:
    """A fault whose trigger is refused must not go on happening to everything. Raises ``ValueError``."""
    try:
        if None in words.values():
            raise ValueError(f"{next(iter(words))}() needs a value, not None")
        engine.faults.of_requests(number).narrow(**words)
    except ValueError:
        engine.faults.remove(number)
        raise
    finally:
        engine.meddle()


def set_optional(engine: Engine, number: int) -> None:
    engine.faults.get(number).is_optional = True


def fired(engine: Engine, number: int) -> int:
    return engine.faults.get(number).fired


def remove(engine: Engine, number: int) -> int:
    """How often it has happened."""
    count = engine.faults.remove(number)
    engine.meddle()
    return count


def leave(engine: Engine, number: int, *, keep_unused: bool) -> None:
    """The end of a fault's block: removed, or kept in the book, spent, to be told as unused."""
    with contextlib.suppress(ValueError):  # it was removed already
        rule = engine.faults.get(number)
        if keep_unused and not rule.fired:
            rule.end()
            engine.meddle()
        else:
            remove(engine, number)


def release(engine: Engine, number: int) -> int:
    """Let the held requests go and hold no more; how many they were."""
    held = engine.faults.of_requests(number).end()
    engine.meddle()
    return held


def clear(engine: Engine) -> None:
    engine.faults.clear()
    engine.meddle()


def unused(engine: Engine) -> list[str]:
    return engine.faults.unused()


async def refuse_connections(engine: Engine, *, refuse: bool, drop: bool) -> None:
    engine.faults.refusal = REFUSED if refuse else None
    engine.meddle()
    if drop:
        await engine.server.disconnect()


async def drop_connections(engine: Engine) -> None:
    await engine.server.disconnect()


async def wait_fired(engine: Engine, number: int, count: int, timeout_s: float) -> int:
    check_timeout(timeout_s)
    check_count("count", count, 1)
    try:
        return await engine.faults.until_fired(number, count, timeout_s)
    except TimeoutError:
        rule = engine.faults.of_requests(number)
        raise WaitTimeoutError(
            f"the fault {rule} was expected to fire {count} times; it {rule.count} (waited {timeout_s:g} s)"
        ) from None
