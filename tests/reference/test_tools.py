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

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker_process import BrokerProcess
from tests.reference.settings import KBROKER_OPTIONS, start_reference
from tests.reference.tool_commands import COMMANDS
from tests.toolchains import require
from tools.reference_kafka import TOOLS, java

pytestmark = [pytest.mark.all, pytest.mark.timeout(300)]

TIME_MS = 1_700_000_000_000
DEADLINE_SECONDS = 60.0
CATCH_UP_SECONDS = 5.0
SERVER_LAST = {"cluster"}
"""Tools that want the server behind the subcommand."""
UNORDERED = {"delete-records"}
"""Tools whose lines come in any order; so do those of every list."""
MEANT = {
    "features upgrade --release-version 4.4 --dry-run": "a static quorum cannot become a dynamic one here",
    "metadata-quorum describe --status": "the controller inside a lone broker has no listener of its own to tell of",
}
"""The commands whose output differs on purpose, and why."""
ALIKE = (
    (r"localhost:\d+|127\.0\.0\.1:\d+|localhost \d+", "BROKER"),
    (r"rdkafka-[0-9a-f-]{36}", "MEMBER"),
    (r"\b[A-Za-z0-9_-]{22}\b", "ID"),
    (r'"(totalBytes|usableBytes)":\d+', r'"\1":N'),
    (r'"/[^"]*"', '"DIRECTORY"'),
    (r"Epoch: \d+", "Epoch: N"),
    (r"(HighWatermark|LeaderEpoch|MaxFollowerLag\w*): -?\d+", r"\1: N"),
    (r"^1 ID \d+ 0 .* Leader$", "1 ID LAST 0 NOW NOW Leader"),
)
"""What two brokers have each its own: pattern and what stands for it."""
NOISE = re.compile(r"$|at \S+\(|null$|ToolShell\$Ended$")
"""Java's stack traces."""


class Shell:
    """Runs the tools against one broker."""

    def __init__(self, bootstrap: str, words: dict[str, str], program: subprocess.Popen[str]) -> None:
        self._bootstrap = bootstrap
        self._words = words
        self._program = program

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
        # Columns are as wide as their widest cell; how to use a tool is the tool's business.
        lines = [" ".join(line.split()) for line in base64.b64decode(printed).decode().splitlines()]
        lines = [line for line in takewhile(lambda line: line != "Option Description", lines) if not NOISE.match(line)]
        for pattern, instead in ALIKE:
            lines = [re.sub(pattern, instead, line) for line in lines]
        return "\n".join(
            [*(sorted(lines) if "--list" in arguments or name in UNORDERED else lines), f"status {status}"]
        )


@contextmanager
def shell(bootstrap: str, words: dict[str, str]) -> Iterator[Shell]:
    command = java(str(Path(__file__).with_name("ToolShell.java")))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as program:
        try:
            yield Shell(bootstrap, words, program)
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
        "wrong_deletions": document(row(partition=0, offset=99)),
    }
    for name, text in contents.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in contents}


def commit(consumer: Consumer, offset: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        with suppress(KafkaException):  # Apache Kafka's coordinator is not there at once
            consumer.commit(offsets=[TopicPartition("orders", each, offset) for each in range(3)], asynchronous=False)
            return
    pytest.fail("nothing was committed")


def fill(bootstrap: str) -> str:
    """``orders`` and the two groups that nobody is in; the topic's id."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", 3, 1, config={"retention.ms": "-1"})])["orders"].result(DEADLINE_SECONDS)
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


@contextmanager
def busy(bootstrap: str) -> Iterator[None]:
    """The group ``busy`` with one member that committed."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "busy", "client.id": "rdkafka", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(consumer.assignment()) < 3:
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    commit(consumer, 1)
    yield
    consumer.close()


def is_question(command: str) -> bool:
    return command.startswith("get-offsets") or any(word in command for word in ("--describe", "--list", " describe"))


def ask(shells: Sequence[Shell], command: str) -> tuple[str, str]:
    """What both print, reference first. A question is asked again: Apache Kafka's broker learns of an alteration a
    moment after it was answered."""
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
            stack.enter_context(busy(bootstrap))
            shells.append(stack.enter_context(shell(bootstrap, {**words, "topic_id": topic_id})))
        return [ask(shells, command) for command in COMMANDS]


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=COMMANDS)
def test_the_tools_print_the_same(printed: list[tuple[str, str]], number: int) -> None:
    reference, kbroker = printed[number]
    if COMMANDS[number] in MEANT:
        assert kbroker != reference, "it no longer differs"
    else:
        assert kbroker == reference
