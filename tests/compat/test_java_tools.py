"""Apache Kafka's own command-line tools (its Java clients) against the broker; ``tests/reference`` has the others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.compat import corpus
from tests.compat.test_confluent_kafka import make_topic, receive
from tests.toolchains import require
from tools.reference_kafka import tool

pytestmark = pytest.mark.all


@pytest.fixture(autouse=True)
def _java() -> None:
    require("java")


def test_topics_are_made_described_altered_listed_and_deleted(bootstrap: str, topic: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    created = tool(
        "topics", *server, "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=60000"
    )
    assert f"Created topic {topic}." in created
    assert topic in tool("topics", *server, "--list").split()
    described = tool("topics", *server, "--describe", "--topic", topic)
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1\s+Configs: .*retention.ms=60000", described)
    assert described.count("Leader: ") == 3
    tool("topics", *server, "--delete", "--topic", topic)
    assert topic not in tool("topics", *server, "--list").split()


def test_console_producer_and_console_consumer_move_a_text(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    lines = [line.decode() for line in corpus.lines(20_000)]
    tool("console-producer", "--bootstrap-server", bootstrap, "--topic", topic, stdin="\n".join(lines) + "\n")
    consumed = tool(
        "console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(len(lines)), "--timeout-ms", "60000"),
    )
    assert consumed.splitlines()[: len(lines)] == lines


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_of_the_java_producer_is_read_by_others(bootstrap: str, topic: str, codec: str) -> None:
    make_topic(bootstrap, topic)
    lines = [line.decode() for line in corpus.lines(2000)]
    tool(
        "console-producer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec),
        stdin="\n".join(lines) + "\n",
    )
    assert [message.value() for message in receive(bootstrap, topic, len(lines))] == [line.encode() for line in lines]


def test_producer_perf_test_reports_what_it_sent_and_get_offsets_finds_it(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=2)
    report = tool(
        "producer-perf-test",
        *("--topic", topic, "--num-records", "50000", "--record-size", "100", "--throughput", "-1"),
        *("--bootstrap-server", bootstrap),
    )
    assert "50000 records sent" in report
    offsets = tool("get-offsets", "--bootstrap-server", bootstrap, "--topic", topic)
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets.split()) == 50_000
    earliest = tool("get-offsets", "--bootstrap-server", bootstrap, "--topic", topic, "--time", "earliest")
    assert sorted(earliest.split()) == [f"{topic}:0:0", f"{topic}:1:0"]


def test_broker_api_versions_lists_what_is_served(bootstrap: str) -> None:
    listed = tool("broker-api-versions", "--bootstrap-server", bootstrap)
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", listed)
    assert re.search(r"Fetch\(1\): \d+ to 18 \[usable: 18\]", listed)


def test_the_level_of_a_logger_is_altered(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        loggers = ("configs", "--bootstrap-server", broker.bootstrap, "--broker-logger", "1")
        tool(*loggers, "--alter", "--add-config", "root=DEBUG")
        assert "root=DEBUG" in tool(*loggers, "--describe")


def test_verifiable_producer_is_acknowledged_every_record(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=2)
    said = tool(
        "verifiable-producer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "500", "--repeating-keys", "7"),
    )
    told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    acknowledged = [each["value"] for each in told if each["name"] == "producer_send_success"]
    assert sorted(map(int, acknowledged)) == list(range(500))
    received = receive(bootstrap, topic, 500, partitions=2)
    assert sorted(int(message.value() or b"") for message in received) == list(range(500))
