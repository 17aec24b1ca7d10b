"""Configurations of every type of resource, described, altered both ways, listed.

Topics by themselves are in ``incremental_alter_configs`` and ``describe_configs``.
"""

from __future__ import annotations

from kbroker.protocol.messages.alter_configs import AlterConfigsRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.describe_configs import description
from tests.reference.questions.incremental_alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    alteration,
    note_value,
)
from tests.reference.questions.scenery import create_topic, fresh_name

LEGACY = range(3)
INCREMENTAL = range(2)
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ME = "1"
Resource = AlterConfigsRequest.AlterConfigsResource
Config = AlterConfigsRequest.AlterableConfig


def replacement(
    kind: int, name: str, *values: tuple[str, str | None], validate_only: bool = False
) -> AlterConfigsRequest:
    configs = [Config(name=key, value=value) for key, value in values]
    resource = Resource(resource_type=kind, resource_name=name, configs=configs)
    return AlterConfigsRequest(resources=[resource], validate_only=validate_only)


def note_rows(c: Conversation, kind: int, name: str, keys: list[str] | None = None) -> None:
    """Note the rows as they are after all changes."""

    def ask() -> object:
        result = c.ask(description(kind, name, keys, synonyms=True), 4, note=False).results[0]
        rows = sorted(
            (
                row.name,
                row.value,
                row.config_source,
                row.read_only,
                row.is_sensitive,
                row.config_type,
                [(each.name, each.value, each.source) for each in row.synonyms],
            )
            for row in result.configs
        )
        return result.error_code, result.error_message, rows

    c.note(f"rows of {kind}", c.followed(ask))


@question(LEGACY)
def legacy_alteration_of_a_topic(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, configs={"retention.ms": "5", "segment.ms": "6"})
    c.ask(replacement(TOPIC, topic, ("retention.ms", "7"), validate_only=True), version)
    note_value(c, topic, "segment.ms")
    c.ask(replacement(TOPIC, topic, ("retention.ms", "7")), version)
    note_value(c, topic, "retention.ms")
    note_value(c, topic, "segment.ms")
    for values in (
        (("retention.ms", "x"),),
        (("no.such.key", "x"),),
        (("retention.ms", None),),
        (("retention.ms", "5"), ("retention.ms", "6")),
        (("cleanup.policy", "shred"),),
        (),
    ):
        c.ask(replacement(TOPIC, topic, *values), version, label=str(values))
        note_value(c, topic, "retention.ms")


@question(LEGACY)
def legacy_alteration_of_what_is_not_there(c: Conversation, version: int) -> None:
    for kind, name in (
        (TOPIC, fresh_name(c)),
        (TOPIC, ""),
        (TOPIC, "bad name!"),
        (BROKER, "99"),
        (BROKER, "one"),
        (LOGGER, ME),
        (CLIENT_METRICS, ""),
        (GROUP, ""),
        (0, "x"),
        (1, "x"),
        (99, "x"),
    ):
        c.ask(replacement(kind, name, ("x", "y")), version, label=f"{kind} {name[:5]}")
    c.ask(AlterConfigsRequest(resources=[]), version, label="nothing")


