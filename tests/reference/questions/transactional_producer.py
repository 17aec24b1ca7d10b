"""A producer with a transactional id, as the questions about transactions use it. It asks nothing by itself."""

from __future__ import annotations

import time
from typing import Any

from kbroker.coordinator.runtime import partition_of
from kbroker.protocol.declarations import Struct
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.records.batch import batches, read_records
from kbroker.types import GROUP_METADATA_TOPIC
from tests.reference.conversation import CLOSED, Conversation
from tests.reference.questions.scenery import (
    batch,
    fetch_request,
    fresh_name,
    produce_request,
)
from tests.wire import ConnectionClosedError

CLASSIC = 3
"""EndTxn up to 4: the protocol of before KIP-890's epoch bump."""
BUMPING = 5
TXN_TIMEOUT_MS = 60_000
PATIENCE_S = 30
PASSING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""Answers that depend on how fast a broker is, and are waited out."""

AddTopic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic


class Producer:
    """A transactional id and what the coordinator last said of it."""

    def __init__(self, c: Conversation, stem: str = "tx") -> None:
        self.c = c
        self.id = fresh_name(c, stem)
        self.producer_id = -1
        self.epoch = -1
        find_coordinator(c, self.id)

    def init(self, version: int = 5, *, note: bool = True, label: str = "", **fields: Any) -> Any:
        """InitProducerId, until it succeeds or fails for good."""
        fields.setdefault("transaction_timeout_ms", TXN_TIMEOUT_MS)
        answer = patiently(
            self.c, InitProducerIdRequest(transactional_id=self.id, **fields), version, note=note, label=label
        )
        if answer.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def add(self, topic: str, partitions: tuple[int, ...] = (0,), version: int = 3, **fields: Any) -> Any:
        return patiently(self.c, self.adding([(topic, partitions)], **fields), version)

    def adding(self, topics: list[tuple[str, tuple[int, ...]]], **fields: Any) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=fields.get("id", self.id),
            v3_and_below_producer_id=fields.get("producer_id", self.producer_id),
            v3_and_below_producer_epoch=fields.get("epoch", self.epoch),
            v3_and_below_topics=[AddTopic(name=name, partitions=list(indexes)) for name, indexes in topics],
        )

    def batched(
        self, topics: list[tuple[str, tuple[int, ...]]], *, verify_only: bool = False, **fields: Any
    ) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=fields.get("id", self.id),
            producer_id=fields.get("producer_id", self.producer_id),
            producer_epoch=fields.get("epoch", self.epoch),
            verify_only=verify_only,
            topics=[AddTopic(name=name, partitions=list(indexes)) for name, indexes in topics],
        )

    def end(self, committed: bool, version: int = CLASSIC, *, label: str = "", **fields: Any) -> Any:
        request = EndTxnRequest(
            transactional_id=fields.get("id", self.id),
            producer_id=fields.get("producer_id", self.producer_id),
            producer_epoch=fields.get("epoch", self.epoch),
            committed=committed,
        )
        answer = patiently(self.c, request, version, label=label or ("commit" if committed else "abort"))
        if version >= BUMPING and answer.error_code == ErrorCode.NONE and not fields.get("stays"):
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.settle()
        return answer

    def settle(self) -> None:
        """Wait until the transaction's markers are written."""
        self.wait_for("Empty", "CompleteCommit", "CompleteAbort", "Ongoing")

    def wait_for(self, *states: str) -> None:
        deadline = time.monotonic() + 2 * PATIENCE_S
        while time.monotonic() < deadline:
            answer = self.c.client().call(DescribeTransactionsRequest(transactional_ids=[self.id]), 0)
            found = answer.transaction_states[0]
            if found.error_code not in PASSING and found.transaction_state in ("", *states):
                return
            time.sleep(0.02)
        raise TimeoutError(f"{self.id} does not come to {states}")

    def describe(self) -> None:
        answer = self.c.ask(DescribeTransactionsRequest(transactional_ids=[self.id]), 0, note=False)
        topics = answer.transaction_states[0].topics
        # They stand in a hash map's order, over names that differ.
        topics.sort(key=lambda topic: (topic.topic != GROUP_METADATA_TOPIC, topic.topic))
        for topic in topics:
            # Where a group's offsets are depends on its name.
            topic.partitions = [-1] if topic.topic == GROUP_METADATA_TOPIC else sorted(topic.partitions)
        self.c.note_answer("DescribeTransactions", answer, 0)

    def produce(
        self, topic: str, topic_id: bytes, version: int, sequence: int = 0, count: int = 1, **fields: Any
    ) -> Any:
        epoch = fields.get("epoch", self.epoch)
        records = batch(
            [b"%d" % (sequence + n) for n in range(count)],
            producer_id=fields.get("producer_id", self.producer_id),
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=fields.get("transactional", True),
        )
        request = produce_request(topic, records, topic_id=topic_id, partition=fields.get("partition", 0))
        request.transactional_id = fields.get("id", self.id)
        return patiently(self.c, request, version)


