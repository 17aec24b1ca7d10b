"""Groups of real consumers: two members, a rebalance, commits; a restart and a kill -9 of the broker; resumption."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka.errors
import pytest
from kafka import KafkaConsumer
from kafka.coordinator.base import MemberState

from tests.broker_process import BrokerProcess
from tests.compat.test_confluent_kafka import make_topic
from tests.patience import PATIENCE_S

PARTITIONS = 4
RECORDS = 40
DEADLINE_SECONDS = 90.0
SESSION_MS = 30_000
"""Members here say goodbye: nobody waits for the end of a session, and a slow machine needs long ones."""
RECONNECT_MS = 500
"""Clients that wait longer and longer for a broker that is slow to start would miss the end of their session."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        yield process


def produce(bootstrap: str, topic: str, start: int) -> None:
    """Records numbered from ``start``, spread over all partitions."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(start, start + RECORDS):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(DEADLINE_SECONDS) == 0


class KafkaPython:
    """kafka-python, polled in a thread of its own: it forgets a join whose last answer comes between two polls, and
    begins another."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            reconnect_backoff_max_ms=RECONNECT_MS,
        )
        # On a busy machine it may join before it knows the topic, share out nothing, and leave it at that.
        self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe([topic])
        self._thread = ThreadPoolExecutor(1)
        self._polling = self._begin_poll()

    def _begin_poll(self) -> Future[Any]:
        return self._thread.submit(self._consumer.poll, timeout_ms=1_000)

    def poll(self) -> list[bytes]:
        wait([self._polling], 0.05)
        if not self._polling.done():
            return []
        batches = self._polling.result()
        self._polling = self._begin_poll()
        return [record.value for batch in batches.values() for record in batch]

    def assignment(self) -> set[int]:
        """Nothing while it joins: what it has then is of the generation before."""
        if self._consumer.group_metadata().state is not MemberState.STABLE:
            return set()
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._thread.submit(self._consumer.commit).result()

    def close(self) -> None:
        self._thread.submit(self._consumer.close, autocommit=False).result()
        self._thread.shutdown()


class ConfluentKafka:
    strategy = "range"

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 300,
                "reconnect.backoff.max.ms": RECONNECT_MS,
                "partition.assignment.strategy": self.strategy,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> list[bytes]:
        messages = self._consumer.consume(RECORDS, timeout=0.05)
        return [message.value() or b"" for message in messages if message.error() is None]

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class ConfluentKafkaCooperative(ConfluentKafka):
    strategy = "cooperative-sticky"


class AioKafka:
    """aiokafka on a loop of its own; its heartbeats run while the loop does."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self._loop = asyncio.new_event_loop()

        async def start() -> Any:
            return aiokafka.AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=300,
                metadata_max_age_ms=1_000,
            )

        self._consumer = self._loop.run_until_complete(start())
        # Joining waits for the other member, which runs in this thread, too: it goes on while we poll.
        self._starting = self._loop.create_task(self._consumer.start())

    def poll(self) -> list[bytes]:
        if not self._starting.done():
            self._loop.run_until_complete(asyncio.wait([self._starting], timeout=0.05))
            return []
        self._starting.result()
        batches = self._loop.run_until_complete(self._consumer.getmany(timeout_ms=50))
        return [record.value for batch in batches.values() for record in batch]

    def assignment(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def commit(self) -> None:
        self._loop.run_until_complete(self._consumer.commit())

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


class Member(Protocol):
    """What a test asks of a member of a group; ``poll`` gives the values that came, within a moment."""

    def poll(self) -> list[bytes]: ...
    def assignment(self) -> set[int]: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


def poll_until(members: Sequence[Member], is_done: Callable[[list[int]], bool]) -> list[int]:
    """Poll every member in turn until what came, as numbers, is enough."""
    received: list[int] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_done(received):
        assert time.monotonic() < deadline, f"{received}, {[each.assignment() for each in members]}"
        for member in members:
            received += [int(value) for value in member.poll()]
    return received


def are_shared(members: Sequence[Member]) -> bool:
    """Every member has partitions, and together they have each once."""
    owned = [partition for member in members for partition in sorted(member.assignment())]
    return sorted(owned) == list(range(PARTITIONS)) and all(member.assignment() for member in members)


REBALANCING = (
    kafka.errors.RebalanceInProgressError,
    kafka.errors.CommitFailedError,
    aiokafka.errors.CommitFailedError,
    confluent_kafka.KafkaException,
)


def commit(bootstrap: str, members: Sequence[Member]) -> None:
    """Let them commit all that they got.

    A client may rejoin by itself. Then it asks for polls until that is over, and reads again what was not committed.
    """

    def is_committed(_received: list[int]) -> bool:
        for member in members:
            with contextlib.suppress(*REBALANCING):
                member.commit()
        return are_committed(bootstrap)

    poll_until(members, is_committed)


def are_committed(bootstrap: str) -> bool:
    """Whether the group is at the end of every partition."""
    reader = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    partitions = [confluent_kafka.TopicPartition("t", number) for number in range(PARTITIONS)]
    committed = [each.offset for each in reader.committed(partitions, PATIENCE_S)]
    ends = [reader.get_watermark_offsets(each, PATIENCE_S)[1] for each in partitions]
    reader.close()
    return committed == ends


@pytest.mark.parametrize("member", [KafkaPython, ConfluentKafka, ConfluentKafkaCooperative, AioKafka])
@pytest.mark.parametrize("kill", [False, True], ids=["restarted", "killed"])
def test_a_group_shares_rebalances_commits_and_goes_on_after_the_broker(
    broker: BrokerProcess, member: Callable[..., Member], kill: bool
) -> None:
    make_topic(broker.bootstrap, "t", partitions=PARTITIONS)
    produce(broker.bootstrap, "t", 0)
    first = member(broker.bootstrap, "t", "g")
    assert sorted(poll_until([first], lambda received: len(received) >= RECORDS)) == list(range(RECORDS))
    commit(broker.bootstrap, [first])
    second = member(broker.bootstrap, "t", "g")
    assert poll_until([first, second], lambda _: are_shared([first, second])) == []
    produce(broker.bootstrap, "t", RECORDS)
    received = poll_until([first, second], lambda received: len(received) >= RECORDS)
    assert sorted(received) == list(range(RECORDS, 2 * RECORDS))
    commit(broker.bootstrap, [first, second])
    second.close()
    first.close()
    if kill:
        broker.kill()
    else:
        broker.stop()
    broker.start()
    produce(broker.bootstrap, "t", 2 * RECORDS)
    third = member(broker.bootstrap, "t", "g")
    received = poll_until([third], lambda received: len(received) >= RECORDS)
    assert sorted(received) == list(range(2 * RECORDS, 3 * RECORDS))
    third.close()


@pytest.mark.parametrize("member", [KafkaPython, ConfluentKafka, AioKafka])
def test_members_live_through_a_restart_of_the_broker(broker: BrokerProcess, member: Callable[..., Member]) -> None:
    make_topic(broker.bootstrap, "t", partitions=PARTITIONS)
    members = [member(broker.bootstrap, "t", "g") for _ in range(2)]
    poll_until(members, lambda _: are_shared(members))
    shares = [each.assignment() for each in members]
    broker.stop()
    broker.start()
    produce(broker.bootstrap, "t", 0)
    # Who joins anew reads again what it has not committed.
    received = poll_until(members, lambda received: len(set(received)) >= RECORDS)
    assert set(received) == set(range(RECORDS))
    commit(broker.bootstrap, members)
    poll_until(members, lambda _: [each.assignment() for each in members] == shares)
    for each in members:
        each.close()
