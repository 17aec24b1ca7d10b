"""Metadata: every version, topics by name and by id, topics made on demand, listeners."""

from collections.abc import Iterator

import pytest

from kbroker.protocol.apis import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.handlers.metadata_node import MetadataNode
from tests.unit.kraft.world import CLUSTER_ID, topic

Topic = MetadataRequest.MetadataRequestTopic


@pytest.fixture
def node() -> Iterator[MetadataNode]:
    node = MetadataNode()
    node.world.create(topic("one", 2), topic("two"))
    yield node
    node.close()


def ask(
    node: MetadataNode,
    *names: str | None,
    version: int = 13,
    everything: bool = False,
    create: bool = False,
    ids: tuple[bytes, ...] = (),
    operations: bool = False,
) -> MetadataResponse:
    topics = [Topic(name=name) for name in names] + [Topic(name=None, topic_id=each) for each in ids]
    request = MetadataRequest(
        topics=None if everything and version > 0 else topics,
        allow_auto_topic_creation=create or version < 4,
        include_topic_authorized_operations=operations,
    )
    response = node.ask(ApiKey.METADATA, version, request)
    assert isinstance(response, MetadataResponse)
    return response


def errors(response: MetadataResponse) -> dict[str | None, int]:
    return {each.name: each.error_code for each in response.topics}


@pytest.mark.parametrize("version", range(14))
def test_every_version_names_brokers_topics_and_leaders(node: MetadataNode, version: int) -> None:
    response = ask(node, "one", version=version)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "localhost", 9092)
    (described,) = response.topics
    assert described.name == "one"
    assert [(each.partition_index, each.leader_id) for each in described.partitions] == [(0, 1), (1, 1)]
    assert described.partitions[0].replica_nodes == described.partitions[0].isr_nodes == [1]
    if version >= 2:
        assert response.cluster_id == CLUSTER_ID
    if version >= 1:
        assert response.controller_id == 1
    if version >= 7:
        assert described.partitions[0].leader_epoch == 0
    if version >= 10:
        assert described.topic_id == node.image.topics.by_name["one"].id


@pytest.mark.parametrize("version", [0, 1, 9, 13])
def test_all_topics_are_asked_for_by_null_and_in_version_0_by_nothing(node: MetadataNode, version: int) -> None:
    assert errors(ask(node, version=version, everything=True)) == {"one": 0, "two": 0}


@pytest.mark.parametrize("version", [1, 9, 13])
def test_no_topics_are_asked_for_by_an_empty_list(node: MetadataNode, version: int) -> None:
    assert ask(node, version=version).topics == []


def test_a_topic_asked_for_twice_comes_once(node: MetadataNode) -> None:
    assert [each.name for each in ask(node, "one", "one").topics] == ["one"]


def test_unknown_and_illegal_names_say_so(node: MetadataNode) -> None:
    assert errors(ask(node, "missing", "not legal", "")) == {
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "not legal": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert "missing" not in node.image.topics.by_name


@pytest.mark.parametrize("version", [0, 3, 4, 12])
@pytest.mark.parametrize("fsync", [False, True])
def test_a_missing_topic_is_made_and_is_in_the_answer(version: int, fsync: bool) -> None:
    node = MetadataNode({"num.partitions": "3"}, fsync=fsync)
    (described,) = ask(node, "fresh", version=version, create=True).topics
    assert described.error_code == 0
    assert [each.leader_id for each in described.partitions] == [1, 1, 1]
    node.close()


def test_nothing_is_made_where_the_broker_or_the_name_forbids_it() -> None:
    node = MetadataNode({"auto.create.topics.enable": "false"})
    assert errors(ask(node, "fresh", create=True)) == {"fresh": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    node.close()
    node = MetadataNode()
    assert errors(ask(node, "__cluster_metadata", "a b", create=True)) == {
        "__cluster_metadata": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert not node.image.topics.by_name
    node.close()


def test_a_topic_that_cannot_be_made_stays_unknown(node: MetadataNode) -> None:
    node.world.create(topic("a.b"))
    assert errors(ask(node, "a_b", create=True)) == {"a_b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_internal_topics_are_made_as_the_coordinators_want_them() -> None:
    node = MetadataNode({"offsets.topic.replication.factor": "3", "kbroker.internal.topics.clamp.replication": "true"})
    (described,) = ask(node, "__consumer_offsets", create=True).topics
    assert (described.error_code, described.is_internal, len(described.partitions)) == (0, True, 50)
    assert node.image.configs.of_topic("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
        "compression.type": "producer",
    }
    node.close()


@pytest.mark.parametrize(
    ("topic", "prefix", "more"),
    [
        ("__consumer_offsets", "offsets.topic", {}),
        ("__transaction_state", "transaction.state.log", {"transaction.state.log.min.isr": "4"}),
    ],
)
def test_internal_topics_are_made_as_they_are_configured(topic: str, prefix: str, more: dict[str, str]) -> None:
    settings = {
        f"{prefix}.num.partitions": "3",
        f"{prefix}.replication.factor": "1",
        f"{prefix}.segment.bytes": "77777777",
    }
    node = MetadataNode({**settings, **more})
    (described,) = ask(node, topic, create=True).topics
    assert (described.error_code, len(described.partitions)) == (0, 3)
    assert [each.replica_nodes for each in described.partitions] == [[1]] * 3
    configs = node.image.configs.of_topic(topic)
    assert configs["segment.bytes"] == "77777777"
    assert configs.get("min.insync.replicas") == ("4" if more else None)
    node.close()


def test_topics_are_found_by_id_and_unknown_ids_said_so(node: MetadataNode) -> None:
    topic_id = node.image.topics.by_name["one"].id
    response = ask(node, ids=(topic_id, b"?" * 16))
    assert [(each.name, each.topic_id, each.error_code) for each in response.topics] == [
        (None, b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        ("one", topic_id, 0),
    ]


def test_a_null_name_or_an_id_before_version_12_is_refused(node: MetadataNode) -> None:
    assert errors(ask(node, None, version=10)) == {"": ErrorCode.INVALID_REQUEST}
    request = MetadataRequest(topics=[Topic(name="one", topic_id=b"?" * 16)])
    response = node.ask(ApiKey.METADATA, 11, request)
    assert errors(response) == {"one": ErrorCode.INVALID_REQUEST}


def test_authorised_operations_are_all_of_them_when_asked_for(node: MetadataNode) -> None:
    assert ask(node, "one", operations=True).topics[0].topic_authorized_operations == 0xDF8
    assert ask(node, "one").topics[0].topic_authorized_operations == -(1 << 31)
    request = MetadataRequest(topics=[], include_cluster_authorized_operations=True)
    assert node.ask(ApiKey.METADATA, 8, request).cluster_authorized_operations == 0x1FA0


def test_a_partition_without_a_leader_says_so(node: MetadataNode) -> None:
    node.world.run(node.world.lifecycle.shut_down())
    (described,) = ask(node, "two").topics
    (partition,) = described.partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.offline_replicas == [1]
    assert ask(node, "two").brokers == []
    (partition,) = ask(node, "two", version=0).topics[0].partitions
    assert partition.replica_nodes == []


def test_a_leader_that_does_not_listen_here_is_not_named(node: MetadataNode) -> None:
    node.connection.listener = "INTERNAL"
    assert ask(node, "two").topics[0].partitions[0].error_code == ErrorCode.LISTENER_NOT_FOUND
    assert ask(node, "two", version=5).topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
