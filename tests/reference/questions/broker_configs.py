"""A broker's dynamic values: the cluster's beside its own, those of single listeners, those that contradict."""

from __future__ import annotations

from tests.reference.conversation import Conversation, question
from tests.reference.questions.configs import BROKER, ME, TOPIC, note_rows, replacement
from tests.reference.questions.create_topics import creation, sized
from tests.reference.questions.incremental_alter_configs import DELETE, SET, alteration
from tests.reference.questions.scenery import create_topic, fresh_name

LATEST = range(1, 2)
OF_BOTH = (
    ("log.retention.ms", "retention.ms", "1000", "2000"),
    ("log.cleanup.policy", "cleanup.policy", "compact", "compact,delete"),
    ("message.max.bytes", "max.message.bytes", "5000", "6000"),
    ("log.roll.ms", "segment.ms", "70000", "80000"),
    ("log.message.timestamp.type", "message.timestamp.type", "LogAppendTime", "CreateTime"),
)
OF_ONE_LISTENER = (
    ("listener.name.plaintext.max.connections", "100"),
    ("listener.name.x.ssl.keystore.password", "secret"),
    ("listener.name.x.ssl.keystore.location", "/f"),
    ("listener.name.x.no.such", "5"),
    ("listener.name.x.num.partitions", "5"),
    ("my.own.key", "5"),
    ("leader.replication.throttled.rate", " 123 "),
)
REFUSED = (
    (("max.connections.per.ip", "0"),),
    (("max.connections.per.ip", "0"), ("max.connections.per.ip.overrides", "127.0.0.1:5")),
    (("max.connections.per.ip.overrides", "a b:1"),),
    (("max.connections.per.ip.overrides", "h:-1"),),
    (("max.connections.per.ip.overrides", " 127.0.0.1 : 5 "),),
    (("group.consumer.assignment.interval.ms", "100000"),),
    (("group.share.min.assignment.interval.ms", "20000"),),
    (("log.retention.minutes", "5"),),
)


@question(LATEST)
def the_clusters_value_beside_the_brokers_own(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for key, behind, first, second in OF_BOTH:
        c.ask(alteration("", (key, SET, first), kind=BROKER), version)
        c.ask(alteration(ME, (key, SET, second), kind=BROKER), version)
        for name in (ME, ""):
            note_rows(c, BROKER, name, [key])
        note_rows(c, TOPIC, topic, [behind])
        for name in (ME, ""):
            c.ask(alteration(name, (key, DELETE, None), kind=BROKER), version)
        note_rows(c, TOPIC, topic, [behind])


@question(LATEST)
def keys_of_single_listeners_and_unknown_ones(c: Conversation, version: int) -> None:
    for key, value in OF_ONE_LISTENER:
        for name in (ME, ""):
            c.ask(alteration(name, (key, SET, value), kind=BROKER), version, label=f"{name} {key}")
            note_rows(c, BROKER, name, [key])
            c.ask(alteration(name, (key, DELETE, None), kind=BROKER), version, label=f"{name} without {key}")


@question(LATEST)
def values_that_do_not_go_together(c: Conversation, version: int) -> None:
    for values in REFUSED:
        for name in (ME, ""):
            changes = [(key, SET, value) for key, value in values]
            request = alteration(name, *changes, kind=BROKER, validate_only=True)
            c.ask(request, version, label=f"{name} {values}")


@question(LATEST)
def topics_under_a_cluster_that_contradicts_itself(c: Conversation, version: int) -> None:
    """What a topic says is checked with what the cluster says, but not where it says nothing."""
    least, most = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    topic, _ = create_topic(c)
    c.ask(alteration("", (least, SET, "10"), (most, SET, "5"), kind=BROKER), version)
    note_rows(c, BROKER, "", [least, most])
    c.ask(creation(sized(fresh_name(c)), validate_only=True), 7)
    c.ask(creation(sized(fresh_name(c), retention_ms="1"), validate_only=True), 7)
    c.ask(creation(sized(fresh_name(c), min_compaction_lag_ms="5"), validate_only=True), 7)
    c.ask(alteration(topic), version)
    c.ask(replacement(TOPIC, topic), 2)
    c.ask(alteration("", (least, DELETE, None), (most, DELETE, None), kind=BROKER), version)
