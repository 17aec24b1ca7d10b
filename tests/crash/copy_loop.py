"""Copies inside transactions while copier and broker are killed at random: input and output are the same records.

    python -m tests.crash.copy_loop --minutes 10 --seed 1

A feeder writes to the source all the time. A copier (``tests.crash.copier``) copies in transactions. By seed, ``kill
-9`` hits the copier right behind one of its steps, the broker, or both; each is started again at once. In the end the
target must hold, read committed, exactly the records of the source: per partition the same ones in the same order, each
once, and every record that the feeder was told is written.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Producer

from tests.broker_process import BrokerProcess
from tests.compat.test_confluent_kafka import make_topic, receive
from tests.crash.copier import QUICK

SOURCE, TARGET = "in", "out"
PARTITIONS = 3
AHEAD_MAX = 400
"""By so many records the feeder may be ahead of the copies."""
STEPS_MAX = 60
"""Between two kills the copier makes at most so many steps: some ten transactions."""
PATIENCE_S = 90.0


@dataclass
class Outcome:
    """What a run did, and what it found at its end."""

    seconds: float
    kills: Counter[str]
    acknowledged: set[bytes]
    source: list[list[bytes]]
    target: list[list[bytes]]

    @property
    def missing(self) -> int:
        """Records of the source that the target lacks, multiplicity counted."""
        return (_counted(self.source) - _counted(self.target)).total()

    @property
    def surplus(self) -> int:
        return (_counted(self.target) - _counted(self.source)).total()

    @property
    def lost(self) -> int:
        """Records that were acknowledged to the feeder and are not in the source."""
        return len(self.acknowledged - set(_counted(self.source)))

    @property
    def is_exact(self) -> bool:
        return self.source == self.target and not self.lost and bool(self.acknowledged)

    def __str__(self) -> str:
        kills = ", ".join(f"{count} of {victim}" for victim, count in sorted(self.kills.items()))
        return (
            f"{self.seconds:.0f} s, kills: {kills}; {_counted(self.source).total()} records in, "
            f"{_counted(self.target).total()} out, {self.missing} missing, {self.surplus} too many, {self.lost} "
            f"acknowledged ones lost, order {'kept' if self.source == self.target else 'NOT kept'}"
        )


def _counted(partitions: list[list[bytes]]) -> Counter[bytes]:
    return Counter(value for partition in partitions for value in partition)


@dataclass
class Progress:
    """What the copier said, and waiting for it."""

    steps: int = 0
    copied: int = 0
    is_idle: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def note(self, step: str) -> None:
        with self.changed:
            self.steps += 1
            if step.startswith("copied "):
                self.copied += int(step.removeprefix("copied "))
            self.is_idle = step == "idle"
            self.changed.notify_all()

    def await_steps(self, count: int) -> None:
        """So many more."""
        with self.changed:
            wanted = self.steps + count
            if not self.changed.wait_for(lambda: self.steps >= wanted, PATIENCE_S):
                raise TimeoutError(f"the copier has stopped at step {self.steps}, {self.copied} records")

    def await_idle(self) -> None:
        with self.changed:
            self.is_idle = False
            if not self.changed.wait_for(lambda: self.is_idle, PATIENCE_S):
                raise TimeoutError(f"the copier does not come to the end: {self.copied} records")


class CopierProcess:
    """The copier of the moment: one that dies by itself, because a transaction failed, is followed by another."""

    def __init__(self, bootstrap: str, progress: Progress) -> None:
        self._arguments = [sys.executable, "-m", "tests.crash.copier", bootstrap, SOURCE, TARGET, str(PARTITIONS)]
        self._progress = progress
        self._stopping = False
        self.lives = 0
        self._process = self._start()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.lives += 1
        return subprocess.Popen(self._arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def _follow(self) -> None:
        while True:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self._progress.note(line.decode().strip())
            self._process.stdout.close()
            self._process.wait()
            if self._stopping:
                return
            self._process = self._start()

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._stopping = True
        self._process.kill()
        self._thread.join()


class Feeder:
    """Writes numbers to the source, a little ahead of the copies."""

    def __init__(self, bootstrap: str, progress: Progress) -> None:
        self.acknowledged: set[bytes] = set()
        self._progress = progress
        self._stopping = False
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "max.in.flight.requests.per.connection": 1,
                "message.timeout.ms": 60_000,
                "linger.ms": 5,
                **QUICK,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping:
            if number - self._progress.copied < AHEAD_MAX:
                self._producer.produce(
                    SOURCE, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._on_delivery
                )
                number += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.02)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.add(message.value())

    def stop(self) -> None:
        self._stopping = True
        self._thread.join()
        self._producer.flush(60)


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[tuple[BrokerProcess, CopierProcess, Feeder, Progress]]:
    with BrokerProcess(folder / "data") as broker:
        for topic in (SOURCE, TARGET):
            make_topic(broker.bootstrap, topic, PARTITIONS)
        progress = Progress()
        feeder = Feeder(broker.bootstrap, progress)
        copier = CopierProcess(broker.bootstrap, progress)
        try:
            yield broker, copier, feeder, progress
        finally:
            feeder.stop()
            copier.stop()


def run(folder: Path, seed: int, *, kills: int = 0, minutes: float = 0.0) -> Outcome:
    """One run: at least so many kills, and at least so long."""
    random = Random(seed)
    begun = time.monotonic()
    counted: Counter[str] = Counter()
    with _running(folder) as (broker, copier, feeder, progress):
        while counted.total() < kills or time.monotonic() - begun < minutes * 60:
            progress.await_steps(random.randint(1, STEPS_MAX))
            victim = random.choice(("copier", "broker", "broker", "both"))
            counted[victim] += 1
            if victim != "broker":
                copier.kill()
            if victim != "copier":
                broker.kill()
                broker.start()
        feeder.stop()
        progress.await_idle()
        seconds = time.monotonic() - begun
        return Outcome(seconds, counted, feeder.acknowledged, _read(broker, SOURCE), _read(broker, TARGET))


def _read(broker: BrokerProcess, topic: str) -> list[list[bytes]]:
    """The committed records of each partition."""
    read: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for message in receive(broker.bootstrap, topic, 0, PARTITIONS, **{"isolation.level": "read_committed"}):
        read[message.partition() or 0].append(message.value() or b"")
    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), options.seed, minutes=options.minutes)
    print(outcome)
    sys.exit(0 if outcome.is_exact else 1)


if __name__ == "__main__":
    main()
