"""Metadata: topics by name and id, auto-creation, what each version carries."""

from __future__ import annotations

from kbroker.protocol.messages.metadata import MetadataRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import create_topic, fresh_name

SERVED = range(14)
BY_ID = range(10, 14)
MetadataTopic = MetadataRequest.MetadataRequestTopic


def named(*names: str, auto: bool = False) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataTopic(name=name) for name in names], allow_auto_topic_creation=auto)


@question(SERVED)
def topics_by_name(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=3)
    other, _ = create_topic(c)
    auto = version < 4
    c.ask(named(topic, auto=auto), version)
    c.ask(named(other, topic, auto=auto), version)
    c.ask(named(topic, topic, auto=auto), version)


@question(range(4, 14))
def topics_that_are_not_there(c: Conversation, version: int) -> None:
    c.ask(named(fresh_name(c)), version)
    for name in ("bad name!", "", ".", "..", "a" * 249, "a" * 250, "a/b", "ü"):
        c.ask(named(name), version, label=name)
        if name != "a" * 249:
            c.ask(named(name, auto=True), version, label=f"{name} to be made")


@question(range(1, 14))
def no_topics_asked(c: Conversation, version: int) -> None:
    c.ask(MetadataRequest(topics=[], allow_auto_topic_creation=True), version)


@question(SERVED)
def a_topic_that_using_makes_is_there_in_the_end(c: Conversation, version: int) -> None:
    topic = fresh_name(c)
    c.ask(named(topic, auto=True), version, note=False)
    c.await_leaders(topic, 1)
    c.ask(named(topic, auto=True), version)


@question(BY_ID)
def topics_by_id(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for label, each in {
        "by id": MetadataTopic(topic_id=topic_id, name=None),
        "by id and name": MetadataTopic(topic_id=topic_id, name=topic),
        "by id and another name": MetadataTopic(topic_id=topic_id, name="other"),
        "unknown id": MetadataTopic(topic_id=bytes(15) + b"\x09", name=None),
        "null name, no id": MetadataTopic(name=None),
    }.items():
        c.ask(MetadataRequest(topics=[each], allow_auto_topic_creation=False), version, label=label)
    nameless = [MetadataTopic(topic_id=topic_id, name=None), MetadataTopic(name=None)]
    c.ask(MetadataRequest(topics=nameless, allow_auto_topic_creation=False), version, label="one without either")
    both = [MetadataTopic(topic_id=topic_id, name=None), MetadataTopic(name=topic)]
    c.ask(MetadataRequest(topics=both, allow_auto_topic_creation=False), version, label="one of each")


@question(range(8, 14))
def authorized_operations(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    request = named(topic)
    request.include_topic_authorized_operations = True
    request.include_cluster_authorized_operations = version <= 10
    c.ask(request, version)


@question(range(12, 13))
def answers_stand_in_the_order_of_a_map(c: Conversation, version: int) -> None:
    for count in (2, 4, 5, 9, 20):
        c.ask(named(*(f"no-such-{number}" for number in range(count))), version, label=f"{count} topics")
