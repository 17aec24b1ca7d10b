"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

from collections.abc import Awaitable
from random import Random
from typing import Any

import pytest

from kbroker.handlers.fetch_sessions import EVICTION_MS, FetchSessions, capacity, next_epoch
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.replication.fetching import HIGH_WATERMARK, FetchedPartition
from kbroker.replication.partition import Partition
from kbroker.types import ZERO_UUID, TopicPartition, Uuid
from tests.unit.handlers.test_fetch import BATCH, answers, ask, now, request, size, waits, wanted
from tests.unit.replication.one_node import OneNode

Topics = dict[str | Uuid, list[FetchRequest.FetchPartition]]


class Fetcher:
    """A client that keeps a session."""

    def __init__(self, node: OneNode, topics: Topics, *, version: int = 12) -> None:
        self.node = node
        self.version = version
        self.epoch = 0
        self.session = 0
        self.first = self.fetch(topics)
        self.session = self.first.session_id

    def send(
        self, topics: Topics | None = None, *, max_wait_ms: int = 0, **more: Any
    ) -> FetchResponse | Awaitable[FetchResponse]:
        asked = request(
            topics or {}, session_id=self.session, session_epoch=self.epoch, max_wait_ms=max_wait_ms, **more
        )
        self.epoch = next_epoch(self.epoch)
        return ask(self.node, asked, self.version)

    def fetch(self, topics: Topics | None = None, **more: Any) -> FetchResponse:
        response = self.send(topics, **more)
        assert isinstance(response, FetchResponse)
        return response


def told(response: FetchResponse) -> list[tuple[int, int]]:
    """Partition and size of the records, in the order of the answer."""
    return [(answer.partition_index, size(answer)) for answer in answers(response)]


def test_a_full_fetch_makes_a_session_and_tells_everything(node: OneNode) -> None:
    node.create("t", 3)
    node.append("t", 1)
    fetcher = Fetcher(node, {"t": [wanted(index) for index in range(3)]})
    assert fetcher.session > 0
    assert told(fetcher.first) == [(0, 0), (1, BATCH), (2, 0)]


def test_an_incremental_fetch_tells_only_what_changed(node: OneNode) -> None:
    node.create("t", 3)
    fetcher = Fetcher(node, {"t": [wanted(index) for index in range(3)]})
    response = fetcher.fetch()
    assert (response.session_id, response.responses) == (fetcher.session, [])
    node.append("t", 2)
    assert told(fetcher.fetch()) == [(2, BATCH)]


