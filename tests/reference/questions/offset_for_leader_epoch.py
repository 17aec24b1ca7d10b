"""OffsetForLeaderEpoch: where an epoch ends."""

from __future__ import annotations

from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import append, batch, create_topic, fresh_name

SERVED = range(2, 5)


def epoch_request(topic: str, epoch: int, *, current: int = -1, partition: int = 0) -> OffsetForLeaderEpochRequest:
    wanted = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


@question(SERVED)
def every_epoch(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    empty, _ = create_topic(c)
    append(c, topic, batch([b"a", b"b"]))
    for name in (topic, empty):
        for epoch in (-2, -1, 0, 1, 99):
            c.ask(epoch_request(name, epoch), version, label=f"{epoch}")
        for current in (-2, 0, 1, 99):
            c.ask(epoch_request(name, 0, current=current), version, label=f"current {current}")


@question(SERVED)
def unknown_topics_and_partitions(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    c.ask(epoch_request(topic, 0, partition=4), version)
    c.ask(epoch_request(topic, 0, partition=-4), version)
    c.ask(epoch_request(fresh_name(c), 0), version)
    c.ask(epoch_request("bad name!", 0), version)
    c.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[]), version)
