"""Configurations asked for and altered in strange ways: names, keys, values and operations of every kind."""

from __future__ import annotations

from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.configs import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    INCREMENTAL,
    LEGACY,
    LOGGER,
    ME,
    TOPIC,
    note_rows,
    replacement,
)
from tests.reference.questions.create_topics import Config as CreatableConfig
from tests.reference.questions.create_topics import Topic as CreatableTopic
from tests.reference.questions.create_topics import creation
from tests.reference.questions.describe_configs import SERVED as DESCRIBED
from tests.reference.questions.describe_configs import description
from tests.reference.questions.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT, alteration
from tests.reference.questions.scenery import create_topic, fresh_name

Resource = DescribeConfigsRequest.DescribeConfigsResource
Changes = tuple[tuple[str, int, str | None], ...]

NUMBERS = ("1 ", "01", "+1", "1.0", "-0", "0", "2147483648", "\u0663", " ", "-1")
NAMES = (".", "..", "x" * 250, "\u00fc", " ")


@question(DESCRIBED)
def the_order_of_rows(c: Conversation, version: int) -> None:
    """It is that of a hash map over names that everybody knows."""
    topic, _ = create_topic(c, configs={"segment.ms": "5", "retention.ms": "7"})
    for kind, name in ((TOPIC, topic), (BROKER, ME), (GROUP, "g"), (CLIENT_METRICS, "m")):
        result = c.ask(description(kind, name), version, note=False).results[0]
        c.note(f"rows of {kind}", [row.name for row in result.configs if not row.name.startswith("kbroker.")])
    keys = ["segment.ms", "retention.ms", "cleanup.policy", "preallocate"]
    c.ask(description(TOPIC, topic, keys), version, label="some")


