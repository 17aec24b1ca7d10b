"""A quorum whose voters stand in the metadata log (KIP-853): answers, files and directories as of Apache Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbroker.cli import cli
from kbroker.kraft.batches import decode_batches
from kbroker.kraft.snapshots import METADATA_DIRECTORY
from kbroker.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.describe_quorum import DescribeQuorumResponse
from kbroker.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kbroker.types import uuid_to_string
from tests.broker_process import BrokerProcess
from tests.patience import PATIENCE_S
from tests.reference.comparison import differences, labelled
from tests.reference.conversation import Conversation
from tests.reference.deviations import sift
from tests.reference.questions.quorum import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, quorum_of, update
from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka

Wanted = CreateTopicsRequest.CreatableTopic
KRAFT = "kraft.version"
OTHER = b"d" * 16
ENDPOINT = AddRaftVoterRequest.Listener(name="CONTROLLER", host="127.0.0.1", port=1)


def voters(c: Conversation) -> list[DescribeQuorumResponse.ReplicaState]:
    answer = c.ask(quorum_of("__cluster_metadata", 0), 2, note=False)
    found: list[DescribeQuorumResponse.ReplicaState] = answer.topics[0].partitions[0].current_voters
    return found


def levels(c: Conversation) -> dict[str, int]:
    answer = c.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4, note=False)
    return {each.name: each.max_version_level for each in answer.finalized_features}


def look(c: Conversation) -> None:
    c.note("features", levels(c))
    c.note("voters", [(each.replica_id, any(each.replica_directory_id)) for each in voters(c)])


def ask_all(c: Conversation) -> None:
    """Whatever concerns the voters, on the quorum as it is now."""
    look(c)
    own = voters(c)[0].replica_directory_id
    c.call_it(uuid_to_string(own), "directory")
    for level in (0, 1, 2, -1):
        for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            for version in (1, 2):
                c.ask(update((KRAFT, level, kind), version=version), version)
    for voter_id, directory in ((1, OTHER), (1, own), (9, OTHER), (9, own), (9, bytes(16)), (-1, OTHER)):
        if any(directory):
            c.ask(RemoveRaftVoterRequest(voter_id=voter_id, cluster_id=None, voter_directory_id=directory), 0)
        if voter_id != 9:
            c.ask(
                AddRaftVoterRequest(
                    voter_id=voter_id, cluster_id=None, voter_directory_id=directory, listeners=[ENDPOINT]
                ),
                0,
            )
    c.ask(AddRaftVoterRequest(voter_id=9, cluster_id=None, voter_directory_id=OTHER, listeners=[]), 0)
    new = AddRaftVoterRequest(
        cluster_id=None, voter_id=9, voter_directory_id=OTHER, listeners=[ENDPOINT], timeout_ms=2000
    )
    c.note("a node that is not reached", c.ask(new, 0, note=False).error_code)
    look(c)


def told(bootstrap: str, restart: Callable[[], str]) -> dict[str, Any]:
    """What is answered before the quorum becomes dynamic, then, and after a restart."""
    c = Conversation(bootstrap)
    look(c)
    c.ask(update((KRAFT, 1, UPGRADE), ("group.version", 0, SAFE_DOWNGRADE), version=2, validate_only=True), 2)
    c.ask(update((KRAFT, 1, UPGRADE), ("no.such", 1, UPGRADE), version=2, validate_only=False), 2)
    look(c)
    c.ask(update((KRAFT, 1, UPGRADE), ("group.version", 0, SAFE_DOWNGRADE), version=2, validate_only=False), 2)
    ask_all(c)
    c.hang_up()
    c.bootstrap = restart()
    ask_all(c)
    c.close()
    return labelled(c.transcript)


def test_a_static_quorum_that_becomes_dynamic_answers_as_apache_kafkas(tmp_path: Path) -> None:
    require("java")
    with ReferenceKafka(tmp_path / "reference") as kafka:

        def restart_kafka() -> str:
            kafka.stop()
            kafka.start()
            return kafka.bootstrap

        reference = told(kafka.bootstrap, restart_kafka)
    with BrokerProcess(tmp_path / "kbroker") as broker:

        def restart_broker() -> str:
            broker.stop()
            return broker.start().bootstrap

        kbroker = told(broker.bootstrap, restart_broker)
    found, _ = sift(differences("dynamic quorum", reference, kbroker))
    assert not found, "\n".join(map(str, found))


SNAPSHOTS = {"metadata.log.max.snapshot.interval.ms": "500", "metadata.max.retention.bytes": "1"}
"""One snapshot soon after every change, and nothing is kept that it replaces."""


def standalone(directory: Path) -> ReferenceKafka:
    return ReferenceKafka(directory, formatting=["--standalone"], overrides=SNAPSHOTS)


def kbroker_on(kafka: ReferenceKafka, *options: str) -> BrokerProcess:
    words = [word for name, value in SNAPSHOTS.items() for word in ("--override", f"{name}={value}")]
    return BrokerProcess(kafka.data_dir(), "--node-id", "1", "--cluster-id", kafka.cluster_id, *words, *options)


def changes(bootstrap: str, topic: str, directory: Path) -> tuple[list[Any], dict[str, int]]:
    """Make a topic and wait until a snapshot has it; the voters, and the levels of the features."""
    c = Conversation(bootstrap)
    before = set(snapshots_in(directory))
    made = c.ask(CreateTopicsRequest(topics=[Wanted(name=topic, num_partitions=1, replication_factor=1)]), 7)
    assert made.topics[0].error_code == 0
    deadline = time.monotonic() + PATIENCE_S
    while not set(snapshots_in(directory)) - before:
        assert time.monotonic() < deadline, "no snapshot was taken"
        time.sleep(0.02)
    found = [(each.replica_id, each.replica_directory_id) for each in voters(c)], levels(c)
    c.close()
    return found


def snapshots_in(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / METADATA_DIRECTORY).glob("*.checkpoint"))


def written_voters(path: Path) -> list[Any]:
    return [record for batch in decode_batches(path.read_bytes()) for record in batch.controls]


def test_a_directory_of_a_dynamic_quorum_goes_from_apache_kafka_to_kbroker_and_back(tmp_path: Path) -> None:
    require("java")
    kafka = standalone(tmp_path)
    directory = kafka.data_dir()
    kafka.start()
    try:
        first = changes(kafka.bootstrap, "first", directory)
    finally:
        kafka.stop()
    left = written_voters(directory / METADATA_DIRECTORY / snapshots_in(directory)[-1])
    state = json.loads((directory / METADATA_DIRECTORY / "quorum-state").read_text())
    with kbroker_on(kafka) as broker:
        assert changes(broker.bootstrap, "second", directory) == first
    newest = snapshots_in(directory)[-1]
    assert written_voters(directory / METADATA_DIRECTORY / newest) == left
    now = json.loads((directory / METADATA_DIRECTORY / "quorum-state").read_text())
    assert now == {**state, "leaderEpoch": now["leaderEpoch"]}
    kafka.start()
    try:
        assert changes(kafka.bootstrap, "third", directory) == first
        assert {"first", "second", "third"} <= set(kafka.tool("topics", "--list").split())
    finally:
        kafka.stop()


@pytest.mark.parametrize("is_formatted", [False, True])
def test_a_directory_of_a_dynamic_quorum_goes_from_kbroker_to_apache_kafka(tmp_path: Path, is_formatted: bool) -> None:
    require("java")
    kafka = standalone(tmp_path)
    directory = kafka.data_dir()
    address = f"127.0.0.1:{kafka.controllers[0]}"
    file = tmp_path / "server.properties"
    file.write_text(
        f"node.id=1\nprocess.roles=broker,controller\ncontroller.quorum.bootstrap.servers={address}\n"
        f"controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:0,CONTROLLER://{address}\n"
    )
    directory.parent.mkdir(parents=True)
    if is_formatted:
        words = ["--standalone", "-t", kafka.cluster_id, "-c", str(file), "--data-dir", str(directory)]
        assert CliRunner().invoke(cli, ["storage", "format", *words]).exit_code == 0
    with kbroker_on(kafka, str(file)) as broker:
        first = changes(broker.bootstrap, "first", directory)
    assert first[1][KRAFT] == 1
    kafka.start()
    try:
        assert changes(kafka.bootstrap, "second", directory) == first
        assert {"first", "second"} <= set(kafka.tool("topics", "--list").split())
    finally:
        kafka.stop()
