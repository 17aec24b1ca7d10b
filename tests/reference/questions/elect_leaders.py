"""ElectLeaders where there is only one candidate, and who leads already."""

from __future__ import annotations

from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import create_topic, fresh_name

SERVED = range(3)
Topic = ElectLeadersRequest.TopicPartitions


def election(
    topics: list[tuple[str, list[int]]] | None, kind: int = 0, timeout_ms: int = 10_000
) -> ElectLeadersRequest:
    wanted = None if topics is None else [Topic(topic=name, partitions=partitions) for name, partitions in topics]
    return ElectLeadersRequest(topic_partitions=wanted, election_type=kind, timeout_ms=timeout_ms)


@question(SERVED)
def elections_that_are_not_needed(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    for kind in (0, 1) if version else (0,):
        c.ask(election([(topic, [0, 1])], kind), version, label=f"kind {kind}", unordered=True)
        c.ask(election([(topic, [0, 0])], kind), version, label=f"twice, kind {kind}")
        c.ask(election([(topic, [])], kind), version, label=f"no partition, kind {kind}")
        c.ask(election([], kind), version, label=f"nothing, kind {kind}")
        answer = c.ask(election(None, kind), version, note=False)
        c.note(f"everything, kind {kind}", answer and (version and answer.error_code))
        c.note("partitions", answer and sum(len(each.partition_result) for each in answer.replica_election_results))


@question(SERVED)
def elections_that_cannot_be(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for name, partition in ((topic, 7), (topic, -1), (fresh_name(c), 0), ("", 0), ("bad name!", 0)):
        c.ask(election([(name, [partition])]), version, label=f"{name[:6]} {partition}")
    c.ask(election([(topic, [0])], timeout_ms=0), version, label="no time")
    c.ask(election([(topic, [0])], timeout_ms=-1), version, label="negative time")
    if version:
        for kind in (2, -1):
            c.ask(election([(topic, [0])], kind), version, label=f"kind {kind}")
            c.ask(election(None, kind), version, label=f"everything, kind {kind}")
            c.ask(election([], kind), version, label=f"nothing, kind {kind}")
