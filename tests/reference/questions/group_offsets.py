"""OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from typing import Any

from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.group_scenery import begin_join, join_request, new_group, stable_pair
from tests.reference.questions.scenery import create_topic, fresh_name

COMMIT = range(2, 11)
FETCH = range(1, 11)

Topic = tuple[str, bytes]
UNKNOWN_ID = bytes(range(1, 17))


def commit_request(
    group: str,
    topic: Topic,
    *offsets: tuple[int, int],
    member_id: str = "",
    generation: int = -1,
    instance: str | None = None,
    metadata: str | None = "m",
    epoch: int = -1,
    retention_ms: int = -1,
) -> OffsetCommitRequest:
    """``offsets`` are pairs of partition and offset."""
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic[0],
                topic_id=topic[1],
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=metadata,
                    )
                    for partition, offset in offsets
                ],
            )
        ],
    )


def fetch_request(version: int, group: str, topics: list[tuple[Topic, list[int]]] | None, **options: Any) -> Any:
    """One group's offsets in the form of the version."""
    if version >= 8:
        wanted = None
        if topics is not None:
            wanted = [
                OffsetFetchRequest.OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=partitions)
                for (name, topic_id), partitions in topics
            ]
        return OffsetFetchRequest(
            groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=wanted)], **options
        )
    old = None
    if topics is not None:
        old = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=partitions)
            for (name, _), partitions in topics
        ]
    return OffsetFetchRequest(group_id=group, topics=old, **options)


def delete_request(group: str, *topics: tuple[str, list[int]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=each) for each in indexes],
            )
            for name, indexes in topics
        ],
    )


@question(COMMIT)
def an_outsider_commits(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c, partitions=2)
    c.ask(commit_request(group, topic, (0, 5), (1, -7)), version)
    c.ask(commit_request(group, topic, (0, 2**63 - 1), metadata=None), version, label="null metadata")
    c.ask(fetch_request(9, group, [(topic, [0, 1])]), 9)
    c.ask(commit_request(group, topic, (0, 1), (7, 1), (1, 2), (-1, 3)), version, label="some do not exist")
    c.ask(commit_request(group, topic), version, label="no partitions")
    c.ask(OffsetCommitRequest(group_id=group), version, label="no topics")
    unknown = (fresh_name(c), UNKNOWN_ID)
    c.ask(commit_request(group, unknown, (0, 1)), version, label="unknown topic")
    c.ask(commit_request(group, topic, (0, 1), (0, 9)), version, label="one partition twice")
    c.ask(fetch_request(9, group, [(topic, [0, 1])]), 9)
    c.ask(commit_request("", topic, (0, 77)), version, label="the empty group")
    c.ask(fetch_request(9, "", [(topic, [0])]), 9)


