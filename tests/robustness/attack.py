"""Send mutated frames to a broker and watch it: others' requests, its memory, its log."""

from __future__ import annotations

import contextlib
import socket
from random import Random

import psutil

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import Record, build_batch
from tests.patience import PATIENCE_S
from tests.robustness.mutation import mutated_batch_frame, mutated_frame
from tests.wire import WireClient

VICTIM = "victim"
BYSTANDER = "bystander"
MEMORY_GROWTH_MAX = 32 * 1024 * 1024
LOOK_EVERY = 250


def create_topic(client: WireClient, topic: str) -> None:
    creatable = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    response = client.call(CreateTopicsRequest(topics=[creatable], timeout_ms=10_000), 5)
    assert response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class Bystander:
    """A well-behaved client beside the attack: what it writes it reads back, at the offset it expects."""

    def __init__(self, bootstrap: str) -> None:
        self._client = WireClient(bootstrap)
        create_topic(self._client, BYSTANDER)
        self._offset = 0

    def look(self) -> None:
        value = f"record {self._offset}".encode()
        records = build_batch([Record(0, 1_700_000_000_000, None, value, [])])
        partition = ProduceRequest.PartitionProduceData(index=0, records=records)
        data = ProduceRequest.TopicProduceData(name=BYSTANDER, partition_data=[partition])
        answer = self._client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
        written = answer.responses[0].partition_responses[0]
        assert (written.error_code, written.base_offset) == (ErrorCode.NONE, self._offset)
        wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=self._offset, partition_max_bytes=1 << 20)
        fetch = FetchRequest(
            max_wait_ms=10_000, min_bytes=1, topics=[FetchRequest.FetchTopic(topic=BYSTANDER, partitions=[wanted])]
        )
        read = self._client.call(fetch, 11).responses[0].partitions[0]
        assert read.error_code == ErrorCode.NONE
        assert value in bytes(read.records)
        self._offset += 1
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=1_700_000_000_000)
        topics = [ListOffsetsRequest.ListOffsetsTopic(name=VICTIM, partitions=[asked])]
        self._client.call(ListOffsetsRequest(topics=topics), 5)

    def close(self) -> None:
        self._client.close()


def send_and_hang_up(address: tuple[str, int], frame: bytes) -> None:
    """One frame on a connection of its own; returns when the broker has answered or closed."""
    with socket.create_connection(address, timeout=PATIENCE_S) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(frame)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


def attack(bootstrap: str, pid: int, count: int, seed: int) -> None:
    """``count`` mutated frames. Raises ``AssertionError`` when a bystander notices, or memory grows."""
    host, port = bootstrap.split(",", maxsplit=1)[0].rsplit(":", 1)
    address = (host, int(port))
    process = psutil.Process(pid)
    bystander = Bystander(bootstrap)
    try:
        with WireClient(bootstrap) as client:
            create_topic(client, VICTIM)
        settled = 0
        for number in range(count):
            random = Random(f"{seed} {number}")
            make = mutated_batch_frame if number % 2 else mutated_frame
            send_and_hang_up(address, make(VICTIM, random))
            if number % LOOK_EVERY == 0:
                bystander.look()
                if number <= count // 5:
                    settled = process.memory_info().rss
        bystander.look()
        growth = process.memory_info().rss - settled
        assert growth < MEMORY_GROWTH_MAX, f"the broker grew by {growth} bytes under {count} mutated frames"
    finally:
        bystander.close()
