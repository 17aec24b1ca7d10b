"""Produce: acks, versions, refusals, idempotence."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from kbroker.handlers import produce
from kbroker.handlers.context import ConnectionMustCloseError
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.records.compression import Compression
from kbroker.types import TRANSACTION_STATE_TOPIC, ZERO_UUID, Uuid
from tests.unit.replication.one_node import OneNode, batch

Slot = ProduceResponse.PartitionProduceResponse
_BATCH = object()


def data(partition: int = 0, records: Any = _BATCH) -> ProduceRequest.PartitionProduceData:
    if records is _BATCH:
        records = batch()
    return ProduceRequest.PartitionProduceData(
        index=partition, records=None if records is None else memoryview(records)
    )


def request(topics: dict[str | Uuid, list[ProduceRequest.PartitionProduceData]], **more: Any) -> ProduceRequest:
    fields: dict[str, Any] = {"acks": -1, "timeout_ms": 1000, **more}
    return ProduceRequest(
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic if isinstance(topic, str) else "",
                topic_id=ZERO_UUID if isinstance(topic, str) else topic,
                partition_data=partitions,
            )
            for topic, partitions in topics.items()
        ],
        **fields,
    )


def ask(node: OneNode, asked: ProduceRequest, version: int = 9, **context: Any) -> ProduceResponse:
    """The answer, also where dispatch has to make it of an error."""
    surroundings = node.context(ApiKey.PRODUCE, version, **context)
    try:
        response = produce.handle(surroundings, asked)
        assert response is not None
        answer = response if isinstance(response, ProduceResponse) else node.wait(response)
        assert answer is not None
        return answer
    except ApiError as error:
        return produce.error_response(surroundings, asked, error)


def slots(response: ProduceResponse) -> list[Slot]:
    return [slot for topic in response.responses for slot in topic.partition_responses]


def one(node: OneNode, records: Any = _BATCH, version: int = 9, **more: Any) -> Slot:
    (slot,) = slots(ask(node, request({"t": [data(0, records)]}, **more), version))
    return slot


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_is_answered(node: OneNode, version: int) -> None:
    topic_id = node.create("t")
    asked = request({"t" if version < 13 else topic_id: [data()]})
    decoded = decode(ProduceRequest, version, bytearray(encode(asked, version)))
    response = ask(node, decoded, version)
    response = decode(ProduceResponse, version, encode(response, version))
    (slot,) = slots(response)
    assert (slot.error_code, slot.base_offset, slot.log_append_time_ms) == (0, 0, -1)
    assert response.responses[0].topic_id == (topic_id if version >= 13 else ZERO_UUID)
    assert response.responses[0].name == ("t" if version < 13 else "")


def test_an_append_is_answered_with_its_place(node: OneNode) -> None:
    node.create("t")
    assert one(node, batch(count=3)).base_offset == 0
    slot = one(node)
    assert (slot.error_code, slot.base_offset, slot.log_append_time_ms, slot.log_start_offset) == (0, 3, -1, 0)
    assert (slot.error_message, slot.record_errors) == (None, [])


def test_log_append_time_is_told(node: OneNode) -> None:
    node.create("t", configs={"message.timestamp.type": "LogAppendTime"})
    assert one(node).log_append_time_ms == node.host.clock.wall_ms()


def test_many_topics_and_partitions_are_answered_in_their_order(node: OneNode) -> None:
    node.create("t", 2)
    node.create("u")
    response = ask(node, request({"u": [data()], "t": [data(1), data(0), data(7)]}))
    assert [topic.name for topic in response.responses] == ["u", "t"]
    assert [(slot.index, slot.error_code) for slot in slots(response)] == [(0, 0), (1, 0), (0, 0), (7, 3)]


def test_acks_zero_has_no_answer(node: OneNode) -> None:
    node.create("t")
    assert produce.handle(node.context(ApiKey.PRODUCE, 9), request({"t": [data()]}, acks=0)) is None
    assert node.partition("t").high_watermark == 1


def test_acks_zero_that_fails_closes_the_connection(node: OneNode) -> None:
    node.create("t")
    with pytest.raises(ConnectionMustCloseError):
        produce.handle(node.context(ApiKey.PRODUCE, 9), request({"t": [data()], "nope": [data()]}, acks=0))
    assert node.partition("t").high_watermark == 1
    with pytest.raises(ConnectionMustCloseError):
        produce.error_response(
            node.context(ApiKey.PRODUCE, 9), request({}, acks=0), ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        )


@pytest.mark.parametrize("acks", [2, -2, 3])
def test_other_acks_are_refused_and_nothing_is_written(node: OneNode, acks: int) -> None:
    node.create("t")
    slot = one(node, acks=acks)
    assert (slot.error_code, slot.base_offset, slot.log_start_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1, -1)
    assert node.partition("t").log is None


def test_acks_all_waits_for_the_other_replicas(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    waiting = produce.handle(node.context(ApiKey.PRODUCE, 9), request({"t": [data()]}))
    assert isinstance(waiting, Awaitable)
    node.partition("t").on_follower_fetch(2, 1)
    answer = node.wait(waiting)
    assert answer is not None
    assert [(slot.error_code, slot.base_offset) for slot in slots(answer)] == [(0, 0)]


def test_acks_all_times_out(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    assert one(node, timeout_ms=200).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert node.host.clock.monotonic_ms() == 200


def test_acks_one_waits_for_nobody(node: OneNode) -> None:
    node.create("t", replicas=[1, 2])
    assert one(node, acks=1).error_code == 0


def test_the_same_partition_twice_is_taken_once_with_its_last_records(node: OneNode) -> None:
    node.create("t", 2)
    response = ask(node, request({"t": [data(0, batch(count=5)), data(1), data(0, batch(count=2))]}))
    assert [(slot.index, slot.base_offset) for slot in slots(response)] == [(0, 0), (1, 0)]
    assert node.partition("t").high_watermark == 2


def test_the_same_topic_twice_is_answered_once(node: OneNode) -> None:
    node.create("t", 2)
    topics = [
        ProduceRequest.TopicProduceData(name="t", partition_data=[data(index, batch(count=count))])
        for index, count in ((0, 1), (1, 1), (0, 3))
    ]
    response = ask(node, ProduceRequest(acks=1, topic_data=topics))
    assert [[slot.index for slot in topic.partition_responses] for topic in response.responses] == [[0, 1]]
    assert node.partition("t", 0).high_watermark == 3


def test_produce_never_makes_a_topic(node: OneNode) -> None:
    slot = one(node)
    assert (slot.error_code, slot.base_offset, slot.log_start_offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert slot.error_message


def test_an_unknown_topic_id_is_said_to_be_one(node: OneNode) -> None:
    (slot,) = slots(ask(node, request({b"x" * 16: [data()]}), 13))
    assert slot.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_internal_topics_are_written_by_the_admin_client_only(node: OneNode) -> None:
    node.create("__consumer_offsets")
    asked = request({"__consumer_offsets": [data()]})
    assert slots(ask(node, asked))[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    asked = request({"__consumer_offsets": [data()]})
    assert slots(ask(node, asked, client_id="__admin_client"))[0].error_code == 0


def test_another_leader_is_named_with_its_address(node: OneNode) -> None:
    node.register(2, port=19092)
    node.create("t", replicas=[1, 2])
    node.change("t", leader=2)
    response = ask(node, request({"t": [data()]}), 10)
    (slot,) = slots(response)
    assert slot.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (slot.current_leader.leader_id, slot.current_leader.leader_epoch) == (2, 1)
    assert [(each.node_id, each.host, each.port) for each in response.node_endpoints] == [(2, "node2", 19092)]
    decode(ProduceResponse, 10, encode(response, 10))
    encode(ask(node, request({"t": [data()]}), 9), 9)


# --- records


def broken_crc() -> bytearray:
    records = batch()
    records[-1] ^= 1
    return records


def with_magic(magic: int) -> bytearray:
    records = batch()
    records[16] = magic
    return records


def with_length_beyond() -> bytearray:
    records = batch()
    records[8:12] = (len(records) + 100).to_bytes(4, "big")
    return records


@pytest.mark.parametrize(
    ("records", "code", "log_start_offset"),
    [
        (None, ErrorCode.INVALID_RECORD, -1),
        (b"", ErrorCode.INVALID_RECORD, -1),
        (batch() + batch(), ErrorCode.INVALID_RECORD, -1),
        (batch(base_offset=5), ErrorCode.INVALID_RECORD, 0),
        (with_magic(0), ErrorCode.INVALID_RECORD, -1),
        (with_magic(1), ErrorCode.INVALID_RECORD, -1),
        (with_magic(3), ErrorCode.CORRUPT_MESSAGE, -1),
        (with_length_beyond(), ErrorCode.INVALID_RECORD, -1),
        (broken_crc(), ErrorCode.CORRUPT_MESSAGE, -1),
    ],
    ids=["null", "empty", "two", "base offset", "magic 0", "magic 1", "magic 3", "length", "crc"],
)
def test_wrong_records_are_refused_as_kafka_refuses_them(
    node: OneNode, records: Any, code: ErrorCode, log_start_offset: int
) -> None:
    node.create("t")
    node.append("t")
    slot = one(node, records)
    assert (slot.error_code, slot.base_offset, slot.log_start_offset) == (code, -1, log_start_offset)
    assert slot.error_message
    assert node.partition("t").high_watermark == 1


@pytest.mark.parametrize(("at", "value"), [(16, b"\x03"), (16, b"\xff"), (8, b"\0\0\0\x05"), (8, b"\xff\xff\xff\xf0")])
def test_bytes_that_cannot_be_a_batch_fail_the_whole_request(node: OneNode, at: int, value: bytes) -> None:
    node.create("t", 2)
    records = batch()
    records[at : at + len(value)] = value
    response = ask(node, request({"t": [data(0), data(1, records)], "nope": [data()]}))
    assert [slot.error_code for slot in slots(response)] == [ErrorCode.CORRUPT_MESSAGE] * 3
    assert node.partition("t").log is None


def test_what_is_not_one_batch_is_refused_before_acks_are_looked_at(node: OneNode) -> None:
    node.create("t")
    for records in (batch() + batch(), batch()[:40], with_magic(1)):
        assert one(node, records, acks=7).error_code == ErrorCode.INVALID_RECORD
    assert one(node, broken_crc(), acks=7).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_one_wrong_partition_does_not_harm_the_others(node: OneNode) -> None:
    node.create("t", 2)
    response = ask(node, request({"t": [data(0, broken_crc()), data(1)]}))
    assert [slot.error_code for slot in slots(response)] == [ErrorCode.CORRUPT_MESSAGE, 0]


def test_zstd_needs_version_seven(node: OneNode) -> None:
    node.create("t")
    slot = one(node, batch(compression=Compression.ZSTD), 6)
    assert (slot.error_code, slot.log_start_offset) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1)
    assert one(node, batch(compression=Compression.ZSTD)[:40], 6).error_code == ErrorCode.INVALID_RECORD
    assert one(node, batch(compression=Compression.ZSTD), 7).error_code == 0


def test_records_that_are_too_large_are_refused(node: OneNode) -> None:
    node.create("t", configs={"max.message.bytes": "100"})
    slot = one(node, batch(size=200))
    assert (slot.error_code, slot.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)


def test_each_wrong_record_of_a_batch_is_named(node: OneNode) -> None:
    from kbroker.protocol.records.batch import Record, build_batch

    node.create("t", configs={"cleanup.policy": "compact"})
    keyless = [Record(0, 1, b"k", b"v", []), Record(1, 1, None, b"v", [])]
    slot = one(node, bytearray(build_batch(keyless)))
    assert (slot.error_code, slot.log_start_offset) == (ErrorCode.INVALID_RECORD, 0)
    assert [error.batch_index for error in slot.record_errors] == [1]
    assert slot.record_errors[0].batch_index_error_message


def test_our_own_bug_fails_one_partition(
    node: OneNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.create("t", 2)
    node.append("t", 1)
    monkeypatch.setattr(node.logs, "get_or_create", lambda *_, **__: 1 / 0)
    response = ask(node, request({"t": [data(0), data(1)]}))
    assert [slot.error_code for slot in slots(response)] == [ErrorCode.UNKNOWN_SERVER_ERROR, 0]
    assert "ZeroDivisionError" in caplog.text


# --- idempotence and transactions


def sent(sequence: int, *, epoch: int = 0, **more: Any) -> bytearray:
    return batch(producer_id=7, producer_epoch=epoch, base_sequence=sequence, **more)


def test_a_repeated_batch_is_answered_with_its_first_place(node: OneNode) -> None:
    node.create("t")
    node.append("t")
    assert one(node, sent(0)).base_offset == 1
    assert one(node, sent(1)).base_offset == 2
    slot = one(node, sent(0, timestamp=1_750_000_000_000))
    assert (slot.error_code, slot.base_offset, slot.log_append_time_ms) == (0, 1, 1_750_000_000_000)
    assert node.partition("t").high_watermark == 3


def test_a_gap_in_the_sequence_is_refused(node: OneNode) -> None:
    node.create("t")
    one(node, sent(0))
    slot = one(node, sent(5))
    assert (slot.error_code, slot.log_start_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)


def test_an_older_epoch_is_refused(node: OneNode) -> None:
    node.create("t")
    one(node, sent(0, epoch=1))
    assert one(node, sent(0, epoch=0)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_transactional_records_need_a_transactional_id(node: OneNode) -> None:
    node.create("t", 2)
    asked = request({"t": [data(0, sent(0, transactional=True)), data(1)]})
    assert [slot.error_code for slot in slots(ask(node, asked))] == [
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ] * 2
    assert node.partition("t", 1).log is None


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (10, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (11, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_transactional_records_of_a_stranger_are_refused(node: OneNode, version: int, code: ErrorCode) -> None:
    node.create("t")
    node.create(TRANSACTION_STATE_TOPIC)
    slot = one(node, sent(0, transactional=True), version, transactional_id="id")
    assert (slot.error_code, slot.log_start_offset) == (code, -1)
    assert node.partition("t").log is None


@pytest.mark.parametrize("version", [9, 12])
@pytest.mark.parametrize("transactional_id", ["", "id"])
def test_transactional_records_before_any_coordinator_was_looked_for_may_be_sent_again(
    node: OneNode, version: int, transactional_id: str
) -> None:
    node.create("t")
    slot = one(node, sent(0, transactional=True), version, transactional_id=transactional_id)
    assert slot.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert "COORDINATOR_NOT_AVAILABLE" in (slot.error_message or "")
    assert node.partition("t").log is None
