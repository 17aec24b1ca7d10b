"""Clients that are written from scratch in Go and JavaScript: each reads the protocol in its own way."""

from __future__ import annotations

import pytest

from tests.compat.registry_clients import PROGRAMS, go_client, node_client, run
from tests.compat.test_confluent_kafka import make_topic
from tests.compat.test_confluent_transactions import values

pytestmark = pytest.mark.all


def test_franz_go_produces_fetches_and_lists_topics(bootstrap: str, topic: str) -> None:
    modules = ("github.com/twmb/franz-go@v1.22.3", "github.com/twmb/franz-go/pkg/kadm@v1.20.0")
    assert run([str(go_client("franz_go", *modules)), bootstrap, topic]) == "2500 records\n"


def test_segmentio_kafka_go_writes_and_reads(bootstrap: str, topic: str) -> None:
    client = go_client("kafka_go", "github.com/segmentio/kafka-go@v0.4.51")
    assert run([str(client), bootstrap, topic]) == "1500 records\n"


def test_kafkajs_produces_and_consumes_in_a_group(bootstrap: str, topic: str) -> None:
    folder = node_client("kafkajs@2.2.4")
    command = ["node", str(PROGRAMS / "kafkajs.js"), bootstrap, topic]
    assert run(command, node_path=folder / "node_modules") == "2000 records\n"


def test_franz_go_copies_in_transactions_and_fences(bootstrap: str, topic: str) -> None:
    source, target = f"{topic}-in", f"{topic}-out"
    make_topic(bootstrap, source)
    make_topic(bootstrap, target)
    client = go_client("franz_go_transactions", "github.com/twmb/franz-go@v1.22.3")
    assert run([str(client), bootstrap, source, target, "200"]) == "200 copied\n"
    numbers = [b"%d" % number for number in range(200)]
    assert values(bootstrap, source, 200) == numbers
    assert values(bootstrap, target, 201) == [*numbers, b"rightful"]
