"""Random produces, fetches, fetch sessions and offset lookups: Apache Kafka and kbroker answer them alike.

What the written questions do not think of: sessions whose partitions come, go, fail and fill up, limits that cut,
epochs and sequences that do not fit, batches that are broken in every place. A failure names its seed; the run of a
seed is always the same.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from crc32c import crc32c

from kbroker.protocol.declarations import Struct
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.protocol.records.compression import Compression
from kbroker.types import ZERO_UUID, Uuid
from tests.broker_process import BrokerProcess
from tests.patience import PATIENCE_S
from tests.reference.comparison import differences
from tests.reference.settings import KBROKER_STANDING_STILL, STANDING_STILL, start_reference
from tests.toolchains import require
from tests.wire import ConnectionClosedError, WireClient

pytestmark = pytest.mark.all

SEEDS = range(25)
STEPS = 80
T0 = 1_750_000_000_000
UNKNOWN = "nope"
UNKNOWN_ID = b"\x09" * 16
INT_MAX = 2**31 - 1
CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {},
    *({"compression.type": codec} for codec in ("uncompressed", "gzip", "lz4", "zstd")),
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact", "compression.type": "lz4"},
    {"max.message.bytes": "120"},
    {"max.message.bytes": "120", "compression.type": "zstd"},
    {"max.decompressed.message.bytes": "100", "compression.type": "gzip"},
    {"message.timestamp.before.max.ms": "1000"},
)
"""What the topics of a seed are made with. Not snappy: its two libraries do not always find the same matches."""
HEADER_FIELDS: tuple[tuple[int, str, tuple[int, ...]], ...] = (
    (0, ">q", (1, -1)),
    (8, ">i", (0, 49, 61, INT_MAX, INT_MAX - 12)),
    (12, ">i", (7, -1)),
    (16, ">b", (0, 1, 3, -1)),
    (21, ">h", (0, 1, 2, 3, 4, 5, 8, 16, 32, 64, 9, 0x0F00, -1)),
    (23, ">i", (0, 1, -1, INT_MAX)),
    (27, ">q", (0, -1, -2, 2**62)),
    (35, ">q", (0, -1, -2, T0 + 7)),
    (43, ">q", (-1, 0, 5, -2)),
    (51, ">h", (-1, 0, 1, -2, 32767)),
    (53, ">i", (-1, 0, 1, INT_MAX)),
    (57, ">i", (0, 1, 2, -1, INT_MAX)),
)
"""The fields of a batch's header with values that say something else: position, layout, values."""
NAMES = ("name", "topic", "topic_id", "index", "partition_index", "partition")
WORDS = frozenset({"error_message", "batch_index_error_message"})
"""Fields in which kbroker says more than Apache Kafka, on purpose."""


