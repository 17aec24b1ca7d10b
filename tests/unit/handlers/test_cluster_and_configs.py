"""The APIs that show the cluster and change configurations, as clients of every version see them."""

from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.handlers import SERVED
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.describe_quorum import DescribeQuorumRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.unit.handlers.metadata_node import MetadataNode
from tests.unit.kraft.world import CLUSTER_ID, topic

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32


@pytest.fixture
def node() -> Iterator[MetadataNode]:
    node = MetadataNode()
    node.world.create(topic("one", configs={"retention.ms": "5"}))
    yield node
    node.close()


# ApiVersions


def versions(node: MetadataNode, version: int = 4, **fields: Any) -> Any:
    fields = {"client_software_name": "test", "client_software_version": "1.0", **fields}
    return node.ask(ApiKey.API_VERSIONS, version, ApiVersionsRequest(**fields))


@pytest.mark.parametrize("version", range(6))
def test_api_versions_are_those_of_the_table(node: MetadataNode, version: int) -> None:
    response = versions(node, version)
    rows = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    assert rows == {key: (served.oldest, served.latest) for key, served in SERVED.items()}
    assert rows[ApiKey.PRODUCE][0] == 0


def test_features_are_shown_from_version_3_and_those_with_level_0_from_version_4(node: MetadataNode) -> None:
    assert not versions(node, 2).supported_features
    assert [each.name for each in versions(node, 3).supported_features] == ["metadata.version"]
    response = versions(node, 4)
    assert {each.name: (each.min_version, each.max_version) for each in response.supported_features} == {
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 33),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
        "eligible.leader.replicas.version": (0, 1),
    }
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    assert finalized == dict(node.image.features)
    assert response.finalized_features_epoch == node.image.offset


def test_the_clients_software_is_kept_with_its_connection(node: MetadataNode) -> None:
    versions(node, 3)
    assert (node.connection.client_software_name, node.connection.client_software_version) == ("test", "1.0")


@pytest.mark.parametrize("name", ["", "-x", "x-", "a b", "ä"])
def test_a_software_name_that_is_none_is_refused(node: MetadataNode, name: str) -> None:
    assert versions(node, 4, client_software_name=name).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (CLUSTER_ID, 1, ErrorCode.NONE),
        (None, -1, ErrorCode.NONE),
        ("other", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_who_meant_another_node_is_told_to_bootstrap_anew(
    node: MetadataNode, cluster_id: str | None, node_id: int, code: ErrorCode
) -> None:
    assert versions(node, 5, cluster_id=cluster_id, node_id=node_id).error_code == code


# DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_its_brokers_and_who_controls_it(node: MetadataNode, version: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    response = node.ask(ApiKey.DESCRIBE_CLUSTER, version, request)
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)
    assert [(each.broker_id, each.host, each.port) for each in response.brokers] == [(1, "localhost", 9092)]
    assert response.cluster_authorized_operations == 0x1FA0


def test_a_fenced_broker_is_shown_where_it_was_asked_for(node: MetadataNode) -> None:
    node.world.run(node.world.lifecycle.shut_down())
    assert node.ask(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest()).brokers == []
    response = node.ask(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest(include_fenced_brokers=True))
    assert [(each.broker_id, each.is_fenced) for each in response.brokers] == [(1, True)]


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_controller_is_looked_for_elsewhere(node: MetadataNode, endpoint_type: int, code: ErrorCode) -> None:
    response = node.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest(endpoint_type=endpoint_type))
    assert response.error_code == code


# DescribeQuorum


@pytest.mark.parametrize(
    ("advertised", "told"),
    [("PLAINTEXT://h:1", ("here", 9093)), ("PLAINTEXT://h:1,CONTROLLER://there:2", ("there", 2))],
)
def test_a_voter_is_told_with_where_it_is_reached(advertised: str, told: tuple[str, int]) -> None:
    listeners = {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "advertised.listeners": advertised}
    node = MetadataNode(listeners)
    try:
        node.connection.server_host = "here"
        partition = DescribeQuorumRequest.PartitionData(partition_index=0)
        topic_data = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
        (voter,) = node.ask(ApiKey.DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics=[topic_data])).nodes
        assert [(each.name, (each.host, each.port)) for each in voter.listeners] == [("CONTROLLER", told)]
    finally:
        node.close()


# Configs


def describe(node: MetadataNode, *resources: tuple[int, str], version: int = 4, keys: list[str] | None = None) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=keys) for kind, name in resources
        ],
        include_synonyms=version >= 1,
    )
    return node.ask(ApiKey.DESCRIBE_CONFIGS, version, request).results


@pytest.mark.parametrize("version", range(5))
def test_a_topic_shows_37_values_and_where_they_come_from(node: MetadataNode, version: int) -> None:
    (result,) = describe(node, (TOPIC, "one"), version=version)
    rows = {each.name: each for each in result.configs}
    assert result.error_code == 0
    assert len(rows) == 37
    assert rows["retention.ms"].value == "5"
    if version >= 1:
        assert rows["retention.ms"].config_source == 1
        assert rows["min.insync.replicas"].config_source == 3
        assert rows["segment.bytes"].config_source == 5
        assert [each.name for each in rows["segment.bytes"].synonyms] == ["log.segment.bytes"]


