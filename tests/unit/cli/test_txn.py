"""``kbroker txn`` against a broker in this process, with transactions that go well, are fenced, and hang."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import confluent_kafka
import pytest

from kbroker.cli.cluster_client import Cluster
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.testing import Broker
from tests.unit.cli.shell import Shell

BEFORE_IMPLICIT_ADDING = 11


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Brokers that do not verify are how transactions came to hang."""
    with Broker(configs={"transaction.partition.verification.enable": "false"}) as broker:
        yield broker


def producer(shell: Shell, name: str) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {"bootstrap.servers": shell.bootstrap, "transactional.id": name, "client.id": "job", "log_level": 0}
    )
    made.init_transactions(20)
    return made


def begin(shell: Shell, name: str, topic: str) -> confluent_kafka.Producer:
    made = producer(shell, name)
    made.begin_transaction()
    made.produce(topic, b"v", partition=0)
    made.flush(20)
    return made


def hang(shell: Shell, topic: str, producer_id: int) -> None:
    """A record of a transaction that no coordinator heard of."""

    async def write() -> None:
        cluster = await Cluster.connect(shell.bootstrap, 20_000)
        batch = build_batch(
            [Record(0, 1_000, None, b"v", [])],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(index=1, records=batch)
        request = ProduceRequest(
            transactional_id="lost",
            acks=-1,
            timeout_ms=20_000,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = await cluster.ask(request, at_most=BEFORE_IMPLICIT_ADDING)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        cluster.close()

    asyncio.run(write())


def test_an_open_transaction_is_listed_and_described_until_it_is_over(shell: Shell, topic: str) -> None:
    job = begin(shell, topic, topic)
    (row,) = shell.json("txn", "list", "--pattern", topic)
    assert (row["transactional id"], row["state"]) == (topic, "Ongoing")
    assert shell.json("txn", "list", "--state", "Ongoing", "--producer-id", str(row["producer id"])) == [row]
    assert shell.json("txn", "list", "--longer-than", "3600") == []
    (described,) = shell.json("txn", "describe", topic)
    assert described["partitions"] == [f"{topic}-0"]
    assert described["open s"] >= 0
    assert described["timeout ms"] == 60_000
    assert shell.json("txn", "find-hanging", "-t", topic, "--longer-than", "0") == []
    job.commit_transaction(20)
    (described,) = shell.json("txn", "describe", topic)
    assert (described["state"], described["partitions"], described["open s"]) == ("CompleteCommit", [], None)


def test_the_history_tells_who_fenced_a_producer(shell: Shell, topic: str) -> None:
    begin(shell, topic, topic)
    assert "saw no producer fenced" in shell("txn", "describe", topic, "--history").stderr
    producer(shell, topic)
    (told,) = shell.json("txn", "describe", topic, "--history")
    assert "'job' at 127.0.0.1" in told["reason"]
    assert told["transactional id"] == topic
    assert told["producer epoch"] == 0


def test_a_hanging_transaction_is_found_and_aborted_after_a_yes_only(shell: Shell, topic: str) -> None:
    shell("produce", topic, "-p", "1", text="before\n")
    hang(shell, topic, producer_id=777_000)
    shell("produce", topic, "-p", "1", text="after\n")
    assert shell("consume", topic, "--read-committed").stdout == "before\n"
    (row,) = shell.json("txn", "find-hanging", "--longer-than", "0")
    assert (row["topic"], row["partition"], row["start offset"], row["producer id"]) == (topic, 1, 1, 777_000)
    assert shell.json("txn", "find-hanging", "-t", topic, "-p", "0", "--longer-than", "0") == []
    place = ("txn", "abort", topic, "-p", "1", "--start-offset")
    assert "begins at 0" in shell(*place, "0", status=1).stderr
    shell(*place, "1", text="n\n", status=1)
    assert shell(*place, "1", text="y\n").stdout.endswith(f"aborted {topic}-1 from 1\n")
    assert shell.json("txn", "find-hanging", "--longer-than", "0") == []
    assert shell("consume", topic, "--read-committed").stdout == "before\nafter\n"


def test_errors_name_the_next_step(shell: Shell) -> None:
    shell("txn", "describe", "nobody", status=1)
    assert "try: kbroker txn list" in shell("txn", "describe", "nobody", status=1).stderr
    assert "Soon is no state" in shell("txn", "list", "--state", "Soon", status=1).stderr
