"""Produce 0 to 2 and Fetch 0 to 3: message sets come in and go out; what a topic demands holds for them too."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

import pytest

from kbroker.handlers import fetch, produce
from kbroker.host import Buffer
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.codec import decode, encode, encode_parts
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.records.batch import Record, read_header
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.conversion import DownConverted
from kbroker.protocol.records.legacy import build_message_set
from tests.message_sets import read_message_set
from tests.unit.replication.one_node import OneNode, batch

TIME_MS = 1_700_000_000_000
RECORDS = [Record(n, TIME_MS + n, b"key %d" % n, b"value %d" % n) for n in range(5)]


def send(
    node: OneNode, records: Buffer | None, version: int = 2, **more: Any
) -> ProduceResponse.PartitionProduceResponse:
    """Produce to partition 0 of topic t, through the codec as from a connection; its slot of the answer."""
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    asked = ProduceRequest(**{"acks": 1, "timeout_ms": 1000, "topic_data": [topic], **more})
    decoded = decode(ProduceRequest, version, bytearray(encode(asked, version)))
    response = produce.handle(node.context(ApiKey.PRODUCE, version), decoded)
    assert isinstance(response, ProduceResponse)
    response = decode(ProduceResponse, version, encode(response, version))
    return response.responses[0].partition_responses[0]


def get(node: OneNode, offset: int = 0, version: int = 3, *, max_bytes: int = 1 << 20) -> FetchResponse.PartitionData:
    """Fetch from partition 0 of topic t, with its records as bytes."""
    wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    asked = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchRequest.FetchTopic(topic="t", partitions=[wanted])],
    )
    decoded = decode(FetchRequest, version, encode(asked, version))
    response = fetch.handle(node.context(ApiKey.FETCH, version), decoded)
    if isinstance(response, Awaitable):
        response = node.wait(response)
    sent = b"".join(
        part.read(0, len(part)) if isinstance(part, DownConverted) else bytes(cast("bytes", part))
        for part in encode_parts(response, version)
    )
    return decode(FetchResponse, version, sent).responses[0].partitions[0]


def stored(node: OneNode) -> bytes:
    log = node.partition("t").log
    assert log is not None
    records = log.read(0, 1 << 20)
    assert not isinstance(records, bytes)
    return records.to_bytes()


def read(data: Any) -> list[Record]:
    return list(read_message_set(bytes(data), max_decompressed=1 << 20))


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", range(3))
def test_a_message_set_becomes_one_batch_and_comes_back(
    node: OneNode, version: int, magic: int, codec: Compression
) -> None:
    node.create("t")
    message_set = build_message_set(RECORDS, magic, compression=codec)
    assert (send(node, message_set, version).base_offset, send(node, message_set, version).base_offset) == (0, 5)
    header = read_header(stored(node))
    assert (header.magic, header.record_count, header.compression) == (2, 5, codec)
    expected = [
        Record(n, TIME_MS + n % 5 if magic else -1, b"key %d" % (n % 5), b"value %d" % (n % 5)) for n in range(10)
    ]
    for fetch_version in range(4):
        found: list[Record] = []
        while len(found) < 10:
            answer = get(node, len(found), fetch_version)
            assert (answer.error_code, answer.high_watermark) == (0, 10)
            found += read(answer.records)
        assert found == (expected if fetch_version >= 2 else [each._replace(timestamp=-1) for each in expected])


def test_the_bytes_of_the_receive_buffer_may_change_afterwards(node: OneNode) -> None:
    node.create("t")
    buffer = bytearray(build_message_set(RECORDS, 1))
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(buffer))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    produce.handle(node.context(ApiKey.PRODUCE, 2), ProduceRequest(acks=1, topic_data=[topic]))
    buffer[:] = b"\xee" * len(buffer)
    assert read(get(node).records) == RECORDS


def test_a_batch_of_format_2_is_taken_too(node: OneNode) -> None:
    node.create("t")
    assert send(node, batch(count=3), 1).error_code == 0
    assert send(node, batch() + batch(), 1).error_code == ErrorCode.INVALID_RECORD
    assert node.partition("t").log_end_offset == 3


def test_nothing_whole_is_nothing_wrong(node: OneNode) -> None:
    node.create("t")
    for records in (b"", build_message_set(RECORDS, 1)[:20]):
        slot = send(node, records)
        assert (slot.error_code, slot.base_offset) == (0, -1)
    assert node.partition("t").log is None
    assert send(node, None).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("configs", "records", "code"),
    [
        ({"cleanup.policy": "compact"}, [Record(0, TIME_MS, None, b"v")], ErrorCode.INVALID_RECORD),
        ({"message.timestamp.before.max.ms": "1"}, RECORDS, ErrorCode.INVALID_TIMESTAMP),
        ({"max.message.bytes": "40"}, [Record(0, TIME_MS, None, bytes(50))], ErrorCode.MESSAGE_TOO_LARGE),
        ({"max.message.bytes": "70"}, RECORDS, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
def test_what_a_topic_forbids_is_refused(
    node: OneNode, configs: dict[str, str], records: list[Record], code: ErrorCode
) -> None:
    node.create("t", configs=configs)
    slot = send(node, build_message_set(records, 1))
    assert (slot.error_code, slot.base_offset) == (code, -1)
    assert node.partition("t").log_end_offset == 0


def test_a_topic_s_codec_and_clock_are_kept(node: OneNode) -> None:
    node.create("t", configs={"compression.type": "gzip", "message.timestamp.type": "LogAppendTime"})
    slot = send(node, build_message_set(RECORDS, 0))
    assert slot.log_append_time_ms == node.host.clock.wall_ms()
    assert read_header(stored(node)).compression is Compression.GZIP
    assert {record.timestamp for record in read(get(node).records)} == {slot.log_append_time_ms}
    assert {record.timestamp for record in read(get(node, version=1).records)} == {-1}


@pytest.mark.parametrize(("acks", "code"), [(-1, 0), (2, ErrorCode.INVALID_REQUIRED_ACKS)])
def test_acks_count_for_message_sets(node: OneNode, acks: int, code: int) -> None:
    node.create("t")
    assert send(node, build_message_set(RECORDS, 1), acks=acks).error_code == code


def test_zstd_is_refused_where_it_comes_first_and_cut_off_where_it_comes_later(node: OneNode) -> None:
    node.create("t")
    node.append("t", count=2)
    node.partition("t").append_as_leader(batch(compression=Compression.ZSTD), 1, node.host.clock.wall_ms())
    assert [record.offset for record in read(get(node).records)] == [0, 1]
    assert get(node, 2).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_before_version_3_a_batch_that_does_not_fit_is_not_sent(node: OneNode) -> None:
    node.create("t")
    node.append("t", count=2)
    for version, count in ((1, 0), (2, 0), (3, 2)):
        answer = get(node, version=version, max_bytes=20)
        assert (answer.error_code, len(read(answer.records))) == (0, count)
