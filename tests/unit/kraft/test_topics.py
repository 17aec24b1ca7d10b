"""The controller's decisions about topics: records and their order, names, configurations, placement."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.result import ControllerResult
from kbroker.kraft.controller.topics import CreatableTopic, CreatableTopicResult, create_topics
from kbroker.kraft.image import MetadataImage, TopicImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.records import metadata as m
from kbroker.types import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from tests.unit.kraft.cluster_image import broker_record, features, image_of
from tests.unit.kraft.world import topic

ONE_BROKER = image_of(*features(), broker_record(1))
THREE_BROKERS = image_of(*features(), *(broker_record(each) for each in (1, 2, 3)))

NO_PARTITIONS = "Number of partitions was set to an invalid non-positive value."


def create(
    *topics: CreatableTopic, image: MetadataImage = ONE_BROKER, settings: Mapping[str, str] | None = None
) -> ControllerResult[list[CreatableTopicResult]]:
    config = BrokerConfig(settings or {})
    random = Random(3)
    return create_topics(
        image,
        topics,
        config=config,
        chance=random,
        new_topic_id=lambda: random.randbytes(16),
    )


def refusal(created: CreatableTopic, image: MetadataImage = ONE_BROKER) -> tuple[ErrorCode, str | None]:
    result = create(created, image=image)
    assert result.records == []
    return ErrorCode(result.reply[0].error_code), result.reply[0].error_message


def made(result: ControllerResult[Any], image: MetadataImage = ONE_BROKER) -> TopicImage:
    after = image_of(*result.records, base=image)
    return next(iter(after.topics.by_id.values()))


def test_topic_configs_partitions_are_written_in_that_order() -> None:
    result = create(topic("t", 2, configs={"retention.ms": "5", "cleanup.policy": "compact"}))
    kinds = [type(each) for each in result.records]
    assert kinds == [m.TopicRecord, m.ConfigRecord, m.ConfigRecord, m.PartitionRecord, m.PartitionRecord]
    partition = made(result).partitions[1]
    assert (partition.replicas, partition.isr, partition.leader, partition.leader_epoch) == ((1,), (1,), 1, 0)


def test_a_topic_with_a_minimum_isr_of_its_own_begins_without_eligible_replicas() -> None:
    records = create(topic("t", configs={"min.insync.replicas": "2", "cleanup.policy": "compact"})).records
    kinds = [type(each) for each in records]
    assert kinds == [m.TopicRecord, m.ConfigRecord, m.ConfigRecord, m.ClearElrRecord, m.PartitionRecord]
    assert [each.name for each in records[1:3]] == ["cleanup.policy", "min.insync.replicas"]


def test_minus_one_asks_for_the_defaults() -> None:
    result = create(
        topic("t", -1, -1), image=THREE_BROKERS, settings={"num.partitions": "4", "default.replication.factor": "2"}
    )
    assert (result.reply[0].num_partitions, result.reply[0].replication_factor) == (4, 2)


def test_the_answer_shows_the_effective_configuration_by_name() -> None:
    rows = create(topic("t", configs={"retention.ms": "5"})).reply[0].configs
    assert rows is not None
    names = [row.name for row in rows]
    assert names == sorted(names)
    assert len(names) == 37
    row = next(row for row in rows if row.name == "retention.ms")
    assert (row.value, row.config_source) == ("5", 1)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a" * 250, f"the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("a/b", "'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("ä", "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_an_illegal_name_is_refused_with_the_reason(name: str, reason: str) -> None:
    assert refusal(topic(name)) == (ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


@pytest.mark.parametrize("name", ["a" * 249, "...", "a.b-c_D9", "-"])
def test_a_legal_name_is_taken(name: str) -> None:
    assert create(topic(name)).reply[0].error_code == 0


def test_an_existing_topic_is_not_made_again() -> None:
    image = image_of(*create(topic("t")).records, base=ONE_BROKER)
    assert refusal(topic("t"), image) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists.")


def test_names_that_differ_by_dot_and_underscore_collide() -> None:
    image = image_of(*create(topic("a.b_c")).records, base=ONE_BROKER)
    code, message = refusal(topic("a_b.c"), image)
    assert code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert message == "Topic 'a_b.c' collides with existing topic: a.b_c"


def test_a_name_is_free_of_collisions_once_the_other_topic_is_gone() -> None:
    image = image_of(*create(topic("a.b")).records, base=ONE_BROKER)
    topic_id = image.topics.by_name["a.b"].id
    image = image_of(m.RemoveTopicRecord(topic_id=topic_id), base=image)
    assert create(topic("a_b"), image=image).reply[0].error_code == 0


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (
            topic("t", 1, 0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            topic("t", 0, 1),
            ErrorCode.INVALID_PARTITIONS,
            NO_PARTITIONS,
        ),
        (
            topic("t", -2, 1),
            ErrorCode.INVALID_PARTITIONS,
            NO_PARTITIONS,
        ),
        (
            topic("t", 1, -1, assignments=[(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            topic("t", -1, 1, assignments=[(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            topic("t", -1, -1, assignments=[(0, [1]), (0, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            topic("t", -1, -1, assignments=[(0, [1]), (2, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            topic("t", -1, -1, assignments=[(0, [])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            topic("t", -1, -1, assignments=[(0, [9])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            topic("t", -1, -1, assignments=[(0, [1, 1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            topic("t", configs={"retention.ms": None, "segment.ms": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        (topic("t", configs={"nope": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name: nope"),
    ],
)
def test_a_wrong_request_is_refused_in_kafkas_words(wanted: CreatableTopic, code: ErrorCode, message: str) -> None:
    assert refusal(wanted) == (code, message)


def test_too_few_brokers_are_named() -> None:
    code, message = refusal(topic("t", 1, 3))
    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert message is not None
    assert message.startswith(
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
        "only 1 broker(s) are registered"
    )


def test_uneven_manual_assignments_are_refused() -> None:
    code, message = refusal(topic("t", -1, -1, assignments=[(0, [1, 2]), (1, [3])]), THREE_BROKERS)
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message == (
        "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
        "previous partitions, which have 2 replica(s)."
    )


def test_a_manual_assignment_is_taken_as_it_is_whatever_its_order() -> None:
    result = create(topic("t", -1, -1, assignments=[(1, [3, 1]), (0, [2, 3])]), image=THREE_BROKERS)
    partitions = made(result, THREE_BROKERS).partitions
    assert partitions[0].replicas == (2, 3)
    assert partitions[1].replicas == (3, 1)
    assert partitions[1].leader == 3


def test_fenced_replicas_are_not_in_the_isr() -> None:
    image = image_of(*features(), broker_record(1, fenced=True), broker_record(2))
    result = create(topic("t", -1, -1, assignments=[(0, [1, 2])]), image=image)
    partition = made(result, image).partitions[0]
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (2,), 2)
    code, message = refusal(topic("t", -1, -1, assignments=[(0, [1])]), image)
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert "fenced or in controlled shutdown" in message


def test_without_a_live_broker_nothing_is_placed() -> None:
    image = image_of(*features(), broker_record(1, fenced=True))
    code, message = refusal(topic("t"), image)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    reason = "All brokers are currently fenced, or have all their log directories cordoned."
    assert message == f"Unable to replicate the partition 1 time(s): {reason}"


def test_a_broker_with_several_directories_chooses_itself() -> None:
    record = broker_record(1)
    record.log_dirs = [b"a" * 16, b"b" * 16]
    image = image_of(*features(), record)
    assert made(create(topic("t"), image=image), image).partitions[0].directories == (UNASSIGNED_DIRECTORY,)


def test_a_broker_that_has_not_said_its_directories_yet_is_known_to_have_none() -> None:
    record = broker_record(1)
    record.log_dirs = []
    image = image_of(*features(), record)
    assert made(create(topic("t"), image=image), image).partitions[0].directories == (MIGRATING_DIRECTORY,)


def test_more_partitions_than_a_batch_can_hold_are_refused_for_the_whole_request() -> None:
    with pytest.raises(ApiError) as caught:
        create(topic("a"), topic("b", 10_000))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert caught.value.message == "Excessively large number of partitions per request."


def test_each_topic_of_a_request_succeeds_or_fails_by_itself() -> None:
    result = create(topic("good"), topic("b ad"), topic("fine"))
    codes: Sequence[int] = [each.error_code for each in result.reply]
    assert codes == [0, ErrorCode.INVALID_TOPIC_EXCEPTION, 0]
    assert [each.name for each in result.records if isinstance(each, m.TopicRecord)] == ["good", "fine"]
