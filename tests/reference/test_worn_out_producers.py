"""Transactional ids whose producer ids have no epochs left: written into the coordinator's log, read at a restart.

No client gets there in a test's time, 32 766 epochs on. Each of several states meets each of several clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.coordinator_record import CoordinatorRecord
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.record_codec import encode_coordinator_key, encode_coordinator_value
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.txn.transaction import EPOCH_MAX, NO_PARTITIONS, NO_PRODUCER_ID, Transaction, TransactionState
from kbroker.types import TRANSACTION_STATE_TOPIC, TopicPartition
from tests.broker_process import BrokerProcess
from tests.reference.comparison import differences, labelled
from tests.reference.conversation import Conversation
from tests.reference.deviations import sift
from tests.reference.questions.scenery import create_topic, produce_request
from tests.reference.questions.transaction_versions import log_of
from tests.reference.questions.transactional_producer import BUMPING, CLASSIC, Producer, find_coordinator, partition_in
from tests.reference.settings import KBROKER_STANDING_STILL, STANDING_STILL
from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka

pytestmark = pytest.mark.all

ADMIN = "__admin_client"
"""The name by which Kafka lets a client write to an internal topic."""
PRODUCER_IDS_FROM = 7_000_000
TIMEOUT_MS = 800_000
LATE_MS = 3_600_000
LAST = EPOCH_MAX - 1
"""The last epoch that a client is given."""
ADDING, VERIFYING = 12, 9
OFTEN = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@dataclass(frozen=True)
class Left:
    """What the log says of an id."""

    state: TransactionState
    epoch: int
    client_version: int = 0
    follows: bool = False
    """The producer id has come after another one."""
    is_followed: bool = False
    is_late: bool = False


STATES = (
    Left(TransactionState.EMPTY, LAST),
    Left(TransactionState.EMPTY, 0, follows=True),
    Left(TransactionState.ONGOING, LAST),
    Left(TransactionState.ONGOING, LAST, 2),
    Left(TransactionState.ONGOING, LAST, 2, is_late=True),
    Left(TransactionState.COMPLETE_COMMIT, LAST),
    Left(TransactionState.COMPLETE_COMMIT, LAST, 2),
    Left(TransactionState.COMPLETE_ABORT, 0, 2, follows=True),
    Left(TransactionState.COMPLETE_ABORT, EPOCH_MAX, 2),
    Left(TransactionState.PREPARE_COMMIT, EPOCH_MAX, 2, is_followed=True),
    Left(TransactionState.PREPARE_ABORT, EPOCH_MAX, 2),
)


class WornOut(Producer):
    """One of them; ``known`` is the id and epoch that its client has."""

    def __init__(self, c: Conversation, topic: tuple[str, bytes], number: int, left: Left) -> None:
        super().__init__(c, "worn")
        self.topic = topic
        self.left = left
        self.producer_id = PRODUCER_IDS_FROM + 10 * number
        self.before = self.producer_id + 1
        self.epoch = left.epoch

    @property
    def known(self) -> dict[str, Any]:
        return {"producer_id": self.producer_id, "producer_epoch": self.epoch}

    def record(self, now_ms: int) -> CoordinatorRecord:
        left = self.left
        is_over = left.state in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )
        return Transaction(
            self.id,
            self.producer_id,
            self.before if left.follows else self.producer_id,
            self.producer_id + 2 if left.is_followed else NO_PRODUCER_ID,
            left.epoch,
            TIMEOUT_MS,
            left.state,
            NO_PARTITIONS if is_over else {TopicPartition(self.topic[0], 0): None},
            now_ms,
            now_ms - LATE_MS if left.is_late else now_ms,
            left.client_version,
        ).record(BUMPING)

    def write(self) -> None:
        """Into the log of ``__transaction_state``, behind the coordinator's back."""
        now_ms = time.time_ns() // 1_000_000
        key, value, version = self.record(now_ms)
        assert value is not None
        row = Record(0, now_ms, encode_coordinator_key(key), encode_coordinator_value(value, version), [])
        index = partition_in(self.c, TRANSACTION_STATE_TOPIC, self.id)
        request = produce_request(TRANSACTION_STATE_TOPIC, build_batch([row]), partition=index)
        answer = self.c.client(ADMIN).call(request, VERIFYING)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE

    def come_to_rest(self) -> None:
        """What was ending ends, what is late is aborted."""
        if self.left.is_late:
            self.wait_for("CompleteAbort")
        self.settle()

    def ask(self, client: Callable[[WornOut], None]) -> None:
        self.describe()
        client(self)
        self.describe()
        log_of(self.c, self)


