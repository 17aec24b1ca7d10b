"""End to end: 1000 messages a second through one partition, each with the time it was sent, read by a polling consumer.

Producer with linger 0 and acks=all; consumer with librdkafka's defaults. Every message must arrive once and in order.
And a consumer with nothing to read, which ought to cost nothing.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import confluent_kafka as ck

from benchmarks.scenarios import Case, Effort, Figures
from benchmarks.targets import Target, metered

RATE, SECONDS, DISCARDED = 1000, 5, 300
"""Messages a second, for how long, and how many of them only warm up."""
PADDING = bytes(84)


class Reader(threading.Thread):
    """Polls until it has ``count`` messages or is told to end."""

    def __init__(self, target: Target, topic: str, count: int) -> None:
        super().__init__()
        self._settings = target.client(group_id="bench", auto_offset_reset="earliest")
        self._topic = topic
        self._count = count
        self.delays_ms: list[float] = []
        self.numbers: list[int] = []
        self.ready, self.ending = threading.Event(), threading.Event()

    def run(self) -> None:
        consumer: Any = ck.Consumer(self._settings)
        consumer.assign([ck.TopicPartition(self._topic, 0, 0)])
        while len(self.numbers) < self._count and not self.ending.is_set():
            message = consumer.poll(0.5)
            if message is None or message.error():
                continue
            now = time.perf_counter_ns()
            value = message.value()
            if len(value) == 1:
                self.ready.set()
                continue
            self.numbers.append(int.from_bytes(value[:8], "big"))
            self.delays_ms.append((now - int.from_bytes(value[8:16], "big")) / 1e6)
        consumer.close()


def end_to_end(target: Target, effort: Effort) -> Figures:
    count = effort.of(RATE * SECONDS) + DISCARDED
    with target.topic("latency") as topic:
        reader = Reader(target, topic, count)
        reader.start()
        producer: Any = ck.Producer(target.client(linger_ms=0, acks="all"))
        try:
            for _ in range(100):  # until the consumer stands and waits
                producer.produce(topic, b"x", partition=0)
                producer.flush(10)
                if reader.ready.wait(0.1):
                    break
            with metered(target) as meter:
                start = time.perf_counter()
                for n in range(count):
                    rest = start + n / RATE - time.perf_counter()
                    if rest > 0:
                        time.sleep(rest)
                    value = n.to_bytes(8, "big") + time.perf_counter_ns().to_bytes(8, "big") + PADDING
                    producer.produce(topic, value, partition=0)
                    producer.poll(0)
                producer.flush(10)
            reader.join(5)
        finally:
            reader.ending.set()
            reader.join()
    if reader.numbers != list(range(count)):
        target.note(f"latency: {len(reader.numbers)} of {count} messages, or not in order")
    delays = sorted(reader.delays_ms[DISCARDED:])
    if not delays:
        return {}
    return {
        "p50 ms": delays[len(delays) // 2],
        "p99 ms": delays[int(len(delays) * 0.99)],
        "server CPU %": 100 * meter.cpu_s / meter.wall_s,
    }


def nothing_to_read(target: Target, effort: Effort) -> Figures:
    with target.topic("idle") as topic:
        consumer: Any = ck.Consumer(target.client(group_id="bench", auto_offset_reset="earliest"))
        consumer.assign([ck.TopicPartition(topic, 0, 0)])
        consumer.poll(1)
        with metered(target) as meter:
            consumer.poll(max(0.5, 3 * effort.scale))
        consumer.close()
    return {"server CPU %": 100 * meter.cpu_s / meter.wall_s}


CASES = [
    Case("end to end at 1000 messages/s", end_to_end),
    Case("a consumer with nothing to read", nothing_to_read, warm_up=False),
]
