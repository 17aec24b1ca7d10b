"""Small requests on one connection, by hand: Produce of one record of 100 bytes, Fetch of one, Metadata and
DescribeConfigs of one topic.

With a window of 5 the client sends as many new requests as it got answers. Every answer is checked: correlation id,
error, offsets in order (Produce), the batch asked for (Fetch), the size (the others).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from functools import partial

from benchmarks import wire
from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.targets import Target, metered

SECONDS, SECONDS_MIN = 1.5, 0.5
STORED = 200
"""One-record batches in the topic that is fetched from."""
VALUE = bytes(range(100))

RequestOf = Callable[[int], bytes]
Check = Callable[[int, memoryview], None]


def seconds(effort: Effort) -> float:
    return max(SECONDS_MIN, SECONDS * effort.scale)


def drive(target: Target, window: int, duration_s: float, request_of: RequestOf, check: Check) -> Figures:
    """Keep ``window`` requests in progress: ``request_of(n)`` is the nth, ``check(n, answer)`` judges its answer."""
    turns: list[float] = []
    with target.connect(10) as connection:
        link = connection.socket
        arrived = bytearray()
        with metered(target) as meter:
            started = sent_at = time.perf_counter()
            sent, answered = window, 0
            link.sendall(b"".join(map(request_of, range(window))))
            while answered < sent:
                data = link.recv(wire.RECEIVE_SIZE)
                if not data:
                    raise wire.WireError("the broker closed the connection")
                arrived += data
                new = judge(arrived, answered, check)
                if not new:
                    continue
                answered += new
                now = time.perf_counter()
                turns.append(now - sent_at)
                if now - started < duration_s:
                    link.sendall(b"".join(map(request_of, range(sent, sent + new))))
                    sent += new
                    sent_at = now
    turns.sort()
    figures = {
        "requests/s": answered / meter.wall_s,
        "server CPU us/request": meter.cpu_s * 1e6 / answered,
    }
    if window == 1:
        figures["p50 ms"] = turns[len(turns) // 2] * 1000
    return figures


def judge(arrived: bytearray, first: int, check: Check) -> int:
    """Check and take off the whole answers that have arrived; how many there were."""
    position = count = 0
    with memoryview(arrived) as view:
        while len(arrived) - position >= 4:
            end = position + 4 + int.from_bytes(view[position : position + 4], "big")
            if end > len(arrived):
                break
            if struct.unpack_from(">i", view, position + 4)[0] != first + count:
                raise wire.WireError("an answer with a wrong correlation id")
            with view[position + 4 : end] as answer:
                check(first + count, answer)
            count += 1
            position = end
    del arrived[:position]
    return count


def numbered(request: bytes) -> RequestOf:
    """The same request again and again, but for its correlation id."""
    head, tail = request[: wire.CORRELATION_POSITION], request[wire.CORRELATION_POSITION + 4 :]
    return lambda n: head + n.to_bytes(4, "big") + tail


def produce(target: Target, effort: Effort, window: int, *, idempotent: bool) -> Figures:
    batch = wire.Batch([VALUE])
    with target.topic("requests-produce") as topic:
        request = wire.produce_request(topic, bytes(batch.data), acks=-1)
        request_of = numbered(request)
        with target.connect() as connection:
            connection.settle(topic, bytes(batch.data))
            producer_id, epoch = connection.producer_id() if idempotent else (-1, -1)
        if idempotent:
            head = request[: -len(batch.data)]

            def request_of(n: int) -> bytes:
                stamped = batch.stamp(producer_id, epoch, n)
                return (
                    head[: wire.CORRELATION_POSITION]
                    + n.to_bytes(4, "big")
                    + head[wire.CORRELATION_POSITION + 4 :]
                    + stamped
                )

        def check(n: int, answer: memoryview) -> None:
            error, offset = wire.produce_answer(answer, topic)
            if error or offset != n + 1:
                raise wire.WireError(f"Produce answered error {error}, offset {offset} where {n + 1} is due")

        return drive(target, window, seconds(effort), request_of, check)


def fetch(target: Target, effort: Effort, window: int) -> Figures:
    with target.topic("requests-fetch") as topic:
        stored = bytes(wire.Batch([VALUE]).data)
        with target.connect() as connection:
            for _ in range(STORED):
                connection.settle(topic, stored)

        def check(_n: int, answer: memoryview) -> None:
            error, records = wire.fetch_answer(answer, topic)
            if error or int.from_bytes(records[:8], "big") != STORED - 1 or records[17:] != stored[17:]:
                raise wire.WireError(f"Fetch answered error {error}, {len(records)} bytes, or another batch")

        request = wire.fetch_request(topic, STORED - 1, len(stored))
        return drive(target, window, seconds(effort), numbered(request), check)


def metadata(target: Target, effort: Effort, window: int) -> Figures:
    with target.topic("requests-metadata") as topic:
        request = wire.metadata_request(topic)
        with target.connect() as connection:
            size = len(connection.exchange(request))

        def check(_n: int, answer: memoryview) -> None:
            if len(answer) != size:
                raise wire.WireError("Metadata answers differ")

        return drive(target, window, seconds(effort), numbered(request), check)


def describe_configs(target: Target, effort: Effort, window: int) -> Figures:
    """All of a topic's keys with their synonyms, as an administrator asks for them."""
    with target.topic("requests-configs") as topic:
        request = wire.describe_configs_request(topic)
        with target.connect() as connection:
            size = len(connection.exchange(request))

        def check(_n: int, answer: memoryview) -> None:
            if len(answer) != size:
                raise wire.WireError("DescribeConfigs answers differ")

        return drive(target, window, seconds(effort), numbered(request), check)


KINDS: dict[str, Callable[..., Figures]] = {
    "Produce of one record": partial(produce, idempotent=False),
    "Produce of one record, idempotent": partial(produce, idempotent=True),
    "Fetch of one record": fetch,
    "Metadata of one topic": metadata,
}
CASES = [
    Case(f"{name}, {window} in flight", partial(run, window=window), rounds=5)
    for name, run in KINDS.items()
    for window in (1, 5)
]
CASES.append(Case("DescribeConfigs of one topic, 1 in flight", partial(describe_configs, window=1)))
