"""One log on the disk that forgets, without a broker around it: appends, rolls, syncs, crashes, recoveries, by seed.

A model knows every batch that was appended, and up to where they were synced. After a kill every batch whose append
returned must be there; after a power loss every one that was synced; in both cases what is there is a prefix of what
was appended, byte for byte, sequences are known, and lookups by offset, time and epoch agree with the model.
``python -m tests.sim.log_crashes --seed N`` replays one.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import dataclass, replace
from random import Random

from kbroker.config import BrokerConfig, TopicConfig
from kbroker.log.closing import close_logs
from kbroker.log.data_directory import DataDirectory
from kbroker.log.log import Log
from kbroker.protocol.records.batch import Record, batches, build_batch
from kbroker.types import TopicPartition
from tests.sim.checkers import Violation
from tests.sim.disk import SimDisk
from tests.sim.process import Killed, Process
from tests.sim.trace import Trace

PARTITION = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))
DIRECTORY = "/data/orders-0"
STEPS = 120


@dataclass(frozen=True)
class Appended:
    """A batch of the model, as it must be in the log."""

    first_offset: int
    last_offset: int
    epoch: int
    producer: int
    sequence: int
    records: bytes
    content: bytes
    timestamps: tuple[int, ...]


class LogCrashes:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.trace = Trace(lambda: 0.0)
        self.disk = SimDisk(Random(self.random.getrandbits(64)), self.trace)
        self.config = TopicConfig.resolve(
            BrokerConfig({}),
            {
                "internal.segment.bytes": self.random.choice(("6000", "20000", "1000000")),
                "segment.index.bytes": self.random.choice(("48", "10485760")),
                "index.interval.bytes": self.random.choice(("0", "300", "4096")),
            },
        )
        self.model: list[Appended] = []
        self.durable_end = 0
        self.recovery_point = 0
        self.epoch = 0
        self.now_ms = 1_750_000_000_000
        self.sequences: dict[int, int] = {}
        self.process = Process("log")
        self.disk.mount(self.process).make_dirs("/data")
        self.pending: Appended | None = None  # an append that has not returned
        self.log = self._open(clean=False)

    @property
    def end(self) -> int:
        return self.model[-1].last_offset + 1 if self.model else 0

    def run(self) -> None:
        """Raises ``Violation``, or whatever the log raises."""
        steps = [self._append] * 8 + [self._sync, self._sync, self._repeat, self._look, self._roll, self._stop]
        for _ in range(STEPS):
            if self.random.random() < 0.08:
                self._crash()
            else:
                self.random.choice(steps)()
        self._crash()

    def _open(self, *, clean: bool) -> Log:
        return Log.open(
            self.disk.mount(self.process),
            DIRECTORY,
            PARTITION,
            TOPIC_ID,
            self.config,
            recovery_point=self.recovery_point,
            clean=clean,
            now_ms=self.now_ms,
        )

    def _append(self) -> None:
        self.now_ms += self.random.choice((0, 1, 1000))
        producer = self.random.choice((-1, 1, 2, 3))
        count = self.random.choice((1, 1, 3, 10))
        timestamps = tuple(self.now_ms - self.random.choice((0, 0, 500, 100_000)) for _ in range(count))
        value = bytes(self.random.choice((0, 10, 500)))
        records = build_batch(
            [Record(number, timestamp, b"%d" % self.end, value) for number, timestamp in enumerate(timestamps)],
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=self.sequences.get(producer, 0) if producer >= 0 else -1,
        )
        sequence = self.sequences.get(producer, 0)
        buffer = bytearray(records)
        self.pending = Appended(
            self.end, self.end + count - 1, self.epoch, producer, sequence, records, b"", timestamps
        )
        info = self.log.append_as_leader(buffer, self.epoch, self.now_ms)
        self._expect(info.first_offset == self.end, f"an append at {self.end} got offset {info.first_offset}")
        self._appended(bytes(buffer))

    def _appended(self, content: bytes) -> None:
        batch, self.pending = self.pending, None
        if batch is None:
            raise AssertionError("no append is under way")
        self.model.append(replace(batch, content=content))
        if batch.producer >= 0:
            self.sequences[batch.producer] = batch.sequence + len(batch.timestamps)

    def _repeat(self) -> None:
        """A retry of one of a producer's last five batches is known, with the offset of the first time.

        A snapshot, as Kafka writes it, has only the last batch of a producer: of those before it, only what was
        appended since the log was opened must be known.
        """
        producer = self.random.choice((1, 2, 3))
        recent = [batch for batch in self.model if batch.producer == producer][-5:]
        known = [batch for batch in recent if batch is recent[-1] or batch.epoch == self.epoch]
        if known:
            batch = self.random.choice(known)
            info = self.log.append_as_leader(bytearray(batch.records), self.epoch, self.now_ms)
            self._expect(
                info.is_duplicate, f"the batch at {batch.first_offset} was stored again at {info.first_offset}"
            )
            self._expect(info.first_offset == batch.first_offset, f"{batch.first_offset} became {info.first_offset}")

    def _sync(self) -> None:
        point = self.log.sync()
        self.log.mark_flushed(point, self.now_ms)
        self._expect(point.offset == self.end, f"a sync at {self.end} covered {point.offset}")
        self.durable_end = self.end
        if self.random.random() < 0.5:
            self.recovery_point = self.log.recovery_point  # as if the checkpoint was written

    def _roll(self) -> None:
        if self.log.segments:
            self.log.roll(self.now_ms)

    def _stop(self) -> None:
        """An orderly stop and start."""
        directory = DataDirectory("/data")
        mount = self.disk.mount(self.process)
        mount.make_dirs("/data")
        directory.lock = mount.lock("/data/.lock")
        self.disk.syncs_together = self.random.random() < 0.5
        self._expect(close_logs(directory, [self.log], self.now_ms, fsync=True), "the log could not be closed")
        directory.unlock()
        self.durable_end = self.recovery_point = self.end
        self.epoch += 1
        self.log = self._open(clean=True)
        self._check_end()
        self._look()

    def _crash(self) -> None:
        """A kill or a power loss, perhaps in the middle of something, perhaps again while recovering."""
        power = self.random.random() < 0.5
        if self.random.random() < 0.7:
            self.disk.kill_in = self.random.randint(1, 6)
            self.disk.on_kill_due = self.process.kill
            with contextlib.suppress(Killed):
                for _ in range(6):
                    self.random.choice((self._append, self._append, self._sync, self._roll, self._stop))()
        self._end(power=power)
        for _ in range(self.random.choice((0, 0, 1, 2))):
            self.disk.kill_in = self.random.randint(1, 10)
            try:
                self.log = self._open(clean=False)
            except Killed:
                power_now = self.random.random() < 0.5
                power = power or power_now
                self._end(power=power_now)
            else:
                break
        self.disk.kill_in = None
        self.epoch += 1
        if not self.process.alive:
            raise AssertionError("the process of the log is dead")
        self.log = self._open(clean=False)
        self._after_crash(lost=power)

    def _end(self, *, power: bool) -> None:
        self.disk.kill_in = None
        self.process.kill()
        if power:
            self.disk.lose_power()
        self.process = Process("log")
        self.disk.on_kill_due = self.process.kill

    def _after_crash(self, *, lost: bool) -> None:
        end = self.log.log_end_offset
        promised = self.durable_end if lost else self.end
        if self.pending is not None and end == self.pending.last_offset + 1:
            self._appended(self._content()[sum(len(batch.content) for batch in self.model) :])
        self.pending = None
        self._expect(end >= promised, f"the log ends at {end}, promised was {promised}")
        self._expect(end <= self.end, f"the log ends at {end}, appended was up to {self.end}")
        self.model = [batch for batch in self.model if batch.last_offset < end]
        self._check_end()
        self.sequences.clear()
        for batch in self.model:
            if batch.producer >= 0:
                self.sequences[batch.producer] = batch.sequence + len(batch.timestamps)
        self.durable_end = min(self.durable_end, self.end) if lost else self.durable_end
        self.recovery_point = min(self.recovery_point, self.end)
        self._expect(self._content() == b"".join(batch.content for batch in self.model), "the content differs")
        self._repeat()
        self._look()

    def _check_end(self) -> None:
        end = self.log.log_end_offset
        self._expect(end == self.end, f"the log ends at {end}, not at the end of a batch ({self.end})")

    def _content(self) -> bytes:
        pieces = []
        offset = 0
        while offset < self.log.log_end_offset:
            found = self.log.read(offset, 1 << 20, at_least_one=True)
            data = found if isinstance(found, bytes) else found.to_bytes()
            pieces.append(data)
            offset = list(batches(data))[-1][0].next_offset
        return b"".join(pieces)

    def _look(self) -> None:
        """Lookups by offset, time and epoch agree with the model."""
        if not self.model:
            return
        batch = self.random.choice(self.model)
        offset = self.random.randint(batch.first_offset, batch.last_offset)
        found = self.log.read(offset, 1, at_least_one=True)
        data = found if isinstance(found, bytes) else found.to_bytes()
        self._expect(data == batch.content, f"a read at {offset} does not give the batch at {batch.first_offset}")
        wanted = self.random.choice(batch.timestamps) + self.random.choice((-1, 0, 1))
        expected = next(
            (
                (other.first_offset + number, timestamp)
                for other in self.model
                for number, timestamp in enumerate(other.timestamps)
                if timestamp >= wanted
            ),
            None,
        )
        looked_up = self.log.offset_for_timestamp(wanted)
        got = None if looked_up is None else (looked_up.offset, looked_up.timestamp)
        self._expect(got == expected, f"time {wanted} is at {got}, in truth at {expected}")
        later = [other.first_offset for other in self.model if other.epoch > batch.epoch]
        end = later[0] if later else self.end
        answer = self.log.offset_for_leader_epoch(batch.epoch)
        self._expect(answer == (batch.epoch, end), f"epoch {batch.epoch} ends at {answer}, in truth at {end}")

    def _expect(self, truth: bool, text: str) -> None:
        if not truth:
            raise Violation(text)


def run(seed: int) -> str:
    """What went wrong; empty when nothing did."""
    crashes = LogCrashes(seed)
    try:
        crashes.run()
    except Exception as error:  # noqa: BLE001 # whatever it is, this seed shows it
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.log_crashes")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    for seed in range(options.count) if options.seed is None else [options.seed]:
        crashes = LogCrashes(seed)
        try:
            crashes.run()
        except BaseException:
            print("\n".join(crashes.trace.tail()))
            print(f"replay: python -m tests.sim.log_crashes --seed {seed}")
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
