"""A blocking connection and the few requests that the benchmarks send by hand.

Requests outside of a measured block are encoded by kbroker's own codec; measured ones are encoded once and patched, so
that the client costs as little as can be. Versions are old enough for every broker.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from typing import Self, TypeVar

import crc32c

from kbroker.protocol import codec
from kbroker.protocol.apis import request_header_version
from kbroker.protocol.declarations import Message
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import Record, build_batch

_R = TypeVar("_R", bound=Message)

CLIENT_ID = b"bench"
CORRELATION_POSITION = 8
"""Where the correlation id lies in a framed request."""
RECEIVE_SIZE = 1 << 18

ALTER_CONFIGS, CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_CONFIGS = 0, 4, 3, 3
FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, METADATA, PRODUCE = 11, 1, 2, 8, 7
"""The version in which each request is sent; none is flexible."""
RESOURCE_TOPIC = 2
LEADER_WAIT_S = 60


class WireError(Exception):
    """The broker closed the connection, answered an error, or answered something else than was asked."""


def framed(request: Message, version: int, correlation_id: int = 0) -> bytes:
    """A request with its header and its length in front."""
    key = type(request).api_key
    if request_header_version(key, version) != 1:
        raise ValueError(f"{type(request).__name__} version {version} has no header that can be written here")
    header = struct.pack(">hhih", key, version, correlation_id, len(CLIENT_ID)) + CLIENT_ID
    body = codec.encode(request, version)
    return struct.pack(">i", len(header) + len(body)) + header + body


class Batch:
    """One batch of uncompressed records without keys, whose producer's stamp can be changed."""

    PRODUCER_POSITION = 43
    CRC_POSITION, CRC_BEGIN = 17, 21

    def __init__(self, values: Sequence[bytes]) -> None:
        now_ms = time.time_ns() // 1_000_000
        self.data = bytearray(build_batch(Record(n, now_ms, None, value, []) for n, value in enumerate(values)))

    def stamp(self, producer_id: int, epoch: int, sequence: int) -> bytes:
        struct.pack_into(">qhi", self.data, self.PRODUCER_POSITION, producer_id, epoch, sequence)
        crc = crc32c.crc32c(memoryview(self.data)[self.CRC_BEGIN :])
        struct.pack_into(">I", self.data, self.CRC_POSITION, crc)
        return bytes(self.data)


def produce_request(topic: str, records: bytes, partition: int = 0, acks: int = 1) -> bytes:
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
    return framed(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics), PRODUCE)


def produce_answer(answer: bytes | memoryview, topic: str) -> tuple[int, int]:
    """Error code and base offset of the only partition of an answer."""
    error, offset = struct.unpack_from(">hq", answer, 4 + 4 + 2 + len(topic) + 4 + 4)
    return error, offset


def fetch_request(topic: str, offset: int, size_max: int, partition: int = 0) -> bytes:
    """At least one byte, without a fetch session."""
    wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size_max)
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=[wanted])]
    return framed(
        FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=max(size_max, 50 << 20),
            session_epoch=-1,
            topics=topics,
        ),
        FETCH,
    )


def fetch_answer(answer: memoryview, topic: str) -> tuple[int, memoryview]:
    """Error code and records of the only partition of an answer."""
    position = 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4
    (error,) = struct.unpack_from(">h", answer, position)
    position += 2 + 8 + 8 + 8
    (aborted,) = struct.unpack_from(">i", answer, position)
    position += 4 + 16 * max(aborted, 0) + 4
    (size,) = struct.unpack_from(">i", answer, position)
    return error, answer[position + 4 : position + 4 + max(size, 0)]


def metadata_request(topic: str) -> bytes:
    asked = [MetadataRequest.MetadataRequestTopic(name=topic)]
    return framed(MetadataRequest(topics=asked, allow_auto_topic_creation=False), METADATA)


def describe_configs_request(topic: str) -> bytes:
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=RESOURCE_TOPIC, resource_name=topic)
    return framed(DescribeConfigsRequest(resources=[resource], include_synonyms=True), DESCRIBE_CONFIGS)


