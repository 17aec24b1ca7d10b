"""Apache Kafka's administration tools print the same of both brokers, whatever they are told to do.

Each broker has a JVM in which all commands of ``tool_commands.py`` run in turn.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess
from tests.reference.conversation import Conversation
from tests.reference.settings import KBROKER_OPTIONS, start_reference
from tests.reference.tool_commands import COMMANDS
from tests.toolchains import require
from tools.reference_kafka import TOOLS, java

pytestmark = [pytest.mark.all, pytest.mark.timeout(1200)]

TIME_MS = 1_700_000_000_000
DEADLINE_SECONDS = 120.0
CATCH_UP_SECONDS = 30.0
SERVER_LAST = {"cluster"}
"""Tools that want the server behind the subcommand."""
UNORDERED = {"--list", "--members", "--all-groups", "--reset-offsets", "delete-records", "leader-election"}
"""Tools and options whose lines come in any order."""
WORDS = {
    "all_printed": " ".join(
        f"--formatter-property print.{each}=true"
        for each in ("key", "timestamp", "offset", "partition", "headers", "delivery", "epoch")
    ),
    "supported": " ".join(
        f"--{each}-supported true"
        for each in ("offsets-for-times", "cluster-id", "create-topics", "describe-acls", "describe-configs")
    )
    + " --expect-record-too-large-exception false --num-cluster-nodes 1 --idempotent-producer-supported true",
}
"""What commands name that are no files."""
MEANT = {
    "metadata-quorum describe --status": "the controller inside a lone broker has no listener of its own to tell of",
}
"""The commands whose output differs on purpose, and why."""
ALIKE = (
    (r"localhost:\d+|127\.0\.0\.1:\d+|localhost \d+", "BROKER"),
    (r"(rdkafka|first)-[0-9a-f-]{36}", "MEMBER"),
    (r"\b[A-Za-z0-9_-]{22}\b", "ID"),
    (r'"(totalBytes|usableBytes)":\d+', r'"\1":N'),
    (r'"/[^"]*"', '"DIRECTORY"'),
    (r"Epoch: \d+", "Epoch: N"),
    (r"(HighWatermark|LeaderEpoch|MaxFollowerLag\w*): -?\d+", r"\1: N"),
    (r"^1 ID \d+ 0 .* Leader$", "1 ID LAST 0 NOW NOW Leader"),
    (r"^(1 teller \d+ \d+ \w+ 900000) \d{13} \d+", r"\1 THEN AGO"),
    (r"^(\d+ \d+ -?\d+ -?\d+) \d{13} ", r"\1 THEN "),
)
"""What two brokers have each its own: pattern and what stands for it."""
NOISE = re.compile(r"$|at \S+\(|null$|ToolShell\$Ended$")
"""Java's stack traces."""


class Shell:
    """Runs the tools against one broker."""

    def __init__(self, bootstrap: str, words: dict[str, str], program: subprocess.Popen[str]) -> None:
        self._bootstrap = bootstrap
        self._conversation = Conversation(bootstrap)
        self._words = words
        self._program = program

    def close(self) -> None:
        self._conversation.close()

    def run(self, command: str) -> str:
        """What the tool printed and its exit status, without what differs from broker to broker."""
        name, *arguments = shlex.split(command.format_map(self._words))
        server = ["--bootstrap-server", self._bootstrap]
        arguments = arguments + server if name in SERVER_LAST else server + arguments
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write("\t".join([TOOLS[name], *arguments]) + "\n")
        self._program.stdin.flush()
        status, _, printed = self._program.stdout.readline().partition(" ")
        self._conversation.follow()  # Apache Kafka's broker learns of an alteration a moment after it was answered
        # Columns are as wide as their widest cell; how to use a tool is the tool's business.
        lines = [" ".join(line.split()) for line in base64.b64decode(printed).decode().splitlines()]
        lines = [line for line in takewhile(lambda line: line != "Option Description", lines) if not NOISE.match(line)]
        for pattern, instead in ALIKE:
            lines = [re.sub(pattern, instead, line) for line in lines]
        return "\n".join([*(lines if UNORDERED.isdisjoint([name, *arguments]) else sorted(lines)), f"status {status}"])


@contextmanager
def shell(bootstrap: str, words: dict[str, str]) -> Iterator[Shell]:
    command = java(str(Path(__file__).with_name("ToolShell.java")))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as program:
        try:
            running = Shell(bootstrap, words, program)
            yield running
            running.close()
        finally:
            program.kill()


def files(folder: Path) -> dict[str, str]:
    """The files that commands name."""

    def row(**row: object) -> dict[str, object]:
        return {"topic": "orders", **row}

    def document(*partitions: dict[str, object]) -> str:
        return json.dumps({"version": 1, "partitions": partitions})

    contents = {
        "properties": "retention.ms=1234\ncleanup.policy=compact\n",
        "offsets": "orders,0,2\norders,2,1\n",
        "group_offsets": "readers,orders,0,1\nidle,orders,1,2\n",
        "move": json.dumps({"version": 1, "topics": [{"topic": "orders"}]}),
        "plan": document(row(partition=0, replicas=[1])),
        "wrong_plan": document(row(partition=0, replicas=[9])),
        "deletions": document(row(partition=0, offset=2), row(partition=1, offset=-1)),
        "deletions_twice": document(row(partition=0, offset=2), row(partition=0, offset=2)),
        "wrong_deletions": document(row(partition=0, offset=99)),
        "plan_of_directory": document(row(partition=0, replicas=[1], log_dirs=["/no/such"])),
        "plan_of_missing": document(row(partition=0, replicas=[1]), row(topic="missing", partition=0, replicas=[1])),
        "elections": json.dumps(
            {"partitions": [row(partition=0), row(partition=9), row(topic="missing", partition=0)]}
        ),
        "wrong_properties": "retention.ms=1234\nno.such.key=1\n",
        "empty": "",
    }
    for name, text in contents.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in contents} | {"controller": controller(folder)}


