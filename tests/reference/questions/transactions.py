"""Transactions: producer ids and their epochs, partitions that join, ends, and who is told what."""

from __future__ import annotations

import time
from typing import Any

from kbroker.protocol.declarations import Struct
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import batches, read_records
from kbroker.types import GROUP_METADATA_TOPIC
from tests.reference.conversation import CLOSED, Conversation, question
from tests.reference.questions.scenery import (
    TIME_MS,
    append,
    batch,
    create_topic,
    fetch_request,
    fresh_name,
    produce_request,
)
from tests.wire import ConnectionClosedError

INIT_VERSIONS = range(6)
EXPECTING_VERSIONS = range(3, 6)
ADD_VERSIONS = range(4)
BATCHED_VERSIONS = range(4, 6)
END_VERSIONS = range(6)
CLASSIC = 3
"""EndTxn up to 4: the protocol of before KIP-890's epoch bump."""
BUMPING = 5
TXN_TIMEOUT_MS = 60_000
PATIENCE_S = 10
PASSING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""Answers that depend on how fast a broker is, and are waited out."""

PATTERNS = (
    *("li-busy", "li-.*", ".*-busy-.*", "", "nothing", "li-(", "(?=li).*", r"(li)\1.*"),
    *("(?i)LI-BUSY.*", r"[[:alpha:]-]+[\d-]+", r"\pL+-b.*", r"li\Q-\E.*", r"\Ali-.*\z", "(li-.*){1,1000}", "a{1001}"),
    *("(l|l)*i-.*", "li-.*+", "li-(?P<rest>.*)", "[b-a]", r"\8"),
)

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
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            answer = self.c.client().call(DescribeTransactionsRequest(transactional_ids=[self.id]), 0)
            if answer.transaction_states[0].transaction_state in ("", *states):
                return
            time.sleep(0.02)
        raise TimeoutError(f"{self.id} does not come to {states}")

    def describe(self) -> None:
        answer = self.c.ask(DescribeTransactionsRequest(transactional_ids=[self.id]), 0, note=False)
        for topic in answer.transaction_states[0].topics:
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
    deadline = time.monotonic() + 30
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


# --- InitProducerId


@question(INIT_VERSIONS)
def an_id_is_initialised_again_and_again(c: Conversation, version: int) -> None:
    producer = Producer(c)
    for _ in range(3):
        producer.init(version)
    producer.describe()


@question(INIT_VERSIONS)
def time_outs_of_transactions(c: Conversation, version: int) -> None:
    producer = Producer(c)
    for timeout_ms in (1, 900_000, 900_001, 0, -1, 2**31 - 1):
        producer.init(version, transaction_timeout_ms=timeout_ms, label=str(timeout_ms))
    producer.describe()


@question(EXPECTING_VERSIONS)
def an_expected_epoch(c: Conversation, version: int) -> None:
    producer = Producer(c)
    producer.init(version)
    first: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    producer.init(version, label="expecting", **first)
    producer.init(version, label="the same again", **first)
    producer.init(version, label="too high", producer_id=first["producer_id"], producer_epoch=9)
    producer.init(version, label="another id", producer_id=first["producer_id"] + 5000, producer_epoch=0)
    producer.init(version, label="half", producer_id=first["producer_id"])
    producer.init(version, label="the other half", producer_epoch=1)
    producer.init(version, label="plain")
    producer.init(version, label="the first again", **first)
    producer.describe()


@question(EXPECTING_VERSIONS)
def an_unknown_id_with_an_expected_epoch(c: Conversation, version: int) -> None:
    producer = Producer(c)
    producer.init(version, producer_id=12345678, producer_epoch=3)
    producer.describe()


@question(INIT_VERSIONS)
def an_open_transaction_is_fenced_by_init(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for end_version in (CLASSIC, BUMPING):
        producer = Producer(c)
        producer.init(version)
        if end_version == BUMPING:
            producer.produce(topic, topic_id, 12)
        else:
            producer.add(topic)
            producer.produce(topic, topic_id, 9)
        old_id, old_epoch = producer.producer_id, producer.epoch
        request = InitProducerIdRequest(transactional_id=producer.id, transaction_timeout_ms=TXN_TIMEOUT_MS)
        c.ask(request, version, label="first answer")
        producer.settle()
        producer.describe()
        producer.init(version)
        for each in (CLASSIC, BUMPING):
            producer.end(True, each, producer_id=old_id, epoch=old_epoch, label=f"zombie commits by {each}")
        producer.describe()
    read(c, topic, "at last")


@question(EXPECTING_VERSIONS)
def an_open_transaction_and_an_expected_epoch(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for produce_version in (9, 12):
        producer = Producer(c)
        producer.init(version)
        if produce_version == 9:
            producer.add(topic)
        producer.produce(topic, topic_id, produce_version)
        known: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        producer.init(version, **known)
        producer.describe()


# --- AddPartitionsToTxn, AddOffsetsToTxn


@question(ADD_VERSIONS)
def partitions_join(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=3)
    producer = Producer(c)
    producer.init()
    producer.add(topic, (1, 0), version)
    producer.add(topic, (1,), version)
    producer.add(topic, (2, 2), version)
    c.ask(producer.adding([]), version, label="nothing")
    producer.describe()


@question(ADD_VERSIONS)
def partitions_that_are_not_there(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    producer = Producer(c)
    producer.init()
    missing = fresh_name(c, "missing")
    c.ask(producer.adding([(topic, (0, 5)), (missing, (0,))]), version, unordered=True)
    producer.describe()


@question(ADD_VERSIONS)
def strangers_add_partitions(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    producer = Producer(c)
    producer.init()
    c.ask(producer.adding([(topic, (0,))], id=fresh_name(c, "nobody")), version, label="unknown")
    c.ask(producer.adding([(topic, (0,))], id=""), version, label="empty")
    c.ask(producer.adding([(topic, (0,))], producer_id=producer.producer_id + 7), version, label="wrong id")
    c.ask(producer.adding([(topic, (0,))], epoch=producer.epoch + 1), version, label="later epoch")
    producer.init()
    c.ask(producer.adding([(topic, (0,))], epoch=producer.epoch - 1), version, label="earlier epoch")
    producer.describe()


@question(BATCHED_VERSIONS)
def partitions_join_in_batches(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    one, two = Producer(c), Producer(c)
    one.init()
    two.init()
    requests = [
        [one.batched([(topic, (0, 1))]), two.batched([(topic, (1,))], epoch=9)],
        [two.batched([(topic, (0, 1))], verify_only=True), one.batched([(topic, (1, 0))], verify_only=True)],
        [two.batched([(topic, (0,))], verify_only=True, producer_id=77)],
        [two.batched([(topic, (0,)), (fresh_name(c, "missing"), (0,))])],
        [two.batched([(topic, (0,))], id="")],
        [two.batched([(topic, (0,))], id="", verify_only=True)],
        [two.batched([(topic, (0,))], id=fresh_name(c, "nobody"), verify_only=True)],
        [two.batched([])],
    ]
    for transactions in requests:
        c.ask(AddPartitionsToTxnRequest(transactions=transactions), version, unordered=True)
    one.describe()
    two.describe()
    one.end(True, CLASSIC)
    one.describe()
    c.ask(AddPartitionsToTxnRequest(transactions=[one.batched([(topic, (0,))], verify_only=True)]), version)


@question(range(5))
def offsets_join(c: Conversation, version: int) -> None:
    producer = Producer(c)
    producer.init()
    group = fresh_name(c, "group")
    find_coordinator(c, group, 0)

    def ask(label: str, **fields: Any) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=fields.get("id", producer.id),
            producer_id=fields.get("producer_id", producer.producer_id),
            producer_epoch=fields.get("epoch", producer.epoch),
            group_id=fields.get("group", group),
        )
        c.ask(request, version, label=label)

    ask("unknown", id=fresh_name(c, "nobody"))
    ask("empty id", id="")
    ask("wrong id", producer_id=producer.producer_id + 7)
    ask("later epoch", epoch=producer.epoch + 1)
    ask("earlier epoch", epoch=producer.epoch - 1)
    ask("right")
    ask("again")
    ask("no group", group="")
    producer.end(True, CLASSIC)
    producer.describe()


# --- EndTxn


@question(END_VERSIONS)
def a_transaction_commits_or_aborts(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    producer = Producer(c)
    producer.init()
    for committed in (True, False, True):
        if version >= BUMPING:
            producer.produce(topic, topic_id, 12)
        else:
            producer.add(topic)
            producer.produce(topic, topic_id, 9, sequence={True: 0, False: 1}[committed] if committed is False else 0)
        producer.end(committed, version)
        producer.describe()
        if version < BUMPING:
            producer.init()
    read(c, topic, "at last")


@question(END_VERSIONS)
def nothing_to_end(c: Conversation, version: int) -> None:
    producer = Producer(c)
    producer.init()
    for committed in (True, False, False, True):
        producer.end(committed, version)
    producer.describe()


@question(END_VERSIONS)
def an_end_is_said_again(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    for committed in (True, False):
        producer = Producer(c)
        producer.init()
        producer.produce(topic, topic_id, 12)
        producer.end(committed, version, stays=True)
        producer.end(committed, version, stays=True, label="the same")
        producer.end(not committed, version, stays=True, label="the opposite")
        producer.end(committed, version, stays=True, epoch=producer.epoch + 1, label="the next epoch, the same")
        producer.end(not committed, version, stays=True, epoch=producer.epoch + 1, label="the next epoch, opposite")
        producer.describe()


@question(END_VERSIONS)
def strangers_end(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    producer = Producer(c)
    producer.init()
    producer.init()
    producer.add(topic)
    for label, fields in (
        ("unknown", {"id": fresh_name(c, "nobody")}),
        ("empty", {"id": ""}),
        ("wrong id", {"producer_id": producer.producer_id + 7}),
        ("later epoch", {"epoch": producer.epoch + 1}),
        ("earlier epoch", {"epoch": producer.epoch - 1}),
    ):
        producer.end(True, version, label=label, stays=True, **fields)
    producer.describe()


@question(range(1))
def both_protocols_by_turns(c: Conversation, _version: int) -> None:
    topic, topic_id = create_topic(c)
    producer = Producer(c)
    producer.init()
    for end_version in (BUMPING, CLASSIC, CLASSIC, BUMPING, BUMPING):
        producer.add(topic)
        producer.produce(topic, topic_id, 9)
        producer.end(True, end_version)
        producer.describe()


@question(range(1))
def an_end_by_an_older_client_and_whom_it_fenced(c: Conversation, _version: int) -> None:
    topic, _ = create_topic(c)
    for committed in (True, False):
        producer = Producer(c)
        producer.init()
        fenced = producer.epoch
        producer.init()
        producer.add(topic)
        producer.end(committed, CLASSIC)
        producer.end(committed, BUMPING, stays=True, epoch=fenced, label="the fenced one ends")
        producer.end(not committed, BUMPING, stays=True, epoch=fenced, label="the fenced one ends otherwise")
        producer.describe()


# --- Produce


@question(range(3, 14))
def a_partition_that_was_not_added(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    producer = Producer(c)
    producer.init()
    producer.produce(topic, topic_id, version)
    producer.describe()
    producer.end(True, BUMPING if version >= 12 else CLASSIC)
    read(c, topic, "at last")


@question(range(3, 14))
def batches_of_strangers(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    producer = Producer(c)
    producer.init()
    producer.init()
    producer.produce(topic, topic_id, version, id=fresh_name(c, "nobody"))
    producer.produce(topic, topic_id, version, id="")
    producer.produce(topic, topic_id, version, producer_id=producer.producer_id + 9)
    producer.produce(topic, topic_id, version, epoch=producer.epoch + 1)
    producer.produce(topic, topic_id, version, epoch=producer.epoch - 1)
    producer.add(topic)
    producer.produce(topic, topic_id, version, epoch=producer.epoch + 1)
    producer.produce(topic, topic_id, version, epoch=producer.epoch - 1)
    producer.produce(topic, topic_id, version, sequence=5)
    producer.produce(topic, topic_id, version)
    producer.produce(topic, topic_id, version)
    producer.produce(topic, topic_id, version, sequence=7)
    producer.produce(topic, topic_id, version, sequence=1, transactional=False)
    producer.produce(topic, topic_id, version, sequence=1, epoch=producer.epoch + 1)
    producer.end(True, CLASSIC)
    producer.produce(topic, topic_id, version, sequence=1, transactional=False)
    producer.produce(topic, topic_id, version, sequence=2)
    producer.describe()


@question(range(9, 14))
def a_first_sequence_that_is_not_zero(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    producer = Producer(c)
    producer.init()
    if version < 12:
        producer.add(topic, (0, 1))
    producer.produce(topic, topic_id, version, sequence=5)
    producer.produce(topic, topic_id, version, sequence=5)
    producer.produce(topic, topic_id, version, sequence=3)
    producer.produce(topic, topic_id, version, sequence=0)
    producer.produce(topic, topic_id, version, sequence=1)
    producer.produce(topic, topic_id, version, sequence=0, partition=1)
    producer.describe()
    producer.end(False, BUMPING)
    producer.produce(topic, topic_id, 12, sequence=1)
    producer.produce(topic, topic_id, 12, sequence=0)
    producer.end(True, BUMPING)
    producer.produce(topic, topic_id, 12, sequence=0)
    producer.end(True, BUMPING)
    read(c, topic, "at last")


@question(range(9, 14))
def aborted_records_are_named(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    end_version = BUMPING if version >= 12 else CLASSIC
    one, two = Producer(c), Producer(c)
    for producer in (one, two):
        producer.init()
        if version < 12:
            producer.add(topic)
    one.produce(topic, topic_id, version)
    two.produce(topic, topic_id, version)
    read(c, topic, "both open")
    two.end(True, end_version)
    read(c, topic, "one open")
    one.end(False, end_version)
    for offset in range(5):
        read(c, topic, f"both over, from {offset}", offset)


@question(range(1))
def a_transaction_times_out(c: Conversation, _version: int) -> None:
    topic, topic_id = create_topic(c)
    classic, bumping, third = Producer(c), Producer(c), Producer(c)
    for producer in (classic, bumping, third):
        producer.init(transaction_timeout_ms=100)
    classic.add(topic)
    classic.produce(topic, topic_id, 9)
    bumping.produce(topic, topic_id, 12)
    third.produce(topic, topic_id, 12)
    for producer in (classic, bumping, third):
        producer.wait_for("CompleteAbort")
        producer.describe()
    classic.end(True, CLASSIC, label="commit by 3")
    classic.end(True, BUMPING, stays=True, label="commit by 5")
    classic.end(False, BUMPING, stays=True, label="abort by 5")
    bumping.end(True, BUMPING, stays=True, label="commit by 5")
    bumping.end(True, CLASSIC, label="commit by 3")
    bumping.produce(topic, topic_id, 12, sequence=1)
    bumping.end(False, BUMPING, label="abort by 5")
    bumping.produce(topic, topic_id, 12)
    bumping.end(True, BUMPING, label="commit by 5")
    third.init(label="with its epoch", producer_id=third.producer_id, producer_epoch=third.epoch)
    third.describe()


# --- ListTransactions


@question(range(3))
def transactions_are_listed(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    idle, busy, ended = Producer(c, "li-idle"), Producer(c, "li-busy"), Producer(c, "li-ended")
    for producer in (idle, busy, ended):
        producer.init()
    for producer in (busy, ended):
        producer.produce(topic, topic_id, 12)
    ended.end(True, BUMPING)
    ours = [idle.producer_id, busy.producer_id, ended.producer_id]

    def ask(label: str, **fields: Any) -> None:
        fields.setdefault("producer_id_filters", ours)
        c.ask(ListTransactionsRequest(**fields), version, label=label, unordered=True)

    ask("all")
    ask("ongoing", state_filters=["Ongoing"])
    ask("two states", state_filters=["Ongoing", "Empty"])
    ask("unknown states", state_filters=["ongoing", "Nonsense", "Empty"])
    ask("only unknown states", state_filters=["Nonsense"])
    ask("one id", producer_id_filters=ours[:1])
    ask("unknown id", producer_id_filters=[2**40])
    if version >= 1:
        ask("long", duration_filter=100_000)
        ask("any duration", duration_filter=0)
        ask("negative", duration_filter=-2)
    if version >= 2:
        for pattern in (busy.id, *PATTERNS):
            ask(f"pattern {pattern}", transactional_id_pattern=pattern)


@question(range(1))
def unknown_transactions_are_described(c: Conversation, _version: int) -> None:
    producer = Producer(c)
    producer.init()
    c.ask(DescribeTransactionsRequest(transactional_ids=[fresh_name(c, "nobody"), "", producer.id, producer.id]), 0)
    c.ask(DescribeTransactionsRequest(transactional_ids=[]), 0)


# --- several partitions, readers


def produce_many(
    c: Conversation,
    producer: Producer,
    version: int,
    batches_: dict[tuple[str, bytes], dict[int, bytes]],
    **fields: Any,
) -> None:
    data = ProduceRequest.PartitionProduceData
    request = ProduceRequest(
        transactional_id=fields.get("id", producer.id),
        acks=fields.get("acks", -1),
        timeout_ms=10_000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                topic_id=topic_id,
                partition_data=[data(index=index, records=records) for index, records in partitions.items()],
            )
            for (topic, topic_id), partitions in batches_.items()
        ],
    )
    answer = c.client().call(request, version)
    for each in answer.responses:
        each.partition_responses.sort(key=lambda slot: slot.index)
    answer.responses.sort(key=lambda each: len(each.partition_responses))
    c.note_answer(fields.get("label", "Produce"), answer, version)


@question(range(9, 14))
def a_write_to_several_partitions(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=4)
    missing = (fresh_name(c, "missing"), bytes(15) + b"\x05")
    producer = Producer(c)
    producer.init()

    def ours(sequence: int = 0, **fields: Any) -> bytes:
        fields.setdefault("producer_id", producer.producer_id)
        fields.setdefault("producer_epoch", producer.epoch)
        fields.setdefault("transactional", True)
        return batch([b"%d" % sequence], base_sequence=sequence, **fields)

    if version < 12:
        producer.add(topic, (0, 1))
    produce_many(c, producer, version, {(topic, topic_id): {0: ours(), 1: ours(), 2: ours(), 9: ours()}})
    produce_many(c, producer, version, {(topic, topic_id): {3: ours()}, missing: {0: ours(), 1: ours()}})
    produce_many(
        c, producer, version, {(topic, topic_id): {0: ours(1), 3: batch([b"plain"])}}, label="a plain batch beside"
    )
    produce_many(
        c, producer, version, {(topic, topic_id): {0: ours(2), 1: ours(1, producer_epoch=7)}}, label="two epochs"
    )
    produce_many(c, producer, version, {(topic, topic_id): {0: ours(3)}}, acks=1, label="acks=1")
    producer.describe()
    producer.end(True, BUMPING if version >= 12 else CLASSIC)
    read(c, topic, "at last")


@question(range(9, 14))
def two_producers_in_one_write(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    one, two = Producer(c), Producer(c)
    one.init()
    two.init()
    records = {
        index: batch(
            [b"x"],
            producer_id=each.producer_id,
            producer_epoch=each.epoch,
            base_sequence=0,
            transactional=True,
        )
        for index, each in enumerate((one, two))
    }
    produce_many(c, one, version, {(topic, topic_id): records})
    one.describe()


@question(range(2, 12))
def offsets_of_an_open_transaction_are_listed(c: Conversation, version: int) -> None:
    topic, topic_id = create_topic(c)
    producer = Producer(c)
    producer.init()

    def ask(label: str) -> None:
        for isolation in (0, 1):
            for timestamp in (-1, -2, TIME_MS, TIME_MS + 2, *((-3,) if version >= 7 else ())):
                asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
                request = ListOffsetsRequest(
                    isolation_level=isolation,
                    topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[asked])],
                )
                if version >= 10:
                    request.timeout_ms = 1000
                c.ask(request, version, label=f"{label}, isolation {isolation}, {timestamp}")

    append(c, topic, batch([b"before"]))
    producer.produce(topic, topic_id, 12)
    append(c, topic, batch([b"after", b"after", b"after"]))
    ask("open")
    producer.end(False, BUMPING)
    ask("over")