class Connection:
    """One blocking connection; answers come in the order of the requests."""

    def __init__(self, host: str, port: int, timeout_s: float = 60) -> None:
        self.socket = socket.create_connection((host, port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._arrived = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def receive(self) -> bytes:
        """The next answer, without its length."""
        while len(self._arrived) < 4 or len(self._arrived) < 4 + int.from_bytes(self._arrived[:4], "big"):
            data = self.socket.recv(RECEIVE_SIZE)
            if not data:
                raise WireError("the broker closed the connection")
            self._arrived += data
        end = 4 + int.from_bytes(self._arrived[:4], "big")
        answer = bytes(self._arrived[4:end])
        del self._arrived[:end]
        return answer

    def exchange(self, request: bytes) -> bytes:
        self.socket.sendall(request)
        return self.receive()

    def ask(self, request: Message, version: int, response_class: type[_R]) -> _R:
        answer = self.exchange(framed(request, version))
        return codec.decode(response_class, version, answer, 4)

    def api_versions(self) -> dict[int, tuple[int, int]]:
        response = self.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        check(response.error_code, "ApiVersions")
        return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}

    def create_topic(self, topic: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        """Returns when the broker answers; ``wait_for_leaders`` says when the topic can be used."""
        rows = [
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=value) for name, value in (configs or {}).items()
        ]
        wanted = CreateTopicsRequest.CreatableTopic(
            name=topic, num_partitions=partitions, replication_factor=1, configs=rows
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=60_000)
        for result in self.ask(request, CREATE_TOPICS, CreateTopicsResponse).topics:
            check(result.error_code, f"CreateTopics ({result.error_message})")

    def alter_topic(self, topic: str, configs: dict[str, str]) -> None:
        rows = [
            IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in configs.items()
        ]
        wanted = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=RESOURCE_TOPIC, resource_name=topic, configs=rows
        )
        request = IncrementalAlterConfigsRequest(resources=[wanted])
        for result in self.ask(request, ALTER_CONFIGS, IncrementalAlterConfigsResponse).responses:
            check(result.error_code, f"IncrementalAlterConfigs ({result.error_message})")

    def delete_topic(self, topic: str) -> None:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=60_000)
        for result in self.ask(request, DELETE_TOPICS, DeleteTopicsResponse).responses:
            check(result.error_code, "DeleteTopics")

    def wait_for_leaders(self, topic: str, partitions: int = 1) -> None:
        deadline = time.monotonic() + LEADER_WAIT_S
        request = metadata_request(topic)
        while True:
            response = codec.decode(MetadataResponse, METADATA, self.exchange(request), 4)
            known = [
                each
                for row in response.topics
                for each in row.partitions
                if each.leader_id >= 0 and not each.error_code
            ]
            if len(known) >= partitions:
                return
            if time.monotonic() > deadline:
                raise WireError(f"{topic}: {len(known)} leaders of {partitions} are known")
            time.sleep(0.002)

    def end_offsets(self, topic: str, partitions: int = 1) -> list[int]:
        asked = [
            ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)
        ]
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=asked)]
        response = self.ask(ListOffsetsRequest(replica_id=-1, topics=topics), LIST_OFFSETS, ListOffsetsResponse)
        found = {}
        for row in response.topics[0].partitions:
            check(row.error_code, "ListOffsets")
            found[row.partition_index] = row.offset
        return [found[index] for index in range(partitions)]

    def settle(self, topic: str, records: bytes, partition: int = 0) -> None:
        """Produce one batch, again until it is taken: a broker may name a leader before the leader is ready."""
        request = produce_request(topic, records, partition)
        deadline = time.monotonic() + LEADER_WAIT_S
        while True:
            error, _ = produce_answer(self.exchange(request), topic)
            if not error:
                return
            if time.monotonic() > deadline:
                check(error, "Produce")
            time.sleep(0.001)

    def producer_id(self) -> tuple[int, int]:
        """A new producer's id and epoch; asks again while the broker is still getting ready."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        deadline = time.monotonic() + LEADER_WAIT_S
        while True:
            response = self.ask(request, INIT_PRODUCER_ID, InitProducerIdResponse)
            if not response.error_code:
                return response.producer_id, response.producer_epoch
            if time.monotonic() > deadline:
                check(response.error_code, "InitProducerId")
            time.sleep(0.05)


def check(error_code: int, what: str) -> None:
    if error_code:
        raise WireError(f"{what} answered error {error_code}")