class Side:
    """One of the two brokers, as one client sees it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.client = WireClient(bootstrap)
        self.ids: dict[str, Uuid] = {UNKNOWN: UNKNOWN_ID}
        self.session = 0

    def create(self, topics: dict[str, dict[str, str]]) -> None:
        wanted = [
            CreateTopicsRequest.CreatableTopic(
                name=name,
                num_partitions=2,
                replication_factor=1,
                configs=[
                    CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
                ],
            )
            for name, configs in topics.items()
        ]
        for result in self.client.call(CreateTopicsRequest(topics=wanted, timeout_ms=20_000), 7).topics:
            assert result.error_code == 0
            self.ids[result.name] = result.topic_id
        for name in topics:
            for partition in range(2):
                self._await_leader(name, partition)

    def _await_leader(self, topic: str, partition: int) -> None:
        """Apache Kafka answers a create before its replica takes requests."""
        asked = list_offsets(topic, [(partition, -1, -1)])
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.client.call(asked, 5).topics[0].partitions[0].error_code == 0:
                return
            time.sleep(0.02)
        raise AssertionError(f"{topic}-{partition} got no leader")

    def ask(self, request: Any, version: int) -> Any:
        """The answer in plain values: names for topic ids, only whether there is a session; None when closed."""
        try:
            if getattr(request, "acks", -1) == 0:
                self.client.send(request, version)
                return self.client.call(ApiVersionsRequest(), 0).error_code
            response = self.client.call(request, version)
        except ConnectionClosedError:
            self.client.close()
            self.client = WireClient(self.bootstrap)
            return None
        if isinstance(response, FetchResponse):
            self.session = response.session_id
            return self._plain(response)
        return _sorted(self._plain(response))

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Struct):
            fields = {name: self._plain(getattr(value, name)) for name in value.fields if name not in WORDS}
            if "session_id" in fields:
                fields["session_id"] = bool(fields["session_id"])
            return fields
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        if isinstance(value, memoryview):
            return bytes(value)
        return next((name for name, topic_id in self.ids.items() if value == topic_id), value)

    def close(self) -> None:
        self.client.close()


def list_offsets(topic: str, wanted: list[tuple[int, int, int]], **more: Any) -> ListOffsetsRequest:
    """Partition, timestamp and leader epoch of each."""
    partition = ListOffsetsRequest.ListOffsetsPartition
    partitions = [
        partition(partition_index=index, timestamp=timestamp, current_leader_epoch=epoch)
        for index, timestamp, epoch in wanted
    ]
    fields: dict[str, Any] = {"replica_id": -1, **more}
    return ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=partitions)], **fields)


class Run:
    """One seed's conversation with both."""

    def __init__(self, seed: int, reference: Side, kbroker: Side) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.sides = (reference, kbroker)
        configs = {f"r{seed}-{letter}": self.random.choice(CONFIGS) for letter in "ab"}
        self.topics = list(configs)
        self.sequences: dict[tuple[str, int, int], int] = {}
        self.session_version = 0
        self.session_epoch = 0
        self.step = 0
        for side in self.sides:
            side.create(configs)

    def go(self) -> None:
        kinds = [self.produce] * 4 + [self.fetch] * 3 + [self.fetch_in_session] * 5
        kinds += [self.offsets, self.epochs, self.deletion]
        for self.step in range(STEPS):
            self.random.choice(kinds)()
        self.close_session()

    def both(self, build: Callable[[Side], Any], version: int) -> Any:
        """Ask both and compare; the reference's answer."""
        reference, kbroker = (side.ask(build(side), version) for side in self.sides)
        asked = build(self.sides[0])
        name = f"seed {self.seed}, step {self.step}: {type(asked).__name__} version {version}"
        found = differences(name, reference, kbroker)
        assert not found, "\n".join([*map(str, found), repr(asked)])
        return reference

    def topic(self) -> str:
        return UNKNOWN if self.random.random() < 0.1 else self.random.choice(self.topics)

    def partition(self) -> int:
        return 7 if self.random.random() < 0.1 else self.random.randrange(2)

    def epoch(self) -> int:
        return self.random.choice([-1, -1, 0, 0, 0, 1] if self.random.random() < 0.2 else [-1, 0])

    # --- produce

    def produce(self) -> None:
        version = self.random.randint(3, 13)
        acks = self.random.choice([-1, 1, 0, 5] if self.random.random() < 0.3 else [-1, 1])
        wanted: dict[tuple[str, int], bytes] = {}
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            name, partition = self.topic(), self.partition()
            # A partition named twice, once wrongly: Apache Kafka appends the good one and answers the error.
            wanted.setdefault((name, partition), self.batch(name, partition))

        def build(side: Side) -> ProduceRequest:
            topics: dict[str, ProduceRequest.TopicProduceData] = {}
            for (name, partition), records in wanted.items():
                topic = topics.setdefault(
                    name,
                    ProduceRequest.TopicProduceData(
                        name=name if version < 13 else "", topic_id=side.ids[name] if version >= 13 else ZERO_UUID
                    ),
                )
                topic.partition_data.append(ProduceRequest.PartitionProduceData(index=partition, records=records))
            return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=list(topics.values()))

        self.both(build, version)

    def batch(self, topic: str, partition: int) -> bytes:
        """A batch as a producer sends it, now and then idempotent, compressed, or wrong."""
        random = self.random
        count = random.randint(1, 4)
        settings: dict[str, Any] = {}
        if random.random() < 0.4:
            producer = random.choice([5, 6])
            sequence = self.sequences.get((topic, partition, producer), 0)
            if random.random() < 0.3:
                sequence = max(0, sequence + random.choice([-1, 1, -3, 5]))
            self.sequences[topic, partition, producer] = sequence + count
            settings = {
                "producer_id": producer,
                "producer_epoch": random.choice([0, 0, 0, 1]),
                "base_sequence": sequence,
            }
        if random.random() < 0.1:
            settings["compression"] = random.choice(list(Compression))
        first = T0 + random.randint(0, 500) * 1000
        keys = [b"k"] * 9 + [None, b""]
        records = [
            Record(offset, first + offset, random.choice(keys), b"v" * random.choice([5, 50, 400]), [])
            for offset in range(count)
        ]
        batch = bytearray(build_batch(records, base_offset=3 if random.random() < 0.02 else 0, **settings))
        if random.random() < 0.1:
            batch = self.broken(batch)
        elif random.random() < 0.15:
            self.say_something_else(batch)
        return bytes(batch)

    def say_something_else(self, batch: bytearray) -> None:
        """A header whose CRC is right, but one field is not; or a byte of the records, where no codec hides them."""
        if self.random.random() < 0.3 and not batch[22] & 7:
            at = self.random.randrange(61, len(batch))
            batch[at] = self.random.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
        else:
            position, layout, values = self.random.choice(HEADER_FIELDS)
            struct.pack_into(layout, batch, position, self.random.choice(values))
        struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))

    def broken(self, batch: bytearray) -> bytearray:
        kind = self.random.randrange(6)
        if kind == 0:
            batch[-1] ^= 1
        elif kind == 1:
            return batch + batch
        elif kind == 2:
            return batch[: self.random.choice([0, 10, 40])]
        elif kind == 3:
            batch[16] = self.random.choice([0, 1, 3])
        elif kind == 4:
            struct.pack_into(">i", batch, 8, self.random.choice([5, len(batch) - 17, len(batch) + 50]))
        else:
            struct.pack_into(">i", batch, 57, 9)
            struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
        return batch

    # --- fetch

    def wanted(self, version: int) -> list[tuple[str, list[FetchRequest.FetchPartition]]]:
        random = self.random
        return [
            (
                self.topic(),
                [
                    FetchRequest.FetchPartition(
                        partition=self.partition(),
                        fetch_offset=random.choice([0, 0, 1, 2, 5, 10, random.randint(-1, 30)]),
                        partition_max_bytes=random.choice([0, 1, 100, 1000, 1 << 20]),
                        current_leader_epoch=self.epoch() if version >= 9 else -1,
                        last_fetched_epoch=random.choice([-1, -1, -1, self.epoch()]) if version >= 12 else -1,
                    )
                    for _ in range(random.choice([1, 1, 2, 3]))
                ],
            )
            for _ in range(random.choice([1, 1, 2, 3]))
        ]

    def fetch_fields(self) -> dict[str, Any]:
        return {
            "max_wait_ms": 0,
            "min_bytes": self.random.choice([0, 1, 1000]),
            "max_bytes": self.random.choice([1, 100, 300, 1 << 20, 1 << 20, 1 << 20, -1]),
            "isolation_level": self.random.choice([0, 0, 0, 0, 1, 1, 1, 1, 2]),
        }

    def fetch(self) -> None:
        version = self.random.randint(4, 18)
        wanted, fields = self.wanted(version), self.fetch_fields()
        self.both(lambda side: FetchRequest(topics=_fetch_topics(side, wanted, version), **fields), version)

    def fetch_in_session(self) -> None:
        random = self.random
        if self.session_epoch == 0 or random.random() < 0.08:
            self.close_session()
            self.session_version = random.randint(7, 18)
        version, epoch = self.session_version, self.session_epoch
        wanted = self.wanted(version) if epoch == 0 or random.random() < 0.6 else []
        forgotten = [(self.topic(), self.partition())] if epoch > 0 and random.random() < 0.2 else []
        sent_epoch = epoch + 3 if random.random() < 0.04 else epoch
        fields = self.fetch_fields()
        sessions = {side: side.session for side in self.sides}

        def build(side: Side) -> FetchRequest:
            return FetchRequest(
                session_id=sessions[side],
                session_epoch=sent_epoch,
                topics=_fetch_topics(side, wanted, version),
                forgotten_topics_data=[
                    FetchRequest.ForgottenTopic(
                        topic=name if version < 13 else "",
                        topic_id=side.ids[name] if version >= 13 else ZERO_UUID,
                        partitions=[partition],
                    )
                    for name, partition in forgotten
                ],
                **fields,
            )

        answer = self.both(build, version)
        if answer["error_code"] != 0:
            for side in self.sides:  # an error is answered without the session, which lives on
                side.session = sessions[side]
        elif answer["session_id"]:
            self.session_epoch = sent_epoch + 1
        else:
            self.session_epoch = 0

    def close_session(self) -> None:
        """Leave no session behind: their number is limited."""
        if self.session_epoch > 0:
            version = self.session_version
            self.both(lambda side: FetchRequest(session_id=side.session, session_epoch=-1, max_bytes=1), version)
        self.session_epoch = 0
        for side in self.sides:
            side.session = 0

    # --- offsets

    def deletion(self) -> None:
        asked = DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest.DeleteRecordsTopic(
                    name=self.topic(),
                    partitions=[
                        DeleteRecordsRequest.DeleteRecordsPartition(
                            partition_index=self.partition(), offset=self.random.choice([0, 1, 3, 5, 100, -1, -2])
                        )
                    ],
                )
            ],
            timeout_ms=10_000,
        )
        self.both(lambda _: asked, self.random.randint(0, 2))

    def offsets(self) -> None:
        version = self.random.randint(1, 11)
        times = [-1, -2, -3, -4, -5, -6, -7, 0, T0 + self.random.randint(0, 500) * 1000]
        wanted = [
            (self.partition(), self.random.choice(times), self.epoch() if version >= 4 else -1)
            for _ in range(self.random.choice([1, 1, 2]))
        ]
        asked = list_offsets(
            self.topic(),
            wanted,
            replica_id=self.random.choice([-1, -1, -2]),
            isolation_level=self.random.randrange(2) if version >= 2 else 0,
        )
        self.both(lambda _: asked, version)

    def epochs(self) -> None:
        version = self.random.randint(2, 4)
        asked = OffsetForLeaderEpochRequest(
            replica_id=-1 if version >= 3 else -2,
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    topic=self.topic(),
                    partitions=[
                        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                            partition=self.partition(),
                            leader_epoch=self.random.choice([-1, 0, 1, 2]),
                            current_leader_epoch=self.epoch(),
                        )
                    ],
                )
            ],
        )
        self.both(lambda _: asked, version)