@question(DESCRIBED)
def many_resources_are_described_at_once(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    resources = [
        Resource(resource_type=TOPIC, resource_name=topic, configuration_keys=["retention.ms"]),
        Resource(resource_type=TOPIC, resource_name=topic, configuration_keys=["segment.ms"]),
        Resource(resource_type=BROKER, resource_name=ME, configuration_keys=["num.partitions"]),
        Resource(resource_type=GROUP, resource_name="g", configuration_keys=["no.such.key"]),
        Resource(resource_type=TOPIC, resource_name="missing", configuration_keys=None),
    ]
    for synonyms in (False, True):
        c.ask(DescribeConfigsRequest(resources=resources, include_synonyms=synonyms), version)
    unknown = Resource(resource_type=7, resource_name="x")
    c.ask(DescribeConfigsRequest(resources=[*resources, unknown]), version, label="one of an unknown type")


@question(DESCRIBED)
def strange_keys_and_names_are_described(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for kind, name in ((TOPIC, topic), (GROUP, "g"), (CLIENT_METRICS, "m"), (BROKER, ME), (BROKER, "")):
        for keys in ([""], ["no.such.key"], ["retention.ms", "RETENTION.MS", " retention.ms"]):
            c.ask(description(kind, name, keys), version, label=f"{kind} {name[:1]} {keys}")
    for name in NUMBERS:
        c.ask(description(BROKER, name, ["num.partitions"]), version, label=f"broker {name}")
        c.ask(description(LOGGER, name, ["no.such.logger"]), version, label=f"logger {name}")
    for name in NAMES:
        c.ask(description(TOPIC, name, ["retention.ms"]), version, label=f"topic {name[:3]}")
        c.ask(description(GROUP, name, ["consumer.session.timeout.ms"]), version, label=f"group {name[:3]}")
        c.ask(description(CLIENT_METRICS, name, ["interval.ms"]), version, label=f"metrics {name[:3]}")


@question(INCREMENTAL)
def resources_of_strange_names_are_altered(c: Conversation, version: int) -> None:
    for kind, names, change in (
        (BROKER, NUMBERS, ("log.retention.ms", SET, "5")),
        (LOGGER, NUMBERS, ("root", SET, "INFO")),
        (TOPIC, NAMES, ("retention.ms", SET, "5000")),
        (GROUP, NAMES, ("consumer.session.timeout.ms", SET, "50000")),
        (CLIENT_METRICS, NAMES, ("interval.ms", SET, "5000")),
    ):
        for name in names:
            c.ask(alteration(name, change, kind=kind, validate_only=True), version, label=f"{kind} {name[:10]}")


OF_A_TOPIC: tuple[Changes, ...] = (
    (("retention.ms", SET, None),),
    (("retention.ms", DELETE, None), ("retention.ms", SET, "5")),
    (("retention.ms", SET, None), ("segment.ms", SET, None)),
    (("", SET, "x"),),
    (("", DELETE, None),),
    ((" retention.ms", SET, "5"),),
    (("retention.ms", APPEND, None),),
    (("cleanup.policy", APPEND, None),),
    (("cleanup.policy", SUBTRACT, None),),
    (("cleanup.policy", APPEND, ""),),
    (("cleanup.policy", APPEND, ","),),
    (("cleanup.policy", APPEND, ",compact"),),
    (("cleanup.policy", SUBTRACT, ""),),
    (("cleanup.policy", APPEND, "compact,compact"),),
    (("cleanup.policy", APPEND, " compact"),),
    (("cleanup.policy", SUBTRACT, "compact,delete"),),
    (("retention.ms", 9, None),),
    (("retention.ms", 9, "5"), ("segment.ms", SET, "x")),
    (("segment.ms", SET, "x"), ("retention.ms", SET, "y"), ("cleanup.policy", SET, "z")),
    (("leader.replication.throttled.replicas", APPEND, "0:1"),),
    (("leader.replication.throttled.replicas", SET, "*,0:1"),),
    (("retention.ms", SET, "5"), ("segment.bytes", DELETE, "7")),
)
OF_METRICS: tuple[Changes, ...] = (
    (("interval.ms", SET, None),),
    (("metrics", APPEND, ""),),
    (("metrics", SUBTRACT, ""),),
    (("metrics", SET, ""),),
    (("metrics", SET, ","),),
    (("metrics", SET, "a,a"),),
    (("match", SET, "client_id=a,client_id=b"),),
    (("match", SET, "client_id="),),
    (("match", SET, "=a"),),
    (("match", SET, "client_id=a=b"),),
    (("match", SET, " client_id = a "),),
    (("interval.ms", SET, "100"),),
    (("interval.ms", SET, "3600000"),),
    (("interval.ms", SET, "x"), ("no.such.key", SET, "1")),
    (("match", APPEND, "client_id=x"),),
    (("interval.ms", SET, "x"), ("metrics", SET, ",")),
    (("match", SET, ","), ("interval.ms", SET, "x")),
)
OF_A_GROUP: tuple[Changes, ...] = (
    (("consumer.session.timeout.ms", SUBTRACT, "1"),),
    (("no.such.key", APPEND, "1"),),
    (("no.such.key", SET, "1"), ("nor.this", SET, "1")),
    (("consumer.heartbeat.interval.ms", SET, "15000"), ("consumer.session.timeout.ms", SET, "45000")),
    (("streams.rack.aware.assignment.tags", APPEND, "a"),),
    (("streams.rack.aware.assignment.tags", SET, "a,,b"),),
    (("streams.rack.aware.assignment.tags", SET, "a,b,a"),),
    (("streams.rack.aware.assignment.tags", SET, "a,b,c,d,e,f"),),
    (("share.auto.offset.reset", SET, "EARLIEST"),),
    (("share.isolation.level", SET, "READ_COMMITTED"),),
    (("share.session.timeout.ms", SET, "5"), ("share.heartbeat.interval.ms", SET, "1")),
    (("streams.assignment.interval.ms", SET, "99999999"), ("streams.num.standby.replicas", SET, "99")),
    (("streams.num.warmup.replicas", SET, "99"), ("streams.task.offset.interval.ms", SET, "1")),
)
OF_A_BROKER: tuple[Changes, ...] = (
    (("no.such.key", APPEND, "1"),),
    (("no.such.key", DELETE, None),),
    (("log.cleanup.policy", APPEND, ""),),
    (("log.cleanup.policy", APPEND, ","),),
    (("log.cleanup.policy", APPEND, None),),
    (("log.cleanup.policy", APPEND, "a,a"),),
    (("log.cleanup.policy", SUBTRACT, "delete,delete"),),
    (("process.roles", APPEND, "x"),),
    (("controller.listener.names", SUBTRACT, "x"),),
    (("log.retention.ms", DELETE, "7"),),
    (("listener.name.x.ssl.keystore.location", SET, "f"),),
    (("listener.name.x.num.partitions", SET, "3"),),
    (("listener.name.x.no.such.key", SET, "3"),),
    (("listener.name.plaintext.max.connections", SET, "x"),),
    (("listener.name.plaintext.max.connections", SET, "100"),),
    (("listener.name.plaintext.max.connections", SET, "0"),),
    (("listener.name.plaintext.max.connection.creation.rate", SET, "0"),),
    (("listener.name.another.max.connections", SET, "0"),),
    (("max.connections.per.ip.overrides", SET, "127.0.0.1:1, ::1:2 ,some.host:-1"),),
    (("max.connections.per.ip.overrides", SET, "127.0.0.1"),),
    (("max.connections.per.ip.overrides", SET, "a:1,b"),),
    (("max.connections.per.ip.overrides", SET, "a:1,,"),),
    (("max.connections.per.ip.overrides", SET, "a:1,,b:2"),),
    (("max.connections.per.ip.overrides", SET, ":1"),),
    (("max.connections.per.ip.overrides", SET, "a:"),),
    (("max.connections.per.ip.overrides", SET, "a: +1"),),
    (("max.connections.per.ip.overrides", SET, "a:2147483648"),),
    (("max.connections.per.ip.overrides", SET, "a b:1,c:2"),),
    (("max.connections.per.ip.overrides", SET, "[::1]:2"),),
    (("max.connections.per.ip", SET, "0"),),
    (("max.connections.per.ip", SET, "0"), ("max.connections.per.ip.overrides", SET, "a b:1")),
    (("num.partitions", SET, "3"), ("node.id", SET, "4")),
    (("log.retention.ms", SET, "x"), ("num.partitions", SET, "3")),
    (("share.coordinator.cached.buffer.max.bytes", SET, "1"), ("num.recovery.threads.per.data.dir", SET, "x")),
    (("errors.deadletterqueue.auto.create.topics.enable", SET, "x"), ("compression.gzip.level", SET, "x")),
    (("metric.reporters", APPEND, "x"),),
    (("log.local.retention.ms", SET, "-1"),),
    (("log.retention.ms", SET, "50"), ("log.remote.copy.lag.ms", SET, "100")),
)


@question(INCREMENTAL)
def strange_changes(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for kind, name, asked in (
        (TOPIC, topic, OF_A_TOPIC),
        (CLIENT_METRICS, "m", OF_METRICS),
        (GROUP, "g", OF_A_GROUP),
        (BROKER, ME, OF_A_BROKER),
        (BROKER, "", OF_A_BROKER),
    ):
        for changes in asked:
            request = alteration(name, *changes, kind=kind, validate_only=True)
            c.ask(request, version, label=f"{kind} {name[:1]} {changes}")


@question(LEGACY)
def strange_replacements(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for kind, name in ((TOPIC, topic), (GROUP, "g"), (CLIENT_METRICS, "m"), (BROKER, ME), (BROKER, ""), (LOGGER, ME)):
        for values in (
            (),
            (("", ""),),
            (("no.such.key", None),),
            (("no.such.key", "1"),),
            (("retention.ms", ""),),
            (("consumer.session.timeout.ms", "50000"), ("no.such.key", "x")),
            (("interval.ms", "5"),),
            (("log.retention.ms", "1000"),),
            (("log.retention.ms", "x"), ("num.partitions", "2")),
            (("a", "1"), ("a", "2")),
            (("root", "INFO"),),
        ):
            c.ask(replacement(kind, name, *values, validate_only=True), version, label=f"{kind} {name[:1]} {values}")
    for name in NUMBERS:
        request = replacement(BROKER, name, ("log.retention.ms", "5"), validate_only=True)
        c.ask(request, version, label=f"broker {name}")


@question(range(1, 2))
def strange_types_of_resources_are_listed(c: Conversation, version: int) -> None:
    c.ask(alteration(fresh_name(c, "g"), ("consumer.session.timeout.ms", SET, "50000"), kind=GROUP), 1, note=False)
    for types in ([1], [-1], [TOPIC, TOPIC], [99, TOPIC], [LOGGER, LOGGER], [BROKER, LOGGER]):
        answer = c.ask(ListConfigResourcesRequest(resource_types=types), version, note=False)
        c.note(str(types), (answer.error_code, sorted({each.resource_type for each in answer.config_resources})))


@question(range(1, 2))
def keys_for_internal_use(c: Conversation, version: int) -> None:
    """They are shown where they were set, as they were written."""
    topic, _ = create_topic(c)
    group = fresh_name(c, "g")
    for kind, name, key, text in (
        (TOPIC, topic, "internal.segment.bytes", " 77777 "),
        (GROUP, group, "consumer.assignor.offload.enable", "TRUE"),
        (BROKER, "", "group.share.assignor.offload.enable", "TRUE"),
    ):
        note_rows(c, kind, name, [key])
        c.ask(alteration(name, (key, SET, text), kind=kind), version, label=key)
        note_rows(c, kind, name, [key])
        c.ask(alteration(name, (key, DELETE, None), kind=kind), version, label=f"no {key}")


@question(range(1, 2))
def resources_without_a_value_are_not_listed(c: Conversation, version: int) -> None:
    for kind, name, key, value in (
        (GROUP, fresh_name(c, "g"), "consumer.session.timeout.ms", "50000"),
        (CLIENT_METRICS, fresh_name(c, "m"), "interval.ms", "1000"),
    ):

        def count(kind: int = kind, name: str = name) -> int:
            request = ListConfigResourcesRequest(resource_types=[kind])
            return [each.resource_name for each in c.ask(request, 1, note=False).config_resources].count(name)

        for emptied in (alteration(name, (key, DELETE, None), kind=kind), replacement(kind, name)):
            c.ask(alteration(name, (key, SET, value), kind=kind), version)
            c.note(f"{kind} is listed", c.followed(count))
            c.ask(emptied, version)
            c.note(f"{kind} is listed any more", c.followed(count))


AS_WRITTEN = (
    ("retention.ms", "+5"),
    ("retention.ms", " 7 "),
    ("retention.ms", "0005"),
    ("min.cleanable.dirty.ratio", "5e-1"),
    ("min.cleanable.dirty.ratio", ".5f"),
    ("preallocate", " TRUE "),
    ("cleanup.policy", " compact , delete "),
    ("compression.type", " gzip"),
    ("segment.bytes", "1048576 "),
    ("message.timestamp.type", " LogAppendTime"),
)


@question(range(1, 2))
def values_are_shown_as_they_were_written(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for key, value in AS_WRITTEN:
        c.ask(alteration(topic, (key, SET, value)), version, label=f"{key}={value!r}")
        note_rows(c, TOPIC, topic, [key])
        configs = [CreatableConfig(name=key, value=value)]
        made = CreatableTopic(name=fresh_name(c), num_partitions=1, replication_factor=1, configs=configs)
        c.ask(creation(made, validate_only=True), 7, label=f"made with {key}={value!r}")


@question(range(1, 2))
def groups_and_subscriptions_may_be_called_anything(c: Conversation, version: int) -> None:
    for kind, key, value in ((GROUP, "consumer.session.timeout.ms", "50000"), (CLIENT_METRICS, "interval.ms", "1000")):
        for name in ("\u00fc" * 300, "a" * 32767, " a ", "a\nb", "\0", "..", "__consumer_offsets"):
            c.ask(alteration(name, (key, SET, value), kind=kind), version, label=f"{kind} {name[:4]!r}")
            note_rows(c, kind, name, [key])
            c.ask(alteration(name, (key, DELETE, None), kind=kind), version, label=f"{kind} without {name[:4]!r}")


@question(range(1, 2))
def as_many_records_as_one_request_may_lead_to(c: Conversation, version: int) -> None:
    for count in (10_000, 10_001):
        values = [(f"my.own.{number}", "x") for number in range(count)]
        changes = [(key, SET, value) for key, value in values]
        c.ask(alteration("", *changes, kind=BROKER, validate_only=True), version, label=f"{count} keys")
        c.ask(replacement(BROKER, "", *values, validate_only=True), 2, label=f"{count} keys in place of all")
