"""The pytest plugin as a user has it: kbroker installed by pip, beside the other plugins that its users have."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from tests.compat.registry_clients import INSTALL_TIMEOUT_S, python_client, python_sources, run

pytestmark = [pytest.mark.all, pytest.mark.timeout(2 * INSTALL_TIMEOUT_S)]

ROOT = Path(__file__).parents[2]
TOOLS = ("pytest==9.2.0", "pytest-asyncio==1.5.0", "pytest-xdist==3.8.0", "pytest-kafka-broker==1.0.0")
CLIENTS = ("aiokafka==0.14.0", "confluent-kafka==2.16.1")
DEPENDENCIES = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
WITHOUT_FORERUNNER = ("-p", "no:kafka_broker")

IN_COROUTINES = """
import asyncio

import aiokafka
import pytest
import pytest_asyncio

from kbroker.testing import Broker


@pytest_asyncio.fixture
async def seeded(kafka_broker):
    await kafka_broker.aio.produce("orders", ["seed"])
    return kafka_broker.aio


async def test_a_coroutine_has_the_fixture(seeded):
    consumer = seeded.sync.aio_consumer(
        {"group.id": "shop", "auto.offset.reset": "earliest"}, library="aiokafka"
    )
    consumer.subscribe(["orders"])
    await consumer.start()
    assert (await consumer.getone()).value == b"seed"
    await seeded.wait_for_assignment("shop")
    await consumer.commit()
    assert await seeded.wait_for_commit("shop", "orders", 1) == 1
    await consumer.stop()


async def test_the_next_coroutine_has_a_clean_one(kafka_broker):
    assert await kafka_broker.aio.topics() == {}
    with pytest.raises(RuntimeError, match="await broker.aio"):
        kafka_broker.wait_for_records("orders", 1)


async def test_a_broker_of_ones_own_in_the_same_loop():
    async with Broker(topics={"orders": 1}) as broker:
        fault = broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS").once()
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10)
        await producer.start()
        sent = asyncio.ensure_future(producer.send_and_wait("orders", b"a"))
        await broker.wait_fired(fault)
        assert (await sent).offset == 0
        await producer.stop()
"""

AMONG_WORKERS = """
import pytest


@pytest.mark.parametrize("number", range(40))
def test_alone(kafka_broker, number):
    assert kafka_broker.topics() == {}
    producer = kafka_broker.producer()
    producer.produce("orders", b"%d" % number)
    assert producer.flush(30) == 0
    assert [record.text for record in kafka_broker.records("orders")] == [str(number)]
"""

BESIDE_ITS_FORERUNNER = """
def test_kafka_broker_is_theirs(request, kbroker_proc):
    (fixture,) = request.session._fixturemanager.getfixturedefs("kafka_broker", request.node)
    assert fixture.func.__module__.startswith("pytest_kafka_broker")
    assert kbroker_proc.produce("orders", ["a"]) == [0]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which pip has put kbroker."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(ROOT)]
    run(command, timeout_s=INSTALL_TIMEOUT_S)
    return folder


@pytest.fixture
def pytest_run(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command that runs pytest in ``tmp_path``, a project whose environment has kbroker and the other plugins."""
    for name in [name for name in os.environ if name.startswith("PYTEST")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(installed))
    python = python_client(*TOOLS, *CLIENTS, *DEPENDENCIES)
    return [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]


def test_coroutines_of_pytest_asyncio(pytest_run: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(IN_COROUTINES)
    said = run([*pytest_run, *WITHOUT_FORERUNNER, "-o", "asyncio_mode=auto"], cwd=tmp_path)
    assert "3 passed" in said


def test_four_workers_of_pytest_xdist(pytest_run: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(AMONG_WORKERS)
    said = run([*pytest_run, *WITHOUT_FORERUNNER, "-n", "4"], cwd=tmp_path)
    assert "40 passed" in said


def test_the_tests_of_pytest_kafka_broker_pass_on_our_fixture(pytest_run: list[str], tmp_path: Path) -> None:
    """Its helpers in use, sync and async, and its setting in the ini file; not its switch, nor its ports."""
    sources = tmp_path / "sources"
    shutil.copytree(python_sources("pytest-kafka-broker", "1.0.0"), sources)
    files = ["tests/test_kafka.py", "tests/test_config.py", "--deselect", "tests/test_config.py::test_kafka_enabled"]
    said = run([*pytest_run, *WITHOUT_FORERUNNER, "--rootdir", str(sources), "-o", "addopts=", *files], cwd=sources)
    assert "3 passed" in said


def test_pytest_kafka_broker_keeps_its_fixture(pytest_run: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(BESIDE_ITS_FORERUNNER)
    said = run(pytest_run, cwd=tmp_path)
    assert "1 passed" in said
