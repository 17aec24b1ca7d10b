"""Fetch: limits, waits, epochs, sessions, errors."""

from __future__ import annotations

import time

from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.delete_records import deletion
from tests.reference.questions.scenery import append, batch, create_topic, fetch_request, fresh_name

SERVED = range(4, 19)
SESSIONS = range(7, 19)
NAMED = range(11, 12)

Partition = FetchRequest.FetchPartition
Topic = FetchRequest.FetchTopic


@question(SERVED)
def one_partition_at_several_offsets(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for values in ([b"a", b"b"], [b"c"], [b"d"] * 3):
        append(c, topic, batch(values))
    for offset in (0, 1, 2, 3, 5, 6, 7, -1, -2, 2**62):
        c.ask(fetch_request(topic, offset, topic_id=topic_id), version, label=f"offset {offset}")


@question(SERVED)
def an_empty_partition(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for isolation in (0, 1):
        c.ask(fetch_request(topic, topic_id=topic_id, isolation_level=isolation), version)
    append(c, topic, batch())
    for isolation in (0, 1, 2, -1):
        c.ask(fetch_request(topic, topic_id=topic_id, isolation_level=isolation), version, label=f"{isolation}")


@question(SERVED)
def unknown_topics_and_partitions(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    append(c, topic, batch())
    c.ask(fetch_request(topic, topic_id=topic_id, partition=4), version)
    c.ask(fetch_request(topic, topic_id=topic_id, partition=-4), version)
    c.ask(fetch_request(fresh_name(c), topic_id=bytes(15) + b"\x07"), version)
    c.ask(fetch_request("bad name!", topic_id=bytes(16)), version)


@question(SERVED)
def every_limit_of_bytes(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    for number in range(5):
        append(c, topic, batch([bytes([number]) * 100]))
        append(c, topic, batch([bytes([number]) * 100]), 1)
    size = len(batch([bytes(100)]))
    for limit in (-1, 0, 1, 60, size - 1, size, size + 1, 2 * size, 2 * size + 50):
        c.ask(fetch_request(topic, topic_id=topic_id, max_bytes=limit), version, label=f"partition {limit - size}")
    for limit in (-1, 0, 1, size, size + 1, 2 * size, 3 * size + 10, 7 * size):
        wanted = [Partition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20) for n in (0, 1)]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=limit,
            session_epoch=-1,
            topics=[Topic(topic=topic, topic_id=topic_id, partitions=wanted)],
        )
        c.ask(request, version, label=f"request {limit - size}")


@question(SERVED)
def leader_epochs(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    append(c, topic, batch())
    for current in (-2, -1, 0, 1, 9):
        for last in (-1, 0, 1, 5):
            for offset in (0, 1, 5):
                wanted = Partition(
                    partition=0,
                    fetch_offset=offset,
                    partition_max_bytes=1 << 20,
                    current_leader_epoch=current if version >= 9 else -1,
                    last_fetched_epoch=last if version >= 12 else -1,
                )
                request = FetchRequest(
                    max_wait_ms=0,
                    min_bytes=0,
                    session_epoch=-1,
                    topics=[Topic(topic=topic, topic_id=topic_id, partitions=[wanted])],
                )
                c.ask(request, version, label=f"current {current}, last {last}, offset {offset}")


@question(NAMED)
def waits_end_by_time_by_data_or_by_an_error(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    append(c, topic, batch())
    wait_ms = 300 * c.slowness

    def timed(label: str, request: FetchRequest) -> None:
        begun = time.monotonic()
        c.ask(request, version, label=label)
        c.note(f"{label}: waited", time.monotonic() - begun > 0.8 * wait_ms / 1000)

    timed("nothing there", fetch_request(topic, 1, max_wait_ms=wait_ms, min_bytes=1))
    timed("enough there", fetch_request(topic, 0, max_wait_ms=wait_ms, min_bytes=1))
    timed("too little there", fetch_request(topic, 0, max_wait_ms=wait_ms, min_bytes=100_000))
    timed("no wait asked", fetch_request(topic, 1, max_wait_ms=0, min_bytes=1))
    timed("nothing asked", fetch_request(topic, 1, max_wait_ms=wait_ms, min_bytes=0))
    timed("capped by max bytes", fetch_request(topic, 0, max_wait_ms=wait_ms, min_bytes=5000, max_bytes=10))
    timed("an error", fetch_request(topic, 9, max_wait_ms=wait_ms, min_bytes=1))
    timed("unknown partition", fetch_request(topic, 0, partition=9, max_wait_ms=wait_ms, min_bytes=1))


@question(SERVED)
def the_same_partition_twice(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    append(c, topic, batch([b"a"]))
    append(c, topic, batch([b"b"]))
    wanted = [Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20) for offset in (0, 1)]
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_epoch=-1,
        topics=[Topic(topic=topic, topic_id=topic_id, partitions=wanted)],
    )
    c.ask(request, version)


@question(SERVED)
def no_topics(c: Conversation, version: int) -> None:
    c.ask(FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=[]), version)


@question(SESSIONS)
def a_session_reports_what_changed(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=3)
    append(c, topic, batch(), 1)

    def fetch(label: str, session_id: int, epoch: int, wanted: dict[int, int], forgotten: list[int]) -> int:
        partitions = [Partition(partition=n, fetch_offset=at, partition_max_bytes=1 << 20) for n, at in wanted.items()]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=session_id,
            session_epoch=epoch,
            topics=[Topic(topic=topic, topic_id=topic_id, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[FetchRequest.ForgottenTopic(topic=topic, topic_id=topic_id, partitions=forgotten)]
            if forgotten
            else [],
        )
        answer = c.ask(request, version, label=label)
        return answer.session_id if answer is not None else 0

    session = fetch("new session", 0, 0, {0: 0, 1: 0, 2: 0}, [])
    fetch("nothing new", session, 1, {1: 1}, [])
    append(c, topic, batch(), 2)
    fetch("one has data", session, 2, {}, [])
    fetch("the same again, as no offset moved", session, 3, {}, [])
    fetch("offsets moved", session, 4, {2: 1}, [])
    fetch("one forgotten", session, 5, {}, [2])
    append(c, topic, batch(), 2)
    fetch("its data is not shown", session, 6, {}, [])
    fetch("one that is not there", session, 7, {9: 0}, [])
    fetch("and its error again", session, 8, {}, [])
    fetch("an offset out of range", session, 9, {1: 77}, [9])
    fetch("a wrong epoch", session, 77, {}, [])
    fetch("an unknown session", 123456, 1, {}, [])
    fetch("an epoch without a session", 0, 5, {}, [])
    fetch("closed", session, -1, {0: 0}, [])
    fetch("after it was closed", session, 10, {}, [])


@question(range(13, 19))
def a_session_by_ids_of_topics_that_are_unknown(c: Conversation, version: int) -> None:
    wanted = Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    unknown = Topic(topic_id=bytes(15) + b"\x07", partitions=[wanted])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=0, session_epoch=0, topics=[unknown])
    answer = c.ask(request, version)
    again = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=answer.session_id, session_epoch=1)
    c.ask(again, version)


@question(SERVED)
def a_follower_that_is_none(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    append(c, topic, batch())
    request = fetch_request(topic, topic_id=topic_id)
    if version < 15:
        request.replica_id = 55
    else:
        request.replica_state = FetchRequest.ReplicaState(replica_id=55, replica_epoch=1)
    c.ask(request, version)


@question(NAMED)
def many_records_of_several_segments(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, configs={"segment.bytes": "1048576", "max.message.bytes": "2000000"})
    for number in range(5):
        append(c, topic, batch([bytes([number]) * 500_000]))
    for offset in range(6):
        answer = c.ask(fetch_request(topic, offset, max_bytes=900_000), version, note=False)
        partition = answer.responses[0].partitions[0]
        c.note(f"offset {offset}", (partition.error_code, len(partition.records), bytes(partition.records[:8]).hex()))


@question(SERVED)
def a_wrong_isolation_level_and_nothing_to_read(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    append(c, topic, batch())
    unknown = Topic(topic=fresh_name(c), topic_id=bytes(15) + b"\x07", partitions=[Partition(partition=0)])
    missing = Topic(topic=topic, topic_id=topic_id, partitions=[Partition(partition=7)])
    present = Topic(topic=topic, topic_id=topic_id, partitions=[Partition(partition=0, partition_max_bytes=1000)])
    for label, topics in {
        "nothing": [],
        "unknown": [unknown],
        "not there": [missing],
        "both": [unknown, missing],
        "one that is there": [unknown, present],
    }.items():
        c.ask(FetchRequest(max_wait_ms=0, session_epoch=-1, isolation_level=2, topics=topics), version, label=label)


@question(SERVED)
def limits_below_zero_behind_an_error(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    for partition in range(2):
        append(c, topic, batch(), partition)
    for label, first in {
        "unknown": Partition(partition=7),
        "out of range": Partition(partition=1, fetch_offset=9),
    }.items():
        wanted = [first, Partition(partition=0, partition_max_bytes=1000)]
        request = FetchRequest(
            max_wait_ms=0,
            max_bytes=-1,
            session_epoch=-1,
            topics=[Topic(topic=topic, topic_id=topic_id, partitions=wanted)],
        )
        c.ask(request, version, label=label)


@question(range(13, 19))
def ids_that_are_all_zero(c: Conversation, version: int) -> None:
    _, topic_id = create_topic(c)
    known = Topic(topic_id=topic_id, partitions=[Partition(partition=0, partition_max_bytes=1000)])
    zero = Topic(topic_id=bytes(16), partitions=[Partition(partition=0)])
    zeros = Topic(topic_id=bytes(16), partitions=[Partition(partition=0), Partition(partition=1)])
    unknown = Topic(topic_id=bytes(15) + b"\x07", partitions=[Partition(partition=0)])
    for label, topics in {
        "alone": [zero],
        "two": [zeros],
        "after one that is there": [known, zero],
        "before one that is there": [zero, known],
        "before an unknown one": [zero, unknown],
        "after an unknown one": [unknown, zero],
    }.items():
        c.ask(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics), version, label=label)


@question(SERVED)
def a_reader_that_copies_between_directories(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    append(c, topic, batch())
    for isolation in (0, 1):
        request = fetch_request(topic, topic_id=topic_id, isolation_level=isolation)
        if version < 15:
            request.replica_id = -3
        else:
            request.replica_state = FetchRequest.ReplicaState(replica_id=-3, replica_epoch=1)
        c.ask(request, version, label=f"isolation {isolation}")


@question(SERVED)
def followers_are_told_what_is_unknown_in_their_order(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    missing = Topic(topic=topic, topic_id=topic_id, partitions=[Partition(partition=7)])
    unknown = Topic(topic=fresh_name(c), topic_id=bytes(15) + b"\x07", partitions=[Partition(partition=0)])
    for replica in (-1, 5):
        request = FetchRequest(max_wait_ms=0, session_epoch=-1, topics=[missing, unknown])
        request.replica_id = replica if version < 15 else -1
        request.replica_state = FetchRequest.ReplicaState(replica_id=replica if version >= 15 else -1)
        c.ask(request, version, label=f"replica {replica}")


@question(range(12, 14))
def what_changes_under_a_waiting_fetch(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for _ in range(3):
        append(c, topic, batch())
    much = fetch_request(topic, 0, topic_id=topic_id, min_bytes=5000, max_wait_ms=600 * c.slowness)
    c.begin(much, version, "records deleted")
    c.ask(deletion(topic, (0, 2)), 2, note=False)
    c.note_whether_it_waits("records deleted")
    c.end("records deleted")
    c.begin(fetch_request(topic, 3, topic_id=topic_id, min_bytes=1, max_wait_ms=5000), version, "topic deleted")
    c.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), 3, note=False)
    c.end("topic deleted")


@question(range(12, 14))
def a_session_that_is_closed_under_a_waiting_fetch(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    full = fetch_request(topic, topic_id=topic_id)
    full.session_epoch = 0
    session = c.ask(full, version).session_id
    waiting = FetchRequest(max_wait_ms=5000, min_bytes=1, session_id=session, session_epoch=1)
    c.begin(waiting, version, "waiting")
    c.ask(FetchRequest(max_wait_ms=0, session_id=session, session_epoch=-1), version)
    c.note_whether_it_waits("waiting")
    append(c, topic, batch())
    c.end("waiting")


@question(range(12, 14))
def a_full_segment_is_not_waited_for(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, configs={"internal.segment.bytes": "200", "retention.ms": "-1"})

    def ask(offset: int, label: str) -> None:
        request = fetch_request(topic, offset, topic_id=topic_id, min_bytes=5000, max_wait_ms=1000 * c.slowness)
        c.begin(request, version, label)
        c.note_whether_it_waits(label)

    for _ in range(2):
        append(c, topic, batch([b"v" * 50]))
    ask(1, "the active one")
    append(c, topic, batch([b"v" * 50]))  # begins a segment
    c.end("the active one")
    for offset in range(4):
        ask(offset, f"from {offset}")
        c.end(f"from {offset}")
