"""CreateTopics, DeleteTopics and DescribeTopicPartitions: versions, names that stand twice, limits and cursors."""

from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.protocol.apis import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from tests.unit.handlers.metadata_node import MetadataNode
from tests.unit.kraft.world import topic

State = DeleteTopicsRequest.DeleteTopicState


@pytest.fixture(params=[False, True], ids=["page cache", "fsync"])
def node(request: pytest.FixtureRequest) -> Iterator[MetadataNode]:
    node = MetadataNode(fsync=request.param)
    yield node
    node.close()


def create(node: MetadataNode, *names: str, version: int = 7, **fields: Any) -> dict[str, tuple[int, str | None]]:
    request = CreateTopicsRequest(topics=[topic(name) for name in names], **fields)
    response = node.ask(ApiKey.CREATE_TOPICS, version, request)
    return {each.name: (each.error_code, each.error_message) for each in response.topics}


@pytest.mark.parametrize("version", range(8))
def test_every_version_creates(node: MetadataNode, version: int) -> None:
    assert create(node, "one", version=version)["one"][0] == 0
    assert "one" in node.image.topics.by_name


def test_a_name_that_stands_twice_is_refused_once_and_the_others_are_made(node: MetadataNode) -> None:
    assert create(node, "a", "b", "a") == {
        "b": (0, None),
        "a": (ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
    }
    assert list(node.image.topics.by_name) == ["b"]


def test_the_metadata_topic_is_not_for_clients(node: MetadataNode) -> None:
    assert create(node, "__cluster_metadata") == {
        "__cluster_metadata": (
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        )
    }


def test_without_time_nothing_is_made(node: MetadataNode) -> None:
    assert create(node, "a", timeout_ms=0)["a"][0] == ErrorCode.REQUEST_TIMED_OUT
    assert not node.image.topics.by_name


def test_without_time_but_with_nothing_to_make_faults_are_told(node: MetadataNode) -> None:
    assert create(node, "a", "a", timeout_ms=0) == {"a": (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")}


def test_validating_makes_nothing(node: MetadataNode) -> None:
    assert create(node, "a", validate_only=True) == {"a": (0, None)}
    assert not node.image.topics.by_name


def delete(node: MetadataNode, *states: State, version: int = 6, names: tuple[str, ...] = ()) -> list[Any]:
    request = DeleteTopicsRequest(topics=list(states), topic_names=list(names), timeout_ms=1000)
    response = node.ask(ApiKey.DELETE_TOPICS, version, request)
    return [(each.name, each.error_code, each.error_message) for each in response.responses]


@pytest.mark.parametrize("version", range(6))
def test_names_are_deleted_in_the_older_versions(node: MetadataNode, version: int) -> None:
    create(node, "a", "b")
    results = [each[:2] for each in delete(node, names=("a", "missing"), version=version)]
    assert sorted(results) == [("a", 0), ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert list(node.image.topics.by_name) == ["b"]


def test_an_id_deletes_and_its_name_comes_back(node: MetadataNode) -> None:
    create(node, "a")
    topic_id = node.image.topics.by_name["a"].id
    assert delete(node, State(name=None, topic_id=topic_id)) == [("a", 0, None)]
    assert delete(node, State(name=None, topic_id=topic_id)) == [
        (None, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    ]


def test_what_is_named_wrongly_is_refused(node: MetadataNode) -> None:
    create(node, "a", "b", "c")
    topic_id = node.image.topics.by_name["a"].id
    results = delete(
        node,
        State(name=None),
        State(name="b", topic_id=b"?" * 16),
        State(name="c"),
        State(name="c"),
        State(name=None, topic_id=topic_id),
        State(name="a"),
    )
    assert sorted(results, key=lambda each: each[2]) == [
        ("c", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        (None, ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        ("a", ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."),
        ("b", ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
    ]
    assert list(node.image.topics.by_name) == ["a", "b", "c"]


def test_deletion_may_be_disabled() -> None:
    node = MetadataNode({"delete.topic.enable": "false"})
    create(node, "a")
    assert delete(node, State(name="a"))[0][1] == ErrorCode.TOPIC_DELETION_DISABLED
    assert delete(node, names=("a",), version=2)[0][1] == ErrorCode.INVALID_REQUEST
    assert "a" in node.image.topics.by_name
    node.close()


def describe(
    node: MetadataNode, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest
    response = node.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        request(
            topics=[request.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if cursor is None else request.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        ),
    )
    assert isinstance(response, DescribeTopicPartitionsResponse)
    return response


def shown(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(each.name, [partition.partition_index for partition in each.partitions]) for each in response.topics]


@pytest.fixture
def paged() -> Iterator[MetadataNode]:
    node = MetadataNode()
    node.world.create(topic("b", 3), topic("a", 2), topic("c", 1))
    yield node
    node.close()


def test_topics_are_described_in_the_order_of_their_names(paged: MetadataNode) -> None:
    response = describe(paged)
    assert shown(response) == [("a", [0, 1]), ("b", [0, 1, 2]), ("c", [0])]
    assert response.next_cursor is None
    assert response.topics[0].topic_authorized_operations == 0xDF8
    assert response.topics[0].partitions[0].eligible_leader_replicas == []


def test_the_cursor_goes_on_where_the_limit_cut(paged: MetadataNode) -> None:
    response = describe(paged, limit=4)
    assert shown(response) == [("a", [0, 1]), ("b", [0, 1])]
    assert response.next_cursor is not None
    cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)
    assert cursor == ("b", 2)
    assert shown(describe(paged, cursor=cursor)) == [("b", [2]), ("c", [0])]


def test_a_limit_that_ends_with_a_topic_points_at_the_next(paged: MetadataNode) -> None:
    response = describe(paged, limit=2)
    assert shown(response) == [("a", [0, 1])]
    assert response.next_cursor is not None
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == ("b", 0)


def test_the_broker_has_a_limit_too() -> None:
    node = MetadataNode({"max.request.partition.size.limit": "2"})
    node.world.create(topic("a", 3))
    assert shown(describe(node)) == [("a", [0, 1])]
    node.close()


def test_a_limit_below_one_is_one(paged: MetadataNode) -> None:
    assert shown(describe(paged, limit=0)) == [("a", [0])]


def test_unknown_topics_are_named_only_when_asked_for(paged: MetadataNode) -> None:
    response = describe(paged, "c", "missing", "a b")
    assert [(each.name, each.error_code) for each in response.topics] == [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", 0),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_cursor_that_cannot_be_is_refused(paged: MetadataNode) -> None:
    assert describe(paged, "a", cursor=("z", 0)).topics[0].error_code == ErrorCode.INVALID_REQUEST
    assert describe(paged, "a", cursor=("a", -1)).topics[0].error_code == ErrorCode.INVALID_REQUEST