def test_only_the_keys_that_were_asked_for_come(node: MetadataNode) -> None:
    (result,) = describe(node, (TOPIC, "one"), keys=["retention.ms", "nope"])
    assert [each.name for each in result.configs] == ["retention.ms"]


def test_brokers_groups_and_subscriptions_are_described_too(node: MetadataNode) -> None:
    results = describe(
        node,
        (BROKER, "1"),
        (BROKER, ""),
        (GROUP, "g"),
        (CLIENT_METRICS, "s"),
        (BROKER, "2"),
        (BROKER, "x"),
        (GROUP, ""),
    )
    codes = [each.error_code for each in results]
    refused = ErrorCode.INVALID_REQUEST
    assert codes == [0, 0, 0, 0, refused, refused, refused]
    assert [each.name for each in results[1].configs] == ["min.insync.replicas"]


def test_an_unknown_topic_has_no_configs(node: MetadataNode) -> None:
    missing, illegal = describe(node, (TOPIC, "missing"), (TOPIC, "a/b"))
    assert (missing.error_code, missing.configs) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert illegal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_an_unknown_kind_of_resource_spoils_the_request(node: MetadataNode) -> None:
    assert [each.error_code for each in describe(node, (99, "x"), (TOPIC, "one"))] == [ErrorCode.INVALID_REQUEST] * 2


def alter(node: MetadataNode, *resources: tuple[int, str, list[tuple[str, int, str | None]]], **fields: Any) -> Any:
    request = IncrementalAlterConfigsRequest
    asked = request(
        resources=[
            request.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    request.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in configs
                ],
            )
            for kind, name, configs in resources
        ],
        **fields,
    )
    responses = node.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, asked).responses
    return [(each.resource_name, each.error_code, each.error_message) for each in responses]


def test_a_changed_config_is_described_at_once(node: MetadataNode) -> None:
    assert alter(node, (TOPIC, "one", [("retention.ms", 0, "6")])) == [("one", 0, None)]
    (result,) = describe(node, (TOPIC, "one"), keys=["retention.ms"])
    assert result.configs[0].value == "6"
    assert alter(node, (BROKER, "", [("log.retention.ms", 0, "7")])) == [("", 0, None)]
    assert alter(node, (TOPIC, "one", [("retention.ms", 1, None)])) == [("one", 0, None)]
    (result,) = describe(node, (TOPIC, "one"), keys=["retention.ms"])
    assert (result.configs[0].value, result.configs[0].config_source) == ("7", 3)


def test_validating_changes_nothing(node: MetadataNode) -> None:
    assert alter(node, (TOPIC, "one", [("retention.ms", 0, "6")]), validate_only=True) == [("one", 0, None)]
    assert node.image.configs.of_topic("one") == {"retention.ms": "5"}


def test_each_resource_succeeds_or_fails_by_itself(node: MetadataNode) -> None:
    results = alter(node, (TOPIC, "one", [("segment.ms", 0, "6")]), (TOPIC, "missing", [("segment.ms", 0, "6")]))
    assert results == [
        ("one", 0, None),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'missing' does not exist."),
    ]


@pytest.mark.parametrize(
    ("resources", "code", "message"),
    [
        (
            [(TOPIC, "one", [("segment.ms", 0, "1")]), (TOPIC, "one", [])],
            ErrorCode.INVALID_REQUEST,
            "Each resource must appear at most once.",
        ),
        (
            [(TOPIC, "one", [("segment.ms", 0, "1"), ("segment.ms", 0, "2")])],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            [(TOPIC, "one", [("segment.ms", 0, None)])],
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : segment.ms",
        ),
        ([(99, "x", [])], ErrorCode.INVALID_REQUEST, "Unknown resource type 99"),
        (
            [(BROKER, "2", [("log.retention.ms", 0, "1")])],
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 2",
        ),
        (
            [(BROKER, "x", [("log.retention.ms", 0, "1")])],
            ErrorCode.INVALID_REQUEST,
            "Node id must be an integer, but it is: x",
        ),
    ],
)
def test_a_wrong_alteration_is_refused_in_kafkas_words(
    node: MetadataNode, resources: list[Any], code: ErrorCode, message: str
) -> None:
    assert all(each[1:] == (code, message) for each in alter(node, *resources))


def test_a_wrong_broker_config_is_an_invalid_request_and_a_wrong_topic_config_an_invalid_config(
    node: MetadataNode,
) -> None:
    assert alter(node, (BROKER, "1", [("log.retention.ms", 0, "x")]))[0][1] == ErrorCode.INVALID_REQUEST
    assert alter(node, (BROKER, "1", [("node.id", 0, "3")]))[0][1] == ErrorCode.INVALID_REQUEST
    assert alter(node, (TOPIC, "one", [("retention.ms", 0, "x")]))[0][1] == ErrorCode.INVALID_CONFIG


def test_an_unknown_broker_config_is_kept_and_shown_without_its_value(node: MetadataNode) -> None:
    assert alter(node, (BROKER, "1", [("my.plugin.key", 0, "secret")])) == [("1", 0, None)]
    (result,) = describe(node, (BROKER, "1"), keys=["my.plugin.key"])
    (row,) = result.configs
    assert (row.value, row.is_sensitive) == (None, True)
