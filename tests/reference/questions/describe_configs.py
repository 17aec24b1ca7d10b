"""DescribeConfigs of topics, and of what is no topic."""

from __future__ import annotations

from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import create_topic, fresh_name

SERVED = range(1, 5)
TOPIC, BROKER = 2, 4
Resource = DescribeConfigsRequest.DescribeConfigsResource


def description(
    kind: int, name: str, keys: list[str] | None = None, *, synonyms: bool = False, documentation: bool = False
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[Resource(resource_type=kind, resource_name=name, configuration_keys=keys)],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


@question(SERVED)
def every_key_of_a_topic(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, configs={"retention.ms": "5", "cleanup.policy": "compact,delete"})
    for synonyms in (False, True):
        answer = c.ask(description(TOPIC, topic, synonyms=synonyms), version, note=False)
        result = answer.results[0]
        c.note("result", (result.error_code, result.error_message, result.resource_type))
        for each in sorted(result.configs, key=lambda config: str(config.name)):
            shown = [(s.name, s.value, s.source) for s in each.synonyms]
            kind = each.config_type if version >= 3 else None
            c.note(each.name, (each.value, each.read_only, each.config_source, each.is_sensitive, shown, kind))


@question(range(3, 5))
def documentation_is_given_when_asked(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for documentation in (False, True):
        answer = c.ask(description(TOPIC, topic, documentation=documentation), version, note=False)
        c.note("all have it", all(each.documentation for each in answer.results[0].configs))


@question(SERVED)
def chosen_keys(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    c.ask(description(TOPIC, topic, ["retention.ms"]), version)
    c.ask(description(TOPIC, topic, ["retention.ms", "no.such.key", "retention.ms"]), version)
    c.ask(description(TOPIC, topic, ["no.such.key"]), version)


@question(SERVED)
def resources_that_are_not_there(c: Conversation, version: int) -> None:
    for kind, name in (
        (TOPIC, fresh_name(c)),
        (TOPIC, "bad name!"),
        (TOPIC, ""),
        (0, "x"),
        (3, "x"),
        (99, "x"),
        (-1, "x"),
        (BROKER, "99"),
        (BROKER, "one"),
    ):
        c.ask(description(kind, name, ["x"]), version, label=f"{kind} {name[:12]}")
    c.ask(DescribeConfigsRequest(resources=[]), version)


@question(SERVED)
def some_keys_of_a_broker(c: Conversation, version: int) -> None:
    keys = ["num.partitions", "log.retention.hours", "log.segment.bytes", "message.max.bytes", "log.retention.ms"]
    for name in ("1", ""):
        answer = c.ask(description(BROKER, name, keys, synonyms=True), version, note=False)
        result = answer.results[0]
        c.note(f"result {name}", (result.error_code, result.error_message))
        for each in sorted(result.configs, key=lambda config: str(config.name)):
            shown = [(s.name, s.value, s.source) for s in each.synonyms]
            c.note(each.name, (each.value, each.read_only, each.config_source, each.is_sensitive, shown))
