"""What many questions need first: a topic, some records, a batch that is wrong in one way."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import Record, build_batch
from tests.reference.conversation import Conversation

_numbers = itertools.count()
TIME_MS = 1_700_000_000_000


def fresh_name(conversation: Conversation, stem: str = "t") -> str:
    """A topic name of this conversation's own, equally long on both sides; shown as it is in transcripts' names."""
    name = f"{stem}-{os.getpid():07d}-{next(_numbers):07d}"
    conversation.call_it(name, stem)
    return name


def create_topic(
    conversation: Conversation, stem: str = "t", partitions: int = 1, configs: dict[str, str] | None = None
) -> tuple[str, bytes]:
    """Make a topic without noting it; its name and id. Returns when its leaders take requests."""
    name = fresh_name(conversation, stem)
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=1,
                configs=[
                    CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                    for key, value in (configs or {}).items()
                ],
            )
        ],
        timeout_ms=10_000,
    )
    answer = conversation.ask(request, 7, note=False).topics[0]
    if answer.error_code != ErrorCode.NONE:
        raise AssertionError(f"no topic could be made: {answer}")
    conversation.await_leaders(name, partitions)
    conversation.know(answer.topic_id)
    return name, answer.topic_id


def batch(values: Iterable[bytes | None] = (b"value",), key: bytes | None = None, **options: Any) -> bytes:
    """A batch of records a millisecond apart from ``TIME_MS``; ``options`` are those of ``build_batch``."""
    records = [Record(n, TIME_MS + n, key, value, []) for n, value in enumerate(values)]
    return build_batch(records, **options)


def produce_request(
    topic: str, records: bytes | None, *, topic_id: bytes = bytes(16), acks: int = -1, partition: int = 0
) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
    )


def append(conversation: Conversation, topic: str, records: bytes, partition: int = 0) -> int:
    """Produce without noting it; the first offset."""
    answer = conversation.ask(produce_request(topic, records, partition=partition), 9, note=False)
    written = answer.responses[0].partition_responses[0]
    if written.error_code != ErrorCode.NONE:
        raise AssertionError(f"nothing could be written: {written}")
    offset: int = written.base_offset
    return offset


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    topic_id: bytes = bytes(16),
    partition: int = 0,
    max_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    isolation_level: int = 0,
) -> FetchRequest:
    """A fetch of one partition outside any session."""
    wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=0x7FFFFFFF,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])],
        isolation_level=isolation_level,
    )
