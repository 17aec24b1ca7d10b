"""One copy round, ended at every step: what a copier and a broker do between them, enumerated, not drawn.

The round: a transactional producer begins anew, copies what is in the source and aborts; it begins anew, copies again
and commits; markers and the coordinator's last records follow. A run without a crash counts its steps. Then there is a
run for each of them: the broker's process is killed, or its machine loses power, in the middle of the nth operation on
the disk (each append, each marker, each checkpoint, and what follows an answer that was heard); the broker is killed
when it gives away its nth answer (nobody hears it); the copier dies before its nth request, or behind it without
hearing the answer, and another takes over its transactional id. Whatever it was, in the end the target holds exactly
what the source does. ``python -m tests.sim.copy_crashes --crash kill --nth 17`` replays one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from kbroker.protocol.declarations import Message
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.types import TopicPartition
from tests.sim.actors import create_topic
from tests.sim.checkers import Violation
from tests.sim.client import Client
from tests.sim.copier import GROUP, Copier, check_copies
from tests.sim.ledger import COMMITTED, WHOLE, CommittedReader, Ledger, settle
from tests.sim.loop import Deadlock
from tests.sim.process import PROCESS, Killed
from tests.sim.scenario import BASE_CONFIG, CONVERGENCE_MAX_S
from tests.sim.world import World

M = TypeVar("M", bound=Message)

SOURCE, TARGET, ID = "source", "target", "copier"
PARTITIONS = 2
RECORDS = 3
SETTLING_READS = 100
FOR_EVER = 1 << 30
NEW, OLD = "new", "old"
"""The protocols: with KIP-890's epoch for each transaction, and without."""

KILL, POWER, ANSWER, UNSENT, SENT = "kill", "power", "answer", "unsent", "sent"
OF_THE_DISK = (KILL, POWER)
OF_THE_COPIER = (UNSENT, SENT)
KINDS = (*OF_THE_DISK, ANSWER, *OF_THE_COPIER)


class Crash(NamedTuple):
    """Where a round is ended: its nth operation on the disk, answer, or request, from 1 on."""

    protocol: str
    kind: str
    nth: int

    def __str__(self) -> str:
        return f"python -m tests.sim.copy_crashes --protocol {self.protocol} --crash {self.kind} --nth {self.nth}"


@dataclass(frozen=True)
class Steps:
    """How many a round has."""

    disk: int
    answers: int
    requests: int

    def of(self, kind: str) -> int:
        """How many at which a crash of this kind may come."""
        return self.disk if kind in OF_THE_DISK else self.answers if kind == ANSWER else self.requests


class CopierDiedError(Exception):
    """It is no more."""


class Life:
    """How many requests a copier still sends. Shared by its connections."""

    def __init__(self, requests: int, *, sends_last: bool) -> None:
        self.requests = requests
        self.sends_last = sends_last


class MortalClient(Client):
    """The connection of a copier that dies at one of its requests."""

    life: Life

    async def request(self, request: Message, version: int, answer_type: type[M]) -> M:
        """As usual, until life ends. Raises ``CopierDiedError``."""
        self.life.requests -= 1
        if self.life.requests == 0:
            if self.life.sends_last:
                await self.send(request, version, answer_type)
            raise CopierDiedError
        return await super().request(request, version, answer_type)


class MortalCopier(Copier):
    """A copier of one protocol, with a life."""

    def __init__(self, world: World, protocol: str, source: Ledger, copies: Ledger, life: Life, first: int) -> None:
        partitions = [TopicPartition(SOURCE, index) for index in range(PARTITIONS)]
        super().__init__(world, ID, source, copies, partitions, TARGET)
        self._bumps = protocol == NEW
        self._version = 12 if self._bumps else 9
        self._timeout_ms = 60_000
        self._number = first
        self._reader.max_bytes = WHOLE
        for actor in (self, self._reader):
            actor.client = MortalClient(world.loop, actor.name, world.port)
            actor.client.life = life

    async def find_coordinator(self) -> None:
        find = FindCoordinatorRequest(key=GROUP, key_type=0)
        await self._ask(find, 3, FindCoordinatorResponse, lambda found: found.error_code, "FindCoordinator")

    async def round(self) -> None:
        """Raises ``CopierDiedError``."""
        await self.begin_anew()
        await self.copy(commits=False)
        await self.copy(commits=True)
        await asyncio.sleep(1)

    def die(self) -> None:
        for actor in (self, self._reader):
            actor.client.close()


