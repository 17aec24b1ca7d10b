"""A data directory that fails while the broker serves, is still failed at the next start, and comes back after it.

The same is told to Apache Kafka and to kbroker. Which partitions are in it is theirs to choose: the transcript shows
one of each kind, and the good directories as a sum.

After a start with the failed directory Apache Kafka answers for what is in it in one of two ways. It skips the logs
that it cannot make (NOT_LEADER_OR_FOLLOWER), and marks them as offline when the partitions change once more
(KAFKA_STORAGE_ERROR); whether its first image of the metadata holds that change depends on the order of its threads.
kbroker always says KAFKA_STORAGE_ERROR, and the other answer is read as this one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.broker_process import BrokerProcess
from tests.reference.comparison import differences, labelled
from tests.reference.conversation import Conversation
from tests.reference.questions.delete_records import deletion
from tests.reference.questions.describe_producers import description
from tests.reference.questions.describe_topic_partitions import description as named_in_full
from tests.reference.questions.list_offsets import list_request
from tests.reference.questions.log_dirs import Move, Moved, home_of, places
from tests.reference.questions.metadata import named
from tests.reference.questions.offset_for_leader_epoch import epoch_request
from tests.reference.questions.scenery import append, batch, create_topic, fetch_request, produce_request
from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka

pytestmark = pytest.mark.all

SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "500"}
PARTITIONS = 4
PATIENCE_S = 30


class Story:
    """One broker with three directories, of which the last holds the metadata log; one of the others fails."""

    def __init__(self, bootstrap: str) -> None:
        self.c = Conversation(bootstrap)
        self.topic, _ = create_topic(self.c, partitions=PARTITIONS)
        for number in range(PARTITIONS):
            append(self.c, self.topic, batch((b"a", b"b")), number)

    def choose(self, metadata_directory: Path) -> None:
        homes = {number: home_of(self.c, self.topic, number) for number in range(PARTITIONS)}
        self.lost = next(number for number, home in homes.items() if home != str(metadata_directory))
        self.kept = next(number for number, home in homes.items() if home != homes[self.lost])
        self.broken, self.good = Path(homes[self.lost]), homes[self.kept]
        self.away = self.broken.with_name(self.broken.name + "-away")
        self.homes = {number: home == str(self.broken) for number, home in homes.items()}

    def fail(self) -> None:
        """A file takes the directory's place: it shows at the next checkpoint, or when a segment is made."""
        shutil.move(self.broken, self.away)
        self.broken.write_text("")
        deadline = time.monotonic() + PATIENCE_S
        while not any(each.error_code for each in self._directories()):
            assert time.monotonic() < deadline, "the directory does not go offline"
            time.sleep(0.1)
        self.await_leaders(kept_only=True)

    def repair(self) -> None:
        self.broken.unlink()
        shutil.move(self.away, self.broken)

    def _directories(self) -> list[Any]:
        found: list[Any] = self.c.ask(DescribeLogDirsRequest(topics=None), 4, note=False).results
        return found

    def ask_all(self, moment: str) -> None:
        c = self.c
        self.note_directories(moment)
        for kind, number in (("lost", self.lost), ("kept", self.kept)):
            label = f"{moment}: {kind}"
            for acks in (-1, 1):
                answer = c.ask(produce_request(self.topic, batch(), partition=number, acks=acks), 9, note=False)
                written = answer.responses[0].partition_responses[0]
                c.note(f"{label}: acks={acks}", (written.error_code, written.base_offset))
            fetched = c.ask(fetch_request(self.topic, partition=number), 11, note=False).responses[0].partitions[0]
            c.note(f"{label}: fetch", (fetched.error_code, fetched.high_watermark, len(fetched.records or b"")))
            for time_ms in (-1, -2, -3):
                answer = c.ask(list_request(self.topic, time_ms, partition=number), 7, note=False)
                found = answer.topics[0].partitions[0]
                c.note(f"{label}: offset at {time_ms}", (found.error_code, found.offset))
            ended = c.ask(epoch_request(self.topic, 0, partition=number), 4, note=False).topics[0].partitions[0]
            c.note(f"{label}: epoch", (ended.error_code, ended.end_offset))
            writers = c.ask(description(self.topic, number), 0, note=False).topics[0].partitions[0]
            c.note(f"{label}: producers", writers.error_code)
            deleted = c.ask(deletion(self.topic, (number, 1)), 2, note=False).topics[0].partitions[0]
            c.note(f"{label}: deletion", (deleted.error_code, deleted.low_watermark))

    def note_directories(self, moment: str) -> None:
        c = self.c
        c.note(
            f"{moment}: directories", sorted((each.error_code, each.total_bytes > 0) for each in self._directories())
        )
        for name, answer in (
            ("metadata", c.ask(named(self.topic), 12, note=False)),
            ("description", c.ask(named_in_full(self.topic), 0, note=False)),
        ):
            states = {
                (
                    self.homes[each.partition_index],
                    each.error_code,
                    each.leader_id,
                    *map(tuple, (each.isr_nodes, each.offline_replicas)),
                )
                for each in answer.topics[0].partitions
            }
            c.note(f"{moment}: {name}", sorted(states))

    def move_and_make(self) -> None:
        c = self.c
        for path, name in ((self.good, "good"), (str(self.broken), "broken"), ("/nowhere", "unknown")):
            for kind, number in (("lost", self.lost), ("kept", self.kept)):
                c.note(f"{kind} to the {name} one", self._moved(path, number))
        new, _ = create_topic(c, "new", PARTITIONS)
        for number in range(PARTITIONS):
            append(c, new, batch(), number)
        c.note("new ones", all(path != str(self.broken) for at in places(c, new).values() for path, *_ in at))

    def _moved(self, path: str, number: int) -> list[int]:
        request = AlterReplicaLogDirsRequest(
            dirs=[Move(path=path, topics=[Moved(name=self.topic, partitions=[number])])]
        )
        answer = self.c.ask(request, 2, note=False)
        return [each.error_code for topic in answer.results for each in topic.partitions]

    def await_leaders(self, *, kept_only: bool) -> None:
        """Until every partition is led and answers, or those in the good directories do, and the others have no leader.

        That a broker does not answer for a partition any more is not enough: its controller may not know it yet.
        """
        deadline = time.monotonic() + PATIENCE_S
        for number in range(PARTITIONS):
            is_led = not (kept_only and self.homes[number])
            while not (self._is_led(number) and self._is_answered(number) if is_led else not self._is_led(number)):
                assert time.monotonic() < deadline, f"partition {number} is {'not' if is_led else 'still'} led"
                time.sleep(0.1)

    def _is_led(self, number: int) -> bool:
        states = self.c.ask(named(self.topic), 12, note=False).topics[0].partitions
        return any(each.partition_index == number and each.leader_id != -1 for each in states)

    def _is_answered(self, number: int) -> bool:
        answer = self.c.ask(list_request(self.topic, -1, partition=number), 7, note=False)
        return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)


