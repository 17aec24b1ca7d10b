"""DescribeLogDirs and AlterReplicaLogDirs on one node with one directory."""

from __future__ import annotations

from kbroker.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import append, batch, create_topic, fresh_name

Topic = DescribeLogDirsRequest.DescribableLogDirTopic
Move = AlterReplicaLogDirsRequest.AlterReplicaLogDir
Moved = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic


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
        for each in answer.results:
            found = [
                (
                    "t" if entry.name == topic else entry.name,
                    sorted(
                        (p.partition_index, p.partition_size, p.offset_lag, p.is_future_key) for p in entry.partitions
                    ),
                )
                for entry in each.topics
            ]
            c.note(label, (each.error_code, each.is_cordoned, sorted(found)))


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
    home = c.ask(DescribeLogDirsRequest(topics=[]), 4, note=False).results[0].log_dir
    missing = fresh_name(c)
    for label, path, name, partitions in (
        ("home", home, topic, [0]),
        ("both", home, topic, [0, 1]),
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
