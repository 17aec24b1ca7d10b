"""Test suites of applications written by others, on ``kbroker.testing``: unchanged but for the address of the broker.

They come from the source distributions, with the libraries of their time; nothing of them is kept here. What fails is
said where it is left out.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from kbroker.testing import Broker
from tests.compat.registry_clients import python_client, python_sources, run

pytestmark = pytest.mark.all

TIMEOUT_S = 300
ASSERTIONS = """
from contextlib import contextmanager


@contextmanager
def assert_changes(read, before, after):
    assert read() == before
    yield
    assert read() == after


def assert_does_not_change(read, value):
    return assert_changes(read, value, value)
"""
"""A module that Arroyo's tests import and that its source distribution lacks."""


def passed(
    sources: Path, folder: Path, python: Path, address: Mapping[str, str], *arguments: str, extra: Mapping[str, str]
) -> int:
    """How many tests of a copy of ``sources`` passed; every one that is chosen has to."""
    copy = folder / "application"
    shutil.copytree(sources, copy)
    for path, text in extra.items():
        (copy / path).write_text(text)
    environment = [f"{name}={value}" for name, value in address.items()]
    pytest_run = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    said = run(["env", "-u", "PYTHONPATH", *environment, *pytest_run], cwd=copy, timeout_s=TIMEOUT_S)
    counted = re.search(r"(\d+) passed", said)
    assert counted is not None, said
    return int(counted[1])


@pytest.mark.timeout(TIMEOUT_S + 120)
def test_arroyo_of_sentry_passes_its_tests(tmp_path: Path) -> None:
    """Consumers and producers on librdkafka: pausing, rebalances, resets of offsets, end of partition, commits.

    Left out: the class and the module that use the newer group protocol (KIP-848), which is not served.
    """
    python = python_client("sentry-arroyo==2.48.0", "confluent-kafka==2.16.1", "pytest==9.2.0")
    sources = python_sources("sentry-arroyo", "2.48.0")
    with Broker(mode="process") as broker:
        count = passed(
            sources, tmp_path, python, {"DEFAULT_BROKERS": broker.bootstrap_servers},
            "tests/backends/test_kafka.py", "tests/backends/test_kafka_producer.py", "-k", "not Kip848",
            extra={"tests/assertions.py": ASSERTIONS},
        )  # fmt: skip
    assert count == 26


@pytest.mark.timeout(TIMEOUT_S + 120)
def test_taskiq_aio_kafka_passes_its_tests(tmp_path: Path) -> None:
    """A broker of tasks on aiokafka and kafka-python: topics made and deleted, tasks sent and heard.

    With kafka-python 3 one of them fails with any broker: it wants the partitioner of kafka-python 2.
    """
    python = python_client("taskiq-aio-kafka==1.0.0", "kafka-python==2.3.0", "anyio==4.16.0", "pytest==9.2.0")
    sources = python_sources("taskiq-aio-kafka", "1.0.0")
    with Broker(mode="process") as broker:
        count = passed(sources, tmp_path, python, {"TEST_KAFKA_URL": broker.bootstrap_servers}, "tests", extra={})
    assert count == 12