@question(COMMIT)
def members_commit(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    c.ask(commit_request(group, topic, (0, 1), member_id="m", generation=1), version, label="no group")
    c.ask(commit_request(group, topic, (0, 1), member_id="m"), version, label="a member id without generation")
    ann, _, generation = stable_pair(c, group, 9)
    c.ask(commit_request(group, topic, (0, 1), member_id=ann, generation=generation), version, label="good")
    c.ask(commit_request(group, topic, (0, 2)), version, label="an outsider")
    c.ask(commit_request(group, topic, (0, 2), member_id=ann), version, label="without generation")
    c.ask(commit_request(group, topic, (0, 2), generation=generation), version, label="without member id")
    for number in (generation - 1, generation + 1):
        c.ask(commit_request(group, topic, (0, 2), member_id=ann, generation=number), version, label=f"of {number}")
    wrong = commit_request(group, topic, (0, 2), member_id="made up", generation=generation)
    c.ask(wrong, version, label="a made-up id")
    if version >= 7:
        request = commit_request(group, topic, (0, 2), member_id=ann, generation=generation, instance="i")
        c.ask(request, version, label="an instance id nobody has")
    cid = begin_join(c, "cid", group, 9)
    c.ask(commit_request(group, topic, (0, 3), member_id=ann, generation=generation), version, label="while one joins")
    c.ask(commit_request(group, topic, (0, 3), member_id=cid, generation=generation), version, label="the newcomer")
    c.ask(fetch_request(9, group, [(topic, [0])]), 9)


@question(COMMIT)
def a_commit_while_assignments_are_awaited(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    begin_join(c, "ann", group, 9)
    ann = c.end("ann").member_id
    c.ask(commit_request(group, topic, (0, 3), member_id=ann, generation=1), version)
    c.ask(commit_request(group, topic, (0, 3), member_id=ann, generation=0), version, label="of the last generation")
    c.ask(commit_request(group, topic, (0, 3)), version, label="an outsider")


@question(COMMIT)
def metadata_and_epochs(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    for label, metadata in (("most", "x" * 4096), ("too much", "x" * 4097), ("two each", "\U0001f600" * 2049)):
        c.ask(commit_request(group, topic, (0, 1), metadata=metadata), version, label=label)
    if version >= 6:
        for epoch in (0, 7, -5):
            c.ask(commit_request(group, topic, (0, 1), epoch=epoch), version, label=f"epoch {epoch}")
            c.ask(fetch_request(8, group, [(topic, [0])]), 8)


@question(range(2, 5))
def retention_times_of_old_clients(c: Conversation, version: int) -> None:
    """The ends of the numbers, too: Java's sum wraps, and nothing is refused for it."""
    group, topic = new_group(c), create_topic(c)
    for retention_ms in (0, 1, -2, 2**62, 2**63 - 1, -(2**63)):
        c.ask(commit_request(group, topic, (0, 5), retention_ms=retention_ms), version, label=str(retention_ms))
    c.ask(fetch_request(9, group, None), 9)


@question(FETCH)
def fetching_what_there_is_and_is_not(c: Conversation, version: int) -> None:
    group, topic, other = new_group(c), create_topic(c, partitions=3), create_topic(c)
    unknown = (fresh_name(c), UNKNOWN_ID)
    c.ask(fetch_request(version, group, [(topic, [0])]), version, label="no group")
    c.ask(commit_request(group, topic, (0, 5), (2, 6), epoch=3), 8)
    c.ask(fetch_request(version, group, [(topic, [2, 0, 1, 9, -1]), (other, [0])]), version, unordered=True)
    c.ask(fetch_request(version, group, [(unknown, [0, 1]), (topic, [0])]), version, label="unknown", unordered=True)
    c.ask(fetch_request(version, group, [(topic, [])]), version, label="no partitions")
    c.ask(fetch_request(version, group, []), version, label="no topics")
    c.ask(fetch_request(version, group, [(topic, [0, 0])]), version, label="one partition twice")
    if version >= 2:
        c.ask(fetch_request(version, group, None), version, label="all", unordered=True)
        c.ask(fetch_request(version, fresh_name(c, "g"), None), version, label="all of no group")
    if version >= 7:
        c.ask(fetch_request(version, group, [(topic, [0, 1])], require_stable=True), version, label="stable")


@question(range(8, 11))
def fetching_of_many_groups(c: Conversation, version: int) -> None:
    topic = create_topic(c)
    groups = [new_group(c) for _ in range(3)]
    for offset, group in enumerate(groups[:2]):
        c.ask(commit_request(group, topic, (0, offset)), 8)
    name, topic_id = topic
    wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
    asked = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None if group == groups[0] else [wanted])
        for group in [*groups, groups[0]]
    ]
    c.ask(OffsetFetchRequest(groups=asked), version)
    c.ask(OffsetFetchRequest(groups=[]), version, label="no groups")


@question(range(9, 11))
def a_member_epoch_with_a_classic_group(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    ann, _, generation = stable_pair(c, group, 9)
    name, topic_id = topic
    wanted = OffsetFetchRequest.OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
    for member_id, epoch in ((ann, generation), (ann, 99), ("made up", 1), (None, 5)):
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=group, member_id=member_id, member_epoch=epoch, topics=[wanted]
        )
        c.ask(OffsetFetchRequest(groups=[asked]), version, label=f"epoch {epoch}")


@question(range(1))
def offsets_are_deleted(c: Conversation, version: int) -> None:
    group, topic, other = new_group(c), create_topic(c, partitions=2), create_topic(c)
    c.ask(delete_request("", (topic[0], [0])), version, label="no group id")
    c.ask(delete_request(group, (topic[0], [0])), version, label="no group")
    c.ask(commit_request(group, topic, (0, 1), (1, 2)), 8)
    c.ask(commit_request(group, other, (0, 3)), 8)
    c.ask(delete_request(group, (topic[0], [1, 5, 0]), ("unknown", [0])), version, unordered=True)
    c.ask(delete_request(group), version, label="no topics")
    c.ask(delete_request(group, (topic[0], [])), version, label="no partitions")
    c.ask(delete_request(group, (topic[0], [0])), version, label="once more")
    c.ask(fetch_request(9, group, None), 9, label="what is left")


@question(range(1))
def offsets_of_a_group_with_members_are_deleted(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    reads = (("range", b"\0\0\0\0\0\1\0" + bytes([len(topic[0])]) + topic[0].encode() + b"\xff\xff\xff\xff"),)
    other = create_topic(c)
    begin_join(c, "ann", group, 9, protocols=reads)
    ann = c.end("ann", note=False).member_id
    c.ask(delete_request(group, (topic[0], [0]), (other[0], [0])), version, label="awaiting", unordered=True)
    c.ask(join_request(group, ann, protocols=reads), 9, connection="ann", note=False)
    c.ask(delete_request(group, (topic[0], [0]), (other[0], [0])), version, label="later", unordered=True)
    connect = new_group(c)
    begin_join(c, "bob", connect, 9, protocol_type="connect")
    c.end("bob")
    c.ask(delete_request(connect, (topic[0], [0])), version, label="another type")


@question(range(1))
def a_deleted_topic_takes_its_offsets_along(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    c.ask(commit_request(group, topic, (0, 1)), 8)
    c.ask(DeleteTopicsRequest(topic_names=[topic[0]], timeout_ms=10_000), 4)
    c.await_answer(fetch_request(9, group, None), 9, lambda answer: not answer.groups[0].topics)
    c.ask(fetch_request(9, group, [(topic, [0])]), 9, label=f"afterwards {version}")


@question(COMMIT)
def a_topic_that_stands_twice(c: Conversation, version: int) -> None:
    group, topic, unknown = new_group(c), create_topic(c, partitions=2), (fresh_name(c), UNKNOWN_ID)
    request = commit_request(group, unknown, (0, 1))
    for name, offsets in ((topic, ((0, 1), (7, 1))), (unknown, ((1, 1),)), (topic, ((1, 2), (8, 1)))):
        request.topics += commit_request(group, name, *offsets).topics
    c.ask(request, version)
    c.ask(fetch_request(9, group, [(topic, [0, 1])]), 9)


@question(COMMIT)
def a_first_commit_that_is_refused(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    c.ask(commit_request(group, topic, (0, 1), metadata="m" * 4097), version)
    c.ask(DescribeGroupsRequest(groups=[group]), 6)


@question(range(1))
def offsets_of_unknown_topics_are_deleted(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    c.ask(commit_request(group, topic, (0, 1)), 8)
    unknown = fresh_name(c)
    c.ask(delete_request(group, (unknown, []), (topic[0], []), (unknown, [1]), ("", [])), version, unordered=True)


@question(COMMIT)
def offsets_of_strange_topics(c: Conversation, version: int) -> None:
    group = new_group(c)
    for name, topic_id in (
        ("", bytes(16)),
        ("bad name!", UNKNOWN_ID),
        ("__consumer_offsets", bytes(16)),
        ("x" * 300, UNKNOWN_ID),
    ):
        c.ask(commit_request(group, (name, topic_id), (0, 1), (1, 2)), version, label=name[:9], unordered=True)
    c.ask(fetch_request(9, group, None), 9)


@question(FETCH)
def strange_groups_and_topics_are_fetched(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    c.ask(commit_request(group, topic, (0, 5), epoch=2), 8)
    strange = [(("", bytes(16)), [0]), (("bad name!", UNKNOWN_ID), [0, 1])]
    c.ask(fetch_request(version, group, strange), version, unordered=True)
    c.ask(fetch_request(version, "", [(topic, [0])]), version, label="no group id")
    for name in ("\u00fc\U0001f600", "x" * 200):
        c.ask(fetch_request(version, name, [(topic, [0])]), version, label=name[:3])
        if version >= 2:
            c.ask(fetch_request(version, name, None), version, label=f"all {name[:3]}")


@question(range(9, 11))
def a_member_epoch_with_a_group_of_offsets_alone(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c)
    c.ask(commit_request(group, topic, (0, 5)), 8)
    name, topic_id = topic
    one = OffsetFetchRequest.OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=[0])
    for group_id in (group, fresh_name(c, "g")):
        for member_id, epoch in (("m", 1), ("m", -1), (None, 0), ("", 0), ("", -1), (None, -5), ("m", -5)):
            for topics in (None, [one], []):
                asked = OffsetFetchRequest.OffsetFetchRequestGroup(
                    group_id=group_id, member_id=member_id, member_epoch=epoch, topics=topics
                )
                c.ask(OffsetFetchRequest(groups=[asked]), version, label=f"{member_id} {epoch}")


@question(range(1))
def a_topic_named_twice_beside_one_that_is_missing(c: Conversation, version: int) -> None:
    group, topic = new_group(c), create_topic(c, partitions=2)
    c.ask(commit_request(group, topic, (0, 1), (1, 2)), 8)
    c.ask(delete_request(group, (topic[0], [0]), ("missing", [0]), (topic[0], [1, 0])), version, unordered=True)
    c.ask(delete_request(group, (topic[0], [0]), (topic[0], [1])), version, label="only twice", unordered=True)


@question(range(1))
def the_order_of_all_offsets(c: Conversation, _version: int) -> None:
    """It is that of a hash map over the numbers of partitions."""
    group = new_group(c)
    for count in (2, 3, 5, 6, 11, 12, 21, 22, 30):
        topic = create_topic(c, partitions=count)
        c.ask(commit_request(group, topic, *((index, index) for index in range(count))), 8)
        fetched = c.ask(fetch_request(8, group, None), 8, note=False).groups[0]
        ours = next(each for each in fetched.topics if each.name == topic[0])
        c.note(f"all {count}", [each.partition_index for each in ours.partitions])
