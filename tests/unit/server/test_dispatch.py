"""Dispatch with a table of two APIs whose handlers are written here: real headers and codec, no broker."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any, cast

import pytest

from kbroker.handlers.context import ConnectionMustCloseError, Node, RequestContext
from kbroker.protocol import codec
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.api_versions import ApiVersionsResponse
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.server.dispatch import Dispatcher
from tests.unit.server.doubles import FileRangeOf, MemoryTransport, connected, feed, framed, shared, unframed


class HandlerRow:
    """A row of the table; ``module`` gets the functions of a test."""

    def __init__(self, oldest: int, latest: int) -> None:
        self.oldest = oldest
        self.latest = latest
        self.module: Any = ModuleType("handler")

    def load(self) -> ModuleType:
        return cast("ModuleType", self.module)


class Peer:
    """A connection to a dispatcher, and what a client would send and read on it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.rows: dict[int, HandlerRow] = {
            ApiKey.PRODUCE: HandlerRow(3, 9),
            ApiKey.FETCH: HandlerRow(4, 12),
            ApiKey.API_VERSIONS: HandlerRow(0, 4),
            ApiKey.DESCRIBE_CLUSTER: HandlerRow(0, 1),
        }
        self.node = cast("Node", object())
        self.place = shared(Dispatcher(self.node, self.loop, self.rows))
        self.connection, self.transport = connected(self.place)
        self.contexts: list[RequestContext] = []

    def on(self, key: ApiKey, answer: Any) -> None:
        def handle(context: RequestContext, request: Any) -> Any:
            self.contexts.append(context)
            return answer(request) if callable(answer) else answer

        self.rows[key].module.handle = handle

    def send(self, key: int, version: int, body: bytes, *, tags: bytes = b"", client_id: str | None = "me") -> None:
        feed(self.connection, self.transport, framed(request(key, version, body, tags=tags, client_id=client_id)))

    def answers(self) -> list[bytes]:
        return unframed(self.transport.written)

    def turn(self) -> None:
        for _ in range(3):
            self.loop.run_until_complete(asyncio.sleep(0))


def request(key: int, version: int, body: bytes, *, tags: bytes = b"", client_id: str | None = "me") -> bytes:
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id.encode())) + client_id.encode()
    return struct.pack(">hhi", key, version, 77) + name + tags + body


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.loop.close()


def produce_body(version: int) -> bytes:
    return codec.encode(ProduceRequest(acks=1, timeout_ms=1000), version)


def test_an_old_header_and_a_flexible_one_reach_the_handler(peer: Peer) -> None:
    peer.on(ApiKey.PRODUCE, ProduceResponse(throttle_time_ms=0))
    peer.send(ApiKey.PRODUCE, 8, produce_body(8))
    peer.send(ApiKey.PRODUCE, 9, produce_body(9), tags=b"\0")
    peer.send(ApiKey.PRODUCE, 9, produce_body(9), tags=b"\x02\x05\x03abc\x90\x01\x00", client_id=None)
    old, flexible, tagged = peer.answers()
    assert old == struct.pack(">i", 77) + codec.encode(ProduceResponse(), 8)
    assert flexible == tagged == struct.pack(">ib", 77, 0) + codec.encode(ProduceResponse(), 9)
    assert [context.client_id for context in peer.contexts] == ["me", "me", None]
    assert peer.contexts[0].node is peer.node
    assert peer.contexts[0].client_host == "10.0.0.1"
    assert peer.contexts[0].listener == "PLAINTEXT"
    assert (peer.contexts[2].api_key, peer.contexts[2].api_version, peer.contexts[2].correlation_id) == (0, 9, 77)


def test_records_of_an_answer_stay_in_their_file_until_they_leave(peer: Peer) -> None:
    records = FileRangeOf(b"r" * 100_000)
    topic = FetchResponse.FetchableTopicResponse(
        topic="t", partitions=[FetchResponse.PartitionData(partition_index=0, records=records)]
    )
    peer.on(ApiKey.FETCH, lambda _: FetchResponse(responses=[topic]))
    peer.send(ApiKey.FETCH, 12, codec.encode(FetchRequest(), 12), tags=b"\0")
    (answer,) = peer.answers()
    decoded = codec.decode(FetchResponse, 12, answer, 5)
    assert bytes(cast("Any", decoded.responses[0].partitions[0].records)) == records.data
    assert len(records.reads) == 1


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.METADATA, 9), (999, 0), (-1, 0), (ApiKey.PRODUCE, 2), (ApiKey.PRODUCE, 10), (0, -1)]
)
def test_an_api_or_version_that_is_not_served_closes_the_connection(
    peer: Peer, key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    peer.send(key, version, b"")
    assert peer.transport.closed
    assert peer.transport.written == b""
    assert caplog.text.count("not served") == 1


@pytest.mark.parametrize(("version", "tags"), [(5, b"\0"), (99, b"\0"), (-1, b""), (32767, b"\0")])
def test_api_versions_in_a_version_not_served_is_answered_in_version_0(peer: Peer, version: int, tags: bytes) -> None:
    peer.send(ApiKey.API_VERSIONS, version, b"whatever follows", tags=tags)
    (answer,) = peer.answers()
    assert answer[:4] == struct.pack(">i", 77)
    decoded = codec.decode(ApiVersionsResponse, 0, answer, 4)
    assert decoded.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.min_version, row.max_version) for row in decoded.api_keys] == [(18, 0, 4)]
    assert not peer.transport.closed


