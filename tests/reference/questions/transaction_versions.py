"""Each finalized level of ``transaction.version`` (the version of these questions), with clients old and new (KIP-890).

What is finalized is what ApiVersions tells; which protocol a transaction follows is said by the versions of its
requests. So every level is asked by clients that believe it, that are too old for it, and that are too new for it. The
records of ``__transaction_state`` are compared field by field with the version they are written in.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.records.transaction import TransactionLogKey, TransactionLogValue
from kbroker.protocol.record_codec import TRANSACTION, decode_coordinator_key, decode_coordinator_value
from kbroker.protocol.records.batch import batches, read_records
from kbroker.types import TRANSACTION_STATE_TOPIC
from tests.reference.conversation import Conversation, question
from tests.reference.questions.quorum import SAFE_DOWNGRADE, UPGRADE, update
from tests.reference.questions.scenery import create_topic, fetch_request
from tests.reference.questions.transactional_offsets import add_offsets, commit, fetch, fresh_group
from tests.reference.questions.transactional_producer import BUMPING, CLASSIC, Producer, partition_in, read

FEATURE = "transaction.version"
LEVELS = range(3)
DEFAULT_LEVEL = 2
PATIENCE_S = 60.0

VERIFYING = 9
VERIFYING_ABORTABLE = 11
ADDING = 12
"""Versions of Produce: of clients that add partitions first (and know TRANSACTION_ABORTABLE), and that count on the
write to add them."""


PROTOCOLS = (
    (VERIFYING, CLASSIC),
    (VERIFYING_ABORTABLE, CLASSIC),
    (ADDING, BUMPING),
    (ADDING, CLASSIC),
    (VERIFYING, BUMPING),
)
"""Versions of Produce and EndTxn that go together, and two mixtures."""
FIRST_TOO_NEW = (2, len(PROTOCOLS), len(PROTOCOLS))
"""By level: which of them cannot be written down in its records. Apache Kafka fails in the middle of those."""


def finalize(c: Conversation, level: int) -> None:
    """Set the level; returns when the broker tells it."""
    if _finalized(c) == level:
        return
    for kind in (UPGRADE, SAFE_DOWNGRADE):
        c.ask(update((FEATURE, level, kind), version=1, validate_only=False), 1, note=False)
    deadline = time.monotonic() + PATIENCE_S
    while _finalized(c) != level:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{FEATURE} does not come to {level}")
        time.sleep(0.02)


def _finalized(c: Conversation) -> int:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    features = c.client().call(request, 4).finalized_features
    return next((each.max_version_level for each in features if each.name == FEATURE), 0)


@contextlib.contextmanager
def at(c: Conversation, level: int) -> Iterator[None]:
    """The broker is brought to a level, and back."""
    finalize(c, level)
    try:
        yield
    finally:
        finalize(c, DEFAULT_LEVEL)


def log_of(c: Conversation, producer: Producer) -> None:
    """Note the records of a transactional id as they stand in the coordinator's log, versions included."""
    index = partition_in(c, TRANSACTION_STATE_TOPIC, producer.id)
    answer = c.ask(fetch_request(TRANSACTION_STATE_TOPIC, partition=index), 11, note=False)
    for _, each in batches(answer.responses[0].partitions[0].records or b""):
        for record in read_records(each, max_decompressed=1 << 20):
            key = decode_coordinator_key(TRANSACTION, record.key or b"")
            if not isinstance(key, TransactionLogKey) or key.transactional_id != producer.id or record.value is None:
                continue
            version = int.from_bytes(record.value[:2], "big")
            value = decode_coordinator_value(TRANSACTION, key.api_key, record.value)
            assert isinstance(value, TransactionLogValue)
            for topic in value.transaction_partitions or ():
                topic.partition_ids.sort()  # they stand in the order of a hash map over the topic's name
            c.note_answer(f"record of version {version}", value, version)


@question(LEVELS)
def what_is_finalized(c: Conversation, level: int) -> None:
    with at(c, level):
        for version in range(3, 6):
            request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
            answer = c.ask(request, version, note=False)
            found = [
                (each.min_version_level, each.max_version_level)
                for each in answer.finalized_features
                if each.name == FEATURE
            ]
            supported = [
                (each.min_version, each.max_version) for each in answer.supported_features if each.name == FEATURE
            ]
            c.note(f"finalized, version {version}", found)
            c.note(f"supported, version {version}", supported)
            keys = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            c.note(
                f"versions of InitProducerId to TxnOffsetCommit, version {version}",
                {key: keys[key][1] for key in (0, 22, 24, 25, 26, 27, 28)},
            )


@question(LEVELS)
def transactions_of_clients_old_and_new(c: Conversation, level: int) -> None:
    topic, topic_id = create_topic(c)
    with at(c, level):
        for produce_version, end_version in PROTOCOLS[: FIRST_TOO_NEW[level]]:
            producer = Producer(c)
            producer.init()
            for committed in (True, False, True):
                if produce_version < ADDING:
                    producer.add(topic, version=3)
                producer.produce(topic, topic_id, produce_version)
                producer.end(committed, end_version)
                producer.describe()
                if end_version < BUMPING:
                    producer.init()
            producer.end(False, end_version, label="nothing to abort")
            log_of(c, producer)
    read(c, topic, "at last")


