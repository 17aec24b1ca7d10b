"""DeleteTopics: by name and by id."""

from __future__ import annotations

from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import append, batch, create_topic, fetch_request, fresh_name

SERVED = range(1, 7)
State = DeleteTopicsRequest.DeleteTopicState


def deletion(version: int, *names: str) -> DeleteTopicsRequest:
    if version >= 6:
        return DeleteTopicsRequest(topics=[State(name=name) for name in names], timeout_ms=10_000)
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000)


@question(SERVED)
def a_topic_is_deleted_and_gone(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    append(c, topic, batch())
    c.ask(deletion(version, topic), version)
    c.ask(deletion(version, topic), version)
    topics = [MetadataRequest.MetadataRequestTopic(name=topic)]
    c.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
    again, _ = create_topic(c)
    c.ask(fetch_request(again), 11)


@question(SERVED)
def names_that_are_not_there(c: Conversation, version: int) -> None:
    for name in (fresh_name(c), "", "bad name!", "__cluster_metadata", "a" * 300):
        c.ask(deletion(version, name), version)


@question(SERVED)
def the_same_name_twice_and_none(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    other, _ = create_topic(c)
    answer = c.ask(deletion(version, topic, other, topic), version, note=False)
    c.note("twice", sorted((each.name == topic, each.error_code) for each in answer.responses))
    c.ask(deletion(version), version)


@question(range(6, 7))
def by_id(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for label, state in {
        "unknown id": State(name=None, topic_id=bytes(15) + b"\x09"),
        "id and name": State(name=topic, topic_id=topic_id),
        "neither": State(name=None),
        "id": State(name=None, topic_id=topic_id),
        "again": State(name=None, topic_id=topic_id),
    }.items():
        c.ask(DeleteTopicsRequest(topics=[state], timeout_ms=10_000), version, label=label)


@question(SERVED)
def a_timeout_of_nothing(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    request = deletion(version, topic)
    request.timeout_ms = 0
    c.ask(request, version)
    c.ask(DeleteTopicsRequest(topic_names=[], topics=[], timeout_ms=0), version, label="none")
    unknown = fresh_name(c)
    request = deletion(version, unknown, unknown)
    request.timeout_ms = 0
    c.ask(request, version, label="one twice")
    if version >= 6:
        for label, state in {
            "neither": State(name=None),
            "both": State(name=topic, topic_id=bytes(15) + b"\x09"),
            "unknown id": State(name=None, topic_id=bytes(15) + b"\x09"),
            "unknown name": State(name=unknown),
        }.items():
            c.ask(DeleteTopicsRequest(topics=[state], timeout_ms=0), version, label=label)


@question(range(6, 7))
def topics_named_in_several_ways(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    by_name, by_id, both = State(name=topic), State(name=None, topic_id=topic_id), State(name=topic, topic_id=topic_id)
    unknown, neither = State(name=None, topic_id=bytes(15) + b"\x09"), State(name=None)
    for label, states in {
        "name and id": [by_name, by_id],
        "id and name": [by_id, by_name],
        "id twice": [by_id, by_id],
        "unknown id twice": [unknown, unknown],
        "id twice and name": [by_id, by_id, by_name],
        "neither twice": [neither, neither],
        "both twice": [both, both],
        "all kinds": [State(name="no-such"), unknown, neither, both, State(name="")],
        "name twice and id": [by_name, by_name, by_id],
        "afterwards": [by_name, by_name, by_id],
    }.items():
        c.ask(DeleteTopicsRequest(topics=states, timeout_ms=10_000), version, label=label, unordered=True)
