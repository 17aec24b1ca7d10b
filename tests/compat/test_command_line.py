"""``kbroker topic``, ``produce``, ``consume`` and the others against Apache Kafka: they are clients of any broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.patience import PATIENCE_S
from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka

pytestmark = pytest.mark.all


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("KBROKER_TEST_REFERENCE")
    if given:
        yield given
        return
    require("java")
    folder: Path = tmp_path_factory.mktemp("reference")
    with ReferenceKafka(folder) as kafka:
        yield kafka.bootstrap


def kbroker(bootstrap: str, *arguments: str, text: str = "", status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kbroker", *arguments],
        input=text,
        capture_output=True,
        text=True,
        env={**os.environ, "KBROKER_BROKERS": bootstrap},
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_a_topic_of_apache_kafka_is_made_filled_read_and_deleted(reference: str) -> None:
    kbroker(reference, "topic", "create", "cli", "-p", "2", "-c", "retention.ms=-1")
    kbroker(reference, "produce", "cli", "-f", "%k:%v", "-z", "zstd", text="".join(f"{n}:{n}\n" for n in range(3000)))
    lines = kbroker(reference, "consume", "cli", "-f", "json").splitlines()
    assert sorted(int(json.loads(line)["value"]) for line in lines) == list(range(3000))
    assert "begins at" in kbroker(reference, "topic", "trim", "cli", "--to-end", "--yes")
    assert kbroker(reference, "consume", "cli") == ""
    kbroker(reference, "topic", "delete", "cli")


def test_configs_cluster_and_groups_of_apache_kafka(reference: str) -> None:
    kbroker(reference, "topic", "create", "moved", "-p", "1", "--if-not-exists")
    kbroker(reference, "produce", "moved", text="a\nb\nc\n")
    kbroker(reference, "config", "set", "topic", "moved", "retention.ms=77700000")
    rows: list[dict[str, str]] = []
    while not rows:  # Apache Kafka's broker learns of it a moment after the command
        rows = json.loads(kbroker(reference, "config", "show", "topic", "moved", "--format", "json"))
    assert [(row["key"], row["value"]) for row in rows] == [("retention.ms", "77700000")]
    assert json.loads(kbroker(reference, "cluster", "health", "--format", "json"))["healthy"] is True
    for command in ("info", "quorum", "features", "logdirs"):
        assert json.loads(kbroker(reference, "cluster", command, "--format", "json"))
    kbroker(reference, "group", "seek", "g", "--to", "-2", "--topics", "moved")
    (row,) = json.loads(kbroker(reference, "group", "describe", "g", "--format", "json"))
    assert (row["current offset"], row["end offset"], row["lag"]) == (1, 3, 2)
    assert kbroker(reference, "consume", "moved", "-g", "g") == "b\nc\n"
    (row,) = json.loads(kbroker(reference, "group", "describe", "g", "--format", "json"))
    assert row["lag"] == 0
    kbroker(reference, "group", "describe", "g", "--history", status=1)
    kbroker(reference, "group", "delete", "g")
    kbroker(reference, "group", "describe", "g", status=1)


def test_transactions_of_apache_kafka(reference: str) -> None:
    kbroker(reference, "topic", "create", "paid", "-p", "1")
    producer = Producer({"bootstrap.servers": reference, "transactional.id": "payer", "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("paid", b"1")
    producer.flush(60)
    (row,) = json.loads(kbroker(reference, "txn", "list", "-s", "Ongoing", "--format", "json"))
    (row,) = json.loads(kbroker(reference, "txn", "describe", row["transactional id"], "--format", "json"))
    assert (row["transactional id"], row["partitions"]) == ("payer", ["paid-0"])
    kbroker(reference, "txn", "describe", "payer", "--history", status=1)
    assert json.loads(kbroker(reference, "txn", "find-hanging", "--longer-than", "0", "--format", "json")) == []
    kbroker(reference, "txn", "abort", "paid", "-p", "0", "--start-offset", "0", "--yes")
    producer.purge()
