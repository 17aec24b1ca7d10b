"""The broker's story of a test: who asked for what and how it went, why groups rebalanced, which faults fired."""

from __future__ import annotations

from collections import Counter

from kbroker.testing import state
from kbroker.testing.channel import KILLED
from kbroker.testing.engine import Engine
from kbroker.testing.values import Request

TROUBLE_MAX = 15
LAST_MAX = 10
REBALANCES_MAX = 10


async def story(engine: Engine) -> str:
    """Some lines for people; empty when nobody asked for anything."""
    if not engine.is_alive:
        return KILLED
    lines: list[str] = []
    if engine.failure is not None:
        lines.append(f"the broker failed: {engine.failure!r}")
    entries = engine.journal.entries()
    for client_id in dict.fromkeys(each.client_id for each in entries):
        lines += _of_client(client_id, [each for each in entries if each.client_id == client_id])
    if engine.journal.dropped:
        lines.append(f"(the oldest {engine.journal.dropped} requests are forgotten)")
    lines += await _rebalances(engine)
    lines += [f"fault {rule}: {rule.count}" for rule in engine.faults.rules]
    for name, topic in state.topics(engine).items():
        counts = [each.log_end_offset for each in state.partitions_of(engine, name)]
        lines.append(f"topic {name}: {topic.partitions} partitions, next offsets {counts}")
    return "\n".join(lines)


def _of_client(client_id: str | None, entries: list[Request]) -> list[str]:
    counts = Counter(each.api for each in entries)
    lines = [f"client {client_id!r}: " + ", ".join(f"{api} {count}" for api, count in counts.most_common())]
    trouble = [each for each in entries if each.errors or each.faults or each.duration_ms is None]
    lines += [f"    {_at(each)} {each}" for each in trouble[-TROUBLE_MAX:]]
    if not trouble:
        lines += [f"    {_at(each)} {each}" for each in entries[-LAST_MAX:]]
    return lines


async def _rebalances(engine: Engine) -> list[str]:
    coordinator = engine.node.groups
    lines = []
    for group_id, group in (await state.groups(engine)).items():
        lines.append(f"group {group_id!r}: {group.state}, {len(group.members)} members")
        history = coordinator.history(group_id) if group.type == "classic" else []
        lines += [
            f"    {_time(each.wall_ms)} rebalance after generation {each.generation}: {each.reason}"
            for each in list(history)[-REBALANCES_MAX:]
        ]
    return lines


def _at(request: Request) -> str:
    return _time(request.at_ms)


def _time(wall_ms: int) -> str:
    seconds, ms = divmod(wall_ms, 1000)
    return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"