def told(bootstrap: str, metadata_directory: Path, restart: Callable[[], str]) -> dict[str, Any]:
    story = Story(bootstrap)
    story.choose(metadata_directory)
    story.ask_all("before")
    story.fail()
    story.ask_all("failed")
    story.move_and_make()
    for moment in ("failed at the start", "repaired"):
        if moment == "repaired":
            story.repair()
        story.c.hang_up()
        story.c.bootstrap = restart()
        story.await_leaders(kept_only=moment != "repaired")
        story.ask_all(moment)
    story.c.close()
    return labelled(story.c.transcript)


def read(label: str, noted: Any) -> Any:
    """What was noted of Apache Kafka, with one answer for the two that it may give (see above)."""
    if "failed at the start: lost" not in label:
        return noted
    codes = {int(ErrorCode.NOT_LEADER_OR_FOLLOWER): int(ErrorCode.KAFKA_STORAGE_ERROR)}
    if isinstance(noted, tuple):
        return (codes.get(noted[0], noted[0]), *noted[1:])
    return codes.get(noted, noted)


@pytest.mark.timeout(300)
def test_a_failed_directory_is_answered_for_as_by_apache_kafka(tmp_path: Path) -> None:
    require("java")
    paths = [tmp_path / f"kafka-{number}" for number in range(3)]
    settings = {**SETTINGS, "log.dirs": ",".join(map(str, paths)), "metadata.log.dir": str(paths[2])}
    with ReferenceKafka(tmp_path / "kafka", overrides=settings) as kafka:

        def restart_kafka() -> str:
            kafka.stop()
            kafka.start()
            return kafka.bootstrap

        told_by_kafka = told(kafka.bootstrap, paths[2], restart_kafka)
        reference = {label: read(label, noted) for label, noted in told_by_kafka.items()}
    paths = [tmp_path / f"kbroker-{number}" for number in range(3)]
    settings = {**SETTINGS, "metadata.log.dir": str(paths[2])}
    options = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    with BrokerProcess(paths[0], *options, more_dirs=paths[1:]) as broker:

        def restart_broker() -> str:
            broker.stop()
            return broker.start().bootstrap

        kbroker = told(broker.bootstrap, paths[2], restart_broker)
    assert [str(each) for each in differences("failed directory", reference, kbroker)] == []
