"""Data directories carried between Apache Kafka and kbroker, both ways: topics, ids, configs, groups, records."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from tests.broker_process import BrokerProcess
from tests.patience import PATIENCE_S
from tests.reference.conversation import Conversation
from tests.reference.questions.log_dirs import RATE, await_move, home_and_other, move, places, set_broker
from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka

pytestmark = pytest.mark.all

TOPICS = {
    "plain": {"retention.ms": "123456789", "segment.bytes": "1048576"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "1048576"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
}
PARTITIONS = 2
RECORDS = 3000


@pytest.fixture(autouse=True)
def _java() -> None:
    require("java")


class Seen(NamedTuple):
    """What a client sees of a cluster."""

    topics: dict[str, str]
    configs: dict[str, dict[str, str]]
    committed: list[int]
    records: dict[tuple[str, int], list[tuple[int, bytes | None, bytes | None, int, object]]]


def fill(bootstrap: str, *, transactions: bool = True) -> None:
    """Topics with configs, records of several producers and codecs, a group's commits."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(name, PARTITIONS, 1, config=configs) for name, configs in TOPICS.items()])
    for result in made.values():
        result.result(PATIENCE_S)
    write(bootstrap, RECORDS, "first", transactions=transactions)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(
        offsets=[Place("plain", partition, 100 + partition) for partition in range(PARTITIONS)], asynchronous=False
    )
    consumer.close()


def write(bootstrap: str, count: int, mark: str, *, transactions: bool = True) -> None:
    common: dict[str, Any] = {"bootstrap.servers": bootstrap, "linger.ms": 5}
    for codec, topic in zip(("lz4", "zstd", "none"), TOPICS, strict=True):
        producer = Producer({**common, "compression.type": codec, "enable.idempotence": True})
        for number in range(count):
            value = f"{mark}-{number}".encode() + bytes(400)
            producer.produce(topic, value, b"%d" % (number % 97), partition=number % PARTITIONS, headers=[("n", b"1")])
        assert producer.flush(PATIENCE_S) == 0
    if transactions:
        producer = Producer({**common, "transactional.id": mark})
        producer.init_transactions(PATIENCE_S)
        for commit in (True, False, True):
            producer.begin_transaction()
            for number in range(20):
                producer.produce("plain", f"{mark}-txn-{number}", b"t", partition=0)
            if commit:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)


def look(bootstrap: str) -> Seen:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_topics(_collection(list(TOPICS)))
    topics = {name: str(result.result(PATIENCE_S).topic_id) for name, result in described.items()}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in TOPICS]
    configs = {
        resource.name: {name: result.result(PATIENCE_S)[name].value for name in TOPICS[resource.name]}
        for resource, result in admin.describe_configs(resources).items()
    }
    # Not by the admin client: librdkafka dies of the answer NOT_COORDINATOR to it, which a broker gives that starts.
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    wanted = [Place("plain", partition) for partition in range(PARTITIONS)]
    committed = [place.offset for place in _once_loaded(lambda: reader.committed(wanted, timeout=PATIENCE_S))]
    reader.close()
    records = {
        (topic, partition): read(bootstrap, topic, partition) for topic in TOPICS for partition in range(PARTITIONS)
    }
    return Seen(topics, configs, committed, records)