@question(range(2, 3))
def legacy_alteration_of_other_resources(c: Conversation, version: int) -> None:
    name = fresh_name(c, "g")
    c.ask(replacement(GROUP, name, ("consumer.session.timeout.ms", "50000")), version)
    note_rows(c, GROUP, name, ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"])
    c.ask(replacement(GROUP, name), version)
    note_rows(c, GROUP, name, ["consumer.session.timeout.ms"])
    name = fresh_name(c, "m")
    c.ask(replacement(CLIENT_METRICS, name, ("interval.ms", "1000")), version)
    note_rows(c, CLIENT_METRICS, name)
    c.ask(replacement(CLIENT_METRICS, name), version)
    note_rows(c, CLIENT_METRICS, name)


BROKER_CHANGES = (
    ("log.retention.ms", SET, "100000"),
    ("log.retention.ms", SET, "100000"),
    ("log.retention.ms", DELETE, None),
    ("message.max.bytes", SET, "99999"),
    ("message.max.bytes", DELETE, None),
    ("log.cleanup.policy", APPEND, "compact"),
    ("log.cleanup.policy", SUBTRACT, "delete"),
    ("log.cleanup.policy", DELETE, None),
    ("max.connections.per.ip", SET, "1000"),
    ("max.connections.per.ip", DELETE, None),
)
BROKER_ERRORS = (
    ("log.retention.ms", SET, "x"),
    ("log.retention.ms", SET, "-2"),
    ("log.retention.ms", SET, None),
    ("log.retention.ms", APPEND, "5"),
    ("message.max.bytes", SET, "-1"),
    ("log.cleanup.policy", SET, "shred"),
    ("log.cleanup.policy", APPEND, "shred"),
    ("num.partitions", SET, "3"),
    ("node.id", SET, "3"),
    ("broker.id", DELETE, None),
    ("process.roles", SET, "broker"),
    ("log.dirs", SET, "/elsewhere"),
    ("listeners", SET, "x"),
    ("min.insync.replicas", SET, "2"),
    ("min.insync.replicas", DELETE, None),
    ("ssl.keystore.location", SET, "x"),
    ("log.cleaner.threads", SET, "0"),
    ("log.cleaner.threads", SET, "1000"),
    ("num.io.threads", SET, "1"),
    ("num.io.threads", SET, "100"),
    ("num.network.threads", SET, "0"),
    ("retention.ms", 7, "5"),
    ("log.retention.ms", 7, "5"),
    ("log.retention.ms", -1, "5"),
    ("compression.type", SET, "brotli"),
    ("background.threads", SET, "11"),
    ("log.message.timestamp.type", SET, "Never"),
    ("log.cleaner.min.compaction.lag.ms", SET, "-5"),
    ("unclean.leader.election.enable", SET, "maybe"),
    ("max.connections", SET, "0"),
    ("listener.name.plaintext.ssl.keystore.location", SET, "x"),
)


@question(range(1, 2))
def alterations_of_a_broker(c: Conversation, version: int) -> None:
    for name in (ME, ""):
        for change in BROKER_CHANGES:
            c.ask(alteration(name, change, kind=BROKER), version, label=f"{name} {change}")
            note_rows(c, BROKER, name, [change[0]])


@question(range(1, 2))
def alterations_that_a_broker_refuses(c: Conversation, version: int) -> None:
    for name in (ME, ""):
        for change in BROKER_ERRORS:
            request = alteration(name, change, kind=BROKER, validate_only=True)
            c.ask(request, version, label=f"{name} {change}")


@question(INCREMENTAL)
def resources_of_every_type(c: Conversation, version: int) -> None:
    for kind, name in (
        (BROKER, "99"),
        (BROKER, "one"),
        (BROKER, "-1"),
        (LOGGER, ""),
        (LOGGER, "99"),
        (LOGGER, "one"),
        (CLIENT_METRICS, ""),
        (GROUP, ""),
        (1, "x"),
        (64, "x"),
        (-1, "x"),
    ):
        c.ask(alteration(name, ("x", SET, "y"), kind=kind), version, label=f"{kind} {name}")
        c.ask(alteration(name, kind=kind), version, label=f"{kind} {name} without a change")


@question(range(1, 2))
def loggers(c: Conversation, version: int) -> None:
    for change in (
        ("no.such.logger", SET, "DEBUG"),
        ("no.such.logger", DELETE, None),
        ("root", SET, "CHATTY"),
        ("root", SET, "info"),
        ("root", DELETE, None),
        ("root", APPEND, "INFO"),
        ("root", SUBTRACT, "INFO"),
        ("root", 9, "INFO"),
        ("root", SET, None),
        ("root", SET, ""),
    ):
        c.ask(alteration(ME, change, kind=LOGGER, validate_only=True), version, label=str(change))
    for level in ("DEBUG", "TRACE", "FATAL", "ERROR", "WARN", "OFF", "ALL", "INFO"):
        c.ask(alteration(ME, ("root", SET, level), kind=LOGGER), version, label=level)
        note_rows(c, LOGGER, ME, ["root"])


@question(range(1, 5))
def descriptions_of_loggers(c: Conversation, version: int) -> None:
    for name in (ME, "", "one", "99", "-1"):
        c.ask(description(LOGGER, name, ["root"], synonyms=True), version, label=name)
    c.ask(description(LOGGER, ME, ["no.such.logger"]), version)


GROUP_CHANGES = (
    ("consumer.session.timeout.ms", SET, "50000"),
    ("consumer.session.timeout.ms", SET, "1"),
    ("consumer.session.timeout.ms", SET, "99999999"),
    ("consumer.session.timeout.ms", SET, "x"),
    ("consumer.heartbeat.interval.ms", SET, "5001"),
    ("consumer.heartbeat.interval.ms", SET, "1"),
    ("consumer.heartbeat.interval.ms", SET, "60000"),
    ("share.isolation.level", SET, "read_committed"),
    ("share.isolation.level", SET, "read_everything"),
    ("share.auto.offset.reset", SET, "earliest"),
    ("share.auto.offset.reset", SET, "by_duration:PT1H"),
    ("share.auto.offset.reset", SET, "by_duration:-PT1H"),
    ("share.auto.offset.reset", SET, "never"),
    ("share.record.lock.duration.ms", SET, "15000"),
    ("share.record.lock.duration.ms", SET, "1"),
    ("share.delivery.count.limit", SET, "3"),
    ("share.delivery.count.limit", SET, "100"),
    ("share.partition.max.record.locks", SET, "1000"),
    ("share.partition.max.record.locks", SET, "1"),
    ("share.session.timeout.ms", SET, "50000"),
    ("share.heartbeat.interval.ms", SET, "6000"),
    ("share.renew.acknowledge.enable", SET, "maybe"),
    ("streams.session.timeout.ms", SET, "50000"),
    ("streams.num.standby.replicas", SET, "1"),
    ("streams.num.standby.replicas", SET, "9"),
    ("streams.initial.rebalance.delay.ms", SET, "1"),
    ("streams.initial.rebalance.delay.ms", SET, "-1"),
    ("no.such.key", SET, "1"),
    ("no.such.key", DELETE, None),
    ("consumer.session.timeout.ms", APPEND, "50000"),
    ("consumer.session.timeout.ms", SET, None),
    ("consumer.session.timeout.ms", DELETE, None),
    ("consumer.session.timeout.ms", 7, "1"),
)


@question(range(1, 2))
def alterations_of_a_group(c: Conversation, version: int) -> None:
    name = fresh_name(c, "g")
    for change in GROUP_CHANGES:
        c.ask(alteration(name, change, kind=GROUP), version, label=str(change))
        if change[0] != "no.such.key":
            note_rows(c, GROUP, name, [change[0]])
    note_rows(c, GROUP, name)


@question(range(1, 2))
def group_keys_that_depend_on_each_other(c: Conversation, version: int) -> None:
    name = fresh_name(c, "g")
    c.ask(
        alteration(
            name,
            ("consumer.session.timeout.ms", SET, "45000"),
            ("consumer.heartbeat.interval.ms", SET, "15000"),
            ("share.session.timeout.ms", SET, "45000"),
            ("share.heartbeat.interval.ms", SET, "15000"),
            kind=GROUP,
        ),
        version,
    )
    note_rows(c, GROUP, name, ["consumer.session.timeout.ms", "share.heartbeat.interval.ms"])


METRICS_CHANGES = (
    ("interval.ms", SET, "1000"),
    ("interval.ms", SET, "1"),
    ("interval.ms", SET, "3600001"),
    ("interval.ms", SET, "x"),
    ("metrics", SET, "org.apache.kafka."),
    ("metrics", APPEND, "org.apache.kafka.consumer."),
    ("metrics", SUBTRACT, "org.apache.kafka."),
    ("metrics", SET, "*"),
    ("match", SET, "client_id=.*,client_software_name=Java"),
    ("match", APPEND, "client_source_port=9"),
    ("match", SET, "client_id"),
    ("match", SET, "no_such=5"),
    ("match", SET, "client_id=["),
    ("match", SET, ""),
    ("no.such.key", SET, "1"),
    ("no.such.key", DELETE, None),
    ("interval.ms", APPEND, "5"),
    ("interval.ms", SET, None),
    ("interval.ms", DELETE, None),
)


@question(range(1, 2))
def alterations_of_client_metrics(c: Conversation, version: int) -> None:
    name = fresh_name(c, "m")
    for change in METRICS_CHANGES:
        c.ask(alteration(name, change, kind=CLIENT_METRICS), version, label=str(change))
        note_rows(c, CLIENT_METRICS, name)


@question(range(1, 5))
def groups_and_client_metrics_that_nobody_configured(c: Conversation, version: int) -> None:
    name = fresh_name(c, "g")
    for kind in (GROUP, CLIENT_METRICS):
        answer = c.ask(description(kind, name, synonyms=True), version, note=False).results[0]
        c.note(f"result {kind}", (answer.error_code, answer.error_message))
        rows = sorted((row.name, row.value, row.config_source, row.read_only) for row in answer.configs)
        c.note(f"rows of {kind}", rows)
        c.ask(description(kind, ""), version, label=f"{kind} without a name")


@question(range(2))
def lists_of_resources(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    group, metrics = fresh_name(c, "g"), fresh_name(c, "m")
    c.ask(alteration(group, ("consumer.session.timeout.ms", SET, "50000"), kind=GROUP), 1)
    c.ask(alteration(metrics, ("interval.ms", SET, "1000"), kind=CLIENT_METRICS), 1)
    wanted = {topic, group, metrics, ME, ""}
    note_rows(c, CLIENT_METRICS, metrics)
    note_rows(c, GROUP, group, ["consumer.session.timeout.ms"])
    kinds = [[], [TOPIC], [BROKER], [LOGGER], [CLIENT_METRICS], [GROUP], [TOPIC, TOPIC, GROUP], [0], [99], [TOPIC, 0]]
    for each in kinds if version else [[]]:
        request = ListConfigResourcesRequest(resource_types=each) if version else ListConfigResourcesRequest()
        answer = c.ask(request, version, note=False)
        if answer is None:
            c.note(str(each), "closed")
            continue
        found = [
            (row.resource_type, "<it>" if row.resource_name not in (ME, "") else row.resource_name)
            for row in answer.config_resources
            if row.resource_name in wanted
        ]
        c.note(str(each), (answer.error_code, sorted(found)))


@question(range(1, 2))
def mixed_alterations(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    good = alteration(topic, ("retention.ms", SET, "5")).resources
    bad = alteration("", ("retention.ms", SET, "5"), kind=GROUP).resources
    logger = alteration(ME, ("root", SET, "INFO"), kind=LOGGER).resources
    c.ask(IncrementalAlterConfigsRequest(resources=[*good, *bad, *logger]), version)
    note_value(c, topic, "retention.ms")
