"""Kafka Streams and Kafka Connect, whole: a real text goes in, what comes out is checked, and each is restarted midway.

Connect is that of Apache Kafka 4.3: Maven's repositories have its connectors for files, which run on no other version.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.compat import corpus
from tests.compat.registry_clients import java_jar, java_program
from tests.compat.test_confluent_kafka import make_topic
from tests.patience import PATIENCE_S
from tests.toolchains import require
from tools.reference_kafka import classpath, free_ports, java

pytestmark = pytest.mark.all

DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.05
PARTITIONS = 3
LINES = 2000


@pytest.fixture(autouse=True)
def _java() -> None:
    require("java")


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program until the context ends, when it is told to (SIGTERM). What it says is in ``log``."""
    with log.open("ab") as output:
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield program
        program.terminate()
        program.wait(DEADLINE_SECONDS)
    finally:
        program.kill()
        program.wait()


def wait_until(is_so: Callable[[], bool], program: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        with suppress(subprocess.TimeoutExpired):
            status = program.wait(POLL_SECONDS)
            pytest.fail(f"the program ended with status {status}:\n{log.read_text()[-3000:]}")


def cleanup_policy(bootstrap: str, topic: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    return str(described["cleanup.policy"].value)


# --- Kafka Streams


class Counts:
    """The newest count of each word in a topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.newest: Counter[str] = Counter()
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)])

    def total(self) -> int:
        """How many words are counted by now."""
        for message in self._consumer.consume(10_000, timeout=0.1):
            assert message.error() is None
            self.newest[(message.key() or b"").decode()] = int(message.value() or b"")
        return self.newest.total()

    def close(self) -> None:
        self._consumer.close()


def test_kafka_streams_counts_words_and_takes_its_counts_from_the_changelog(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    source, target, log = f"{topic}-in", f"{topic}-out", tmp_path / "log"
    make_topic(bootstrap, source, partitions=PARTITIONS)
    make_topic(bootstrap, target, partitions=PARTITIONS)
    counts, expected = Counts(bootstrap, target), Counter[str]()
    producer = Producer({"bootstrap.servers": bootstrap})
    lines = corpus.lines(2 * LINES)

    def count(part: Sequence[bytes]) -> None:
        for number, line in enumerate(part):
            producer.produce(source, line, partition=number % PARTITIONS)
            expected.update(re.findall("[a-z]+", line.decode().lower()))
        assert producer.flush(DEADLINE_SECONDS) == 0

    def program(state: str) -> list[str]:
        return java_program("WordCount", bootstrap, topic, source, target, str(tmp_path / state))

    def everything_is_counted() -> bool:
        return counts.total() >= expected.total()

    count(lines[:LINES])
    with running(program("first"), log) as first:
        wait_until(everything_is_counted, first, log)
        count(lines[LINES:])
    with running(program("second"), log) as second:
        wait_until(everything_is_counted, second, log)
    counts.close()
    assert counts.newest == expected
    assert cleanup_policy(bootstrap, f"{topic}-counts-changelog") == "compact"
    assert cleanup_policy(bootstrap, f"{topic}-counts-repartition") == "delete"


# --- Kafka Connect


CONNECT_VERSION = "4.3.0"
FILE_CONNECTORS = f"org.apache.kafka:connect-file:{CONNECT_VERSION}"
WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "plugin.discovery": "service_load",
}


class Worker:
    """Connect's worker with a connector from ``in.txt`` to a topic, and one from there to ``out.txt``."""

    def __init__(self, bootstrap: str, topic: str, folder: Path) -> None:
        self.settings = {**WORKER, "bootstrap.servers": bootstrap}
        self.folder = folder
        self.log = folder / "log"
        self.source, self.sink = folder / "in.txt", folder / "out.txt"
        self.connectors = {
            f"{topic}-source": {"connector.class": "FileStreamSource", "topic": topic, "file": str(self.source)},
            f"{topic}-sink": {"connector.class": "FileStreamSink", "topics": topic, "file": str(self.sink)},
        }

    def command(self, main: str, *files: Path) -> list[str]:
        path = os.pathsep.join((str(java_jar(FILE_CONNECTORS)), classpath(CONNECT_VERSION)))
        return java("-cp", path, f"org.apache.kafka.connect.cli.{main}", *map(str, files), version=CONNECT_VERSION)

    def written(self, name: str, settings: dict[str, str]) -> Path:
        file = self.folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return file

    def moves(self, text: str, program: subprocess.Popen[bytes]) -> None:
        """Give it more text, and see all of it come out, in order.

        Every line is another. Apache's source says the last few again after a restart, whichever the broker.
        """
        with self.source.open("a") as file:
            file.write(text)
        *everything, _ = self.source.read_text().split("\n")
        wait_until(lambda: len(self._sank()) >= len(everything), program, self.log)
        assert self._sank() == everything

    def _sank(self) -> list[str]:
        *lines, _unfinished = self.sink.read_text().split("\n") if self.sink.exists() else [""]
        return list(dict.fromkeys(lines))


@pytest.fixture
def halves() -> tuple[str, str]:
    lines = [f"{line.decode()}\n" for line in corpus.lines(2 * LINES)]
    return "".join(lines[:LINES]), "".join(lines[LINES:])


def test_connect_standalone_moves_a_file_and_goes_on_where_it_was(
    bootstrap: str, topic: str, tmp_path: Path, halves: tuple[str, str]
) -> None:
    make_topic(bootstrap, topic)
    worker = Worker(bootstrap, topic, tmp_path)
    worker.source.touch()
    own = {"offset.storage.file.filename": str(tmp_path / "offsets"), "listeners": "http://127.0.0.1:0"}
    files = [worker.written("worker", worker.settings | own)]
    files += [worker.written(name, {"name": name, **each}) for name, each in worker.connectors.items()]
    for half in halves:
        with running(worker.command("ConnectStandalone", *files), worker.log) as program:
            worker.moves(half, program)


def accepts(port: int, connector: str, settings: dict[str, str]) -> bool:
    """Whether Connect's REST interface takes a connector; it is not up at first, and then busy rebalancing."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
    headers = {"Content-Type": "application/json"}
    try:
        connection.request("PUT", f"/connectors/{connector}/config", json.dumps(settings), headers)
        return connection.getresponse().status in (200, 201)
    except OSError:
        return False
    finally:
        connection.close()


def test_connect_distributed_keeps_its_connectors_and_offsets_in_topics(
    bootstrap: str, topic: str, tmp_path: Path, halves: tuple[str, str]
) -> None:
    make_topic(bootstrap, topic)
    worker = Worker(bootstrap, topic, tmp_path)
    worker.source.touch()
    (port,) = free_ports(1)
    own = {"group.id": f"{topic}-workers", "listeners": f"http://127.0.0.1:{port}"}
    own["exactly.once.source.support"] = "enabled"
    kept = {kind: f"{topic}-{kind}" for kind in ("config", "offset", "status")}
    for kind, name in kept.items():
        own |= {f"{kind}.storage.topic": name, f"{kind}.storage.replication.factor": "1"}
    command = worker.command("ConnectDistributed", worker.written("worker", worker.settings | own))
    before, after = halves
    with running(command, worker.log) as first:
        for each in worker.connectors.items():
            wait_until(partial(accepts, port, *each), first, worker.log)
        worker.moves(before, first)
    with running(command, worker.log) as second:
        worker.moves(after, second)
    assert {cleanup_policy(bootstrap, name) for name in kept.values()} == {"compact"}
