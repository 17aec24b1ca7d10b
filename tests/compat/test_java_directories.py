"""Apache Kafka's tools move logs between the data directories of a broker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.compat.test_confluent_kafka import make_topic, receive, send
from tests.toolchains import require
from tools.reference_kafka import tool

pytestmark = pytest.mark.all


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    require("java")
    with BrokerProcess(tmp_path / "one", more_dirs=[tmp_path / "two"]) as broker:
        yield broker


def directories(broker: BrokerProcess, topic: str) -> dict[str, list[Any]]:
    """What kafka-log-dirs says of a topic: the partitions of each directory."""
    said = tool("log-dirs", "--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", topic)
    found = json.loads(said[said.index("{") :])
    assert [each["error"] for each in found["brokers"][0]["logDirs"]] == [None, None]
    return {each["logDir"]: each["partitions"] for each in found["brokers"][0]["logDirs"]}


def test_reassign_partitions_moves_a_log_and_verifies_it(broker: BrokerProcess, tmp_path: Path) -> None:
    make_topic(broker.bootstrap, "moved")
    send(broker.bootstrap, [{"value": bytes(10_000)} for _ in range(300)], "moved")
    before = directories(broker, "moved")
    (home,) = [path for path, partitions in before.items() if partitions]
    (target,) = [path for path, partitions in before.items() if not partitions]
    size = before[home][0]["size"]
    assert size > 3_000_000
    plan = tmp_path / "plan.json"
    partition = {"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": [target]}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    options = ("--bootstrap-server", broker.bootstrap, "--reassignment-json-file", str(plan))
    said = tool("reassign-partitions", *options, "--execute", "--replica-alter-log-dirs-throttle", "20000")
    assert f"Successfully started moving log directory to {target} for replica moved-0 with broker 1" in said
    said = tool("reassign-partitions", *options, "--verify", "--preserve-throttles")
    assert "is still in progress" in said
    moving = directories(broker, "moved")
    assert [(each["partition"], each["isFuture"]) for each in moving[target]] == [("moved-0", True)]
    assert 0 < moving[target][0]["offsetLag"] <= 300
    # Faster now.
    tool("reassign-partitions", *options, "--execute", "--additional", "--replica-alter-log-dirs-throttle", "900000000")
    while "is still in progress" in (said := tool("reassign-partitions", *options, "--verify")):
        pass
    assert re.search(r"Reassignment of replica moved-0-1 completed successfully", said)
    expected = {"partition": "moved-0", "size": size, "offsetLag": 0, "isFuture": False}
    assert directories(broker, "moved") == {home: [], target: [expected]}
    assert len(receive(broker.bootstrap, "moved", 300)) == 300
    described = tool("configs", "--bootstrap-server", broker.bootstrap, "--describe", "--broker", "1")
    assert "replica.alter.log.dirs" not in described


def test_a_cordoned_directory_takes_nothing_new(broker: BrokerProcess, tmp_path: Path) -> None:
    server = ("--bootstrap-server", broker.bootstrap)
    change = ("--add-config", f"cordoned.log.dirs={tmp_path}/two")
    tool("configs", *server, "--alter", "--broker", "1", *change)
    make_topic(broker.bootstrap, "elsewhere", partitions=4)
    found = {path: len(partitions) for path, partitions in directories(broker, "elsewhere").items()}
    assert found == {f"{tmp_path}/one": 4, f"{tmp_path}/two": 0}
