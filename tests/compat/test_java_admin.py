"""Apache Kafka's administration tools: each subcommand, against a broker of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.compat.test_confluent_kafka import make_topic
from tests.toolchains import require
from tools.reference_kafka import ReferenceFailedError, tool

pytestmark = pytest.mark.all


@pytest.fixture(autouse=True)
def _java() -> None:
    require("java")


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose dynamic configuration nobody else sees."""
    with BrokerProcess(tmp_path_factory.mktemp("own") / "kbroker") as broker:
        yield broker.bootstrap


def admin(command: str, bootstrap: str, *arguments: str, stdin: str | None = None) -> str:
    return tool(command, "--bootstrap-server", bootstrap, *arguments, stdin=stdin)


def test_a_topic_grows(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=2)
    admin("topics", bootstrap, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in admin("topics", bootstrap, "--describe", "--topic", topic)


def test_configs_of_topics_are_described_and_altered(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    altered = admin(
        "configs", bootstrap, *entity, "--alter", "--add-config", "retention.ms=77,cleanup.policy=[compact]"
    )
    assert f"Completed updating config for topic {topic}." in altered
    described = admin("configs", bootstrap, *entity, "--describe")
    assert "retention.ms=77 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=77" in described
    assert "cleanup.policy=compact" in described
    admin("configs", bootstrap, *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in admin("configs", bootstrap, *entity, "--describe")
    assert len(admin("configs", bootstrap, *entity, "--describe", "--all").splitlines()) > 30


def test_configs_of_the_broker_the_cluster_loggers_and_client_metrics(own_broker: str) -> None:
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    everybody = ("--entity-type", "brokers", "--entity-default")
    admin("configs", own_broker, *broker, "--alter", "--add-config", "log.retention.ms=88")
    assert "log.retention.ms=88" in admin("configs", own_broker, *broker, "--describe")
    admin("configs", own_broker, *everybody, "--alter", "--add-config", "message.max.bytes=99999")
    assert "message.max.bytes=99999" in admin("configs", own_broker, *everybody, "--describe")
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")
    admin("configs", own_broker, *loggers, "--alter", "--add-config", "root=DEBUG")
    assert "root=DEBUG" in admin("configs", own_broker, *loggers, "--describe")
    metrics = ("--entity-type", "client-metrics", "--entity-name", "m")
    admin("configs", own_broker, *metrics, "--alter", "--add-config", "interval.ms=1000,metrics=[org.apache.kafka.]")
    assert "interval.ms=1000" in admin("configs", own_broker, *metrics, "--describe")


def test_configs_of_a_group(own_broker: str) -> None:
    group = ("--entity-type", "groups", "--entity-name", "g")
    admin("configs", own_broker, *group, "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in admin("configs", own_broker, *group, "--describe")


def test_records_are_deleted(bootstrap: str, topic: str, tmp_path: Path) -> None:
    make_topic(bootstrap, topic)
    admin("console-producer", bootstrap, "--topic", topic, stdin="a\nb\nc\n")
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 2}], "version": 1}))
    assert f"partition: {topic}-0\tlow_watermark: 2" in admin(
        "delete-records", bootstrap, "--offset-json-file", str(wanted)
    )
    assert f"{topic}:0:2" in admin("get-offsets", bootstrap, "--topic", topic, "--time", "earliest")


def test_log_directories_tell_sizes(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    admin("console-producer", bootstrap, "--topic", topic, stdin="a\nb\nc\n")
    described = admin("log-dirs", bootstrap, "--describe", "--topic-list", topic)
    found = json.loads(described[described.index("{") :])
    (partition,) = found["brokers"][0]["logDirs"][0]["partitions"]
    assert (partition["partition"], partition["size"] > 0, partition["isFuture"]) == (f"{topic}-0", True, False)


def test_the_quorum_is_described(bootstrap: str) -> None:
    status = admin("metadata-quorum", bootstrap, "describe", "--status")
    assert re.search(r"LeaderId:\s+1\n", status)
    assert re.search(r"CurrentObservers:\s+\[\]", status)
    assert re.search(r"^1\s.*Leader", admin("metadata-quorum", bootstrap, "describe", "--replication"), re.MULTILINE)


def test_features_are_described_lowered_and_raised(own_broker: str) -> None:
    described = admin("features", own_broker, "describe")
    assert re.search(r"Feature: group.version\s+SupportedMinVersion: 0\s.*FinalizedVersionLevel: 1", described)
    admin("features", own_broker, "downgrade", "--feature", "share.version=1")
    assert "FinalizedVersionLevel: 1" in next(
        line for line in admin("features", own_broker, "describe").splitlines() if "share.version" in line
    )
    admin("features", own_broker, "upgrade", "--feature", "share.version=2")


def test_reassignment_and_election_have_nothing_to_do_on_one_broker(bootstrap: str, topic: str, tmp_path: Path) -> None:
    make_topic(bootstrap, topic)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}))
    done = admin("reassign-partitions", bootstrap, "--reassignment-json-file", str(plan), "--execute")
    assert "Successfully started partition reassignment" in done
    verified = admin("reassign-partitions", bootstrap, "--reassignment-json-file", str(plan), "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert "No partition reassignments found." in admin("reassign-partitions", bootstrap, "--list")
    elected = admin("leader-election", bootstrap, "--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {topic}-0" in elected


def test_acls_need_an_authorizer(bootstrap: str) -> None:
    with pytest.raises(ReferenceFailedError, match="No Authorizer is configured"):
        admin("acls", bootstrap, "--list")


def test_the_cluster_tells_its_id_and_keeps_brokers_it_does_not_know(bootstrap: str) -> None:
    assert "Cluster ID: " in tool("cluster", "cluster-id", "--bootstrap-server", bootstrap)
    with pytest.raises(ReferenceFailedError, match="Broker ID 99 is not currently registered"):
        tool("cluster", "unregister", "--bootstrap-server", bootstrap, "--id", "99")
