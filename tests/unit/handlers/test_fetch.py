"""Fetch: limits, waiting, errors, epochs, isolation."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from kbroker.handlers import fetch
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.records.metadata import RemoveTopicRecord
from kbroker.replication.fetching import FetchFuture
from kbroker.types import ZERO_UUID, Uuid
from tests.unit.replication.one_node import OneNode, batch

Answer = FetchResponse.PartitionData
BATCH = len(batch())


def wanted(
    partition: int = 0, offset: int = 0, *, max_bytes: int = 1 << 20, **more: Any
) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **more)


def request(topics: dict[str | Uuid, list[FetchRequest.FetchPartition]], **more: Any) -> FetchRequest:
    fields: dict[str, Any] = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, **more}
    return FetchRequest(
        topics=[
            FetchRequest.FetchTopic(
                topic=topic if isinstance(topic, str) else "",
                topic_id=ZERO_UUID if isinstance(topic, str) else topic,
                partitions=partitions,
            )
            for topic, partitions in topics.items()
        ],
        **fields,
    )


def ask(node: OneNode, asked: FetchRequest, version: int = 12) -> FetchResponse | Awaitable[FetchResponse]:
    return fetch.handle(node.context(ApiKey.FETCH, version), asked)


def answers(response: FetchResponse) -> list[Answer]:
    return [answer for topic in response.responses for answer in topic.partitions]


def one(node: OneNode, asked: FetchRequest, version: int = 12) -> Answer:
    """The only partition of an answer that comes at once."""
    response = ask(node, asked, version)
    assert isinstance(response, FetchResponse)
    (answer,) = answers(response)
    return answer


def size(answer: Answer) -> int:
    assert answer.records is not None
    return len(answer.records)


def waits(node: OneNode, asked: FetchRequest, version: int = 12) -> Awaitable[FetchResponse]:
    answer = ask(node, asked, version)
    assert isinstance(answer, Awaitable)
    return answer


def now(node: OneNode) -> int:
    return node.host.clock.monotonic_ms()


# --- data


def test_records_come_at_once_as_a_range_of_the_log(node: OneNode) -> None:
    node.create("t")
    node.append("t", count=3)
    answer = one(node, request({"t": [wanted()]}))
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (
        0,
        3,
        3,
        0,
    )
    assert answer.aborted_transactions is None
    assert answer.preferred_read_replica == -1
    assert size(answer) == len(batch(count=3))


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_is_answered(node: OneNode, version: int) -> None:
    topic_id = node.create("t")
    node.append("t")
    asked = decode(FetchRequest, version, encode(request({"t" if version < 13 else topic_id: [wanted()]}), version))
    answer = one(node, asked, version)
    assert (answer.error_code, size(answer)) == (0, BATCH)


def test_nothing_new_is_an_empty_string_of_bytes(node: OneNode) -> None:
    node.create("t")
    answer = one(node, request({"t": [wanted()]}, max_wait_ms=0))
    assert answer.records == b""


def test_a_partition_named_twice_is_answered_once_with_the_last_wish(node: OneNode) -> None:
    node.create("t", 2)
    node.append("t")
    response = ask(node, request({"t": [wanted(0, 9), wanted(1), wanted(0, 0)]}))
    assert isinstance(response, FetchResponse)
    assert [(answer.partition_index, size(answer)) for answer in answers(response)] == [(0, BATCH), (1, 0)]


# --- limits


def test_only_the_first_partition_with_data_may_exceed_the_limits(node: OneNode) -> None:
    node.create("t", 3)
    for index in (1, 2):
        node.append("t", index, size=500)
    response = ask(node, request({"t": [wanted(index, max_bytes=10) for index in range(3)]}))
    assert isinstance(response, FetchResponse)
    assert [size(answer) for answer in answers(response)] == [0, len(batch(size=500)), 0]


def test_a_limit_cuts_in_the_middle_of_a_batch_but_not_of_the_first(node: OneNode) -> None:
    node.create("t", 4)
    for _ in range(2):
        for index in range(4):
            node.append("t", index)
    limits = [1 << 20, BATCH + 20, BATCH - 1, 20]
    asked = request({"t": [wanted(index, max_bytes=limit) for index, limit in enumerate(limits)]}, isolation_level=1)
    response = ask(node, asked)
    assert isinstance(response, FetchResponse)
    assert [size(answer) for answer in answers(response)] == [2 * BATCH, BATCH + 20, 0, 0]
    assert [answer.aborted_transactions for answer in answers(response)] == [[], [], None, None]


def test_the_limit_of_the_answer_holds_for_all_partitions_together(node: OneNode) -> None:
    node.create("t", 3)
    for index in range(3):
        node.append("t", index)
    response = ask(node, request({"t": [wanted(index) for index in range(3)]}, max_bytes=2 * BATCH + 20))
    assert isinstance(response, FetchResponse)
    assert [size(answer) for answer in answers(response)] == [BATCH, BATCH, 0]


def test_fetch_max_bytes_caps_what_a_client_asks_for() -> None:
    node = OneNode({"fetch.max.bytes": "1024"})
    node.create("t", 2)
    node.append("t", 0, size=1000)
    node.append("t", 1, size=1000)
    response = ask(node, request({"t": [wanted(0), wanted(1)]}, max_bytes=1 << 30))
    assert isinstance(response, FetchResponse)
    assert [size(answer) for answer in answers(response)] == [len(batch(size=1000)), 0]
    node.close()


def test_the_minimum_is_capped_by_the_maximum(node: OneNode) -> None:
    node.create("t")
    node.append("t", size=500)
    assert size(one(node, request({"t": [wanted()]}, min_bytes=1 << 20, max_bytes=200))) > 200


def test_a_large_answer_that_a_limit_cuts_ends_with_a_whole_batch() -> None:
    node = OneNode()
    node.create("t")
    for _ in range(6):
        node.append("t", size=30_000)
    # The minimum counts what the limit allows: what is left out must not make the fetch wait.
    answer = one(node, request({"t": [wanted(max_bytes=100_000)]}, min_bytes=100_000))
    assert size(answer) == 3 * len(batch(size=30_000))
    # Nobody knows of a whole batch in here: the first is larger than the limit.
    assert size(one(node, request({"t": [wanted(max_bytes=20_000)]}))) == len(batch(size=30_000))
    node.close()


def test_a_negative_limit_is_an_error_where_there_is_data(node: OneNode) -> None:
    node.create("t", 2)
    node.append("t")
    response = ask(node, request({"t": [wanted(0, max_bytes=-1), wanted(1, max_bytes=-1)]}))
    assert isinstance(response, FetchResponse)
    assert [answer.error_code for answer in answers(response)] == [ErrorCode.UNKNOWN_SERVER_ERROR, 0]


# --- waiting


def test_an_append_wakes_a_waiting_fetch_in_the_next_turn(node: OneNode) -> None:
    node.create("t", 2)
    waiting = waits(node, request({"t": [wanted(0), wanted(1)]}))
    node.append("t", 1)
    started = now(node)
    response = node.wait(waiting)
    assert now(node) == started
    assert [size(answer) for answer in answers(response)] == [0, BATCH]
    assert not node.partition("t", 0).watchers


def test_a_fetch_waits_no_longer_than_it_wants(node: OneNode) -> None:
    node.create("t")
    response = node.wait(waits(node, request({"t": [wanted()]}, max_wait_ms=300)))
    assert now(node) == 300
    assert [size(answer) for answer in answers(response)] == [0]


def test_a_fetch_waits_until_there_are_enough_bytes(node: OneNode) -> None:
    node.create("t", 2)
    node.append("t", 0)
    waiting = waits(node, request({"t": [wanted(0), wanted(1)]}, min_bytes=3 * BATCH))
    node.append("t", 1)
    node.turn()
    node.append("t", 1)
    node.turn(0.1)
    assert now(node) == 100
    response = node.wait(waiting)
    assert now(node) == 100
    assert [size(answer) for answer in answers(response)] == [BATCH, 2 * BATCH]


def test_too_few_bytes_leave_when_the_time_is_over(node: OneNode) -> None:
    node.create("t")
    waiting = waits(node, request({"t": [wanted()]}, min_bytes=10 * BATCH))
    node.append("t")
    response = node.wait(waiting)
    assert now(node) == 500
    assert size(answers(response)[0]) == BATCH


def test_many_appends_in_one_turn_are_one_look(node: OneNode) -> None:
    node.create("t")
    waiting = waits(node, request({"t": [wanted()]}))
    for _ in range(5):
        node.append("t")
    assert size(answers(node.wait(waiting))[0]) == 5 * BATCH


def test_an_append_that_is_not_committed_does_not_end_the_wait(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    waiting = waits(node, request({"t": [wanted()]}))
    node.append("t")
    node.turn(0.1)
    node.partition("t").on_follower_fetch(2, 1)
    response = node.wait(waiting)
    assert now(node) == 100
    assert size(answers(response)[0]) == BATCH


def test_a_deleted_topic_ends_the_wait(node: OneNode) -> None:
    node.create("t")
    waiting = waits(node, request({"t": [wanted()]}))
    node.delete("t")
    response = node.wait(waiting)
    assert now(node) == 0
    assert answers(response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_new_leader_ends_the_wait(node: OneNode) -> None:
    node.register(2, rack="r2")
    topic_id = node.create("t", replicas=[1, 2])
    waiting = waits(node, request({topic_id: [wanted(current_leader_epoch=0)]}), 16)
    node.change("t", leader=2)
    response = node.wait(waiting)
    answer = answers(response)[0]
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 1)
    assert [(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints] == [
        (2, "node2", 9092, "r2")
    ]


def test_a_cancelled_wait_is_forgotten(node: OneNode) -> None:
    node.create("t")
    waiting = waits(node, request({"t": [wanted()]}))
    assert isinstance(waiting, FetchFuture)
    waiting.cancel()
    assert not node.partition("t").watchers
    node.append("t")
    node.turn(1)
    assert waiting.cancelled()


def test_an_error_of_any_partition_ends_the_wait(node: OneNode) -> None:
    node.create("t", 2)
    response = ask(node, request({"t": [wanted(0, 7), wanted(1)]}))
    assert isinstance(response, FetchResponse)
    assert [answer.error_code for answer in answers(response)] == [ErrorCode.OFFSET_OUT_OF_RANGE, 0]


def test_unknown_partitions_alone_do_not_wait(node: OneNode) -> None:
    answer = one(node, request({"nope": [wanted()]}))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
    assert answer.aborted_transactions == []


def test_unknown_partitions_beside_known_ones_wait_and_come_last(node: OneNode) -> None:
    node.create("t")
    response = node.wait(waits(node, request({"nope": [wanted()], "t": [wanted(5), wanted(0)]})))
    assert now(node) == 500
    assert [(topic.topic, [each.partition_index for each in topic.partitions]) for topic in response.responses] == [
        ("t", [0]),
        ("nope", [0]),
        ("t", [5]),
    ]


def test_zero_minimum_never_waits(node: OneNode) -> None:
    node.create("t")
    assert one(node, request({"t": [wanted()]}, min_bytes=0)).records == b""


# --- errors


def test_out_of_range_says_nothing_but_the_code(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    for offset in (-1, 2):
        answer = one(node, request({"t": [wanted(0, offset)]}))
        assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)
        assert answer.aborted_transactions is None
        assert answer.records == b""


def test_an_unknown_topic_id_is_said_to_be_one(node: OneNode) -> None:
    answer = one(node, request({b"x" * 16: [wanted()]}), 13)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_unknown_topic_ids_come_before_unknown_partitions(node: OneNode) -> None:
    topic_id = node.create("t")
    asked = request({topic_id: [wanted(9), wanted(0)], b"x" * 16: [wanted()]}, max_wait_ms=0)
    response = ask(node, asked, 13)
    assert isinstance(response, FetchResponse)
    assert [answer.error_code for answer in answers(response)] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (7, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_the_leader_epoch_is_checked(node: OneNode, epoch: int, code: int) -> None:
    node.create("t")
    answer = one(node, request({"t": [wanted(current_leader_epoch=epoch)]}, max_wait_ms=0))
    assert answer.error_code == code


def test_old_consumers_read_from_the_leader_only(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    node.append("t")
    node.partition("t").on_follower_fetch(2, 1)
    node.change("t", leader=2)
    assert one(node, request({"t": [wanted()]}), 10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert size(one(node, request({"t": [wanted()]}), 11)) == BATCH


def test_a_wrong_isolation_level_fails_the_request(node: OneNode) -> None:
    node.create("t")
    asked = request({"t": [wanted()]}, isolation_level=5)
    with pytest.raises(ApiError) as raised:
        ask(node, asked)
    response = fetch.error_response(node.context(ApiKey.FETCH, 12), asked, raised.value)
    assert response.error_code == answers(response)[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert fetch.error_response(node.context(ApiKey.FETCH, 13), asked, raised.value).responses == []


def test_a_topic_compressed_with_zstd_is_held_back_from_old_clients(node: OneNode) -> None:
    node.create("t", configs={"compression.type": "zstd"})
    node.append("t")
    assert one(node, request({"t": [wanted()]}), 3).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert one(node, request({"t": [wanted()]}), 4).error_code == 0


def test_a_failed_log_is_told_to_old_clients_in_words_they_know(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    log = node.partition("t").log
    assert log is not None
    with pytest.raises(ApiError):
        log.fail(OSError("gone"))
    assert one(node, request({"t": [wanted()]}), 5).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert one(node, request({"t": [wanted()]}), 6).error_code == ErrorCode.KAFKA_STORAGE_ERROR


# --- epochs and followers


def test_a_fetcher_whose_log_diverges_is_told_where(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    node.append("t", count=3)
    node.change("t", leader=2)
    node.change("t", leader=1)
    answer = one(node, request({"t": [wanted(0, 5, last_fetched_epoch=1)]}))
    assert answer.error_code == 0
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 3)
    assert answer.records == b""


def test_a_log_that_never_took_a_record_has_its_epoch(node: OneNode) -> None:
    node.create("t")
    broken = batch()
    broken[-1] ^= 1
    with pytest.raises(ApiError):
        node.partition("t").append_as_leader(broken, 1, 0)
    answer = one(node, request({"t": [wanted(0, 5, last_fetched_epoch=0)]}))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 0)


def test_an_epoch_nobody_knows_is_out_of_range(node: OneNode) -> None:
    node.create("t")
    answer = one(node, request({"t": [wanted(last_fetched_epoch=3)]}))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_sees_what_is_not_committed_and_moves_the_high_watermark(node: OneNode) -> None:
    topic_id = node.create("t", replicas=[1, 2])
    node.append("t")
    state = FetchRequest.ReplicaState(replica_id=2)
    answer = one(node, request({topic_id: [wanted()]}, replica_state=state), 15)
    assert (size(answer), answer.high_watermark) == (BATCH, 0)
    one(node, request({topic_id: [wanted(0, 1)]}, replica_state=state, max_wait_ms=0), 15)
    assert node.partition("t").high_watermark == 1


def test_a_replica_that_is_not_assigned_is_refused(node: OneNode) -> None:
    node.create("t")
    asked = request({"t": [wanted()]}, replica_id=9)
    assert one(node, asked).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    asked = request({"t": [wanted(current_leader_epoch=0)]}, replica_id=9)
    assert one(node, asked).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


# --- isolation


def transactional(node: OneNode, sequence: int) -> None:
    partition = node.partition("t")
    partition.append_as_leader(
        batch(producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True),
        1,
        node.host.clock.wall_ms(),
    )


def test_read_committed_ends_before_the_first_open_transaction(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    transactional(node, 0)
    node.append("t")
    committed = one(node, request({"t": [wanted()]}, isolation_level=1))
    assert (committed.high_watermark, committed.last_stable_offset, size(committed)) == (3, 1, BATCH)
    assert committed.aborted_transactions == []
    assert size(one(node, request({"t": [wanted()]}))) > 2 * BATCH


def test_read_committed_does_not_wake_for_an_open_transaction(node: OneNode) -> None:
    node.create("t")
    waiting = waits(node, request({"t": [wanted()]}, isolation_level=1))
    transactional(node, 0)
    response = node.wait(waiting)
    assert now(node) == 500
    assert (answers(response)[0].high_watermark, answers(response)[0].last_stable_offset) == (1, 0)


def test_a_topic_that_vanishes_with_its_id_while_a_fetch_waits_is_unknown(node: OneNode) -> None:
    topic_id = node.create("t")
    waiting = waits(node, request({topic_id: [wanted()]}), 13)
    node.apply(RemoveTopicRecord(topic_id=topic_id))
    assert answers(node.wait(waiting))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_was_unknown_when_a_fetch_came_is_unknown_when_it_has_waited(node: OneNode) -> None:
    node.create("t")
    waiting = waits(node, request({"t": [wanted()], "later": [wanted()]}), 12)
    node.create("later")
    node.append("later")
    node.append("t")
    known, unknown = answers(node.wait(waiting))
    assert (known.error_code, size(known)) == (ErrorCode.NONE, BATCH)
    assert (unknown.error_code, unknown.aborted_transactions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_a_topic_that_vanishes_while_a_fetch_waits_fails_as_a_read_does(node: OneNode) -> None:
    topic_id = node.create("t")
    waiting = waits(node, request({"t": [wanted()]}), 12)
    node.apply(RemoveTopicRecord(topic_id=topic_id))
    failed = answers(node.wait(waiting))[0]
    assert (failed.error_code, failed.aborted_transactions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def test_records_that_are_deleted_under_a_waiting_fetch_do_not_wake_it(node: OneNode) -> None:
    node.create("t")
    for _ in range(3):
        node.append("t")
    waiting = waits(node, request({"t": [wanted()]}, min_bytes=10 * BATCH))
    node.partition("t").delete_records(2)
    assert answers(node.wait(waiting))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert now(node) == 500


def test_a_full_segment_is_not_waited_for(node: OneNode) -> None:
    node.create("t", configs={"internal.segment.bytes": str(BATCH)})
    node.append("t")
    much = request({"t": [wanted()]}, min_bytes=10 * BATCH)
    waiting = waits(node, much)
    node.append("t")
    for awaited in (waiting, waits(node, much)):
        assert size(answers(node.wait(awaited))[0]) == BATCH
    assert now(node) == 0


@pytest.mark.parametrize(("limit", "partitions"), [(BATCH - 1, 3), (BATCH, 2)])
def test_of_a_partition_no_more_is_waited_for_than_its_limit_allows(node: OneNode, limit: int, partitions: int) -> None:
    """Also where the limit cuts a first batch, which the answer has whole."""
    node.create("t", 3)
    asked = request({"t": [wanted(index, max_bytes=limit) for index in range(3)]}, min_bytes=2 * BATCH - 1)
    waiting = waits(node, asked)
    for index in range(3):
        node.append("t", index)
        node.turn(0.1)
    assert sum(answer.high_watermark for answer in answers(node.wait(waiting))) == partitions


def test_a_limit_of_nothing_waits_for_the_time_to_be_over(node: OneNode) -> None:
    node.create("t")
    waiting = waits(node, request({"t": [wanted(max_bytes=0)]}, min_bytes=1))
    node.append("t")
    assert size(answers(node.wait(waiting))[0]) == BATCH
    assert now(node) == 500
