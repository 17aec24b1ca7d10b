"""A toy broker for testing the simulation itself: the least that serves its workload, and bugs to order.

One file per partition of raw batches, one file of topics and the next producer id. ``bugs`` names what it does wrong;
each must be found by the checker that is there for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import Mapping
from typing import cast

from kbroker.host import File, Host
from kbroker.protocol.apis import API_BY_KEY, ApiKey, request_header_version, response_header_version
from kbroker.protocol.codec import decode_from, encode
from kbroker.protocol.declarations import Message
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.headers import RequestHeader, ResponseHeader
from kbroker.protocol.messages.init_producer_id import InitProducerIdResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.records.batch import batches, crc_is_right, read_header
from kbroker.protocol.records.errors import CorruptRecordError

BUGS = (
    "acknowledges before it writes",
    "forgets sequences",
    "forgets topics",
    "gives producer ids again",
    "does not sync",
    "keeps a torn tail",
    "skips an offset",
    "never answers after a reset",
)


class ToyLog:
    """One partition: batches one behind the other, and for each producer its last sequences."""

    def __init__(self, host: Host, path: str, bugs: tuple[str, ...]) -> None:
        self.file: File = host.disk.open(path, create=True)
        self.bugs = bugs
        self.end = self.size = 0
        self.batches: list[tuple[int, int, int]] = []  # last offset, position, size
        self.sequences: dict[tuple[int, int], int] = {}  # producer id and base sequence -> base offset
        content = self.file.pread(self.file.size(), 0)
        with contextlib.suppress(CorruptRecordError):  # zeros where a torn write left them
            for header, batch in batches(content):
                if not crc_is_right(batch) or header.base_offset != self.end:
                    break
                self._note(batch)
        if "keeps a torn tail" not in bugs:
            self.file.truncate(self.size)
        self.size = self.file.size()

    def append(self, records: bytes) -> int:
        header = read_header(records)
        known = self.sequences.get((header.producer_id, header.base_sequence))
        if known is not None and header.producer_id >= 0 and "forgets sequences" not in self.bugs:
            return known
        buffer = bytearray(records)
        offset = self.end
        buffer[:8] = offset.to_bytes(8, "big")
        if "acknowledges before it writes" not in self.bugs:
            self.file.pwrite(buffer, self.size)
            if "does not sync" not in self.bugs:
                self.file.sync()
        self._note(buffer)
        if "skips an offset" in self.bugs and self.end > 20:
            self.end += 1
        return offset

    def _note(self, batch: bytearray | memoryview) -> None:
        header = read_header(batch)
        self.sequences[header.producer_id, header.base_sequence] = header.base_offset
        self.batches.append((header.last_offset, self.size, header.size))
        self.size += header.size
        self.end = header.next_offset

    def read(self, offset: int) -> bytes:
        for last_offset, position, size in self.batches:
            if last_offset >= offset:
                return self.file.pread(max(size, 4000), position)
        return b""


class ToyBroker:
    """Same contract as the production broker."""

    def __init__(self, config: Mapping[str, str], host: Host, loop: asyncio.AbstractEventLoop, *bugs: str) -> None:
        self.host = host
        self.bugs = bugs
        self.directory = config["log.dirs"]
        self._loop = loop
        self._logs: dict[tuple[str, int], ToyLog] = {}
        self._server: asyncio.Server
        self.producer_id_next = 0
        self.topics: dict[str, int] = {}

    async def start(self) -> None:
        disk = self.host.disk
        disk.make_dirs(self.directory)
        if disk.exists(self.directory + "/state"):
            self.topics, self.producer_id_next = json.loads(disk.read(self.directory + "/state"))
        if "gives producer ids again" in self.bugs:
            self.producer_id_next = 0
        self._server = await self._loop.create_server(lambda: ToyConnection(self), "localhost", 9092)

    async def stop(self) -> None:
        self._server.close()

    def save(self) -> None:
        state = json.dumps([{} if "forgets topics" in self.bugs else self.topics, self.producer_id_next])
        self.host.disk.write_atomically(self.directory + "/state", state.encode())

    def log(self, topic: str, partition: int) -> ToyLog:
        if (topic, partition) not in self._logs:
            self._logs[topic, partition] = ToyLog(self.host, f"{self.directory}/{topic}-{partition}", self.bugs)
        return self._logs[topic, partition]

    def forget_logs(self) -> None:
        """The disk failed: what the files hold counts, when they are read again."""
        self._logs.clear()

    def answer(self, key: int, request: Message) -> Message | None:
        answers = {
            ApiKey.PRODUCE: self._produce,
            ApiKey.FETCH: self._fetch,
            ApiKey.METADATA: self._metadata,
            ApiKey.CREATE_TOPICS: self._create,
            ApiKey.DELETE_TOPICS: self._delete,
            ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
        }
        return answers[ApiKey(key)](request)

    def _name(self, topic_id: bytes) -> str:
        return topic_id.rstrip(b"\0").decode()

    def _produce(self, request: Message) -> Message | None:
        request = cast("ProduceRequest", request)
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        offset = self.log(topic.name or self._name(topic.topic_id), data.index).append(bytes(data.records or b""))
        result = ProduceResponse.PartitionProduceResponse(index=data.index, base_offset=offset)
        answer = ProduceResponse.TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[result]
        )
        return ProduceResponse(responses=[answer]) if request.acks else None

    def _fetch(self, request: Message) -> Message:
        answers = []
        for topic in cast("FetchRequest", request).topics:
            parts = []
            for wanted in topic.partitions:
                log = self.log(topic.topic or self._name(topic.topic_id), wanted.partition)
                parts.append(
                    FetchResponse.PartitionData(
                        partition_index=wanted.partition, high_watermark=log.end, records=log.read(wanted.fetch_offset)
                    )
                )
            answers.append(
                FetchResponse.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=parts)
            )
        return FetchResponse(responses=answers)

    def _metadata(self, _: Message) -> Message:
        topics = [
            MetadataResponse.MetadataResponseTopic(
                name=name,
                topic_id=name.encode().ljust(16, b"\0"),
                partitions=[MetadataResponse.MetadataResponsePartition(partition_index=n) for n in range(count)],
            )
            for name, count in self.topics.items()
        ]
        return MetadataResponse(topics=topics)

    def _create(self, request: Message) -> Message:
        (topic,) = cast("CreateTopicsRequest", request).topics
        self.topics[topic.name] = topic.num_partitions
        self.save()
        return CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name=topic.name)])

    def _delete(self, request: Message) -> Message:
        (name,) = cast("DeleteTopicsRequest", request).topic_names
        code = ErrorCode.NONE if self.topics.pop(name, None) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.save()
        return DeleteTopicsResponse(responses=[DeleteTopicsResponse.DeletableTopicResult(name=name, error_code=code)])

    def _init_producer_id(self, _: Message) -> Message:
        self.producer_id_next += 1
        self.save()
        return InitProducerIdResponse(producer_id=self.producer_id_next, producer_epoch=0)


class ToyConnection(asyncio.Protocol):
    """One request after the other."""

    wounded = False

    def __init__(self, broker: ToyBroker) -> None:
        self._broker = broker
        self._received = bytearray()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and "never answers after a reset" in self._broker.bugs:
            ToyConnection.wounded = True

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            if not self.wounded:
                self._on_frame(frame)

    def _on_frame(self, frame: bytes) -> None:
        key, version = struct.unpack_from(">hh", frame)
        header, position = decode_from(RequestHeader, request_header_version(key, version), frame)
        request, _ = decode_from(API_BY_KEY[key].request_class(), version, frame, position)
        try:
            answer = self._broker.answer(key, request)
        except OSError:
            self._broker.forget_logs()
            self._transport.abort()
            return
        if answer is not None:
            response_header = ResponseHeader(correlation_id=header.correlation_id)
            body = encode(response_header, response_header_version(key, version)) + encode(answer, version)
            self._transport.write(struct.pack(">i", len(body)) + body)
