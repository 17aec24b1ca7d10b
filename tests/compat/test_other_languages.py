"""Clients that are written from scratch in Go and JavaScript: each reads the protocol in its own way."""

from __future__ import annotations

import pytest

from tests.compat.registry_clients import PROGRAMS, go_client, node_client, run

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