def _once_loaded(ask: Callable[[], Any]) -> Any:
    """What a coordinator answers that has just started."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _collection(names: list[str]) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(names)


def read(bootstrap: str, topic: str, partition: int) -> list[tuple[int, bytes | None, bytes | None, int, object]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "look",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([Place(topic, partition, 0)])
    records: list[tuple[int, bytes | None, bytes | None, int, object]] = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{topic}-{partition} ends nowhere after {len(records)} records"
        if message.error():
            break
        records.append((message.offset(), message.key(), message.value(), message.timestamp()[1], message.headers()))
    consumer.close()
    return records


def complaints(kafka: ReferenceKafka, about: str) -> list[str]:
    """Errors of Apache Kafka about what it loads: it has others of its own, on a busy machine or while it moves logs.

    A log that waits for its removal has no indexes.
    """
    said = [line for line in kafka.log_file().read_text().splitlines() if re.search(f" ERROR .*({about})", line)]
    return [line for line in said if "-delete" not in line]


def kbroker_on(directory: Path, kafka: ReferenceKafka) -> BrokerProcess:
    return BrokerProcess(directory, "--node-id", "1", "--cluster-id", kafka.cluster_id)


def test_kbroker_goes_on_with_a_directory_of_apache_kafka(tmp_path: Path) -> None:
    kafka = ReferenceKafka(
        tmp_path / "kafka", overrides={"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
    )
    kafka.start()
    try:
        fill(kafka.bootstrap)
        before = look(kafka.bootstrap)
    finally:
        kafka.stop()
    with kbroker_on(kafka.data_dir(), kafka) as broker:
        assert look(broker.bootstrap) == before
        write(broker.bootstrap, 100, "second")
        after = look(broker.bootstrap)
    for place, records in before.records.items():
        assert after.records[place][: len(records)] == records
        assert len(after.records[place]) == len(records) + 50 + (40 if place == ("plain", 0) else 0)


@pytest.mark.parametrize("killed", [False, True])
def test_apache_kafka_goes_on_with_a_directory_of_kbroker(tmp_path: Path, killed: bool) -> None:
    kafka = ReferenceKafka(
        tmp_path / "kafka", overrides={"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
    )
    directory = kafka.data_dir()
    directory.parent.mkdir(parents=True)
    with kbroker_on(directory, kafka) as broker:
        fill(broker.bootstrap)
        before = look(broker.bootstrap)
        if killed:
            broker.kill()
    kafka.start()
    try:
        after = look(kafka.bootstrap)
        assert after == before
        write(kafka.bootstrap, 100, "second")
    finally:
        kafka.stop()
    assert complaints(kafka, "Log|Metadata|[Ff]ault") == []
    shutil.copytree(directory, tmp_path / "back")
    with kbroker_on(tmp_path / "back", kafka) as broker:
        assert len(look(broker.bootstrap).records["compacted", 0]) == len(before.records["compacted", 0]) + 50


# --- two data directories

SLOW = "10"
MOVED, MOVING = "plain", "compacted"


class TwoDirectories:
    """The two data directories, with Apache Kafka or kbroker on them; the same topics are moved by both."""

    def __init__(self, folder: Path) -> None:
        self.second = folder / "second"
        few = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
        paths = f"{folder / 'kafka' / '1' / 'data'},{self.second}"
        self.kafka = ReferenceKafka(folder / "kafka", overrides={**few, "log.dirs": paths})
        self.first = self.kafka.data_dir()
        self.first.parent.mkdir(parents=True, exist_ok=True)

    def kbroker(self) -> BrokerProcess:
        identity = ("--node-id", "1", "--cluster-id", self.kafka.cluster_id)
        return BrokerProcess(self.first, *identity, more_dirs=[self.second])


def move_some(bootstrap: str) -> str:
    """One topic has moved when this returns, one partition of another is on its way; where to."""
    c = Conversation(bootstrap)
    _, target = home_and_other(c, MOVED, 0)
    move(c, target, MOVED, 0, 1)
    await_move(c, MOVED, target)
    _, target = home_and_other(c, MOVING, 0)
    set_broker(c, RATE, SLOW)
    move(c, target, MOVING, 0)
    c.close()
    return target


def end_move(bootstrap: str, target: str) -> None:
    """The move that the other broker began goes on and ends. Apache Kafka copies some before it knows of the rate."""
    c = Conversation(bootstrap)
    set_broker(c, RATE, None)
    deadline = time.monotonic() + PATIENCE_S
    while [path for path, *_ in places(c, MOVING)[0]] != [target]:
        assert time.monotonic() < deadline, places(c, MOVING)
        time.sleep(0.1)
    c.close()


def where(bootstrap: str) -> dict[str, dict[int, list[str]]]:
    """The directories of every partition of the topics; of the internal ones, how many there are."""
    c = Conversation(bootstrap)
    found = {topic: {n: [path for path, *_ in at] for n, at in places(c, topic).items()} for topic in TOPICS}
    c.close()
    return found


def test_kbroker_goes_on_with_two_directories_of_apache_kafka_in_the_middle_of_a_move(tmp_path: Path) -> None:
    two = TwoDirectories(tmp_path)
    two.kafka.start()
    try:
        fill(two.kafka.bootstrap)
        target = move_some(two.kafka.bootstrap)
        before, placed = look(two.kafka.bootstrap), where(two.kafka.bootstrap)
    finally:
        two.kafka.stop()
    with two.kbroker() as broker:
        assert where(broker.bootstrap) == placed
        assert look(broker.bootstrap) == before
        end_move(broker.bootstrap, target)
        write(broker.bootstrap, 100, "second")
        after = look(broker.bootstrap)
    for place, records in before.records.items():
        assert after.records[place][: len(records)] == records
    with two.kbroker() as broker:
        assert look(broker.bootstrap) == after
        assert where(broker.bootstrap)[MOVING][0] == [target]


@pytest.mark.parametrize("killed", [False, True])
def test_apache_kafka_goes_on_with_two_directories_of_kbroker_in_the_middle_of_a_move(
    tmp_path: Path, killed: bool
) -> None:
    two = TwoDirectories(tmp_path)
    with two.kbroker() as broker:
        fill(broker.bootstrap)
        target = move_some(broker.bootstrap)
        before = look(broker.bootstrap)
        assert len(where(broker.bootstrap)[MOVING][0]) == 2
        if killed:
            broker.kill()
    two.kafka.start()
    try:
        assert look(two.kafka.bootstrap) == before
        end_move(two.kafka.bootstrap, target)
        write(two.kafka.bootstrap, 100, "second")
        after = look(two.kafka.bootstrap)
    finally:
        two.kafka.stop()
    assert complaints(two.kafka, r"\[LogLoader") == []
    with two.kbroker() as broker:
        assert look(broker.bootstrap) == after
        assert where(broker.bootstrap)[MOVING][0] == [target]
