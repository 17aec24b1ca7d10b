"""The codec against itself, against a plain interpreter of the declarations, and against garbage."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable, Sized

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbroker.protocol.codec import EncodeError, decode, decode_from, encode, encode_parts
from kbroker.protocol.declarations import Message, Struct
from kbroker.protocol.errors import ProtocolError
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.headers import RequestHeader, ResponseHeader
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.unit.protocol.interpreter import BadBytes, interpret, write
from tests.unit.protocol.values import MESSAGES, messages

EVERY_MESSAGE = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
Check = Callable[[Message], None]


def for_random_messages(cls: type[Message], version: int, check: Check, examples: int) -> None:
    """Run a check on some random messages, the same ones in every run."""

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(cls, version))
    def run(message: Message) -> None:
        check(message)

    run()


@EVERY_MESSAGE
def test_a_message_survives_the_wire_and_the_plain_interpreter_agrees(cls: type[Message]) -> None:
    for version in cls.valid_versions.numbers():

        def check(message: Message, version: int = version) -> None:
            data = encode(message, version)
            assert data == write(message, version)
            assert decode_from(cls, version, data) == (message, len(data))
            assert decode_from(cls, version, memoryview(b"before" + data + b"after"), 6) == (message, 6 + len(data))
            assert interpret(cls, version, data) == (message, len(data))

        for_random_messages(cls, version, check, examples=3)


@EVERY_MESSAGE
def test_a_message_that_is_cut_short_is_refused(cls: type[Message]) -> None:
    valid, flexible = cls.valid_versions, cls.flexible_versions
    for version in {valid.lowest, valid.highest} | {flexible.lowest} & set(valid.numbers()):

        def check(message: Message, version: int = version) -> None:
            data = encode(message, version)
            for size in {*range(min(len(data), 8)), *range(0, len(data), 1 + len(data) // 16)}:
                with pytest.raises(ProtocolError):
                    decode(cls, version, data[:size])

        for_random_messages(cls, version, check, examples=2)


def plain(value: object) -> object:
    """Nested tuples to compare: views by content, and what is not a number equal to itself."""
    match value:
        case Struct():
            return tuple(plain(getattr(value, name)) for name in value.fields)
        case list() | tuple():
            return tuple(map(plain, value))
        case memoryview():
            return bytes(value)
        case float():
            return repr(value)
    return value


def outcome(cls: type[Message], version: int, data: bytes) -> object:
    try:
        return plain(decode_from(cls, version, data))
    except ProtocolError:
        return None


def expected(cls: type[Message], version: int, data: bytes) -> object:
    try:
        return plain(interpret(cls, version, data))
    except BadBytes:
        return None


@EVERY_MESSAGE
def test_garbage_is_refused_or_read_as_the_plain_interpreter_reads_it(cls: type[Message]) -> None:
    """Random bytes and mutations of a valid message: nothing but ``ProtocolError`` may come of them."""
    version = st.integers(cls.valid_versions.lowest, cls.valid_versions.highest)

    @settings(max_examples=8, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data(), version)
    def run(data: st.DataObject, version: int) -> None:
        garbage = bytearray(encode(data.draw(messages(cls, version)), version))
        if garbage:
            for position in data.draw(st.lists(st.integers(0, len(garbage) - 1), max_size=3)):
                garbage[position] = data.draw(st.sampled_from([0, 1, 2, 127, 128, 255]) | st.integers(0, 255))
        for each in (bytes(garbage), data.draw(st.binary(max_size=40))):
            assert outcome(cls, version, each) == expected(cls, version, each)

    run()


@EVERY_MESSAGE
def test_a_huge_count_allocates_nothing(cls: type[Message]) -> None:
    """Wherever a count or length may stand, one that claims gigabytes is held against the few bytes there are."""
    version = cls.valid_versions.highest
    blank = bytes(40)
    with contextlib.suppress(ProtocolError):
        decode(cls, version, blank)
    tracemalloc.start()
    for position in range(24):
        for count in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"):
            with contextlib.suppress(ProtocolError):
                decode(cls, version, blank[:position] + count + blank)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000


@EVERY_MESSAGE
def test_unknown_tagged_fields_are_skipped(cls: type[Message]) -> None:
    version = cls.valid_versions.highest
    if not cls.flexible_versions.includes(version):
        return
    data = encode(cls(), version)
    assert data[-1] == 0
    unknown = b"\x02" + b"\x63\x03abc" + b"\xff\xff\xff\xff\x0f\x00"
    assert decode(cls, version, data[:-1] + unknown) == cls()
    with pytest.raises(ProtocolError):
        decode(cls, version, data[:-1] + b"\x01\x63\x04abc")


def test_unknown_tagged_fields_stand_beside_known_ones() -> None:
    data = encode(FetchRequest(cluster_id="abc"), 12)
    known = b"\x00\x04\x04abc"
    assert data.endswith(b"\x01" + known)
    assert decode(FetchRequest, 12, data[: -len(known) - 1] + b"\x02" + known + b"\x50\x01?").cluster_id == "abc"


def test_a_tagged_field_of_another_size_than_it_says_is_refused() -> None:
    data = encode(FetchRequest(cluster_id="abc"), 12)
    with pytest.raises(ProtocolError, match="cluster_id"):
        decode(FetchRequest, 12, data[:-7] + b"\x01\x00\x05\x04abc?")


def test_a_tagged_field_with_its_default_is_left_out() -> None:
    partition = ProduceResponse.PartitionProduceResponse()
    plain = ProduceResponse(responses=[ProduceResponse.TopicProduceResponse(partition_responses=[partition])])
    before = encode(plain, 12)
    partition.current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    assert encode(plain, 12) == before
    partition.current_leader.leader_id = 0
    assert len(encode(plain, 12)) > len(before)


def test_records_are_a_view_when_read_and_a_part_of_their_own_when_written() -> None:
    class Range:
        def __len__(self) -> int:
            return 300

    def response(records: Sized | None) -> FetchResponse:
        partition = FetchResponse.PartitionData(records=records)
        return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])])

    for version in (4, 11, 12, 17):
        records = Range()
        first, middle, last = encode_parts(response(records), version)
        assert middle is records
        assert isinstance(first, bytes)
        assert isinstance(last, bytes)
        whole = encode(response(bytes(300)), version)
        assert first + bytes(300) + last == whole
        read = decode(FetchResponse, version, whole).responses[0].partitions[0].records
        assert isinstance(read, memoryview)
        assert read.obj is whole
    assert len(encode_parts(response(None), 12)) == 1
    assert len(encode_parts(response(b""), 12)) == 1


def test_bytes_and_strings_do_not_point_into_what_they_were_read_from() -> None:
    data = bytearray(encode(ProduceRequest(transactional_id="id", topic_data=[]), 9))
    request = decode(ProduceRequest, 9, memoryview(data))
    data[:] = bytes(len(data))
    assert request.transactional_id == "id"


def test_a_field_that_a_version_lacks_is_dropped_when_it_may_be() -> None:
    topic = ProduceRequest.TopicProduceData(name="t", topic_id=b"x" * 16)
    read = decode(ProduceRequest, 12, encode(ProduceRequest(topic_data=[topic]), 12))
    assert read.topic_data[0].topic_id == bytes(16)


def test_a_field_that_a_version_lacks_is_refused_when_it_may_not_be_dropped() -> None:
    with pytest.raises(EncodeError, match="transactional_id"):
        encode(ProduceRequest(transactional_id="id"), 2)
    with pytest.raises(EncodeError, match="allow_auto_topic_creation"):
        encode(MetadataRequest(allow_auto_topic_creation=False), 3)


def test_null_where_it_may_not_be_is_refused_both_ways() -> None:
    with pytest.raises(EncodeError):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None


def test_a_value_that_does_not_fit_its_field_is_refused() -> None:
    with pytest.raises(EncodeError):
        encode(ProduceRequest(acks=40000), 9)
    for version in (8, 9):
        with pytest.raises(EncodeError):
            encode(ProduceRequest(transactional_id="x" * 32768), version)


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ProtocolError, match="no version 99"):
        decode(ProduceRequest, 99, b"")
    with pytest.raises(EncodeError, match="no version 99"):
        encode(ProduceRequest(), 99)


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        (b"\xff", 1),
        (b"\xc0\x80", 2),
        (b"\xe2\x82", 1),
        (b"\xf4\x90\x80\x80", 4),
        (b"\xed", 1),
        (b"\xed\xa0", 1),
        (b"\xed\xa0\x80", 1),
        (b"\xed\xa0\x80\xed\xbf\xbf", 2),
    ],
)
def test_invalid_utf8_is_replaced_as_in_java(raw: bytes, count: int) -> None:
    for text, shown in ((b"a" + raw, ""), (b"a" + raw + b"z", "z")):
        request = decode(ApiVersionsRequest, 3, bytes([len(text) + 1]) + text + b"\x02b\x00")
        assert request.client_software_name == "a" + "\ufffd" * count + shown


@pytest.mark.parametrize("length", [b"\x81\x80\x80\x80\x08", b"\xff\xff\xff\xff\x0f"])
def test_a_compact_length_that_is_negative_in_java_is_null(length: bytes) -> None:
    nobody = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id=None)
    frame = encode(nobody, 4)
    assert decode(HeartbeatRequest, 4, frame[:-2] + length + frame[-1:]) == nobody
    with pytest.raises(ProtocolError):
        decode(HeartbeatRequest, 4, frame[:-2] + b"\x80\x80\x80\x80\x08" + frame[-1:])
    everything = encode(MetadataRequest(topics=None), 9)
    assert decode(MetadataRequest, 9, length + everything[1:]).topics is None
    with pytest.raises(ProtocolError):
        decode(HeartbeatRequest, 4, length + frame[2:])


def test_the_client_id_is_never_compact() -> None:
    """KIP-482: a server must be able to read the client id before it knows the header's version."""
    header = RequestHeader(request_api_key=18, request_api_version=3, correlation_id=7, client_id="me")
    assert encode(header, 2) == b"\x00\x12\x00\x03\x00\x00\x00\x07\x00\x02me\x00"
    assert encode(header, 1) == b"\x00\x12\x00\x03\x00\x00\x00\x07\x00\x02me"
    header.client_id = None
    assert encode(header, 1) == b"\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff"
    assert encode(ResponseHeader(correlation_id=7), 1) == b"\x00\x00\x00\x07\x00"


def test_the_versions_that_kafka_dropped_are_still_there() -> None:
    assert encode(ControlledShutdownRequest(broker_id=1), 0) == b"\x00\x00\x00\x01"
    old = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=1, committed_offset=2, commit_timestamp=3)
    request = OffsetCommitRequest(topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[old])])
    assert decode(OffsetCommitRequest, 1, encode(request, 1)) == request
    assert CreateTopicsRequest.valid_versions.lowest == 0


def test_a_nullable_struct_is_one_byte_when_null() -> None:
    request = DescribeTopicPartitionsRequest()
    assert request.cursor is None
    assert encode(request, 0).endswith(b"\xff\x00")
    request.cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="t", partition_index=3)
    assert decode(DescribeTopicPartitionsRequest, 0, encode(request, 0)) == request
