"""Transactions: producer ids and their epochs, partitions that join, ends, and who is told what."""

from __future__ import annotations

from typing import Any

from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import (
    create_topic,
    fresh_name,
)
from tests.reference.questions.transactional_producer import (
    BUMPING,
    CLASSIC,
    TXN_TIMEOUT_MS,
    Producer,
    find_coordinator,
    read,
)

INIT_VERSIONS = range(6)
EXPECTING_VERSIONS = range(3, 6)
ADD_VERSIONS = range(4)
BATCHED_VERSIONS = range(4, 6)
END_VERSIONS = range(6)

PATTERNS = (
    *("li-busy", "li-.*", ".*-busy-.*", "", "nothing", "li-(", "(?=li).*", r"(li)\1.*"),
    *("(?i)LI-BUSY.*", r"[[:alpha:]-]+[\d-]+", r"\pL+-b.*", r"li\Q-\E.*", r"\Ali-.*\z", "(li-.*){1,1000}", "a{1001}"),
    *("(l|l)*i-.*", "li-.*+", "li-(?P<rest>.*)", "[b-a]", r"\8"),
)


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


@question(range(1))
def a_transaction_times_out(c: Conversation, _version: int) -> None:
    topic, topic_id = create_topic(c)
    classic, bumping, third = Producer(c), Producer(c), Producer(c)
    for producer in (classic, bumping, third):
        producer.init(transaction_timeout_ms=100 * c.slowness)
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
