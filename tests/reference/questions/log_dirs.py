"""DescribeLogDirs and AlterReplicaLogDirs on one node with two directories."""

from __future__ import annotations

from typing import Any

from kbroker.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kbroker.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import append, batch, create_topic, fresh_name

Topic = DescribeLogDirsRequest.DescribableLogDirTopic
Move = AlterReplicaLogDirsRequest.AlterReplicaLogDir
Moved = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
Alterable = IncrementalAlterConfigsRequest.AlterableConfig
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
BROKER = 4
SET, DELETE = 0, 1


def directories(c: Conversation) -> list[str]:
    return [each.log_dir for each in c.ask(DescribeLogDirsRequest(topics=[]), 4, note=False).results]


def places(c: Conversation, topic: str) -> dict[int, list[tuple[str, int, int, bool]]]:
    """Of each partition: the directories it is in, with size, lag and whether that is its future."""
    answer = c.ask(DescribeLogDirsRequest(topics=None), 4, note=False)
    found: dict[int, list[tuple[str, int, int, bool]]] = {}
    for directory in answer.results:
        for each in directory.topics:
            for entry in each.partitions if each.name == topic else ():
                place = (directory.log_dir, entry.partition_size, entry.offset_lag, entry.is_future_key)
                found.setdefault(entry.partition_index, []).append(place)
    return found


def home_of(c: Conversation, topic: str, partition: int = 0) -> str:
    (home,) = [path for path, *_, is_future in places(c, topic)[partition] if not is_future]
    return home


def home_and_other(c: Conversation, topic: str, partition: int = 0) -> tuple[str, str]:
    home = home_of(c, topic, partition)
    others = [path for path in directories(c) if path != home]
    if not others:
        raise ValueError("a log can only move where there are two: start both brokers with two log.dirs")
    return home, others[0]


def move(c: Conversation, path: str, topic: str, *partitions: int, version: int = 2, label: str = "") -> None:
    moved = Moved(name=topic, partitions=list(partitions or (0,)))
    request = AlterReplicaLogDirsRequest(dirs=[Move(path=path, topics=[moved])])
    c.ask(request, version, label=label, note=bool(label), unordered=True)


def note_places(c: Conversation, label: str, topic: str, home: str, *, sizes: bool = True) -> None:
    found = {
        partition: sorted(
            ("home" if path == home else "other", is_future, size if sizes else size > 0, lag if sizes else lag > 0)
            for path, size, lag, is_future in entries
        )
        for partition, entries in places(c, topic).items()
    }
    c.note(label, sorted(found.items()))


def await_move(c: Conversation, topic: str, target: str) -> None:
    def has_moved(answer: Any) -> bool:
        return all(
            (directory.log_dir == target) and not entry.is_future_key
            for directory in answer.results
            for each in directory.topics
            for entry in each.partitions
        )

    c.await_answer(DescribeLogDirsRequest(topics=[Topic(topic=topic, partitions=[0, 1])]), 4, has_moved)


def set_broker(c: Conversation, name: str, value: str | None, *, label: str = "") -> None:
    alterable = Alterable(name=name, config_operation=DELETE if value is None else SET, value=value)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=[alterable]
    )
    c.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1, label=label, note=bool(label))


