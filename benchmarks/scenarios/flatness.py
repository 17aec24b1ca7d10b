"""Does the cost stay flat? One-record requests in a broker that holds little, and in the same one when it holds much.

Figures are ratios: 1 is flat. Segments are made quickly by an index of one entry; what a broker does in the background
for those it has finished (fsync) is done before the cost is taken again. The long form of "after an hour of
load" is a larger ``--scale``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks import wire
from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.scenarios.requests import VALUE, drive, numbered
from benchmarks.targets import Target, wait_until_it_rests

PARTITIONS, SEGMENTS = 5000, 10_000
SPREAD = 100
"""Partitions that are written to while the others only exist."""
SECONDS, LOAD_SECONDS, PARTS, RUNS = 3.0, 60.0, 10, 4
RUN_S_MIN = 0.25
SMALL_SEGMENTS = {"segment.index.bytes": "24", "index.interval.bytes": "0"}
"""The time index has room for two entries and is full with one: every second batch begins a segment."""


def cost(target: Target, topic: str, partitions: int, seconds: float) -> float:
    """CPU microseconds of one Produce of one record, five in flight, spread over some partitions."""
    batch = bytes(wire.Batch([VALUE]).data)
    requests = [numbered(wire.produce_request(topic, batch, partition)) for partition in range(partitions)]

    def check(_n: int, answer: memoryview) -> None:
        error, _ = wire.produce_answer(answer, topic)
        if error:
            raise wire.WireError(f"Produce answered error {error}")

    def request_of(n: int) -> bytes:
        return requests[n % partitions](n)

    # The least of some runs: what others do on the machine makes requests dearer, never cheaper.
    return min(
        drive(target, 5, max(RUN_S_MIN, seconds / RUNS), request_of, check)["server CPU us/request"]
        for _ in range(RUNS)
    )


def settle_all(target: Target, topic: str, partitions: int) -> None:
    batch = bytes(wire.Batch([VALUE]).data)
    with target.connect() as connection:
        for partition in range(partitions):
            connection.settle(topic, batch, partition)


def many_partitions(target: Target, effort: Effort) -> Figures:
    with target.topic("flat-few", SPREAD) as few:
        settle_all(target, few, SPREAD)
        before = cost(target, few, SPREAD, SECONDS * effort.scale)
        partitions = effort.of(PARTITIONS, least=1000)
        with target.topic("flat-many", partitions) as many:
            settle_all(target, many, partitions)
            after = cost(target, few, SPREAD, SECONDS * effort.scale)
            spread = cost(target, many, partitions, SECONDS * effort.scale)
    return {"CPU per request beside 5000 partitions, ratio": after / before, "spread over them, ratio": spread / before}


def many_segments(target: Target, effort: Effort) -> Figures:
    with target.topic("flat-plain") as plain, target.topic("flat-segments", configs=SMALL_SEGMENTS) as rolled:
        batch = bytes(wire.Batch([VALUE]).data)
        settle_all(target, plain, 1)
        before = cost(target, plain, 1, SECONDS * effort.scale)
        segments = effort.of(SEGMENTS)
        with target.connect(120) as connection:
            for _ in range(2 * segments):
                connection.settle(rolled, batch)
        wait_until_it_rests(target)
        after = cost(target, plain, 1, SECONDS * effort.scale)
        first, middle = fetch_costs(target, rolled, (0, segments), SECONDS * effort.scale)
    return {
        "CPU per Produce beside 10 000 segments, ratio": after / before,
        "CPU per Fetch from the middle to the first segment, ratio": middle / first,
    }


def fetch_costs(target: Target, topic: str, offsets: Sequence[int], seconds: float) -> list[float]:
    """CPU microseconds of one Fetch of the batch at each of the offsets, five in flight; measured in turns."""
    costs: dict[int, list[float]] = {offset: [] for offset in offsets}
    for _ in range(RUNS):
        for offset in offsets:

            def check(_n: int, answer: memoryview, offset: int = offset) -> None:
                error, records = wire.fetch_answer(answer, topic)
                if error or int.from_bytes(records[:8], "big") != offset:
                    raise wire.WireError(f"Fetch answered error {error} or another batch than {offset}")

            request_of = numbered(wire.fetch_request(topic, offset, 100))
            figures = drive(target, 5, max(RUN_S_MIN, seconds / RUNS), request_of, check)
            costs[offset].append(figures["server CPU us/request"])
    return [min(costs[offset]) for offset in offsets]


def long_load(target: Target, effort: Effort) -> Figures:
    """The last tenth of a load to its first."""
    part = max(0.5, LOAD_SECONDS * effort.scale / PARTS)
    with target.topic("flat-load") as topic:
        settle_all(target, topic, 1)
        cost(target, topic, 1, 0.5)
        costs = []
        for _ in range(PARTS):
            costs.append(cost(target, topic, 1, part))
            time.sleep(0.01)
    return {"CPU per request, last tenth to the first, ratio": costs[-1] / costs[0]}


CASES = [
    Case("beside many partitions", many_partitions, rounds=1, warm_up=False),
    Case("beside many segments", many_segments, rounds=1, warm_up=False),
    Case("after a long load", long_load, rounds=1, warm_up=False),
]
