"""What kbroker is to reach: ratios to the reference of the same run, or absolute figures."""

from __future__ import annotations

from typing import NamedTuple


class Goal(NamedTuple):
    """``ratio`` to the reference, at most (``is_least``: at least); ``absolute`` and ``at_least`` in the own unit."""

    ratio: float | None = None
    absolute: float | None = None
    is_least: bool = False
    at_least: float | None = None


def _throughput() -> dict[tuple[str, str], Goal]:
    goals = {}
    for size, produce, consume in (("1 KiB", 0.4, 1.0), ("10 KiB", 0.6, 0.6), ("100 B", 0.5, 0.5)):
        case = f"records of {size}, acks=all"
        goals[case, "produce, server CPU ms/MB"] = Goal(produce)
        goals[case, "consume, server CPU ms/MB"] = Goal(consume)
        if size != "100 B":
            goals[case, "produce, MB/s"] = Goal(1.0, is_least=True)
    return goals


def _requests() -> dict[tuple[str, str], Goal]:
    limits = {
        "Produce of one record": (1.0, 0.9),
        "Produce of one record, idempotent": (1.0, 0.9),
        "Fetch of one record": (0.8, 0.8),
        "Metadata of one topic": (1.2, 1.2),
    }
    return {
        (f"{name}, {window} in flight", "server CPU us/request"): Goal(limit)
        for name, pair in limits.items()
        for window, limit in zip((1, 5), pair, strict=True)
    }


def _transactions() -> dict[tuple[str, str], Goal]:
    return {
        (f"transactions of 1000 records of {size}", "against the same records outside, ratio"): Goal(at_least=0.8)
        for size in ("100 B", "1 KiB", "10 KiB")
    }


GOALS: dict[tuple[str, str], Goal] = {
    **_throughput(),
    **_requests(),
    **_transactions(),
    ("end to end at 1000 messages/s", "p50 ms"): Goal(1.3),
    ("end to end at 1000 messages/s", "p99 ms"): Goal(1.0),
    ("start in an empty directory", "to the first acknowledged record, ms"): Goal(0.12, 250),
    ("resident memory", "at rest, MiB"): Goal(absolute=45),
    ("resident memory", "after 1 GB, MiB"): Goal(absolute=70),
    ("resident memory", "with 20 lagging consumers, MiB"): Goal(absolute=150),
    ("idle connections", "1000 idle connections, MiB"): Goal(absolute=25),
    ("1000 partitions", "CreateTopics answered, ms"): Goal(2.0),
    ("1000 partitions", "first record to each, ms"): Goal(0.2),
    ("DescribeConfigs of one topic, 1 in flight", "server CPU us/request"): Goal(absolute=1000),
    ("1000 groups of two members", "server CPU %"): Goal(1.0),
    ("10 000 commits a second", "commits/s"): Goal(at_least=9900),
    ("10 000 commits a second", "server CPU us/commit"): Goal(1.0),
    ("a group of 500 members", "first join to stable, ms"): Goal(absolute=3000),
    ("a new group", "subscribe to first record, ms"): Goal(1.0),
    ("a new group, by hand", "connect to first record, ms"): Goal(1.0, 15),
    ("the first group of a broker", "connect to first record, ms"): Goal(1.0),
    ("a coordinator that loads", "first answer to all loaded, ms"): Goal(absolute=2000),
    ("Heartbeat, 1 in flight", "server CPU us/request"): Goal(1.0),
    ("OffsetCommit of one offset, 5 in flight", "server CPU us/request"): Goal(absolute=100),
    ("transactions of one record", "transactions/s"): Goal(2.0, is_least=True),
    ("transactions of one record", "server CPU us/transaction"): Goal(0.25),
    ("transactions of one record", "commit, p99 ms"): Goal(0.3),
    ("the first transactional producer", "init_transactions, ms"): Goal(absolute=100),
    ("idle transactional ids", "10 000 idle transactional ids, MiB"): Goal(absolute=40),
    ("beside many partitions", "CPU per request beside 5000 partitions, ratio"): Goal(absolute=1.2),
    ("beside many partitions", "spread over them, ratio"): Goal(absolute=1.2),
    ("beside many segments", "CPU per Produce beside 10 000 segments, ratio"): Goal(absolute=1.2),
    ("beside many segments", "CPU per Fetch from the middle to the first segment, ratio"): Goal(absolute=1.2),
    ("compaction of records of 1024 B, 1 a batch", "MB/s"): Goal(at_least=60),
    ("compaction of records of 1024 B, 16 a batch", "MB/s"): Goal(at_least=60),
    ("end to end beside compaction", "p99, ratio"): Goal(absolute=2),
    ("end to end beside the retention of many segments", "p99, ratio"): Goal(absolute=2),
    ("recovery of 2000 segments", "MB/s"): Goal(at_least=300),
    ("recovery of 2000 segments", "peak memory, MiB"): Goal(absolute=64),
    ("recovery of 2000 logs", "MB/s"): Goal(at_least=300),
    ("recovery of 2000 logs", "peak memory, MiB"): Goal(absolute=64),
    ("a test's broker in a thread", "start, ms"): Goal(absolute=30),
    ("a test's broker in a thread", "reset, ms"): Goal(absolute=10),
    ("a test's broker in a process", "start, ms"): Goal(absolute=200),
    ("a test's broker in a process", "reset, ms"): Goal(absolute=10),
    ("the testing kit's seams", "in the kit to kbroker start, ratio"): Goal(absolute=1.1),
    ("tests with a clean broker each", "500 tests on one core, s"): Goal(absolute=15),
    ("after a long load", "CPU per request, last tenth to the first, ratio"): Goal(absolute=1.2),
}


def verdict(goal: Goal, value: float, reference: float | None) -> str:
    """The goal in words and whether it is met; without a reference a ratio cannot be judged."""
    said, met = [], True
    if goal.ratio is not None:
        said.append(f"{'>=' if goal.is_least else '<='} {goal.ratio:g} x")
        if not reference:
            return f"{said[0]}: no reference"
        ratio = value / reference
        met = ratio >= goal.ratio if goal.is_least else ratio <= goal.ratio
    if goal.absolute is not None:
        said.append(f"<= {goal.absolute:g}")
        met = met and value <= goal.absolute
    if goal.at_least is not None:
        said.append(f">= {goal.at_least:g}")
        met = met and value >= goal.at_least
    return f"{', '.join(said)}: {'met' if met else 'MISSED'}"