@question(range(1, 3))
def a_log_moves_and_comes_back(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    append(c, topic, batch((b"value", b"another")))
    append(c, topic, batch((b"value",)))
    home, other = home_and_other(c, topic)
    move(c, home, topic, 0, 1, version=version, label="together")
    await_move(c, topic, home)
    note_places(c, "before", topic, home)
    move(c, other, topic, 0, 1, version=version, label="away")
    await_move(c, topic, other)
    note_places(c, "away", topic, home)
    append(c, topic, batch((b"value",)))
    move(c, other, topic, 0, version=version, label="there already")
    move(c, home, topic, 0, 1, version=version, label="back")
    await_move(c, topic, home)
    note_places(c, "back", topic, home)


@question(range(2, 3))
def a_slow_move_is_seen_given_up_and_deleted(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    for _ in range(4):
        append(c, topic, batch([bytes(100_000)] * 9))
    home, other = home_and_other(c, topic)
    set_broker(c, RATE, "1000", label="slow")
    try:
        move(c, other, topic, version=version, label="away")
        c.await_answer(
            DescribeLogDirsRequest(topics=[Topic(topic=topic, partitions=[0])]),
            4,
            lambda answer: all(each.topics for each in answer.results),
        )
        note_places(c, "on its way", topic, home, sizes=False)
        move(c, other, topic, version=version, label="again")
        move(c, home, topic, version=version, label="given up")
        note_places(c, "given up", topic, home)
        move(c, other, topic, version=version, label="away again")
        c.ask(DeleteTopicsRequest(topic_names=[topic], topics=[], timeout_ms=10_000), 5, label="deleted")
        c.note("gone", c.followed(lambda: places(c, topic)))
        for value in ("-1", "many", "0"):
            set_broker(c, RATE, value, label=f"rate {value}")
    finally:
        set_broker(c, RATE, None)


@question(range(2, 3))
def names_that_are_too_long_for_a_future_do_not_move(c: Conversation, version: int) -> None:
    target = directories(c)[0]
    for length in (213, 214):
        name = fresh_name(c).ljust(length, "x")
        c.call_it(name, f"of-{length}")
        move(c, target, name, version=version, label=f"unknown, of {length}")
        move(c, "/nowhere", name, version=version, label=f"unknown, of {length}, nowhere")


@question(range(2, 3))
def cordoned_directories_take_nothing_new(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c)
    append(c, topic, batch())
    home, other = home_and_other(c, topic)
    c.call_it(other, "other")
    c.call_it(home, "home")
    for value in ("/nowhere", f"*,{home}", f"{home},{home}", f"{home}/", " "):
        set_broker(c, "cordoned.log.dirs", value, label=f"value {value}")

    def cordoned() -> list[tuple[str, bool]]:
        answer = c.ask(DescribeLogDirsRequest(topics=[]), 5, note=False)
        return sorted(("home" if each.log_dir == home else "other", each.is_cordoned) for each in answer.results)

    try:
        set_broker(c, "cordoned.log.dirs", other, label="one")
        c.note("one", c.followed(cordoned))
        made, _ = create_topic(c, partitions=3)
        note_places(c, "made elsewhere", made, home)
        for label, name in (("own", topic), ("unknown", fresh_name(c))):
            move(c, other, name, version=version, label=f"onto it, {label}")
        set_broker(c, "cordoned.log.dirs", "*", label="all")
        c.note("all", c.followed(cordoned))
        _ask_for_new_replicas(c, topic)
    finally:
        set_broker(c, "cordoned.log.dirs", None)
    c.note("none", c.followed(cordoned))


def _ask_for_new_replicas(c: Conversation, topic: str) -> None:
    Wanted = CreateTopicsRequest.CreatableTopic  # noqa: N806 - a class
    assignment = CreateTopicsRequest.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])
    for label, settings in (
        ("placed", {"num_partitions": 1, "replication_factor": 1}),
        ("assigned", {"num_partitions": -1, "replication_factor": -1, "assignments": [assignment]}),
    ):
        wanted = Wanted(name=fresh_name(c), **settings)
        c.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7, label=f"topic, {label}")
    more = CreatePartitionsRequest
    for label, assignments in (
        ("placed", None),
        ("assigned", [more.CreatePartitionsAssignment(broker_ids=[1])]),
    ):
        grown = more.CreatePartitionsTopic(name=topic, count=2, assignments=assignments)
        c.ask(more(topics=[grown], timeout_ms=10_000), 3, label=f"partition, {label}")
    again = AlterPartitionReassignmentsRequest
    partition = again.ReassignablePartition(partition_index=0, replicas=[1])
    reassigned = again.ReassignableTopic(name=topic, partitions=[partition])
    c.ask(again(topics=[reassigned], timeout_ms=10_000), 1, label="reassigned")


@question(range(1, 6))
def what_a_directory_holds(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    append(c, topic, batch((b"value",)))
    append(c, topic, batch((b"value", b"another")))
    append(c, topic, batch((b"value",)), partition=1)
    for label, topics in (
        ("one", [Topic(topic=topic, partitions=[0])]),
        ("both", [Topic(topic=topic, partitions=[0, 1])]),
        ("twice", [Topic(topic=topic, partitions=[0]), Topic(topic=topic, partitions=[1, 1])]),
        ("missing", [Topic(topic=topic, partitions=[7, -1]), Topic(topic="no-such", partitions=[0])]),
        ("none", [Topic(topic=topic, partitions=[])]),
        ("empty", []),
    ):
        answer = c.ask(DescribeLogDirsRequest(topics=topics), version, note=False)
        c.note(f"{label}: error", answer.error_code)
        found = [
            ("t" if entry.name == topic else entry.name, p.partition_index, p.partition_size, p.offset_lag)
            for each in answer.results
            for entry in each.topics
            for p in entry.partitions
        ]
        c.note(label, ([(each.error_code, each.is_cordoned) for each in answer.results], sorted(found)))


@question(range(4, 6))
def a_disk_has_a_size(c: Conversation, version: int) -> None:
    answer = c.ask(DescribeLogDirsRequest(topics=[]), version, note=False)
    for each in answer.results:
        c.note("sizes", each.total_bytes > each.usable_bytes > 0)
        c.note("absolute", each.log_dir.startswith("/"))


@question(range(1, 3))
def replicas_that_stay_where_they_are(c: Conversation, version: int) -> None:
    topic, _ = create_topic(c, partitions=2)
    append(c, topic, batch())
    home = home_of(c, topic)
    missing = fresh_name(c)
    for label, path, name, partitions in (
        ("home", home, topic, [0]),
        ("elsewhere", "/no/such/directory", topic, [0, 7]),
        ("relative", "data", topic, [0]),
        ("no path", "", topic, [0]),
        ("no partition", home, topic, [7]),
        ("no topic", home, missing, [0]),
        ("bad name", home, "bad name!", [0]),
        ("none", home, topic, []),
    ):
        request = AlterReplicaLogDirsRequest(dirs=[Move(path=path, topics=[Moved(name=name, partitions=partitions)])])
        c.ask(request, version, label=label, unordered=True)
    c.ask(AlterReplicaLogDirsRequest(dirs=[]), version, label="nothing")
