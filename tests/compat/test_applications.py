"""Whole programs on frameworks of others, unchanged but for the address: FastStream, Faust, Celery."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from tests.compat.registry_clients import PROGRAMS, python_client, run
from tests.compat.test_confluent_kafka import make_topic, receive

pytestmark = pytest.mark.all

DEADLINE_SECONDS = 120.0


def produce(bootstrap: str, topic: str, values: Sequence[bytes]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_SECONDS) == 0


@contextmanager
def running(command: Sequence[str], settings: Mapping[str, str], folder: Path) -> Iterator[None]:
    """A program until the context ends, when it is told to (SIGTERM). What it says is in ``program.log``."""
    with (folder / "program.log").open("ab") as output:
        program = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **settings}, stdout=output, stderr=output, stdin=subprocess.DEVNULL
        )
    try:
        yield
        program.terminate()
        program.wait(DEADLINE_SECONDS)
    finally:
        program.kill()
        program.wait()


def test_a_faststream_application_answers_and_goes_on_where_it_was(bootstrap: str, topic: str) -> None:
    python = python_client("faststream[kafka]==0.7.8")
    target = f"{topic}-out"
    make_topic(bootstrap, topic)
    make_topic(bootstrap, target)
    for start in (0, 50):
        produce(bootstrap, topic, [b"%d" % number for number in range(start, start + 50)])
        run([str(python), str(PROGRAMS / "faststream_app.py"), bootstrap, topic, target, "50"])
    answers = [int(message.value() or b"") for message in receive(bootstrap, target, 100)]
    assert answers == [2 * number for number in range(100)]


def test_a_faust_application_counts_and_restores_its_table_from_the_changelog(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    python = python_client("faust-streaming==0.15.3")
    target = f"{topic}-out"
    make_topic(bootstrap, topic)
    make_topic(bootstrap, target)
    settings = {"BOOTSTRAP": bootstrap, "SOURCE": topic, "TARGET": target}
    command = [str(python), str(PROGRAMS / "faust_app.py"), "worker", "-l", "warn"]
    for rounds in (1, 2):
        produce(bootstrap, topic, [b"a", b"b", b"a"])
        with running(command, settings, tmp_path):
            counted = [message.value() for message in receive(bootstrap, target, 3 * rounds)]
    assert counted == [b"a 1", b"b 1", b"a 2", b"a 3", b"b 2", b"a 4"]


def test_celery_workers_do_the_tasks_that_wait_in_kafka(bootstrap: str, topic: str, tmp_path: Path) -> None:
    python = python_client("celery==5.7.0", "kombu[confluentkafka]==5.7.0")
    results = tmp_path / "results"
    settings = {"BOOTSTRAP": bootstrap, "QUEUE": topic, "RESULTS": str(results)}
    send = [str(python), str(PROGRAMS / "celery_app.py"), "20"]
    worker = [str(python), "-m", "celery", "-A", "celery_app", "worker", "-P", "solo", "-l", "WARNING"]
    worker += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    os.mkfifo(results)
    for _ in range(2):
        subprocess.run(send, env={**os.environ, **settings}, check=True, timeout=DEADLINE_SECONDS)
        # Open for writing, too: so it has no end between two tasks.
        with running(worker, {**settings, "PYTHONPATH": str(PROGRAMS)}, tmp_path), results.open("r+b", 0) as lines:
            assert sorted(int(lines.readline()) for _ in range(20)) == [number * number for number in range(20)]
