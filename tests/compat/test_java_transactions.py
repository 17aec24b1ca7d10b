"""Transactions of the Java clients, and Apache Kafka's tools for transactions and their logs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import Record, build_batch
from tests.broker_process import BrokerProcess
from tests.compat.registry_clients import java_program, run
from tests.compat.test_confluent_kafka import make_topic
from tests.compat.test_confluent_transactions import transactional, values
from tests.toolchains import require
from tests.wire import WireClient
from tools.reference_kafka import tool

pytestmark = pytest.mark.all


@pytest.fixture(autouse=True)
def _java() -> None:
    require("java")


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0


def test_producer_perf_test_commits_its_transactions(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=2)
    report = tool(
        "producer-perf-test",
        *("--topic", topic, "--num-records", "5000", "--record-size", "100", "--throughput", "-1"),
        *("--bootstrap-server", bootstrap, "--transactional-id", topic, "--transaction-duration-ms", "50"),
    )
    assert "5000 records sent" in report
    assert len(values(bootstrap, topic, 5000, 2)) == 5000


@pytest.mark.parametrize("random_aborts", [False, True])
def test_transactional_message_copier_copies_exactly_once(bootstrap: str, topic: str, random_aborts: bool) -> None:
    source, target = f"{topic}-in", f"{topic}-out"
    make_topic(bootstrap, source)
    make_topic(bootstrap, target)
    fill(bootstrap, source, 500)
    tool(
        "transactional-message-copier",
        *("--transactional-id", topic, "--consumer-group", topic, "--broker-list", bootstrap),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--max-messages", "500", "--transaction-size", "50"),
        *(("--enable-random-aborts",) if random_aborts else ()),
    )
    assert values(bootstrap, target, 500) == [b"%d" % number for number in range(500)]


def test_the_transactions_tool_lists_describes_and_finds_nothing_that_hangs(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(60)
    server = ("--bootstrap-server", bootstrap)
    assert re.search(rf"{topic}\s+\d+\s+\d+\s+Ongoing", tool("transactions", *server, "list"))
    described = tool("transactions", *server, "describe", "--transactional-id", topic)
    assert re.search(rf"{topic}\s+\d+\s+0\s+Ongoing.*{topic}-0", described)
    producer.commit_transaction(60)
    described = tool("transactions", *server, "describe", "--transactional-id", topic)
    assert "CompleteCommit" in described


def test_the_transactions_tool_terminates_a_transaction_by_force(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(60)
    tool("transactions", "--bootstrap-server", bootstrap, "forceTerminateTransaction", "--transactionalId", topic)
    assert values(bootstrap, topic, 0) == []


def test_the_transactions_tool_finds_what_hangs_and_aborts_it(tmp_path: Path, topic: str) -> None:
    """A record of a transaction that no coordinator knows of, as brokers took it that did not verify."""
    with BrokerProcess(tmp_path / "data", "--override", "transaction.partition.verification.enable=false") as broker:
        make_topic(broker.bootstrap, topic)
        batch = build_batch(
            [Record(0, 1_000, None, b"v")], producer_id=777_000, producer_epoch=0, base_sequence=0, transactional=True
        )
        partition = ProduceRequest.PartitionProduceData(index=0, records=batch)
        data = [ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])]
        with WireClient(broker.bootstrap) as client:
            request = ProduceRequest(transactional_id="lost", acks=-1, timeout_ms=20_000, topic_data=data)
            answer = client.call(request, 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        server = ("--bootstrap-server", broker.bootstrap)
        found = tool("transactions", *server, "find-hanging", "--broker-id", "1")
        assert re.search(rf"^{topic}\s+0\s+777000\s+0\s", found, flags=re.MULTILINE)
        tool("transactions", *server, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
        assert "777000" not in tool("transactions", *server, "find-hanging", "--broker-id", "1")


def test_dump_log_reads_the_transaction_log_and_the_markers(tmp_path: Path, topic: str) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        make_topic(broker.bootstrap, topic)
        producer = transactional(broker.bootstrap, topic)
        for committed in (True, False):
            producer.begin_transaction()
            producer.produce(topic, b"value")
            producer.flush(60)
            if committed:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
    logs = sorted(str(path) for path in (tmp_path / "data").rglob("__transaction_state-*/*.log"))
    (written,) = [path for path in logs if Path(path).stat().st_size]
    dumped = tool("dump-log", "--transaction-log-decoder", "--deep-iteration", "--files", written)
    states = re.findall(r'"transactionStatus":"(\w+)"', dumped)
    assert states == [
        *("Empty", "Ongoing", "PrepareCommit", "CompleteCommit"),
        *("Ongoing", "PrepareAbort", "CompleteAbort"),
    ]
    (data,) = [str(path) for path in (tmp_path / "data").rglob(f"{topic}-0/*.log")]
    dumped = tool("dump-log", "--deep-iteration", "--files", data)
    assert re.findall(r"endTxnMarker: (\w+)", dumped) == ["COMMIT", "ABORT"]
    (index,) = [str(path) for path in (tmp_path / "data").rglob(f"{topic}-0/*.txnindex")]
    assert "firstOffset: 2 lastOffset: 3" in tool("dump-log", "--files", index)


def test_kafka_streams_counts_exactly_once(bootstrap: str, topic: str, tmp_path: Path) -> None:
    source, target = f"{topic}-in", f"{topic}-out"
    make_topic(bootstrap, source)
    make_topic(bootstrap, target)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(300):
        producer.produce(source, b"%d" % number, key=b"key-%d" % (number % 3))
    assert producer.flush(60) == 0
    said = run(java_program("StreamsCopy", bootstrap, source, target, "300", str(tmp_path)))
    assert "seen 300" in said
    counts = values(bootstrap, target, 3)
    assert counts.count(b"100") == 3


def test_the_transactions_tool_finds_and_aborts_what_is_open_in_a_partition(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    producer = transactional(bootstrap, topic)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(60)
    server = ("--bootstrap-server", bootstrap)
    described = tool("transactions", *server, "describe-producers", "--topic", topic, "--partition", "0")
    assert re.search(r"^\d+\s+0\s+-1\s+0\s+\d+\s+0\b", described, flags=re.MULTILINE)
    hanging = tool("transactions", *server, "find-hanging", "--topic", topic, "--partition", "0")
    assert len(hanging.splitlines()) == 1
    tool("transactions", *server, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    described = tool("transactions", *server, "describe-producers", "--topic", topic, "--partition", "0")
    assert "None" in described.splitlines()[-1]
    assert values(bootstrap, topic, 0) == []


@pytest.mark.parametrize(("level", "version", "bumps"), [(0, 0, False), (1, 1, False), (2, 1, True)])
def test_the_java_producer_follows_the_finalized_level_of_the_feature(
    tmp_path: Path, level: int, version: int, bumps: bool
) -> None:
    """Its epoch rises with every transaction at level 2 only; records of the log can say so from level 1 on."""
    with BrokerProcess(tmp_path / "data") as broker:
        server = ("--bootstrap-server", broker.bootstrap)
        if level < 2:
            tool("features", *server, "downgrade", "--feature", f"transaction.version={level}")
        described = tool("features", *server, "describe")
        assert re.search(rf"transaction.version\s.*FinalizedVersionLevel: {level}\s", described)
        for name in ("in", "out"):
            make_topic(broker.bootstrap, name)
        fill(broker.bootstrap, "in", 100)
        tool(
            "transactional-message-copier",
            *("--transactional-id", "copier", "--consumer-group", "copiers", "--broker-list", broker.bootstrap),
            *("--input-topic", "in", "--input-partition", "0", "--output-topic", "out"),
            *("--max-messages", "100", "--transaction-size", "20"),
        )
        assert values(broker.bootstrap, "out", 100) == [b"%d" % number for number in range(100)]
    logs = [path for path in (tmp_path / "data").rglob("__transaction_state-*/*.log") if path.stat().st_size]
    (written,) = map(str, logs)
    dumped = tool("dump-log", "--transaction-log-decoder", "--deep-iteration", "--files", written)
    assert set(re.findall(r'"type":"0","data":\{[^}]*\}\} payload: \{"version":"(\d)"', dumped)) == {str(version)}
    ended = re.findall(r'"producerEpoch":(\d+)[^}]*"transactionStatus":"CompleteCommit"', dumped)
    assert len(set(ended)) == (5 if bumps else 1)
