"""DeleteRecords: the log start moves; where it may not go, and on which topics it may not."""

from __future__ import annotations

from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import append, batch, create_topic, fetch_request, fresh_name

SERVED = range(3)
Topic = DeleteRecordsRequest.DeleteRecordsTopic
Partition = DeleteRecordsRequest.DeleteRecordsPartition
VALUES = (b"a", b"b", b"c", b"d")


def deletion(topic: str, *offsets: tuple[int, int], timeout_ms: int = 10_000) -> DeleteRecordsRequest:
    partitions = [Partition(partition_index=index, offset=offset) for index, offset in offsets]
    return DeleteRecordsRequest(topics=[Topic(name=topic, partitions=partitions)], timeout_ms=timeout_ms)


def note_start(c: Conversation, topic: str) -> None:
    asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-2)
    c.ask(ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])]), 5)


@question(SERVED)
def the_log_start_moves(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    append(c, topic, batch(VALUES))
    append(c, topic, batch(VALUES))
    for offset in (0, 2, 1, 5, 9, -2, 8, -1, 8):
        c.ask(deletion(topic, (0, offset)), version, label=f"below {offset}")
        note_start(c, topic)
    for offset in (0, 7, 8, 9):
        c.ask(fetch_request(topic, offset), 12, label=f"fetch {offset}")
    append(c, topic, batch(VALUES))
    c.ask(deletion(topic, (0, -1)), version)
    note_start(c, topic)


@question(SERVED)
def an_empty_log_has_nothing_to_delete(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for offset in (0, -1, 1):
        c.ask(deletion(topic, (0, offset)), version, label=f"below {offset}")


@question(range(2, 3))
def policies_and_deletion_of_records(c: Conversation, version: int) -> None:
    for policy in ("compact", "compact,delete", "delete", ""):
        topic, _ = create_topic(c, configs={"cleanup.policy": policy})
        append(c, topic, batch(VALUES, key=b"k"))
        for offset in (99, 2):
            c.ask(deletion(topic, (0, offset)), version, label=f"{policy} {offset}")


@question(SERVED)
def records_that_are_not_there(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    append(c, topic, batch(VALUES))
    c.ask(deletion(topic, (0, 1), (1, 1), (-1, 1)), version, unordered=True)
    c.ask(deletion(topic, (0, 2), (0, 3)), version, label="twice")
    c.ask(deletion(topic), version, label="no partition")
    c.ask(DeleteRecordsRequest(topics=[], timeout_ms=100), version, label="no topic")
    c.ask(deletion(topic, (0, 4), timeout_ms=0), version, label="no time")
    for name in (fresh_name(c), "", "bad name!"):
        c.ask(deletion(name, (0, 1)), version, label=name[:12])


@question(SERVED)
def a_topic_that_stands_twice(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    append(c, topic, batch(VALUES))
    unknown = fresh_name(c)
    request = deletion(topic, (0, 1), (7, 0))
    request.topics += deletion(unknown, (0, 0)).topics + deletion(topic, (1, 0), (0, 2)).topics
    request.topics += deletion(unknown, (1, 0), (0, 0)).topics
    c.ask(request, version, unordered=True)
    note_start(c, topic)