def _sorted(value: Any) -> Any:
    """Apache Kafka answers produces and lookups in the order of its hash maps: no client may care."""
    if isinstance(value, dict):
        return {name: _sorted(each) for name, each in value.items()}
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=lambda each: str([each.get(name) for name in NAMES]))
    return value


def _fetch_topics(
    side: Side, wanted: list[tuple[str, list[FetchRequest.FetchPartition]]], version: int
) -> list[FetchRequest.FetchTopic]:
    return [
        FetchRequest.FetchTopic(
            topic=name if version < 13 else "",
            topic_id=side.ids[name] if version >= 13 else ZERO_UUID,
            partitions=partitions,
        )
        for name, partitions in wanted
    ]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    require("java")
    folder: Path = tmp_path_factory.mktemp("random-data")
    with (
        start_reference(folder, overrides=STANDING_STILL) as reference,
        BrokerProcess(folder / "kbroker", *KBROKER_STANDING_STILL) as broker,
    ):
        yield reference, broker.bootstrap


@pytest.mark.parametrize("seed", SEEDS)
def test_random_data_requests_are_answered_alike(brokers: tuple[str, str], seed: int) -> None:
    reference, kbroker = Side(brokers[0]), Side(brokers[1])
    try:
        Run(seed, reference, kbroker).go()
    finally:
        reference.close()
        kbroker.close()
