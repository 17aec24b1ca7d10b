"""What is left after a restart, clean or by ``kill -9``, is the same in both brokers.

Each is told the same story (records of plain, idempotent and transactional producers, groups, configurations), stops,
starts on the same data, and is asked for everything; then once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.types import GROUP_METADATA_TOPIC
from tests.broker_process import BrokerProcess
from tests.reference.comparison import differences, labelled
from tests.reference.conversation import Conversation
from tests.reference.deviations import sift
from tests.reference.questions.configs import note_rows
from tests.reference.questions.describe_producers import description
from tests.reference.questions.group_offsets import commit_request
from tests.reference.questions.group_offsets import fetch_request as offsets_request
from tests.reference.questions.group_scenery import (
    begin_join,
    heartbeat_request,
    join_request,
    new_group,
    stable_pair,
    sync_request,
)
from tests.reference.questions.incremental_alter_configs import SET, alteration
from tests.reference.questions.list_offsets import list_request
from tests.reference.questions.metadata import named
from tests.reference.questions.offset_for_leader_epoch import epoch_request
from tests.reference.questions.produce import idempotent
from tests.reference.questions.scenery import TIME_MS, append, batch, create_topic, fetch_request, produce_request
from tests.reference.questions.transactional_offsets import add_offsets, commit
from tests.reference.questions.transactional_producer import Producer, find_coordinator, read
from tests.reference.settings import KBROKER_STANDING_STILL, STANDING_STILL
from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka

pytestmark = pytest.mark.all

TOPIC = 2


class Story:
    """What one broker is told, and what it is asked afterwards."""

    def __init__(self, c: Conversation) -> None:
        self.c = c
        self.topic = create_topic(c, partitions=2)
        self.gone, _ = create_topic(c)
        self.grown, _ = create_topic(c)
        self.simple, self.pair, self.static = new_group(c), new_group(c), new_group(c)
        self.producers = [Producer(c), Producer(c), Producer(c)]

    def tell(self, killed: bool) -> None:
        self._records(killed)
        self._topics()
        self._groups()
        self._transactions()

    def _records(self, killed: bool) -> None:
        c, name = self.c, self.topic[0]
        append(c, name, batch([b"a", b"b", b"c"]))
        for sequence in range(7):
            append(c, name, idempotent(sequence), partition=1)
        if not killed:  # records that were deleted right before a kill may be back
            wanted = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=2)
            deleted = DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[wanted])
            c.ask(DeleteRecordsRequest(topics=[deleted], timeout_ms=10_000), 2)

    def _topics(self) -> None:
        c = self.c
        append(c, self.gone, batch())
        c.ask(DeleteTopicsRequest(topic_names=[self.gone], timeout_ms=10_000), 5)
        c.ask(alteration(self.topic[0], ("retention.ms", SET, "12345678")), 1)
        growth = CreatePartitionsRequest.CreatePartitionsTopic(name=self.grown, count=3, assignments=None)
        c.ask(CreatePartitionsRequest(topics=[growth], timeout_ms=10_000), 3)

    def _groups(self) -> None:
        c = self.c
        c.ask(commit_request(self.simple, self.topic, (0, 3), (1, 5), epoch=0), 8)
        c.ask(commit_request(self.simple, self.topic, (1, 6), metadata="later"), 8)
        self.ann, self.bob, self.generation = stable_pair(c, self.pair, 9)
        committed = commit_request(self.pair, self.topic, (0, 1), member_id=self.ann, generation=self.generation)
        c.ask(committed, 8)
        begin_join(c, "static", self.static, 9, instance="i")
        self.fixed = c.end("static").member_id
        c.ask(sync_request(self.static, 1, self.fixed, {self.fixed: b"s"}, instance="i"), 5)

    def _transactions(self) -> None:
        name, topic_id = self.topic
        for each in self.producers:
            each.init()
            each.add(name)
            each.produce(name, topic_id, 11)
            add_offsets(self.c, each, self.simple)
            commit(self.c, each, self.simple, name, topic_id, 3, offset=40)
        self.producers[0].end(True)
        self.producers[0].wait_for("CompleteCommit")
        into_the_next_millisecond()  # which marker is the later one is asked
        self.producers[1].end(False)

    def ask(self) -> None:
        self._ask_topics()
        for partition in (0, 1):
            self._ask_partition(partition)
        read(self.c, self.topic[0], "all", 2)
        for sequence in (6, 5, 2, 9, 7):
            asked = produce_request(self.topic[0], idempotent(sequence), partition=1)
            self.c.ask(asked, 9, label=f"sequence {sequence}")
        self._ask_groups()
        self._ask_transactions()

    def _ask_topics(self) -> None:
        for name, partitions in ((self.topic[0], 2), (self.grown, 3)):
            self.c.await_leaders(name, partitions)
            self.c.ask(named(name), 12)
        self.c.ask(named(self.gone), 12)
        note_rows(self.c, TOPIC, self.topic[0], ["retention.ms", "cleanup.policy"])

    def _ask_partition(self, partition: int) -> None:
        c, name = self.c, self.topic[0]
        for time_ms in (-1, -2, -3, -4, -5, 0, TIME_MS + 1):
            for isolation in (0, 1):
                c.ask(list_request(name, time_ms, partition=partition, isolation=isolation), 9)
        for epoch in (0, 1, 2, 3):
            c.ask(epoch_request(name, epoch, partition=partition), 4, label=f"epoch {epoch}")
            asked = fetch_request(name, partition=partition)
            asked.topics[0].partitions[0].current_leader_epoch = epoch
            answer = c.ask(asked, 11, note=False)
            answer.responses[0].partitions[0].records = None  # producer ids differ; see ``read``
            c.note_answer(f"current epoch {epoch}", answer, 11)
        answer = c.ask(description(name, partition), 0, note=False)
        for one in answer.topics[0].partitions:
            one.active_producers.sort(key=lambda each: (each.current_txn_start_offset, each.last_sequence))
        c.note_answer("producers", answer, 0)

    def _ask_groups(self) -> None:
        c = self.c
        for group in (self.simple, self.pair, self.static):
            find_coordinator(c, group, 0)
            c.await_answer(offsets_request(8, group, None), 8, lambda each: each.groups[0].error_code == 0)
            c.ask(offsets_request(8, group, [(self.topic, [0, 1])]), 8, unordered=True)
            c.ask(offsets_request(8, group, None, require_stable=True), 8, unordered=True)
            c.ask(DescribeGroupsRequest(groups=[group]), 5, unordered=True)
        listed = c.ask(ListGroupsRequest(), 5, note=False)
        c.note("groups", sorted((each.protocol_type, each.group_state, each.group_type) for each in listed.groups))
        c.ask(heartbeat_request(self.pair, self.generation, self.ann), 4, label="ann")
        c.ask(heartbeat_request(self.pair, self.generation, self.bob), 4, label="bob")
        c.ask(sync_request(self.pair, self.generation, self.bob), 5, label="bob syncs")
        c.ask(heartbeat_request(self.static, 1, self.fixed, "i"), 4, label="static")
        c.ask(join_request(self.simple, "made up"), 9)

    def _ask_transactions(self) -> None:
        for each in self.producers:
            each.wait_for("Ongoing", "CompleteCommit", "CompleteAbort", "Empty")
            asked = DescribeTransactionsRequest(transactional_ids=[each.id])
            answer = self.c.ask(asked, 0, note=False)
            for topic in answer.transaction_states[0].topics:
                if topic.topic == GROUP_METADATA_TOPIC:
                    topic.partitions = []  # which one depends on the group's name
            answer.transaction_states[0].topics.sort(key=lambda topic: topic.topic)
            self.c.note_answer("DescribeTransactions", answer, 0)
        listed = self.c.ask(ListTransactionsRequest(), 2, note=False)
        self.c.note("transactions", sorted(each.transaction_state for each in listed.transaction_states))

    def go_on(self) -> None:
        """The transaction that was open goes on and commits."""
        running, (name, topic_id) = self.producers[2], self.topic
        running.produce(name, topic_id, 11, sequence=1)
        running.end(True)
        read(self.c, name, "committed", 2)
        stable = offsets_request(8, self.simple, None, require_stable=True)
        self.c.await_answer(stable, 8, lambda each: each.groups[0].error_code == 0)
        self.c.ask(stable, 8, unordered=True)
        self.producers[0].init()


def into_the_next_millisecond() -> None:
    now_ms = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == now_ms:
        pass


def told(bootstrap: str, restart: Callable[[], str], killed: bool) -> dict[str, Any]:
    """The transcript of the story and of what was asked after each of two restarts."""
    c = Conversation(bootstrap)
    try:
        story = Story(c)
        story.tell(killed)
        for number in (1, 2):
            for connection in ("main", "ann", "bob", "static"):
                c.hang_up(connection)
            c.bootstrap = restart()
            c.note(f"restart {number}", None)
            story.ask()
            if number == 1:
                story.go_on()
        return labelled(c.transcript)
    finally:
        c.close()


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_restarted_broker_has_what_apache_kafka_has(tmp_path: Path, killed: bool) -> None:
    require("java")
    with ReferenceKafka(tmp_path / "reference", overrides=STANDING_STILL) as kafka:

        def restart_kafka() -> str:
            kafka.stop(kill=killed)
            kafka.start()
            return kafka.bootstrap

        reference = told(kafka.bootstrap, restart_kafka, killed)
    with BrokerProcess(tmp_path / "kbroker", *KBROKER_STANDING_STILL) as broker:

        def restart_broker() -> str:
            if killed:
                broker.kill()
            else:
                broker.stop()
            return broker.start().bootstrap

        kbroker = told(broker.bootstrap, restart_broker, killed)
    found, _ = sift(differences("restart", reference, kbroker))
    assert not found, "\n".join(map(str, found))