@question(range(1))
def clients_that_are_too_new_for_the_level(c: Conversation, level: int) -> None:
    """Only their first requests: Apache Kafka's coordinator never lets go of an id for which it could not write."""
    topic, topic_id = create_topic(c)
    group = fresh_group(c)
    with at(c, level):
        writes, adds, commits, ends, aborts = (Producer(c) for _ in range(5))
        for producer in (writes, adds, commits, ends, aborts):
            producer.init()
        writes.produce(topic, topic_id, ADDING)
        c.ask(AddPartitionsToTxnRequest(transactions=[adds.batched([(topic, (0,))])]), 4)
        commit(c, commits, group, topic, topic_id, 5)
        ends.add(topic)
        ends.produce(topic, topic_id, VERIFYING)
        ends.end(True, BUMPING)
        aborts.end(False, BUMPING)
        for producer in (writes, adds, commits, ends, aborts):
            producer.describe()
            log_of(c, producer)


@question(LEVELS)
def partitions_that_were_not_added(c: Conversation, level: int) -> None:
    topic, topic_id = create_topic(c)
    with at(c, level):
        for version in (3, VERIFYING, VERIFYING_ABORTABLE, *((ADDING, 13) if level else ())):
            producer = Producer(c)
            producer.init()
            producer.produce(topic, topic_id, version)
            producer.describe()
            producer.end(False, BUMPING if version >= ADDING else CLASSIC)
            log_of(c, producer)


@question(LEVELS)
def partitions_that_join_by_either_form(c: Conversation, level: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    with at(c, level):
        for version in (0, 3):
            producer = Producer(c)
            producer.init(1)
            producer.add(topic, (0,), version)
            producer.produce(topic, topic_id, VERIFYING)
            producer.produce(topic, topic_id, VERIFYING, partition=1)
            producer.add(topic, (1,), version)
            producer.produce(topic, topic_id, VERIFYING, partition=1)
            producer.end(True, 1)
            log_of(c, producer)


@question(LEVELS)
def offsets_of_clients_old_and_new(c: Conversation, level: int) -> None:
    topic, topic_id = create_topic(c, partitions=2)
    with at(c, level):
        for version, end_version in ((3, CLASSIC), (4, CLASSIC), *(((5, BUMPING),) if level else ())):
            group = fresh_group(c)
            producer = Producer(c)
            producer.init()
            for committed in (True, False):
                commit(c, producer, group, topic, topic_id, version, label="not added")
                if version < 5:
                    add_offsets(c, producer, group)
                    commit(c, producer, group, topic, topic_id, version, offset=7 if committed else 9)
                producer.end(committed, end_version)
                fetch(c, group, topic, "over", stable=True)
            producer.describe()


@question(LEVELS)
def ends_that_are_said_again(c: Conversation, level: int) -> None:
    topic, topic_id = create_topic(c)
    with at(c, level):
        for end_version in (CLASSIC, 4, *((BUMPING,) if level else ())):
            producer = Producer(c)
            producer.init()
            producer.add(topic)
            producer.produce(topic, topic_id, VERIFYING)
            for label in ("first", "again"):
                producer.end(True, end_version, stays=True, label=label)
            producer.end(False, end_version, stays=True, label="the opposite")
            producer.end(True, end_version, stays=True, epoch=producer.epoch + 1, label="with the next epoch")
            producer.produce(topic, topic_id, VERIFYING, sequence=1)
            if level:
                producer.produce(topic, topic_id, ADDING, sequence=1)
            producer.describe()
            log_of(c, producer)


@question(LEVELS)
def fencing(c: Conversation, level: int) -> None:
    topic, topic_id = create_topic(c)
    with at(c, level):
        for produce_version, end_version in (PROTOCOLS[0], *(PROTOCOLS[2:3] if level else ())):
            producer = Producer(c)
            producer.init()
            if produce_version < ADDING:
                producer.add(topic)
            producer.produce(topic, topic_id, produce_version)
            old: dict[str, Any] = {"producer_id": producer.producer_id, "epoch": producer.epoch}
            request = InitProducerIdRequest(transactional_id=producer.id, transaction_timeout_ms=60_000)
            c.ask(request, 5, label="a successor comes")
            producer.settle()
            producer.describe()
            producer.init(label="and comes again")
            producer.produce(topic, topic_id, produce_version, sequence=1, epoch=old["epoch"])
            producer.end(True, end_version, label="the old one commits", stays=True, **old)
            producer.add(topic, **old)
            producer.init(label="the old one goes on", producer_id=old["producer_id"], producer_epoch=old["epoch"])
            log_of(c, producer)
    read(c, topic, "at last")


@question(LEVELS)
def time_outs(c: Conversation, level: int) -> None:
    topic, topic_id = create_topic(c)
    with at(c, level):
        for produce_version, end_version in (PROTOCOLS[0], *(PROTOCOLS[2:3] if level else ())):
            producer = Producer(c)
            producer.init(transaction_timeout_ms=100 * c.slowness)
            if produce_version < ADDING:
                producer.add(topic)
            producer.produce(topic, topic_id, produce_version)
            producer.wait_for("CompleteAbort")
            producer.describe()
            producer.end(True, end_version, label="too late", stays=True)
            producer.init(label="goes on", producer_id=producer.producer_id, producer_epoch=producer.epoch)
            producer.describe()
            log_of(c, producer)


@question(LEVELS)
def a_level_changes_under_open_transactions(c: Conversation, level: int) -> None:
    topic, topic_id = create_topic(c)
    for start in LEVELS:
        old, new = Producer(c), Producer(c)
        producers = [old, new] if start and level else [old]
        with at(c, start):
            for producer in producers:
                producer.init()
            old.add(topic)
            old.produce(topic, topic_id, VERIFYING)
            if new in producers:
                new.produce(topic, topic_id, ADDING)
            finalize(c, level)
            old.end(True, CLASSIC, label=f"from {start}, old")
            if new in producers:
                new.end(True, BUMPING, label=f"from {start}, new")
            for producer in producers:
                producer.describe()
                producer.init(label="with its epoch", producer_id=producer.producer_id, producer_epoch=producer.epoch)
                log_of(c, producer)
    read(c, topic, "at last")