def goes_on(p: WornOut) -> None:
    known = p.known
    for label in ("goes on", "again"):
        p.init(label=label, **known)
    p.init(label="the one before", producer_id=p.before, producer_epoch=LAST)
    p.init(label="a successor")


def begins_anew(p: WornOut) -> None:
    p.init()
    p.init()


def commits(p: WornOut) -> None:
    known = p.known
    p.end(True, BUMPING, stays=True)
    p.end(True, BUMPING, stays=True)
    p.end(False, BUMPING, stays=True)
    p.init(label="goes on", **known)


def aborts(p: WornOut) -> None:
    p.end(False, CLASSIC)
    p.end(False, BUMPING)
    p.end(False, BUMPING)


def was_the_one_before(p: WornOut) -> None:
    for version in (BUMPING, CLASSIC):
        for committed in (True, False):
            p.end(committed, version, stays=True, producer_id=p.before, epoch=LAST)


def writes(p: WornOut) -> None:
    first = p.known
    name, topic_id = p.topic
    p.produce(name, topic_id, ADDING)
    p.end(False, BUMPING)
    p.end(False, BUMPING, stays=True, producer_id=first["producer_id"], epoch=first["producer_epoch"], label="again")
    p.produce(name, topic_id, ADDING)
    p.end(True, BUMPING)


def is_fenced(p: WornOut) -> None:
    known, (name, _) = p.known, p.topic
    p.add(name)
    p.c.ask(InitProducerIdRequest(transactional_id=p.id, transaction_timeout_ms=TIMEOUT_MS, **known), 5)
    p.settle()
    p.describe()
    verified = p.batched([(name, (0,))], verify_only=True)
    p.c.ask(AddPartitionsToTxnRequest(transactions=[verified]), 5)
    p.init(label="goes on", **known)
    p.init(label="a successor")


CLIENTS = (goes_on, begins_anew, commits, aborts, was_the_one_before, writes, is_fenced)


def told(bootstrap: str, restart: Callable[[], str]) -> dict[str, dict[str, Any]]:
    """By state and client, what was answered after the restart."""
    c = Conversation(bootstrap)
    topic = create_topic(c)
    pairs = [(left, client) for left in STATES for client in CLIENTS]
    cases = [
        (WornOut(Conversation(bootstrap), topic, number, left), client) for number, (left, client) in enumerate(pairs)
    ]
    for each, _ in cases:
        each.write()
        each.c.close()
    c.close()
    c.bootstrap = restart()
    c.await_leaders(topic[0], 1)
    find_coordinator(c, "any")
    transcripts = {}
    for each, _ in cases:
        each.c.bootstrap = c.bootstrap
        each.come_to_rest()
    for each, client in cases:
        each.c.call_it(topic[0], "t")
        each.ask(client)
        each.c.close()
        transcripts[f"{each.left}, {client.__name__}"] = labelled(each.c.transcript)
    c.close()
    return transcripts


def test_clients_without_epochs_are_answered_as_by_apache_kafka(tmp_path: Path) -> None:
    require("java")
    with ReferenceKafka(tmp_path / "reference", overrides={**OFTEN, **STANDING_STILL}) as kafka:

        def restart_kafka() -> str:
            kafka.stop()
            kafka.start()
            return kafka.bootstrap

        reference = told(kafka.bootstrap, restart_kafka)
    options = [word for name, value in OFTEN.items() for word in ("--override", f"{name}={value}")]
    with BrokerProcess(tmp_path / "kbroker", *KBROKER_STANDING_STILL, *options) as broker:

        def restart_broker() -> str:
            broker.stop()
            return broker.start().bootstrap

        kbroker = told(broker.bootstrap, restart_broker)
    found = [each for case in reference for each in differences(case, reference[case], kbroker[case])]
    found, _ = sift(found)
    assert not found, "\n".join(map(str, found))
