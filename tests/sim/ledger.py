"""Transactions in the simulation: producers that commit and abort, readers that see only what was committed.

The ledger knows the fate of every record as its producer knows it. Invariants: a read_committed reader never sees a
record whose transaction is open or aborted, sees those of one producer in a partition in the order in which they were
sent, each once; after the faults it sees every record of every committed transaction, and nothing holds it back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar

from kbroker.protocol.declarations import Message
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.records.batch import Record, batches, build_batch, read_records
from kbroker.types import TopicPartition
from tests.sim.actors import TRY_AGAIN, Actor
from tests.sim.checkers import Violation
from tests.sim.client import Unavailable

if TYPE_CHECKING:
    from tests.sim.world import World

M = TypeVar("M", bound=Message)

OPEN, COMMITTING, COMMITTED, ABORTED = "open", "committing", "committed", "aborted"
WHOLE = 1 << 20
"""So many bytes of a partition hold all that a scenario writes, or much of it."""
AGAIN = TRY_AGAIN | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR}
LOST = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)
"""What a producer is told whose transaction was timed out: it begins again."""


class Ledger:
    """The fate of every record, and who has read it."""

    def __init__(self) -> None:
        self.fates: dict[str, str] = {}
        self.sent: dict[TopicPartition, list[str]] = {}
        self._read: dict[str, str] = {}

    def on_sent(self, partition: TopicPartition, value: str) -> None:
        self.fates[value] = OPEN
        self.sent.setdefault(partition, []).append(value)

    def decide(self, values: list[str], fate: str) -> None:
        for value in values:
            if fate == ABORTED and value in self._read:
                raise Violation(f"OnlyCommittedIsRead: {value!r} was aborted after {self._read[value]} had read it")
            self.fates[value] = fate

    def on_read(self, reader: str, partition: TopicPartition, value: str) -> None:
        fate = self.fates.get(value)
        if fate not in (COMMITTING, COMMITTED):
            raise Violation(f"OnlyCommittedIsRead: {reader} read {value!r} of {partition}, which is {fate}")
        self._read[value] = reader

    def check_whole(self, partition: TopicPartition, seen: list[str]) -> None:
        """After everything has settled: exactly what was committed, in order for each producer."""
        expected = [value for value in self.sent.get(partition, []) if self.fates[value] == COMMITTED]
        for producer in dict.fromkeys(value.partition("#")[0] for value in expected + seen):
            mine = [value for value in seen if value.startswith(f"{producer}#")]
            due = [value for value in expected if value.startswith(f"{producer}#")]
            if mine != due:
                raise Violation(f"CommittedIsWhole: {partition} shows {mine} of {producer}, committed were {due}")


class TransactionalProducer(Actor):
    """One transaction after the other, in one of the two protocols, until told to stop."""

    def __init__(self, world: World, name: str, ledger: Ledger, partitions: list[TopicPartition]) -> None:
        super().__init__(world, name)
        self._ledger = ledger
        self._partitions = partitions
        self._bumps = self.random.random() < 0.5
        self._version = self.random.choice((12,) if self._bumps else (7, 9, 11))
        self._timeout_ms = self.random.choice((2_000, 60_000))
        self._id = self._epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        self._number = 0
        self.committed = 0

    async def run(self) -> None:
        await self._initialise()
        while not self.stopping:
            await self.pause(0.3)
            values: list[str] = []
            is_whole = await self._write(values)
            if is_whole and values and self.random.random() < 0.95:
                await self._end(values, self.random.random() < 0.7)
            else:
                self._ledger.decide(values, ABORTED)
                await self._initialise()

    async def _ask(self, request: Message, version: int, answer: type[M], code: Callable[[M], int], what: str) -> int:
        """Ask until there is an answer that is not to be asked for again; its code."""
        _, found = await self._answer(request, version, answer, code, what)
        return found

    async def _answer(
        self,
        request: Message,
        version: int,
        answer: type[M],
        code: Callable[[M], int],
        what: str,
        again: Collection[int] = (),
    ) -> tuple[M, int]:
        while True:
            try:
                found = await self.client.request(request, version, answer)
            except Unavailable:
                await self.pause(1)
                continue
            if code(found) in AGAIN or code(found) in again:
                await self.pause(0.3)
                continue
            self.expect(code(found), {ErrorCode.NONE, *LOST}, what)
            return found, code(found)

    async def _initialise(self) -> None:
        find = FindCoordinatorRequest(key=self.name, key_type=1)
        await self._ask(find, 3, FindCoordinatorResponse, lambda found: found.error_code, "FindCoordinator")
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=self._timeout_ms)
        answer, code = await self._answer(
            request, 4, InitProducerIdResponse, lambda found: found.error_code, "InitProducerId"
        )
        self.expect(code, {ErrorCode.NONE}, "InitProducerId")
        self._take(answer.producer_id, answer.producer_epoch)

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._id, self._epoch):
            self._sequences.clear()
        self._id, self._epoch = producer_id, epoch

    async def _write(self, values: list[str]) -> bool:
        """A few batches; whether all of them are in the transaction."""
        added: set[TopicPartition] = set()
        for _ in range(self.random.randint(1, 4)):
            partition = self.random.choice(self._partitions)
            if not self._bumps and partition not in added:
                if await self._add(partition) != ErrorCode.NONE:
                    return False
                added.add(partition)
            batch = [f"{self.name}#{self._number + n}" for n in range(self.random.choice((1, 1, 3)))]
            self._number += len(batch)
            for value in batch:
                self._ledger.on_sent(partition, value)
                values.append(value)
            if await self._produce(partition, batch) != ErrorCode.NONE:
                return False
            await self.pause(self.random.choice((0, 0, 0, 0, 0.5, 4)))
        return True

    async def _add(self, partition: TopicPartition) -> int:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=partition.topic, partitions=[partition[1]])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[topic],
        )
        return await self._ask(
            request,
            2,
            AddPartitionsToTxnResponse,
            lambda found: found.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            "AddPartitionsToTxn",
        )

    async def _produce(self, partition: TopicPartition, batch: list[str]) -> int:
        sequence = self._sequences.get(partition, 0)
        records = build_batch(
            [self.record_of(value) for value in batch],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(index=partition.partition, records=records)
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=partition.topic, partition_data=[data])],
        )
        code = await self._ask(
            request,
            self._version,
            ProduceResponse,
            lambda found: found.responses[0].partition_responses[0].error_code,
            "Produce",
        )
        self._sequences[partition] = sequence + len(batch)
        return code

    def record_of(self, text: str) -> Record:
        """The record whose fate the ledger keeps under ``text``."""
        return Record(0, self.world.clock.wall_ms(), None, text.encode())

    async def _end(self, values: list[str], committed: bool) -> None:
        if committed:
            self._ledger.decide(values, COMMITTING)
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=self._id, producer_epoch=self._epoch, committed=committed
        )
        answer, code = await self._answer(
            request, 5 if self._bumps else 3, EndTxnResponse, lambda found: found.error_code, "EndTxn"
        )
        is_committed = committed and code == ErrorCode.NONE
        self._ledger.decide(values, COMMITTED if is_committed else ABORTED)
        self.committed += is_committed
        self.world.loop.trace.record("ended", self.name, is_committed, values[0], len(values))
        if code != ErrorCode.NONE:
            await self._initialise()
        elif self._bumps:
            self._take(answer.producer_id, answer.producer_epoch)


class CommittedReader(Actor):
    """Reads every partition from offset 0 on, read_committed, and leaves out what the answers call aborted."""

    def __init__(self, world: World, name: str, ledger: Ledger, partitions: list[TopicPartition]) -> None:
        super().__init__(world, name)
        self._ledger = ledger
        self.positions = dict.fromkeys(partitions, 0)
        self.seen: dict[TopicPartition, list[str]] = {partition: [] for partition in partitions}
        self.stable = dict.fromkeys(partitions, 0)
        self.is_at_end = dict.fromkeys(partitions, False)
        self.max_bytes = self.random.choice((1, 300, WHOLE))

    async def run(self) -> None:
        while not self.stopping:
            try:
                await self.fetch_once()
            except Unavailable:
                await self.pause(1)

    async def fetch_once(self) -> None:
        """One fetch of all partitions. Raises ``Unavailable``."""
        topic = FetchRequest.FetchTopic(topic=next(iter(self.positions)).topic)
        for partition, position in self.positions.items():
            topic.partitions.append(
                FetchRequest.FetchPartition(
                    partition=partition.partition, fetch_offset=position, partition_max_bytes=self.max_bytes
                )
            )
        request = FetchRequest(
            max_wait_ms=self.random.choice((0, 100, 2000)),
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[topic],
        )
        answer = await self.client.request(request, 11, FetchResponse)
        got = False
        for found in answer.responses:
            for data in found.partitions:
                got |= self._take(TopicPartition(found.topic, data.partition_index), data)
        if not got:
            await self.pause(0.2)

    def _take(self, partition: TopicPartition, data: FetchResponse.PartitionData) -> bool:
        if data.error_code != ErrorCode.NONE:
            self.expect(data.error_code, TRY_AGAIN, f"Fetch of {partition}")
            return False
        if data.last_stable_offset < self.stable[partition]:
            raise Violation(f"StableStays: {partition} fell to {data.last_stable_offset}, read by {self.name}")
        self.stable[partition] = data.last_stable_offset
        aborted = sorted(data.aborted_transactions or [], key=lambda each: each.first_offset)
        dropped: set[int] = set()
        records: Any = data.records or b""
        begin = self.positions[partition]
        for header, batch in batches(records):
            while aborted and aborted[0].first_offset <= header.last_offset:
                dropped.add(aborted.pop(0).producer_id)
            self.positions[partition] = max(begin, header.next_offset)
            if header.is_control:
                dropped.discard(header.producer_id)
                continue
            if header.producer_id in dropped:
                continue
            for record in read_records(batch, max_decompressed=1 << 20):
                if record.offset >= begin:
                    value = self.text_of(record)
                    self._ledger.on_read(self.name, partition, value)
                    self.seen[partition].append(value)
        is_stable = data.last_stable_offset == data.high_watermark
        self.is_at_end[partition] = is_stable and self.positions[partition] == data.high_watermark
        return self.positions[partition] > begin

    def text_of(self, record: Record) -> str:
        """Under which name the ledger knows it."""
        return (record.value or b"").decode()


async def settle(reader: CommittedReader, at_most: int, pause: Callable[[], Awaitable[None]]) -> None:
    """Read to the end of everything; nothing may hold the reader back for ever.

    No longer batch by batch: there may be more of them than reads.
    """
    reader.max_bytes = WHOLE
    for _ in range(at_most):
        try:
            await reader.fetch_once()
        except Unavailable:
            await pause()
        if all(reader.is_at_end.values()):
            return
        await pause()
    stuck = [str(partition) for partition, is_at_end in reader.is_at_end.items() if not is_at_end]
    raise Violation(f"Liveness: a transaction hangs in {', '.join(stuck)}")
