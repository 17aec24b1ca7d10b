"""A member of a consumer group that is another program, as the tests of groups see their members.

A member program prints a line ``assigned 0,2`` whenever its partitions change (nothing after the word when it has
none), and ``record VALUE`` for each record. For each line on standard input it commits what it got and prints
``committed``; at the end of standard input it leaves the group and ends with status 0. Apache Kafka's
verifiable-consumer says the same in JSON, and commits by itself; its console-consumer shows values only, so that the
broker is asked who has which partition.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tools.reference_kafka import TOOLS, java

DEADLINE_SECONDS = 90.0
POLL_SECONDS = 0.05


class ProgramMember:
    """One running program."""

    def __init__(self, command: Sequence[str], node_path: Path | None = None) -> None:
        environment = {**os.environ, "NODE_PATH": str(node_path)} if node_path is not None else None
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 (closed with the member)
        self._program = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self._assignment: set[int] = set()
        self._commits = 0
        self._values: list[bytes] = []

    def poll(self) -> list[bytes]:
        """The values that came, within a moment."""
        self._hear()
        values, self._values = self._values, []
        return values

    def assignment(self) -> set[int]:
        return self._assignment

    def commit(self) -> None:
        before = self._commits
        assert self._program.stdin is not None
        self._program.stdin.write("commit\n")
        self._program.stdin.flush()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self._commits == before:
            assert time.monotonic() < deadline, self._said()
            self._hear()

    def close(self) -> None:
        """Leave the group."""
        self.ask_to_end()
        try:
            assert self._program.wait(DEADLINE_SECONDS) in self.ended_well, self._said()
        finally:
            self.kill()

    def kill(self) -> None:
        """End it, however it is."""
        self._program.kill()
        self._program.wait()
        self._reading.join()
        for stream in (self._program.stdin, self._program.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    # --- what differs between programs

    ended_well: tuple[int, ...] = (0,)

    def ask_to_end(self) -> None:
        assert self._program.stdin is not None
        self._program.stdin.close()

    def take(self, line: str) -> Iterator[bytes]:
        """The values in a line."""
        word, _, rest = line.partition(" ")
        if word == "assigned":
            self._assignment = {int(each) for each in rest.split(",") if each}
        elif word == "record":
            yield rest.encode()
        elif word == "committed":
            self._commits += 1

    # --- the program's output

    def _read(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            self._lines.put(line.rstrip("\n"))

    def _hear(self) -> None:
        assert self._program.poll() is None, self._said()
        self._values += [value for line in self._arrived() for value in self.take(line)]

    def _arrived(self) -> Iterator[str]:
        with contextlib.suppress(queue.Empty):
            yield self._lines.get(timeout=POLL_SECONDS)
            while True:
                yield self._lines.get_nowait()

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()


class VerifiableConsumer(ProgramMember):
    """Apache Kafka's own (Java)."""

    ended_well = (0, 128 + signal.SIGTERM)

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__(
            java(
                TOOLS["verifiable-consumer"],
                *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group),
                *("--session-timeout", "30000", "--reset-policy", "earliest", "--verbose"),
            )
        )

    def take(self, line: str) -> Iterator[bytes]:
        told = json.loads(line)
        if told["name"] in ("partitions_assigned", "partitions_revoked"):
            named = {each["partition"] for each in told["partitions"]}
            is_assigned = told["name"] == "partitions_assigned"
            self._assignment = self._assignment | named if is_assigned else self._assignment - named
        elif told["name"] == "record_data":
            yield told["value"].encode()

    def commit(self) -> None:
        """It commits after each poll."""

    def ask_to_end(self) -> None:
        self._program.terminate()


class ConsoleConsumer(ProgramMember):
    """Apache Kafka's own (Java)."""

    ended_well = (0, 128 + signal.SIGTERM)
    _numbers = itertools.count()

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._client_id = f"console-{next(self._numbers)}"
        self._bootstrap = bootstrap
        self._group = group
        super().__init__(
            java(
                TOOLS["console-consumer"],
                *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning"),
                *("--command-property", f"client.id={self._client_id}"),
                *("--command-property", "session.timeout.ms=30000", "--command-property", "heartbeat.interval.ms=300"),
            )
        )

    def take(self, line: str) -> Iterator[bytes]:
        yield line.encode()

    def assignment(self) -> set[int]:
        # A new client each time: librdkafka's may wait for minutes after its broker was away.
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        described = admin.describe_consumer_groups([self._group])[self._group].result(DEADLINE_SECONDS)
        mine = [each.assignment for each in described.members if each.client_id == self._client_id]
        return {partition.partition for each in mine for partition in each.topic_partitions}

    def commit(self) -> None:
        """It commits before it gives partitions away and as it ends."""

    def ask_to_end(self) -> None:
        self._program.terminate()
