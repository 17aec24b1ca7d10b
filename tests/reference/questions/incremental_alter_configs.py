"""IncrementalAlterConfigs of topics: the four operations, what is refused."""

from __future__ import annotations

from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.create_topics import CONFIGS
from tests.reference.questions.scenery import create_topic, fresh_name

SERVED = range(2)
TOPIC = 2
SET, DELETE, APPEND, SUBTRACT = range(4)
Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
Config = IncrementalAlterConfigsRequest.AlterableConfig


def alteration(
    name: str, *changes: tuple[str, int, str | None], kind: int = TOPIC, validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    configs = [Config(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    resource = Resource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def note_value(c: Conversation, topic: str, key: str) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=[key]
    )

    def ask() -> list[tuple[str | None, int]]:
        answer = c.ask(DescribeConfigsRequest(resources=[resource]), 4, note=False)
        return [(each.value, each.config_source) for each in answer.results[0].configs]

    c.note(key, c.followed(ask))


@question(SERVED)
def the_four_operations(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for key, operation, value in (
        ("retention.ms", SET, "77"),
        ("retention.ms", SET, "78"),
        ("retention.ms", DELETE, None),
        ("retention.ms", DELETE, "79"),
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", APPEND, "compact"),
        ("cleanup.policy", SUBTRACT, "delete"),
        ("cleanup.policy", SUBTRACT, "delete"),
        ("cleanup.policy", SUBTRACT, "compact"),
        ("cleanup.policy", APPEND, "shred"),
        ("cleanup.policy", DELETE, ""),
        ("leader.replication.throttled.replicas", APPEND, "0:1,1:1"),
        ("retention.ms", APPEND, "5"),
        ("retention.ms", SUBTRACT, "5"),
        ("retention.ms", SET, None),
        ("retention.ms", 4, "5"),
        ("retention.ms", -1, "5"),
        ("no.such.key", SET, "5"),
        ("no.such.key", DELETE, None),
    ):
        c.ask(alteration(topic, (key, operation, value)), version, label=f"{key} {operation} {value}")
        note_value(c, topic, key)


@question(range(1, 2))
def every_configuration(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for key, value in CONFIGS:
        c.ask(alteration(topic, (key, SET, value), validate_only=True), version, label=f"{key}={value}")


@question(SERVED)
def several_changes_in_one_request(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    c.ask(alteration(topic, ("retention.ms", SET, "5"), ("retention.ms", SET, "6")), version)
    c.ask(alteration(topic, ("retention.ms", SET, "5"), ("segment.bytes", SET, "1")), version)
    note_value(c, topic, "retention.ms")
    c.ask(alteration(topic, ("retention.ms", SET, "5"), validate_only=True), version)
    note_value(c, topic, "retention.ms")
    c.ask(alteration(topic), version)
    twice = alteration(topic, ("retention.ms", SET, "5"))
    twice.resources.append(twice.resources[0])
    c.ask(twice, version)
    c.ask(IncrementalAlterConfigsRequest(resources=[]), version)


@question(SERVED)
def resources_that_are_not_there(c: Conversation, version: int) -> None:
    for kind, name in ((TOPIC, fresh_name(c)), (TOPIC, ""), (TOPIC, "bad name!"), (0, "x"), (99, "x"), (3, "x")):
        request = alteration(name, ("retention.ms", SET, "5"), kind=kind)
        c.ask(request, version, label=f"{kind} {name[:12]}")


@question(SERVED)
def which_of_several_errors_is_told(c: Conversation, version: int) -> None:
    """Apache Kafka looks at a resource's keys in the order of a hash map and stops at the first error."""
    topic, _ = create_topic(c)
    other, _ = create_topic(c)
    for changes in (
        (("no.such.key", SET, "x"), ("nor.this", SET, "x"), ("", SET, "x"), ("neither.this", SET, "x")),
        (("no.such.key", 7, "x"), ("retention.ms", APPEND, "1")),
        (("retention.ms", APPEND, "1"), ("max.message.bytes", APPEND, "1"), ("segment.ms", SUBTRACT, "1")),
        (("segment.ms", SUBTRACT, "1"), ("retention.ms", -1, "1")),
    ):
        c.ask(alteration(topic, *changes), version, label=str(changes))
    request = alteration(topic, ("retention.ms", 7, "1"))
    request.resources += alteration(other, ("retention.ms", SET, "1")).resources
    c.ask(request, version, label="one operation of two that there is not", unordered=True)
    note_value(c, other, "retention.ms")