def test_a_session_keeps_the_old_fetch_offset_until_it_is_moved(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    fetcher = Fetcher(node, {"t": [wanted()]})
    assert told(fetcher.fetch()) == [(0, BATCH)]
    assert told(fetcher.fetch({"t": [wanted(0, 1)]})) == []
    node.append("t")
    assert told(fetcher.fetch()) == [(0, BATCH)]


def test_idle_partitions_are_not_looked_at(node: OneNode) -> None:
    node.create("t", 50)
    fetcher = Fetcher(node, {"t": [wanted(index) for index in range(50)]})
    fetcher.fetch()
    session = node.node.fetch_sessions.get(fetcher.session)
    assert session is not None
    assert not session.interest.active
    node.append("t", 7)
    assert [entry.partition for entry in session.interest.active] == [7]
    fetcher.fetch()
    fetcher.fetch({"t": [wanted(7, 1)]})
    assert not session.interest.active


def test_a_waiting_session_fetch_is_woken_by_any_of_its_partitions(node: OneNode) -> None:
    node.create("t", 3)
    fetcher = Fetcher(node, {"t": [wanted(index) for index in range(3)]})
    fetcher.fetch()
    for index in (2, 0):
        waiting = fetcher.send(max_wait_ms=500)
        assert isinstance(waiting, Awaitable)
        node.append("t", index)
        assert told(node.wait(waiting)) == [(index, BATCH)]
        assert told(fetcher.fetch({"t": [wanted(index, 1)]})) == []
    assert now(node) == 0


def test_a_waiting_session_fetch_times_out_with_nothing(node: OneNode) -> None:
    node.create("t", 3)
    fetcher = Fetcher(node, {"t": [wanted(index) for index in range(3)]})
    waiting = fetcher.send(max_wait_ms=500)
    assert isinstance(waiting, Awaitable)
    response = node.wait(waiting)
    assert (now(node), response.responses) == (500, [])


def test_a_session_fetch_waits_for_its_minimum_over_several_partitions(node: OneNode) -> None:
    node.create("t", 3)
    fetcher = Fetcher(node, {"t": [wanted(index) for index in range(3)]})
    waiting = fetcher.send(max_wait_ms=500, min_bytes=2 * BATCH)
    assert isinstance(waiting, Awaitable)
    node.append("t", 0)
    node.turn(0.1)
    node.append("t", 2)
    assert told(node.wait(waiting)) == [(0, BATCH), (2, BATCH)]
    assert now(node) == 100


def test_partitions_that_gave_data_go_to_the_end_of_the_order(node: OneNode) -> None:
    node.create("t", 3)
    for index in range(3):
        node.append("t", index)
    fetcher = Fetcher(node, {"t": [wanted(index) for index in range(3)]})
    assert told(fetcher.fetch(max_bytes=BATCH)) == [(0, BATCH)]
    assert told(fetcher.fetch(max_bytes=BATCH)) == [(1, BATCH)]
    assert told(fetcher.fetch(max_bytes=BATCH)) == [(2, BATCH)]
    assert told(fetcher.fetch(max_bytes=BATCH)) == [(0, BATCH)]


def test_what_did_not_fit_is_told_next(node: OneNode) -> None:
    node.create("t", 2)
    fetcher = Fetcher(node, {"t": [wanted(0), wanted(1)]})
    node.append("t", 0)
    node.append("t", 1)
    assert told(fetcher.fetch(max_bytes=BATCH)) == [(0, BATCH), (1, 0)]
    assert told(fetcher.fetch({"t": [wanted(0, 1)]}, max_bytes=BATCH)) == [(1, BATCH)]


def test_an_error_is_repeated_in_every_answer(node: OneNode) -> None:
    node.create("t")
    fetcher = Fetcher(node, {"t": [wanted(0), wanted(9)]})
    for _ in range(2):
        assert [(each.partition_index, each.error_code) for each in answers(fetcher.fetch())] == [
            (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ]


def test_a_partition_is_told_again_when_its_error_is_gone(node: OneNode) -> None:
    node.create("t")
    fetcher = Fetcher(node, {"t": [wanted()], "u": [wanted()]})
    assert answers(fetcher.fetch())[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.create("u")
    answer = answers(fetcher.fetch())[0]
    assert (answer.error_code, answer.high_watermark) == (0, 0)
    assert answers(fetcher.fetch()) == []


def test_a_moved_log_start_is_told(node: OneNode) -> None:
    node.create("t")
    node.append("t", count=2)
    fetcher = Fetcher(node, {"t": [wanted(0, 2)]})
    assert answers(fetcher.fetch()) == []
    partition = node.partition("t")
    assert partition.log is not None
    partition.log.update_log_start_offset(1)
    partition.progressed()
    assert [answer.log_start_offset for answer in answers(fetcher.fetch())] == [1]
    assert answers(fetcher.fetch()) == []


def test_forgotten_partitions_are_dropped(node: OneNode) -> None:
    node.create("t", 2)
    fetcher = Fetcher(node, {"t": [wanted(0), wanted(1)]})
    node.append("t", 0)
    node.append("t", 1)
    forgotten = [FetchRequest.ForgottenTopic(topic="t", partitions=[0, 77])]
    assert told(fetcher.fetch(forgotten_topics_data=forgotten)) == [(1, BATCH)]


def test_a_session_without_partitions_is_closed(node: OneNode) -> None:
    node.create("t")
    fetcher = Fetcher(node, {"t": [wanted()]})
    fetcher.fetch()
    forgotten = [FetchRequest.ForgottenTopic(topic="t", partitions=[0])]
    assert fetcher.fetch(forgotten_topics_data=forgotten).session_id == 0
    assert len(node.node.fetch_sessions) == 0
    assert not node.partition("t").watchers


def test_a_session_nobody_knows(node: OneNode) -> None:
    response = ask(node, request({}, session_id=5, session_epoch=3))
    assert isinstance(response, FetchResponse)
    assert (response.error_code, response.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)


def test_an_epoch_out_of_turn_is_refused_and_changes_nothing(node: OneNode) -> None:
    node.create("t")
    fetcher = Fetcher(node, {"t": [wanted()]})
    fetcher.epoch = 5
    response = fetcher.fetch()
    assert (response.error_code, response.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    fetcher.epoch = 1
    assert fetcher.fetch().error_code == 0


def test_a_session_by_names_takes_no_ids_and_the_other_way_round(node: OneNode) -> None:
    topic_id = node.create("t")
    by_name = Fetcher(node, {"t": [wanted()]})
    by_id = Fetcher(node, {topic_id: [wanted()]}, version=13)
    by_name.version, by_id.version = 13, 12
    assert by_name.fetch().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert by_id.fetch().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_topic_id_that_appears_later_is_found_by_the_session(node: OneNode) -> None:
    topic_id = b"t" * 16
    fetcher = Fetcher(node, {topic_id: [wanted()]}, version=13)
    assert answers(fetcher.fetch())[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    node.create("t", topic_id=topic_id)
    node.append("t")
    assert told(fetcher.fetch()) == [(0, BATCH)]


def test_a_topic_made_again_is_inconsistent_with_the_sessions_id(node: OneNode) -> None:
    topic_id = node.create("t")
    fetcher = Fetcher(node, {topic_id: [wanted()]}, version=13)
    fetcher.fetch()
    node.delete("t")
    assert answers(fetcher.fetch())[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    node.create("t", topic_id=b"2" * 16)
    assert answers(fetcher.fetch())[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_duplicate_request_on_a_waiting_session_ends_the_older_one(node: OneNode) -> None:
    node.create("t")
    fetcher = Fetcher(node, {"t": [wanted()]})
    older = fetcher.send(max_wait_ms=500)
    newer = fetcher.send(max_wait_ms=500)
    assert isinstance(older, Awaitable)
    assert isinstance(newer, Awaitable)
    assert node.wait(older).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    node.append("t")
    assert told(node.wait(newer)) == [(0, BATCH)]


def test_a_full_fetch_with_a_session_id_closes_that_session(node: OneNode) -> None:
    node.create("t")
    fetcher = Fetcher(node, {"t": [wanted()]})
    old = fetcher.session
    fetcher.epoch = 0
    response = fetcher.fetch({"t": [wanted()]})
    assert response.session_id not in (0, old)
    assert node.node.fetch_sessions.get(old) is None


def test_the_final_epoch_closes_the_session_and_makes_none(node: OneNode) -> None:
    node.create("t")
    fetcher = Fetcher(node, {"t": [wanted()]})
    fetcher.epoch = -1
    assert fetcher.fetch({"t": [wanted()]}).session_id == 0
    assert len(node.node.fetch_sessions) == 0


def test_another_isolation_looks_at_everything_again(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    fetcher = Fetcher(node, {"t": [wanted(0, 1)]})
    fetcher.fetch(isolation_level=1)
    session = node.node.fetch_sessions.get(fetcher.session)
    assert session is not None
    assert not session.interest.active
    assert session.rules is not None
    fetcher.fetch(isolation_level=0)
    assert session.rules[0] == HIGH_WATERMARK


def test_a_parked_fetch_on_a_closed_session_still_answers(node: OneNode) -> None:
    node.create("t")
    fetcher = Fetcher(node, {"t": [wanted()]})
    waiting = fetcher.send(max_wait_ms=500)
    assert isinstance(waiting, Awaitable)
    node.node.fetch_sessions.remove(fetcher.session)
    assert node.wait(waiting).error_code == 0


def test_a_fetch_that_waits_on_a_closed_session_gets_what_comes_and_lets_go(node: OneNode) -> None:
    node.create("t")
    fetcher = Fetcher(node, {"t": [wanted()]})
    waiting = fetcher.send(max_wait_ms=500)
    assert isinstance(waiting, Awaitable)
    node.node.fetch_sessions.remove(fetcher.session)
    node.append("t")
    assert size(answers(node.wait(waiting))[0]) == BATCH
    assert not node.partition("t").watchers


@pytest.mark.parametrize(("epoch", "following"), [(-1, -1), (0, 1), (1, 2), (2**31 - 1, 1)])
def test_epochs_skip_what_means_something_else(epoch: int, following: int) -> None:
    assert next_epoch(epoch) == following


# --- the cache


def entries(count: int) -> list[FetchedPartition]:
    return [FetchedPartition("t", ZERO_UUID, index, 0, 1, -1, -1) for index in range(count)]


def cache(node: OneNode, slots: int = 2) -> FetchSessions:
    return FetchSessions(slots, node.host.clock, Random(1))


def test_slots_are_used_in_eights() -> None:
    assert [capacity(slots) for slots in (0, 7, 8, 15, 1000)] == [0, 0, 8, 8, 1000]


def test_a_full_cache_makes_no_session(node: OneNode) -> None:
    sessions = cache(node)
    assert sessions.create(entries(1), False, False)
    assert sessions.create(entries(1), False, False)
    assert sessions.create(entries(100), False, False) == 0
    assert len(sessions) == 2


def test_without_slots_there_are_no_sessions(node: OneNode) -> None:
    assert cache(node, 0).create(entries(1), False, False) == 0


def test_a_stale_session_gives_way_to_anyone(node: OneNode) -> None:
    sessions = cache(node)
    oldest = sessions.create(entries(50), False, False)
    kept = sessions.create(entries(50), False, False)
    node.turn(EVICTION_MS / 1000 + 1)
    assert sessions.create(entries(1), False, False)
    assert sessions.get(oldest) is None
    assert sessions.get(kept) is not None


def test_a_follower_pushes_out_a_consumer_but_no_follower(node: OneNode) -> None:
    sessions = cache(node)
    follower = sessions.create(entries(1), False, True)
    consumer = sessions.create(entries(50), False, False)
    assert sessions.create(entries(1), False, True)
    assert sessions.get(consumer) is None
    assert sessions.get(follower) is not None
    assert sessions.create(entries(1), False, True) == 0


def use(sessions: FetchSessions, node: OneNode, session_id: int) -> None:
    """Touch a session as its next request would."""
    session = sessions.get(session_id)
    assert session is not None
    asked = FetchRequest(session_id=session_id, session_epoch=session.epoch)
    from kbroker.replication.fetching import FetchParams

    params = FetchParams(
        max_wait_ms=0, min_bytes=0, max_bytes=1, isolation=HIGH_WATERMARK, leader_only=False, replica_id=-1
    )
    sessions.open(asked, 12, params, node.replicas)


def test_an_old_session_in_use_gives_way_to_a_larger_one_only(node: OneNode) -> None:
    sessions = cache(node)
    small = sessions.create(entries(2), False, False)
    large = sessions.create(entries(9), False, False)
    for _ in range(2):
        node.turn(EVICTION_MS / 1000 - 1)
        use(sessions, node, small)
        use(sessions, node, large)
    assert sessions.create(entries(2), False, False) == 0
    assert sessions.create(entries(3), False, False)
    assert sessions.get(small) is None
    assert sessions.get(large) is not None


def test_a_wait_in_an_unrelated_session_is_left_alone(node: OneNode) -> None:
    node.create("t", 2)
    one = Fetcher(node, {"t": [wanted(0)]})
    other = Fetcher(node, {"t": [wanted(1)]})
    waiting_one, waiting_other = one.send(max_wait_ms=500), other.send(max_wait_ms=500)
    assert isinstance(waiting_one, Awaitable)
    assert isinstance(waiting_other, Awaitable)
    node.append("t", 0)
    assert told(node.wait(waiting_one)) == [(0, BATCH)]
    node.wait(waiting_other)
    assert now(node) == 500


def test_a_sessionless_fetch_beside_a_session_sees_the_same(node: OneNode) -> None:
    node.create("t")
    fetcher = Fetcher(node, {"t": [wanted()]})
    fetcher.fetch()
    waiting = waits(node, request({"t": [wanted()]}))
    node.append("t")
    assert told(node.wait(waiting)) == told(fetcher.fetch()) == [(0, BATCH)]


def test_a_log_that_fails_without_an_append_is_told_to_idle_sessions(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    fetcher = Fetcher(node, {"t": [wanted(0, 1)]})
    assert answers(fetcher.fetch()) == []
    waiting = fetcher.send(max_wait_ms=500)
    assert isinstance(waiting, Awaitable)
    log = node.partition("t").log
    assert log is not None
    with pytest.raises(ApiError):
        log.fail(OSError("gone"))
    node.replicas.log_changed(TopicPartition("t", 0))
    assert [answer.error_code for answer in answers(node.wait(waiting))] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert now(node) == 0
    assert [answer.error_code for answer in answers(fetcher.fetch())] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_session_of_thousands_of_idle_partitions_reads_none_of_them(
    node: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.create("t", 2000)
    fetcher = Fetcher(node, {"t": [wanted(index) for index in range(2000)]})
    fetcher.fetch()
    read: list[int] = []
    fetch_one = Partition.fetch

    def counted(partition: Partition, entry: FetchedPartition, *limits: Any) -> FetchResponse.PartitionData:
        read.append(entry.partition)
        return fetch_one(partition, entry, *limits)

    monkeypatch.setattr(Partition, "fetch", counted)
    fetcher.fetch()
    waiting = fetcher.send(max_wait_ms=500)
    assert isinstance(waiting, Awaitable)
    node.append("t", 1234)
    assert told(node.wait(waiting)) == [(1234, BATCH)]
    assert read == [1234]
