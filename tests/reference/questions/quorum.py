"""DescribeQuorum, UpdateFeatures and UnregisterBroker on a lone node."""

from __future__ import annotations

from kbroker.protocol.messages.add_raft_voter import AddRaftVoterRequest
from kbroker.protocol.messages.describe_quorum import DescribeQuorumRequest
from kbroker.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from kbroker.protocol.messages.unregister_broker import UnregisterBrokerRequest
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest
from tests.reference.conversation import Conversation, question

Topic = DescribeQuorumRequest.TopicData
Partition = DescribeQuorumRequest.PartitionData
Update = UpdateFeaturesRequest.FeatureUpdateKey
VOTERS = [(9, b"d" * 16), (1, b"d" * 16), (-1, b"d" * 16), (9, bytes(16))]
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def quorum_of(topic: str, *partitions: int) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[Topic(topic_name=topic, partitions=[Partition(partition_index=each) for each in partitions])]
    )


@question(range(3))
def the_quorum_of_one(c: Conversation, version: int) -> None:
    answer = c.ask(quorum_of("__cluster_metadata", 0), version, note=False)
    c.note("error", (answer.error_code, answer.error_message))
    for topic in answer.topics:
        for each in topic.partitions:
            c.note("partition", (topic.topic_name, each.partition_index, each.error_code, each.error_message))
            c.note("leader", (each.leader_id, each.leader_epoch > 0, each.high_watermark > 0))
            for replica in each.current_voters:
                times = replica.last_fetch_timestamp, replica.last_caught_up_timestamp
                recent = tuple(time == -1 or time > 1_700_000_000_000 for time in times)
                named = any(replica.replica_directory_id)
                c.note("voter", (replica.replica_id, named, replica.log_end_offset >= each.high_watermark, recent))
            c.note("observers", len(each.observers))
    for node in answer.nodes:
        c.note("node", (node.node_id, len(node.listeners)))


@question(range(3))
def partitions_that_are_no_quorum(c: Conversation, version: int) -> None:
    c.ask(quorum_of("__cluster_metadata", 1), version)
    c.ask(quorum_of("t", 0), version)
    c.ask(quorum_of("__cluster_metadata"), version)
    c.ask(quorum_of("__cluster_metadata", 0, 1), version)
    c.ask(DescribeQuorumRequest(topics=[]), version)
    c.ask(
        DescribeQuorumRequest(topics=[*quorum_of("t", 0).topics, *quorum_of("__cluster_metadata", 0).topics]), version
    )


def update(*features: tuple[str, int, int], version: int, validate_only: bool = True) -> UpdateFeaturesRequest:
    updates = [
        Update(feature=name, max_version_level=level, upgrade_type=kind)
        if version
        else Update(feature=name, max_version_level=level, allow_downgrade=kind != UPGRADE)
        for name, level, kind in features
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, timeout_ms=10_000)
    if version:
        request.validate_only = validate_only
    return request


FEATURES = (
    "metadata.version",
    "group.version",
    "kraft.version",
    "share.version",
    "streams.version",
    "transaction.version",
    "eligible.leader.replicas.version",
    "no.such.feature",
    "",
)


@question(range(1, 3))
def feature_levels(c: Conversation, version: int) -> None:
    for name in FEATURES:
        for level in (-1, 0, 1, 2, 3, 7, 29, 33, 34, 99):
            for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
                c.ask(update((name, level, kind), version=version), version, label=f"{name} {level} {kind}")


@question(range(3))
def feature_updates_that_cannot_be(c: Conversation, version: int) -> None:
    c.ask(update(("group.version", 99, UPGRADE), version=version), version)
    c.ask(update(("no.such.feature", 1, UPGRADE), version=version), version)
    c.ask(update(("group.version", -5, SAFE_DOWNGRADE), version=version), version)
    c.ask(update(("group.version", 9, UPGRADE), ("group.version", 1, UPGRADE), version=version), version)
    c.ask(update(version=version), version)
    if version:
        for kind in (0, 4, -1):
            c.ask(update(("group.version", 1, kind), version=version), version, label=f"kind {kind}")
        c.ask(update(("group.version", 1, UPGRADE), ("share.version", 9, UPGRADE), version=version), version)
        c.ask(update(("group.version", 1, UPGRADE), ("share.version", 1, SAFE_DOWNGRADE), version=version), version)


@question(range(1, 2))
def a_feature_goes_down_and_up(c: Conversation, version: int) -> None:
    for level, kind in ((1, SAFE_DOWNGRADE), (2, UPGRADE)):
        c.ask(update(("share.version", level, kind), version=version, validate_only=False), version)


@question(range(1))
def brokers_that_cannot_be_unregistered(c: Conversation, version: int) -> None:
    for broker in (99, -1, 0):
        c.ask(UnregisterBrokerRequest(broker_id=broker), version, label=str(broker))


@question(range(2))
def voters_that_cannot_be_added(c: Conversation, version: int) -> None:
    listeners = {
        "none": [],
        "another": [AddRaftVoterRequest.Listener(name="PLAINTEXT", host="localhost", port=9)],
        "controller": [AddRaftVoterRequest.Listener(name="controller", host="localhost", port=9)],
    }
    for name, given in listeners.items():
        for voter, directory_id in VOTERS:
            request = AddRaftVoterRequest(
                cluster_id=None,
                timeout_ms=1000,
                voter_id=voter,
                voter_directory_id=directory_id,
                listeners=given,
            )
            c.ask(request, version, label=f"{name} {voter} {directory_id[:1]!r}")


@question(range(1))
def voters_that_cannot_be_removed(c: Conversation, version: int) -> None:
    for voter, directory_id in VOTERS:
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter, voter_directory_id=directory_id)
        c.ask(request, version, label=f"{voter} {directory_id[:1]!r}")