def test_api_versions_in_a_version_not_served_needs_a_flexible_header(peer: Peer) -> None:
    peer.send(ApiKey.API_VERSIONS, 6, b"", tags=b"\x7f")
    assert peer.transport.closed
    assert peer.transport.written == b""


def test_acks_0_has_no_answer_and_its_failure_closes_the_connection(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def handle(produce: ProduceRequest) -> None:
        if produce.timeout_ms == 5:
            raise ConnectionMustCloseError("a produce request with acks=0 failed")

    peer.on(ApiKey.PRODUCE, handle)
    closed = []
    for timeout_ms in (1000, 5):
        peer.send(ApiKey.PRODUCE, 8, codec.encode(ProduceRequest(acks=0, timeout_ms=timeout_ms), 8))
        closed.append(peer.transport.closed)
    assert closed == [False, True]
    assert peer.transport.written == b""
    assert "acks=0 failed" in caplog.text


def failing_with(error: Exception) -> Any:
    def handle(_request: Any) -> Any:
        raise error

    return handle


def test_an_expected_error_is_said_by_the_api_itself(peer: Peer) -> None:
    def error_response(_context: RequestContext, _request: ProduceRequest, error: ApiError) -> ProduceResponse:
        return ProduceResponse(throttle_time_ms=int(error.code))

    peer.on(ApiKey.PRODUCE, failing_with(ApiError(ErrorCode.INVALID_REQUIRED_ACKS)))
    peer.rows[ApiKey.PRODUCE].module.error_response = error_response
    peer.send(ApiKey.PRODUCE, 8, produce_body(8))
    decoded = codec.decode(ProduceResponse, 8, peer.answers()[0], 4)
    assert decoded.throttle_time_ms == ErrorCode.INVALID_REQUIRED_ACKS


def test_an_api_without_a_say_puts_the_error_at_the_top_of_its_response(peer: Peer) -> None:
    peer.on(ApiKey.DESCRIBE_CLUSTER, failing_with(ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Ask a controller.")))
    peer.send(ApiKey.DESCRIBE_CLUSTER, 1, codec.encode(DescribeClusterRequest(), 1), tags=b"\0")
    decoded = codec.decode(DescribeClusterResponse, 1, peer.answers()[0], 5)
    assert (decoded.error_code, decoded.error_message) == (115, "Ask a controller.")


def test_a_bug_in_a_handler_is_answered_and_logged_with_its_request(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    peer.on(ApiKey.DESCRIBE_CLUSTER, failing_with(ZeroDivisionError("a bug")))
    peer.send(ApiKey.DESCRIBE_CLUSTER, 0, codec.encode(DescribeClusterRequest(), 0), tags=b"\0")
    assert codec.decode(DescribeClusterResponse, 0, peer.answers()[0], 5).error_code == -1
    assert "DescribeCluster version 0 failed" in caplog.text
    assert "ZeroDivisionError: a bug" in caplog.text
    assert "DescribeClusterRequest" in caplog.text
    assert not peer.transport.closed


def test_a_bug_that_no_response_can_say_closes_the_connection(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    peer.on(ApiKey.PRODUCE, failing_with(ZeroDivisionError("a bug")))
    peer.send(ApiKey.PRODUCE, 8, produce_body(8))
    assert peer.transport.closed
    assert "ZeroDivisionError: a bug" in caplog.text


def test_an_answer_that_cannot_be_written_is_a_bug_like_any_other(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    peer.on(ApiKey.DESCRIBE_CLUSTER, lambda _: DescribeClusterResponse(cluster_id=cast("str", 5)))
    peer.send(ApiKey.DESCRIBE_CLUSTER, 0, codec.encode(DescribeClusterRequest(), 0), tags=b"\0")
    assert codec.decode(DescribeClusterResponse, 0, peer.answers()[0], 5).error_code == -1
    assert "DescribeCluster version 0 failed" in caplog.text


def test_something_that_is_no_response_is_a_bug_like_any_other(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    peer.on(ApiKey.DESCRIBE_CLUSTER, "a string")
    peer.send(ApiKey.DESCRIBE_CLUSTER, 0, codec.encode(DescribeClusterRequest(), 0), tags=b"\0")
    assert codec.decode(DescribeClusterResponse, 0, peer.answers()[0], 5).error_code == -1
    assert "returned str" in caplog.text


def test_a_future_answers_when_it_is_done(peer: Peer) -> None:
    future: asyncio.Future[DescribeClusterResponse] = peer.loop.create_future()
    peer.on(ApiKey.DESCRIBE_CLUSTER, lambda _: future)
    peer.send(ApiKey.DESCRIBE_CLUSTER, 0, codec.encode(DescribeClusterRequest(), 0), tags=b"\0")
    assert peer.answers() == []
    future.set_result(DescribeClusterResponse(cluster_id="later"))
    peer.turn()
    assert codec.decode(DescribeClusterResponse, 0, peer.answers()[0], 5).cluster_id == "later"


def test_a_future_that_is_done_already_answers_in_the_same_write(peer: Peer) -> None:
    future: asyncio.Future[DescribeClusterResponse] = peer.loop.create_future()
    future.set_result(DescribeClusterResponse())
    peer.on(ApiKey.DESCRIBE_CLUSTER, lambda _: future)
    frame = framed(request(ApiKey.DESCRIBE_CLUSTER, 0, codec.encode(DescribeClusterRequest(), 0), tags=b"\0"))
    feed(peer.connection, peer.transport, frame * 3)
    assert len(peer.answers()) == 3
    assert len(peer.transport.writes) == 1


def test_a_future_that_fails_is_mapped_like_a_handler_that_raises(peer: Peer) -> None:
    future: asyncio.Future[DescribeClusterResponse] = peer.loop.create_future()
    peer.on(ApiKey.DESCRIBE_CLUSTER, lambda _: future)
    peer.send(ApiKey.DESCRIBE_CLUSTER, 0, codec.encode(DescribeClusterRequest(), 0), tags=b"\0")
    future.set_exception(ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    peer.turn()
    assert codec.decode(DescribeClusterResponse, 0, peer.answers()[0], 5).error_code == 31


def test_a_coroutine_sees_its_request_although_it_begins_after_the_buffer_is_gone(peer: Peer) -> None:
    seen: list[bytes] = []

    async def handle(_context: RequestContext, produce: ProduceRequest) -> ProduceResponse:
        await asyncio.sleep(0)
        seen.append(bytes(cast("Any", produce.topic_data[0].partition_data[0].records)))
        return ProduceResponse()

    peer.rows[ApiKey.PRODUCE].module.handle = handle
    data = ProduceRequest.PartitionProduceData(index=0, records=b"records of the producer")
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    peer.send(ApiKey.PRODUCE, 8, codec.encode(ProduceRequest(acks=1, topic_data=[topic]), 8))
    peer.turn()
    assert seen == [b"records of the producer"]
    assert len(peer.answers()) == 1


def test_a_coroutine_is_not_cancelled_when_its_client_leaves(peer: Peer) -> None:
    done: list[str] = []

    async def handle(_context: RequestContext, _request: DescribeClusterRequest) -> DescribeClusterResponse:
        await asyncio.sleep(0)
        done.append("decided")
        return DescribeClusterResponse()

    peer.rows[ApiKey.DESCRIBE_CLUSTER].module.handle = handle
    peer.send(ApiKey.DESCRIBE_CLUSTER, 0, codec.encode(DescribeClusterRequest(), 0), tags=b"\0")
    peer.connection.connection_lost(None)
    peer.turn()
    assert done == ["decided"]
    assert peer.transport.written == b""


def test_a_throttled_client_is_answered_at_once_and_then_muted(peer: Peer) -> None:
    def throttle(_request: Any) -> DescribeClusterResponse:
        peer.contexts[-1].throttle_time_ms = 100
        return DescribeClusterResponse(throttle_time_ms=100)

    peer.on(ApiKey.DESCRIBE_CLUSTER, throttle)
    frame = framed(request(ApiKey.DESCRIBE_CLUSTER, 0, codec.encode(DescribeClusterRequest(), 0), tags=b"\0"))
    feed(peer.connection, peer.transport, frame * 2)
    assert len(peer.answers()) == 1
    cast("Any", peer.place.clock).move(100)
    assert len(peer.answers()) == 2


def test_a_cut_or_damaged_request_closes_its_connection_only(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    peer.on(ApiKey.PRODUCE, ProduceResponse())
    whole = request(ApiKey.PRODUCE, 9, produce_body(9), tags=b"\0")
    for size in range(len(whole) - 1):
        connection, transport = connected(peer.place)
        feed(connection, transport, framed(whole[:size]))
        assert transport.closed, size
        assert isinstance(transport, MemoryTransport)
    assert "Traceback" not in caplog.text
