"""The config registry is Apache Kafka's: definitions, descriptions, and what is refused in which words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbroker.cli import cli
from kbroker.config import (
    BROKER_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    BrokerConfig,
    ConfigError,
    ConfigType,
    validate_topic_configs,
)
from kbroker.config.describe import (
    DescribedConfig,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from kbroker.config.dynamic import validate_broker_alteration, validate_group_configs
from kbroker.config.properties import load_properties
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.toolchains import require
from tests.wire import WireClient
from tools import generate_config_registry
from tools.reference_kafka import ReferenceKafka, tool

pytestmark = pytest.mark.all

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
TEXTS = (
    "",
    " ",
    "x",
    "-3",
    "-2",
    "-1",
    "0",
    " 1 ",
    "+1",
    "1.5",
    "1e3",
    "0x10",
    "1_0",
    "2147483648",
    "9223372036854775808",
)
WORDS = (
    "true",
    "FALSE",
    "yes",
    "NaN",
    "0.5d",
    "compact,delete",
    "compact,,delete",
    "delete,delete",
    "gzip",
    "GZIP",
    "*",
)
# Refused by the controller (with eligible leader replicas), not by the registry.
ALTERED_OTHERWISE = {"min.insync.replicas"}
# Where Kafka shows what a Java method says of a text, or what is fixed here, the words are kbroker's own.
OTHER_WORDS = {"listeners", "listener.security.protocol.map", "log.cleaner.threads"}
ALTERATIONS = {
    ConfigType.BOOLEAN: ("true", "maybe", "", "TRUE"),
    ConfigType.SHORT: ("1", "0", "-1", "x", "32768", ""),
    ConfigType.INT: ("1", "0", "-1", "-2", "x", "2147483647", "2147483648", "", " 5 ", "1.5", "+3"),
    ConfigType.LONG: ("1", "0", "-1", "-2", "x", "9223372036854775807", "9223372036854775808", "", " 5 "),
    ConfigType.DOUBLE: ("0.5", "0", "1", "-1", "2", "x", "", "NaN", "1e3"),
    ConfigType.STRING: ("x", "", "none", "gzip"),
    ConfigType.CLASS: ("x", ""),
    ConfigType.LIST: ("x", "", "a,b", "a,a", "delete", ","),
    ConfigType.PASSWORD: ("x", ""),
}
REPLICAS = ("0:1", "0:1,", "0:1, 1:2", "*,0:1", "none")


@pytest.fixture(scope="module")
def client(reference: ReferenceKafka) -> Iterator[WireClient]:
    wire = WireClient(reference.bootstrap)
    yield wire
    wire.socket.close()


def create(client: WireClient, name: str, configs: dict[str, str], *, validate_only: bool) -> tuple[int, str | None]:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=validate_only)
    result = client.call(request, 7).topics[0]
    return result.error_code, result.error_message


def described(client: WireClient, kind: int, name: str) -> dict[str, Any]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    answer = client.call(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results[0]
    assert answer.error_code == 0
    return {
        row.name: (
            row.value,
            row.config_source,
            [(synonym.name, synonym.value, synonym.source) for synonym in row.synonyms],
            row.config_type,
            row.read_only,
            row.is_sensitive,
        )
        for row in answer.configs
    }


def ours(rows: list[DescribedConfig]) -> dict[str, Any]:
    return {
        row.name: (row.value, row.source, list(row.synonyms), row.type, row.read_only, row.sensitive)
        for row in rows
        if not row.name.startswith("kbroker.")
    }


def broker_config(reference: ReferenceKafka) -> BrokerConfig:
    file = reference.directory / "1" / "server.properties"
    # Formatting with eligible leader replicas makes this a value of the cluster.
    return BrokerConfig(load_properties(file.read_text()), dynamic_default={"min.insync.replicas": "1"})


def test_the_registry_is_what_kafka_defines() -> None:
    require("java")
    for path, text in generate_config_registry.render(generate_config_registry.definitions()).items():
        assert path.read_text() == text


def test_a_broker_is_described_alike(client: WireClient, reference: ReferenceKafka) -> None:
    expected = described(client, BROKER, "1")
    assert ours(describe_broker(broker_config(reference))) == expected
    assert set(expected) == {key.name for key in BROKER_KEYS.all() if not key.internal and "kbroker." not in key.name}


def test_a_topic_is_described_alike(client: WireClient, reference: ReferenceKafka) -> None:
    overrides = {"retention.ms": "1000", "segment.bytes": "2097152", "cleanup.policy": "compact"}
    assert create(client, "described", overrides, validate_only=False) == (0, None)
    assert ours(describe_topic(broker_config(reference), overrides)) == described(client, TOPIC, "described")


def test_a_group_and_client_metrics_are_described_alike(client: WireClient, reference: ReferenceKafka) -> None:
    assert ours(describe_group(broker_config(reference), {})) == described(client, GROUP, "some-group")
    assert ours(describe_client_metrics({})) == described(client, CLIENT_METRICS, "some-subscription")


@pytest.mark.parametrize("name", [name for name in TOPIC_KEYS if name != "errors.deadletterqueue.group.enable"])
def test_a_topics_values_are_refused_alike(client: WireClient, reference: ReferenceKafka, name: str) -> None:
    broker = broker_config(reference)
    different = []
    for text in TEXTS + WORDS + REPLICAS:
        theirs = create(client, "validated", {name: text}, validate_only=True)
        try:
            validate_topic_configs({name: text}, broker)
            mine: tuple[int, str | None] = (0, None)
        except ConfigError as error:
            mine = (40, str(error))
        if mine != theirs:
            different.append((text, mine, theirs))
    assert different == []


def alter(client: WireClient, kind: int, name: str, key: str, value: str) -> tuple[int, str | None]:
    config = IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=0, value=value)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[config]
    )
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=True), 1).responses[0]
    return answer.error_code, answer.error_message


@pytest.mark.parametrize("cluster_wide", [True, False])
def test_a_brokers_alterations_are_refused_alike(
    client: WireClient, reference: ReferenceKafka, cluster_wide: bool
) -> None:
    broker = broker_config(reference)
    different = []
    for key in BROKER_KEYS.all():
        if key.name.startswith("kbroker.") or key.name in ALTERED_OTHERWISE:
            continue
        for text in ALTERATIONS[key.type] if not key.read_only else ("1",):
            theirs = alter(client, BROKER, "" if cluster_wide else "1", key.name, text)
            try:
                validate_broker_alteration(broker, {key.name: text}, cluster_wide=cluster_wide)
                mine: tuple[int, str | None] = (0, None)
            except ConfigError as error:
                mine = (42, str(error))
            if mine[0] != theirs[0] or (mine != theirs and key.name not in OTHER_WORDS):
                different.append((key.name, text, mine, theirs))
    assert different == []


def test_a_groups_alterations_are_refused_alike(client: WireClient, reference: ReferenceKafka) -> None:
    broker = broker_config(reference)
    different = []
    for key in GROUP_KEYS.all():
        for text in ALTERATIONS[key.type]:
            theirs = alter(client, GROUP, "some-group", key.name, text)
            try:
                validate_group_configs({key.name: text}, broker)
                mine: tuple[int, str | None] = (0, None)
            except ConfigError as error:
                mine = (40, str(error))
            if mine != theirs:
                different.append((key.name, text, mine, theirs))
    assert different == []


def test_kafkas_tool_takes_a_directory_that_ours_formatted(tmp_path: Path) -> None:
    require("java")
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.voters=1@localhost:9093\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        f"log.dirs={tmp_path}/data\n"
    )
    formatted = CliRunner().invoke(cli, ["storage", "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", str(file)])
    assert formatted.exit_code == 0
    assert (
        tool("storage", "info", "-c", str(file)) == CliRunner().invoke(cli, ["storage", "info", "-c", str(file)]).output
    )