class CopyCrash:
    """One run. Its ``nth`` is 0 when steps are only counted."""

    def __init__(self, crash: Crash) -> None:
        flushed = {"log.flush.interval.messages": "1"} if crash.kind == POWER else {}
        self.world = World(1, {**BASE_CONFIG, **flushed})
        self.steps = Steps(0, 0, 0)
        self._crash = crash
        self._source, self._copies = Ledger(), Ledger()
        self._answers = 0
        self._crashed = self.world.loop.create_future()

    def run(self) -> None:
        """Raises ``Violation``."""
        try:
            self.world.run(self._bounded())
        finally:
            self.world.close()

    async def _bounded(self) -> None:
        try:
            async with asyncio.timeout(CONVERGENCE_MAX_S):
                await self._run()
        except TimeoutError:
            raise Violation(f"Liveness: the copies are not done after {CONVERGENCE_MAX_S} s") from None

    async def _run(self) -> None:
        self.world.start_broker()
        await self.world.wait_started()
        await self._make_source()
        restarting = self.world.spawn(self._restart())
        life = Life(FOR_EVER, sends_last=False)
        copier = MortalCopier(self.world, self._crash.protocol, self._source, self._copies, life, first=0)
        await copier.find_coordinator()
        self._arm(life)
        try:
            await copier.round()
        except CopierDiedError:
            copier.die()
        self.steps = Steps(FOR_EVER - (self.world.disk.kill_in or 0), self._answers, FOR_EVER - life.requests)
        self._disarm()
        if self._crash.nth and self._crash.kind not in OF_THE_COPIER:
            if not self._crashed.done():
                raise Violation(f"the broker did not come to its step {self._crash.nth}")
            await restarting
        restarting.cancel()
        await self._finish()

    async def _make_source(self) -> None:
        client = Client(self.world.loop, "setup", self.world.port)
        for topic in (SOURCE, TARGET):
            code = await create_topic(client, topic, PARTITIONS, {})
            if code != ErrorCode.NONE:
                raise Violation(f"{topic} was answered with {ErrorCode(code).name}")
        for index in range(PARTITIONS):
            values = [f"{index}-{number}" for number in range(RECORDS)]
            for value in values:
                self._source.on_sent(TopicPartition(SOURCE, index), value)
            self._source.decide(values, COMMITTED)
            records = build_batch([Record(0, 1_750_000_000_000, None, value.encode()) for value in values])
            data = ProduceRequest.PartitionProduceData(index=index, records=records)
            topic_data = [ProduceRequest.TopicProduceData(name=SOURCE, partition_data=[data])]
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topic_data)
            await client.request(request, 9, ProduceResponse)
        client.close()

    # --- the crash

    def _arm(self, life: Life) -> None:
        kind, nth = self._crash.kind, self._crash.nth or FOR_EVER
        world = self.world
        world.disk.kill_in = nth if kind in OF_THE_DISK else FOR_EVER
        world.disk.on_kill_due = lambda: self._end(world.lose_power if kind == POWER else world.kill_broker)
        world.loop.network.on_write = lambda: self._on_write(nth if kind == ANSWER else FOR_EVER)
        if kind in OF_THE_COPIER:
            life.requests, life.sends_last = nth, kind == SENT

    def _disarm(self) -> None:
        self.world.disk.kill_in = None
        self.world.loop.network.on_write = lambda: None

    def _on_write(self, nth: int) -> None:
        if PROCESS.get() is not self.world.process:
            return
        self._answers += 1
        if self._answers == nth:
            self._end(self.world.kill_broker)
            raise Killed

    def _end(self, end: Callable[[], None]) -> None:
        self._disarm()
        end()
        self._crashed.set_result(None)

    async def _restart(self) -> None:
        await self._crashed
        await asyncio.sleep(0.5)
        self.world.start_broker()
        await self.world.wait_started()

    # --- the end

    async def _finish(self) -> None:
        """Another copier goes on; then the target is what the source is."""
        life = Life(FOR_EVER, sends_last=False)
        copier = MortalCopier(self.world, self._crash.protocol, self._source, self._copies, life, first=1000)
        await copier.finish(SETTLING_READS)
        copier.die()
        source = await self._read(self._source, SOURCE)
        copies = await self._read(self._copies, TARGET)
        for index in range(PARTITIONS):
            partition = TopicPartition(SOURCE, index)
            read = source.seen[partition]
            if len(read) != RECORDS:
                raise Violation(f"{partition} shows {read}")
            check_copies(read, copies.seen[TopicPartition(TARGET, index)], partition)

    async def _read(self, ledger: Ledger, topic: str) -> CommittedReader:
        partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        reader = CommittedReader(self.world, f"auditor of {topic}", ledger, partitions)
        await settle(reader, SETTLING_READS, _a_second)
        reader.client.close()
        return reader


def _a_second() -> Awaitable[None]:
    return asyncio.sleep(1)


def crashes(protocol: str, kind: str) -> Iterator[Crash]:
    """One at each step of the round that nothing disturbs."""
    calm = CopyCrash(Crash(protocol, kind, 0))
    calm.run()
    return (Crash(protocol, kind, nth) for nth in range(1, calm.steps.of(kind) + 1))


def run(crash: Crash) -> str:
    """What was found; empty when nothing was."""
    try:
        CopyCrash(crash).run()
    except (Violation, Deadlock) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", choices=(NEW, OLD), default=NEW)
    parser.add_argument("--crash", choices=KINDS, default=KILL)
    parser.add_argument("--nth", type=int, help="this one, instead of one at each step")
    options = parser.parse_args()
    one = [Crash(options.protocol, options.crash, options.nth)] if options.nth else None
    tried = one or list(crashes(options.protocol, options.crash))
    failures = [(crash, failure) for crash in tried if (failure := run(crash))]
    for crash, failure in failures:
        print(f"{failure}\nreplay: {crash}")
    print(f"{len(tried)} crashes, {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
