"""What a broker's file says is described, inherited and altered alike: both are started with the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbroker.config.properties import format_properties
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.broker_process import BrokerProcess
from tests.reference.conversation import Conversation, Question, ask_both
from tests.reference.questions.configs import BROKER, ME, TOPIC, note_rows
from tests.reference.questions.create_topics import creation, sized
from tests.reference.questions.describe_topic_partitions import description
from tests.reference.questions.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT, alteration, note_value
from tests.reference.questions.metadata import named
from tests.reference.questions.scenery import create_topic, fresh_name
from tests.reference.settings import KBROKER_OPTIONS
from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka

pytestmark = pytest.mark.all

OF_TOPICS = {
    "log.cleanup.policy": "compact, delete",
    "log.retention.hours": "5 ",
    "log.roll.ms": "100000",
    "log.flush.scheduler.interval.ms": "77777",
    "compression.type": "gzip",
    "unclean.leader.election.enable": "TRUE",
    "log.message.timestamp.type": "LogAppendTime",
    "message.max.bytes": "5000",
}
VALUES = {
    **OF_TOPICS,
    "num.partitions": "3",
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "false",
    "max.request.partition.size.limit": "2",
    "background.threads": "4",
    "listener.name.plaintext.max.connections": "50",
    "leader.replication.throttled.rate": "55",
    "my.own": "x",
}
LIST_CHANGES = ((APPEND, "compact"), (DELETE, None), (SUBTRACT, "delete"))


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    require("java")
    folder: Path = tmp_path_factory.mktemp("static")
    file = folder / "server.properties"
    file.write_text(format_properties(VALUES))
    with (
        ReferenceKafka(folder / "reference", overrides=VALUES) as reference,
        BrokerProcess(folder / "kbroker", *KBROKER_OPTIONS, str(file)) as broker,
    ):
        yield reference.bootstrap, broker.bootstrap


def rows_of_the_broker(c: Conversation) -> None:
    for name in (ME, ""):
        note_rows(c, BROKER, name, list(VALUES))


def rows_of_a_topic(c: Conversation) -> None:
    topic, _ = create_topic(c, configs={"flush.ms": " 7 "})
    note_rows(c, TOPIC, topic)


def topics_that_are_made(c: Conversation) -> None:
    for version in (4, 5, 7):
        c.ask(creation(sized(fresh_name(c), -1, -1)), version)
    c.ask(creation(sized(fresh_name(c), cleanup_policy=" compact ", internal_segment_bytes=" 5000 ")), 7)


def lists_that_are_altered(c: Conversation) -> None:
    topic, _ = create_topic(c)
    for operation, value in LIST_CHANGES:
        c.ask(alteration(topic, ("cleanup.policy", operation, value)), 1)
        note_value(c, topic, "cleanup.policy")
        for name in (ME, ""):
            c.ask(alteration(name, ("log.cleanup.policy", operation, value), kind=BROKER), 1)
            note_rows(c, BROKER, name, ["log.cleanup.policy"])
    for name in (ME, ""):
        c.ask(alteration(name, ("log.cleanup.policy", DELETE, None), kind=BROKER), 1)


def values_that_are_altered(c: Conversation) -> None:
    for key, value in (
        ("log.retention.ms", "9"),
        ("background.threads", "9"),
        ("listener.name.plaintext.max.connections", "60"),
        ("my.own", "y"),
    ):
        for name in (ME, ""):
            c.ask(alteration(name, (key, SET, value), kind=BROKER), 1)
            note_rows(c, BROKER, ME, [key])
            c.ask(alteration(name, (key, DELETE, None), kind=BROKER), 1)
        note_rows(c, BROKER, ME, [key])


def what_is_switched_off(c: Conversation) -> None:
    topic, topic_id = create_topic(c, partitions=5)
    for version in (1, 3, 5):
        c.ask(DeleteTopicsRequest(topic_names=[topic, "no-such"], timeout_ms=0), version)
    for state in (
        DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id),
        DeleteTopicsRequest.DeleteTopicState(name=None),
    ):
        c.ask(DeleteTopicsRequest(topics=[state], timeout_ms=0), 6)
    for version in (3, 8, 12):
        c.ask(named(fresh_name(c), auto=True), version)
    for limit in (1, 2, 3, 2000):
        c.ask(description(topic, limit=limit), 0)


@pytest.mark.parametrize(
    "talk",
    [
        rows_of_the_broker,
        rows_of_a_topic,
        topics_that_are_made,
        lists_that_are_altered,
        values_that_are_altered,
        what_is_switched_off,
    ],
)
def test_what_the_file_says_counts_alike(brokers: tuple[str, str], talk: Callable[[Conversation], None]) -> None:
    asked = Question(talk.__name__, 0, lambda conversation, _: talk(conversation))
    _, found, _ = ask_both(asked, *brokers)
    assert "\n".join(map(str, found)) == ""