def patiently(c: Conversation, request: Any, version: int, *, note: bool = True, label: str = "") -> Any:
    """Ask until the answer is not CONCURRENT_TRANSACTIONS, which depends on how fast markers are written."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            answer = c.client().call(request, version)
        except (ConnectionClosedError, ConnectionError):
            c.hang_up()
            answer = None
        if answer is None or not _codes(answer) & PASSING or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    if note:
        label = label or type(request).__name__.removesuffix("Request")
        if answer is None:
            c.note(label, CLOSED)
        else:
            c.note_answer(label, answer, version)
    return answer


def partition_in(c: Conversation, topic: str, key: str) -> int:
    """The partition of an internal topic that a transactional id or a group belongs to."""
    metadata = c.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)]), 9, note=False)
    return partition_of(key, len(metadata.topics[0].partitions))


def _codes(value: Any) -> set[int]:
    """Every error code in an answer."""
    if isinstance(value, list):
        return set().union(*(_codes(each) for each in value))
    if not isinstance(value, Struct):
        return set()
    return set().union(
        *(
            {getattr(value, name)} if name.endswith("error_code") else _codes(getattr(value, name))
            for name in value.fields
        )
    )


def read(c: Conversation, topic: str, label: str, offset: int = 0) -> None:
    """Note what a read_committed consumer is given; records by their offsets and values, not by the producers' ids."""
    answer = c.ask(fetch_request(topic, offset, isolation_level=1), 11, note=False)
    partition = answer.responses[0].partitions[0]
    given: list[tuple[object, ...]] = []
    for header, each in batches(partition.records or b""):
        kind = "marker" if header.is_control else "batch"
        given.append((kind, header.producer_epoch, header.base_sequence))
        given += [
            (kind, record.offset, record.key if header.is_control else record.value)
            for record in read_records(each, max_decompressed=1 << 20)
        ]
    partition.records = None
    c.note_answer(f"{label}: fetch", answer, 11)
    c.note(f"{label}: records", given)


def find_coordinator(c: Conversation, key: str, key_type: int = 1) -> None:
    """Wait until somebody coordinates a transactional id or a group. Takes a producer id, so that none is 0 later."""
    client = c.client()
    client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 5)
    deadline = time.monotonic() + 2 * PATIENCE_S
    while time.monotonic() < deadline:
        answer = client.call(FindCoordinatorRequest(key=key, key_type=key_type), 3)
        if answer.error_code == ErrorCode.NONE:
            if key_type == 0:
                return
            probe = client.call(DescribeTransactionsRequest(transactional_ids=[key]), 0)
            if probe.transaction_states[0].error_code not in PASSING:
                return
        time.sleep(0.05)
    raise TimeoutError(f"{key} has no coordinator")
