"""The controller's decisions about configurations: which records an alteration writes, what is refused."""

import pytest

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.configs import Alteration, Operation, incremental_alter_configs, legacy_alter_configs
from kbroker.kraft.image import RESOURCE_BROKER, RESOURCE_TOPIC, ConfigResource, MetadataImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.records import metadata as m
from tests.unit.kraft.cluster_image import image_of, partition_record, three_brokers

TOPIC: ConfigResource = (RESOURCE_TOPIC, "t")
CLUSTER: ConfigResource = (RESOURCE_BROKER, "")
SET, DELETE, APPEND, SUBTRACT = Operation


def image(**configs: str) -> MetadataImage:
    return three_brokers(
        partition_record(),
        m.ConfigRecord(resource_type=RESOURCE_BROKER, resource_name="", name="min.insync.replicas", value="1"),
        *(
            m.ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="t", name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ),
    )


def alter(
    before: MetadataImage, resource: ConfigResource, *alterations: tuple[str, int, str | None]
) -> tuple[ApiError | None, dict[str, str]]:
    changes = {resource: [Alteration(*each) for each in alterations]}
    result = incremental_alter_configs(before, changes, BrokerConfig({}))
    after = image_of(*result.records, base=before) if result.records else before
    return result.reply[resource], dict(after.configs.of(*resource))


def test_set_and_delete_change_what_they_name() -> None:
    error, configs = alter(
        image(retention_ms="1", segment_ms="2"), TOPIC, ("retention.ms", SET, "5"), ("segment.ms", DELETE, None)
    )
    assert error is None
    assert configs == {"retention.ms": "5"}


def test_a_value_that_stays_writes_no_record_for_a_topic_but_one_for_a_broker() -> None:
    before = image(retention_ms="1")
    changes = {TOPIC: [Alteration("retention.ms", SET, "1")], CLUSTER: [Alteration("min.insync.replicas", SET, "1")]}
    records = incremental_alter_configs(before, changes, BrokerConfig({})).records
    configs = [each for each in records if isinstance(each, m.ConfigRecord)]
    assert [(each.resource_type, each.name) for each in configs] == [(RESOURCE_BROKER, "min.insync.replicas")]


def test_another_minimum_isr_clears_the_eligible_replicas_of_those_it_is_for() -> None:
    value = [Alteration("min.insync.replicas", SET, "2")]
    changes = {TOPIC: [*value, Alteration("retention.ms", SET, "5")], CLUSTER: value}
    before = image()
    for result in (
        incremental_alter_configs(before, changes, BrokerConfig({})),
        legacy_alter_configs(
            before, {resource: {"min.insync.replicas": "2"} for resource in changes}, BrokerConfig({})
        ),
    ):
        assert [each.topic_name for each in result.records if isinstance(each, m.ClearElrRecord)] == ["t", ""]
        assert isinstance(result.records[-1], m.ClearElrRecord)


def test_without_eligible_replicas_another_minimum_isr_clears_nothing() -> None:
    before = three_brokers(partition_record(), elr=False)
    changes = {TOPIC: [Alteration("min.insync.replicas", SET, "2")]}
    assert [type(each) for each in incremental_alter_configs(before, changes, BrokerConfig({})).records] == [
        m.ConfigRecord
    ]


@pytest.mark.parametrize(("resource", "key"), [(TOPIC, "cleanup.policy"), (CLUSTER, "log.cleanup.policy")])
def test_a_list_that_was_not_altered_begins_with_kafkas_default_whatever_the_file_says(
    resource: ConfigResource, key: str
) -> None:
    config = BrokerConfig({"log.cleanup.policy": "compact,delete"})
    result = incremental_alter_configs(image(), {resource: [Alteration(key, APPEND, "compact")]}, config)
    assert result.reply == {resource: None}
    assert [record.value for record in result.records] == ["delete,compact"]


def test_append_and_subtract_work_on_lists_and_begin_with_the_default() -> None:
    _, configs = alter(image(), TOPIC, ("cleanup.policy", APPEND, "compact"))
    assert configs == {"cleanup.policy": "delete,compact"}
    _, configs = alter(image(cleanup_policy="delete,compact"), TOPIC, ("cleanup.policy", APPEND, "compact"))
    assert configs == {"cleanup.policy": "delete,compact"}
    _, configs = alter(image(cleanup_policy="delete,compact"), TOPIC, ("cleanup.policy", SUBTRACT, "delete"))
    assert configs == {"cleanup.policy": "compact"}
    _, configs = alter(image(cleanup_policy="compact"), TOPIC, ("cleanup.policy", SUBTRACT, "compact"))
    assert configs == {"cleanup.policy": ""}


@pytest.mark.parametrize(
    ("resource", "alteration", "code"),
    [
        (TOPIC, ("nope", SET, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (TOPIC, ("retention.ms", 9, "1"), ErrorCode.UNKNOWN_SERVER_ERROR),
        ((RESOURCE_TOPIC, "missing"), ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((RESOURCE_TOPIC, ""), ("retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        ((RESOURCE_TOPIC, "a/b"), ("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((RESOURCE_BROKER, "x"), ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        ((RESOURCE_BROKER, "-4"), ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST),
        ((RESOURCE_BROKER, "9"), ("log.retention.ms", SET, "1"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        ((RESOURCE_BROKER, "1"), ("min.insync.replicas", SET, "2"), ErrorCode.INVALID_CONFIG),
        (CLUSTER, ("min.insync.replicas", DELETE, None), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    resource: ConfigResource, alteration: tuple[str, int, str | None], code: ErrorCode
) -> None:
    before = image()
    error, configs = alter(before, resource, alteration)
    assert error is not None
    assert error.code is code
    assert configs == dict(before.configs.of(*resource))


def test_a_resource_changes_whole_or_not_at_all() -> None:
    error, configs = alter(image(), TOPIC, ("retention.ms", SET, "5"), ("segment.ms", SET, "x"))
    assert error is not None
    assert configs == {}


def test_deleting_an_unknown_topic_config_is_no_error() -> None:
    assert alter(image(), TOPIC, ("nope", DELETE, None)) == (None, {})


def test_the_clusters_minimum_isr_may_be_changed() -> None:
    error, configs = alter(image(), CLUSTER, ("min.insync.replicas", SET, "2"))
    assert error is None
    assert configs == {"min.insync.replicas": "2"}


def test_a_node_that_is_only_a_controller_any_more_has_configs_too() -> None:
    change = ("log.retention.ms", SET, "5")
    error, _ = alter(image(), (RESOURCE_BROKER, "9"), change)
    assert error is not None
    assert error.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    controller = m.RegisterControllerRecord(controller_id=9, incarnation_id=b"c" * 16)
    assert alter(image_of(controller, base=image()), (RESOURCE_BROKER, "9"), change)[0] is None