def controller(folder: Path) -> str:
    """The configuration of a controller that is formatted and wants to take part."""
    data = folder / "controller-data"
    data.mkdir()
    (data / "meta.properties").write_text(f"version=1\ncluster.id={'A' * 22}\nnode.id=9\ndirectory.id={'B' * 21}A\n")
    settings = {
        "process.roles": "controller",
        "node.id": 9,
        "listeners": "CONTROLLER://localhost:9399",
        "advertised.listeners": "CONTROLLER://localhost:9399",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "localhost:9393",
        "metadata.log.dir": data,
    }
    path = folder / "controller.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return str(path)


def commit(consumer: Consumer, offset: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        with suppress(KafkaException):  # Apache Kafka's coordinator is not there at once
            consumer.commit(offsets=[TopicPartition("orders", each, offset) for each in range(3)], asynchronous=False)
            return
    pytest.fail("nothing was committed")


def fill(bootstrap: str) -> str:
    """The topics, and the two groups that nobody is in; the id of ``orders``."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    kept = {"retention.ms": "-1"}  # also when a command says otherwise of all topics
    topics = [NewTopic("orders", 3, 1, config=kept), NewTopic("ledger", 1, 1, config=kept)]
    for made in admin.create_topics(topics).values():
        made.result(DEADLINE_SECONDS)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce("orders", b"%d" % number, partition=number % 3, timestamp=TIME_MS + 1000 * number)
        assert producer.flush(DEADLINE_SECONDS) == 0
    for group, offset in (("readers", 2), ("idle", 1)):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        commit(consumer, offset)
        consumer.close()
    described = admin.describe_topics(TopicCollection(["orders"]))["orders"].result(DEADLINE_SECONDS)
    return str(described.topic_id).translate(str.maketrans("+/", "-_", "="))


def member(bootstrap: str, group: str, topic: str, *others: Consumer, instance_id: str = "") -> Consumer:
    """A new member of the group with its part of the topic; the others have theirs, too."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "rdkafka"}
    settings["max.poll.interval.ms"] = 3_600_000  # it stays while all the commands run, and is not polled
    if instance_id:
        settings["group.instance.id"] = instance_id
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    parts: list[list[TopicPartition]] = []
    consumer.subscribe([topic], on_assign=lambda _, partitions: parts.append(partitions))
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not parts:
        assert time.monotonic() < deadline
        for each in (*others, consumer):
            each.poll(0.1)
    return consumer


@contextmanager
def members(bootstrap: str) -> Iterator[None]:
    """The groups ``busy`` and ``steady``; the member of ``busy`` committed."""
    busy = member(bootstrap, "busy", "orders")
    commit(busy, 1)
    static = member(bootstrap, "steady", "ledger", instance_id="first")
    another = member(bootstrap, "steady", "ledger", static)
    yield
    for consumer in (busy, static, another):
        consumer.close()


@contextmanager
def open_transaction(bootstrap: str) -> Iterator[None]:
    """``teller`` wrote to ``ledger`` and did not commit."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "teller", "transaction.timeout.ms": 900_000}
    )
    producer.init_transactions(DEADLINE_SECONDS)
    producer.begin_transaction()
    producer.produce("ledger", b"open")
    assert producer.flush(DEADLINE_SECONDS) == 0
    yield
    producer.purge()


def is_question(command: str) -> bool:
    return command.startswith("get-offsets") or any(word in command for word in ("--describe", "--list", " describe"))


def ask(shells: Sequence[Shell], command: str) -> tuple[str, str]:
    """What both print, reference first. A question is asked again: Apache Kafka's broker does some things a moment
    after it has answered."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    with ThreadPoolExecutor() as both:
        while True:
            reference, kbroker = both.map(lambda shell: shell.run(command), shells)
            is_open = reference != kbroker and command not in MEANT and is_question(command)
            if not is_open or time.monotonic() > deadline:
                return reference, kbroker


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    require("java")
    folder = tmp_path_factory.mktemp("tools")
    with ExitStack() as stack:
        reference = stack.enter_context(start_reference(folder))
        kbroker = stack.enter_context(BrokerProcess(folder / "kbroker", *KBROKER_OPTIONS)).bootstrap
        words = files(folder)
        shells = []
        for bootstrap in (reference, kbroker):
            topic_id = fill(bootstrap)
            stack.enter_context(members(bootstrap))
            stack.enter_context(open_transaction(bootstrap))
            shells.append(stack.enter_context(shell(bootstrap, {**WORDS, **words, "topic_id": topic_id})))
        return [ask(shells, command) for command in COMMANDS]


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=COMMANDS)
def test_the_tools_print_the_same(printed: list[tuple[str, str]], number: int) -> None:
    reference, kbroker = printed[number]
    if COMMANDS[number] in MEANT:
        assert kbroker != reference, "it no longer differs"
    else:
        assert kbroker == reference
