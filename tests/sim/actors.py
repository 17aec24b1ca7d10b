"""The workload: producers, readers, and one who makes and deletes topics.

An actor does what a careful client does with an answer that did not come: the idempotent producer sends the same
batches again, the plain one gives the record up (it may be there or not), the reader asks again from where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from random import Random
from typing import TYPE_CHECKING, cast

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.records.batch import Record, batches, build_batch, crc_is_right, read_records
from kbroker.protocol.records.compression import Compression
from kbroker.types import TopicPartition
from tests.sim.checkers import Violation
from tests.sim.client import Client, Unavailable
from tests.sim.process import Process

if TYPE_CHECKING:
    from tests.sim.world import World

TOPIC_IDS_SINCE_PRODUCE = 13
TOPIC_IDS_SINCE_FETCH = 13
IN_FLIGHT_MAX = 5
"""What an idempotent producer may have under way: the broker remembers five batches."""

RESTART_ODDS = 0.05
"""How often an idempotent producer with nothing under way begins again with a new id."""

TRY_AGAIN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""A broker that starts or stops may say these; a client asks again."""


class Actor:
    """Somebody with a client and a random source of their own."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.random = Random(world.random.getrandbits(64))
        self.client = Client(world.loop, name, world.port)
        self.stopping = False

    async def run(self) -> None:
        raise NotImplementedError

    async def pause(self, at_most_s: float) -> None:
        await asyncio.sleep(round(self.random.uniform(0, at_most_s), 6))

    def expect(self, code: int, allowed: Collection[int], what: str) -> None:
        """Raise ``Violation`` for an error that nothing explains."""
        if code not in allowed:
            raise Violation(f"{self.name}: {what} answered {ErrorCode(code).name}")


class Producer(Actor):
    """Sends numbered records to partitions of its choice, until told to stop."""

    def __init__(self, world: World, name: str, partitions: list[TopicPartition]) -> None:
        super().__init__(world, name)
        self.partitions = partitions
        self.version = self.random.choice((3, 7, 9, 12, 13))
        self.compression = self.random.choice((Compression.NONE, Compression.NONE, Compression.GZIP, Compression.ZSTD))
        self.value_size = self.random.choice((0, 0, 200, 2000))
        if self.compression is Compression.ZSTD and self.version < 7:
            self.version = 7  # KIP-110: zstd needs Produce 7
        self._number = 0

    def make_values(self, partition: TopicPartition) -> list[str]:
        """The next few records, noted as sent."""
        values = []
        for _ in range(self.random.choice((1, 1, 2, 5, 20))):
            values.append(f"{self.name}#{self._number}")
            self.world.checkers.on_sent(partition, values[-1])
            self._number += 1
        return values

    def build(self, values: list[str], *, producer_id: int = -1, epoch: int = -1, sequence: int = -1) -> bytes:
        now_ms = self.world.clock.wall_ms()
        padding = "." * self.value_size
        return build_batch(
            [Record(number, now_ms, b"k", (value + " " + padding).encode()) for number, value in enumerate(values)],
            compression=self.compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )

    def produce_request(self, partition: TopicPartition, records: bytes, acks: int) -> ProduceRequest:
        data = ProduceRequest.PartitionProduceData(index=partition.partition, records=records)
        topic = ProduceRequest.TopicProduceData(partition_data=[data])
        if self.version >= TOPIC_IDS_SINCE_PRODUCE:
            topic.topic_id = self.world.topic_ids[partition.topic]
        else:
            topic.name = partition.topic
        return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[topic])

    def note_acknowledged(self, partition: TopicPartition, base_offset: int, values: list[str]) -> None:
        self.world.loop.trace.record("acknowledged", partition, base_offset, values[0], len(values))
        for delta, value in enumerate(values):
            self.world.checkers.on_acknowledged(partition, base_offset + delta, value)


class PlainProducer(Producer):
    """No producer id: a record whose answer does not come is given up."""

    def __init__(self, world: World, name: str, partitions: list[TopicPartition], acks: int) -> None:
        super().__init__(world, name, partitions)
        self.acks = acks

    async def run(self) -> None:
        while not self.stopping:
            await self.pause(0.5)
            partition = self.random.choice(self.partitions)
            values = self.make_values(partition)
            request = self.produce_request(partition, self.build(values), self.acks)
            try:
                if self.acks == 0:
                    await self.client.send_and_forget(request, self.version)
                    continue
                answer = await self.client.request(request, self.version, ProduceResponse)
            except Unavailable:
                await self.pause(1)
                continue
            result = answer.responses[0].partition_responses[0]
            if result.error_code == ErrorCode.NONE:
                self.note_acknowledged(partition, result.base_offset, values)
            else:
                self.expect(result.error_code, TRY_AGAIN, "Produce")


class _Batch:
    """A batch of the idempotent producer, until it is acknowledged."""

    def __init__(self, partition: TopicPartition, values: list[str], records: bytes) -> None:
        self.partition = partition
        self.values = values
        self.records = records
        self.sent_to: Process | None = None  # the incarnation of the broker that got it first


class IdempotentProducer(Producer):
    """A producer id, sequences, up to five batches under way; what is not acknowledged is sent again, in order."""

    def __init__(self, world: World, name: str, partitions: list[TopicPartition]) -> None:
        super().__init__(world, name, partitions)
        self._pending: list[_Batch] = []
        self._sequences: dict[TopicPartition, int] = {}
        self._id = self._epoch = -1
        self._lost = False
        world.on_loss.append(self._on_loss)

    def _on_loss(self) -> None:
        """The broker may have forgotten sequences: what is under way is given up, and a new id begins."""
        self._lost = True

    async def run(self) -> None:
        await self._get_id()
        while self._pending or not self.stopping:
            await self.pause(0.5)
            if self._lost:
                self._lost = False
                self._pending.clear()
                await self._get_id()
            if not self.stopping:
                if not self._pending and self.random.random() < RESTART_ODDS:
                    await self._get_id()
                for _ in range(self.random.randint(0, IN_FLIGHT_MAX - len(self._pending))):
                    self._add_batch()
            try:
                await self._send_pending()
            except Unavailable:
                await self.pause(1)

    async def _get_id(self) -> None:
        while True:
            try:
                answer = await self.client.request(
                    InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse
                )
            except Unavailable:
                await self.pause(1)
                continue
            if answer.error_code == ErrorCode.NONE:
                self._id, self._epoch = answer.producer_id, answer.producer_epoch
                self._sequences.clear()
                self.world.checkers.on_producer_id(self.name, answer.producer_id)
                return
            self.expect(answer.error_code, TRY_AGAIN, "InitProducerId")
            await self.pause(1)

    def _add_batch(self) -> None:
        partition = self.random.choice(self.partitions)
        values = self.make_values(partition)
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(values)
        records = self.build(values, producer_id=self._id, epoch=self._epoch, sequence=sequence)
        self._pending.append(_Batch(partition, values, records))

    async def _send_pending(self) -> None:
        answers = []
        for batch in self._pending:
            batch.sent_to = batch.sent_to or self.world.process
            request = self.produce_request(batch.partition, batch.records, -1)
            answers.append((batch, await self.client.send(request, self.version, ProduceResponse)))
        stuck: dict[TopicPartition, None] = {}
        for batch, future in answers:
            result = (await future).responses[0].partition_responses[0]
            if self._lost:
                return
            if result.error_code == ErrorCode.NONE:
                self._pending.remove(batch)
                self.note_acknowledged(batch.partition, result.base_offset, batch.values)
                continue
            allowed: set[int] = set(TRY_AGAIN)
            if batch.partition in stuck:
                allowed.add(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)  # the batch before it was not taken either
            if result.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._may_be_forgotten(batch):
                self._lost = True
                return
            self.expect(result.error_code, allowed, f"Produce of {batch.values[0]} to {batch.partition}")
            stuck[batch.partition] = None

    def _may_be_forgotten(self, batch: _Batch) -> bool:
        """Kafka's snapshots have only a producer's last batch: after a restart, a retry of one before it is unknown.

        A client cannot know whether such a batch is stored; it begins again with a new id.
        """
        later = self._pending[self._pending.index(batch) + 1 :]
        return batch.sent_to is not self.world.process and any(other.partition == batch.partition for other in later)


class Reader(Actor):
    """Reads every partition from offset 0 on, for ever."""

    def __init__(self, world: World, name: str, partitions: list[TopicPartition]) -> None:
        super().__init__(world, name)
        self.positions = dict.fromkeys(partitions, 0)
        self.logs: dict[TopicPartition, list[str]] = {partition: [] for partition in partitions}
        self.high_watermarks = dict.fromkeys(partitions, -1)
        self.version = self.random.choice((4, 7, 11, 12, 13, 17))
        self.max_bytes = self.random.choice((1, 1000, 1 << 20))
        world.on_loss.append(self._on_loss)

    def _on_loss(self) -> None:
        """The log may be shorter than what was read of it: begin again."""
        for partition, log in self.logs.items():
            log.clear()
            self.positions[partition] = 0
            self.high_watermarks[partition] = -1

    async def run(self) -> None:
        while not self.stopping:
            try:
                await self.fetch_once()
            except Unavailable:
                await self.pause(1)

    async def fetch_once(self) -> None:
        """One fetch of all partitions. Raises ``Unavailable``."""
        answer = await self.client.request(self._request(), self.version, FetchResponse)
        self.expect(answer.error_code, {ErrorCode.NONE, *TRY_AGAIN}, "Fetch")
        got = False
        for topic in answer.responses:
            name = self._name_of(topic)
            for data in topic.partitions:
                got |= self._take(TopicPartition(name, data.partition_index), data)
        if not got:
            await self.pause(0.2)

    def is_at_end(self, partition: TopicPartition) -> bool:
        return self.positions[partition] == self.high_watermarks[partition]

    def _request(self) -> FetchRequest:
        topics: dict[str, FetchRequest.FetchTopic] = {}
        for partition, position in self.positions.items():
            topic = topics.setdefault(partition.topic, FetchRequest.FetchTopic())
            if self.version >= TOPIC_IDS_SINCE_FETCH:
                topic.topic_id = self.world.topic_ids[partition.topic]
            else:
                topic.topic = partition.topic
            topic.partitions.append(
                FetchRequest.FetchPartition(
                    partition=partition.partition, fetch_offset=position, partition_max_bytes=self.max_bytes
                )
            )
        wait_ms = self.random.choice((0, 100, 500, 5000))
        return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, topics=list(topics.values()))

    def _name_of(self, topic: FetchResponse.FetchableTopicResponse) -> str:
        if self.version < TOPIC_IDS_SINCE_FETCH:
            return topic.topic
        return next(name for name, topic_id in self.world.topic_ids.items() if topic_id == topic.topic_id)

    def _take(self, partition: TopicPartition, data: FetchResponse.PartitionData) -> bool:
        if data.error_code != ErrorCode.NONE:
            self.expect(data.error_code, TRY_AGAIN, f"Fetch of {partition} from {self.positions[partition]}")
            return False
        checkers = self.world.checkers
        checkers.on_high_watermark(self.name, partition, data.high_watermark)
        self.high_watermarks[partition] = data.high_watermark
        got = False
        for header, batch in batches(cast("memoryview", data.records or memoryview(b""))):
            if not crc_is_right(batch):
                raise Violation(
                    f"BatchesAreWhole: {self.name}: the batch at {header.base_offset} of {partition} has a wrong CRC"
                )
            for record in read_records(batch, max_decompressed=1 << 24):
                if record.offset < self.positions[partition]:
                    continue  # a fetch may begin inside a batch
                value = (record.value or b"").decode().split(" ")[0]
                self.world.loop.trace.record("read", self.name, partition, record.offset, value)
                checkers.on_read(self.name, partition, record.offset, value)
                self.logs[partition].append(value)
                self.positions[partition] = record.offset + 1
                got = True
        return got


class TopicMaker(Actor):
    """Makes and deletes topics; remembers which must be there and which must not."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.present: dict[str, int] = {}  # acknowledged: name -> partitions
        self.absent: dict[str, None] = {}  # acknowledged deletions
        self._count = 0

    async def run(self) -> None:
        while not self.stopping:
            await self.pause(2)
            try:
                if self.present and self.random.random() < 0.4:
                    await self._delete(self.random.choice(list(self.present)))
                else:
                    await self._create()
            except Unavailable:
                await self.pause(1)

    async def _create(self) -> None:
        name = f"topic-{self._count}"
        self._count += 1
        partitions = self.random.randint(1, 3)
        answer = await create_topic(self.client, name, partitions)
        if answer == ErrorCode.NONE:
            self.present[name] = partitions
        else:
            self.expect(answer, TRY_AGAIN, f"CreateTopics of {name}")

    async def _delete(self, name: str) -> None:
        partitions = self.present.pop(name)  # from here on it may be gone
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
        answer = await self.client.request(request, 5, DeleteTopicsResponse)
        code = answer.responses[0].error_code
        if code == ErrorCode.NONE:
            self.absent[name] = None
        else:
            self.expect(code, TRY_AGAIN - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, f"DeleteTopics of {name}")
            if code != ErrorCode.REQUEST_TIMED_OUT:
                self.present[name] = partitions

    async def check(self) -> None:
        """After everything has settled. Raises ``Unavailable``."""
        answer = await self.client.request(MetadataRequest(topics=None), 9, MetadataResponse)
        there = {topic.name: len(topic.partitions) for topic in answer.topics}
        for name, partitions in self.present.items():
            if there.get(name) != partitions:
                raise Violation(
                    f"TopicsConverge: {name} with {partitions} partitions was created, {there.get(name)} are"
                )
        for name in self.absent:
            if name in there:
                raise Violation(f"TopicsConverge: {name} was deleted and is there")


async def create_topic(client: Client, name: str, partitions: int, configs: dict[str, str] | None = None) -> int:
    """Returns the error code. Raises ``Unavailable``."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )
    answer = await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5, CreateTopicsResponse)
    return answer.topics[0].error_code
