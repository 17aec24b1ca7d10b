"""Groups at the edges: metadata of any form, names of any bytes and length, what is too large to write, records."""

from __future__ import annotations

import re
from typing import Any

from kbroker.coordinator.runtime import partition_of
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.record_codec import GROUP, decode_coordinator_key, decode_coordinator_value
from kbroker.protocol.records.batch import batches, read_records
from kbroker.types import GROUP_METADATA_TOPIC
from tests.reference.conversation import UUID, Conversation, question
from tests.reference.questions.group_offsets import commit_request, delete_request, fetch_request
from tests.reference.questions.group_scenery import (
    RANGE,
    heartbeat_request,
    join_request,
    leave_request,
    new_group,
    sync_request,
)
from tests.reference.questions.scenery import create_topic
from tests.reference.questions.transactional_offsets import commit as commit_in_transaction
from tests.reference.questions.transactional_producer import BUMPING, Producer
from tests.wire import request_frame

ONCE = range(1)
PARTITIONS = 50
BIG = b"\0" * 2_000_000
"""More than a batch may have."""
WITHOUT_UUID = re.compile(UUID.pattern.encode())


@question(ONCE)
def subscriptions_of_every_form(c: Conversation, _version: int) -> None:
    topic, other = create_topic(c), create_topic(c)
    topics = b"\0\0\0\1" + len(topic[0]).to_bytes(2, "big") + topic[0].encode()
    for label, metadata in {
        "version -1": b"\xff\xff" + topics + b"\xff\xff\xff\xff",
        "version 99": b"\0\x63" + topics + b"\xff\xff\xff\xff and more",
        "no user data": b"\0\0" + topics,
        "too little user data": b"\0\0" + topics + b"\0\0\0\x09ab",
        "null topics": b"\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
        "a null topic": b"\0\0\0\0\0\1\xff\xff\xff\xff\xff\xff",
        "nothing": b"",
        "a byte": b"\0",
        "a version": b"\0\0",
    }.items():
        group = new_group(c)
        member = c.ask(join_request(group, instance="i", protocols=(("range", metadata),)), 9, note=False).member_id
        c.ask(sync_request(group, 1, member, instance="i"), 5, label=label)
        c.ask(commit_request(group, topic, (0, 1), member_id=member, generation=1, instance="i"), 8, label=label)
        c.ask(delete_request(group, (topic[0], [0]), (other[0], [0])), 0, label=label)


@question(ONCE)
def names_that_are_not_utf8(c: Conversation, _version: int) -> None:
    new_group(c)
    for raw in (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"a\xe2\x82", b"\xf4\x90\x80\x80", b"\xed\xa0x\xed"):
        name = "Q" * len(raw)
        for request, version in (
            (join_request(name, "m", instance=name), 9),
            (join_request(name, instance=name), 9),
            (DescribeGroupsRequest(groups=[name]), 5),
            (leave_request(name, (name, name)), 5),
            (fetch_request(8, name, None), 8),
            (delete_request(name, (name, [0])), 0),
            (DeleteGroupsRequest(groups_names=[name]), 2),
        ):
            client = c.client("strange")
            client.socket.sendall(request_frame(request, version, 7).replace(name.encode(), raw))
            answer = WITHOUT_UUID.sub(b"<uuid>", client.receive_frame())
            c.note(f"{raw!r} {type(request).__name__}", answer)


@question(ONCE)
def names_as_long_as_they_can_be(c: Conversation, _version: int) -> None:
    """A member id is longer than the instance id it begins with, and has the same limit."""
    group = "x" * 32_767
    c.call_it(group, "long")
    new_group(c)
    c.await_answer(fetch_request(8, group, None), 8, lambda answer: not answer.groups[0].error_code)
    for size in (32_730, 32_731):
        instance = "i" * size
        c.call_it(instance, "long")
        joined = c.ask(join_request(group, instance=instance), 9, label=f"{size}")
        if joined is not None:
            c.ask(sync_request(group, joined.generation_id, joined.member_id, instance=instance), 5)
        c.ask(DescribeGroupsRequest(groups=[group]), 5)
        c.ask(leave_request(group, ("", instance)), 5)
    c.ask(DeleteGroupsRequest(groups_names=[group]), 2)


@question(ONCE)
def assignments_too_large_to_write(c: Conversation, _version: int) -> None:
    group = new_group(c)
    ann = c.ask(join_request(group, instance="ann"), 9, connection="ann").member_id
    c.begin(join_request(group, instance="bob"), 9, "bob")
    c.ask(join_request(group, ann, instance="ann"), 9, connection="ann", unordered=True)
    bob = c.end("bob").member_id
    c.begin(sync_request(group, 2, bob, instance="bob"), 5, "bob")
    c.ask(sync_request(group, 2, ann, {bob: BIG}, instance="ann"), 5, connection="ann", label="ann assigns")
    c.end("bob")
    c.ask(DescribeGroupsRequest(groups=[group]), 5, unordered=True)
    c.ask(heartbeat_request(group, 2, ann, "ann"), 4)


@question(range(5, 10))
def a_return_too_large_to_write(c: Conversation, version: int) -> None:
    group = new_group(c)
    ann = c.ask(join_request(group, instance="ann"), version).member_id
    c.ask(sync_request(group, 1, ann, {ann: b"a"}, instance="ann"), 5)
    c.ask(join_request(group, instance="ann", protocols=(("range", BIG),)), version, label="ann is back")
    c.ask(heartbeat_request(group, 1, ann, "ann"), 4)
    c.ask(DescribeGroupsRequest(groups=[group]), 5)


@question(ONCE)
def a_sync_that_a_replaced_member_owes(c: Conversation, _version: int) -> None:
    group = new_group(c)
    ann = c.ask(join_request(group, instance="ann", rebalance_ms=700 * c.slowness), 9, connection="ann").member_id
    c.begin(join_request(group, instance="bob", rebalance_ms=700 * c.slowness), 9, "bob")
    again = join_request(group, ann, instance="ann", rebalance_ms=700 * c.slowness)
    c.ask(again, 9, connection="ann", unordered=True)
    c.end("bob")
    c.ask(sync_request(group, 2, ann, {ann: b"a"}, instance="ann"), 5, connection="ann")
    bob = c.ask(
        join_request(group, instance="bob", rebalance_ms=700 * c.slowness), 9, connection="bob", label="back"
    ).member_id
    c.ask(sync_request(group, 2, bob, instance="bob"), 5, connection="bob")
    beat = heartbeat_request(group, 2, ann, "ann")
    c.await_answer(beat, 4, lambda answer: bool(answer.error_code))
    c.ask(beat, 4, label="a rebalance")


def note_records(c: Conversation, group: str) -> None:
    """What stands of a group in the topic."""
    asked = FetchRequest.FetchPartition(partition=partition_of(group, PARTITIONS), partition_max_bytes=1 << 24)
    request = FetchRequest(
        replica_id=-1,
        max_bytes=1 << 24,
        topics=[FetchRequest.FetchTopic(topic=GROUP_METADATA_TOPIC, partitions=[asked])],
    )
    fetched = c.ask(request, 11, note=False).responses[0].partitions[0].records
    for header, view in batches(bytes(fetched)):
        if header.is_control:
            continue
        for record in read_records(view, max_decompressed=1 << 24):
            key = decode_coordinator_key(GROUP, record.key or b"")
            if getattr(key, "group", "") != group:
                continue
            c.note(f"batch of {key.api_key}", (header.attributes, header.base_sequence, header.record_count))
            c.note_answer("key", key, 0)
            if record.value is None:
                c.note("value", None)
            else:
                version = int.from_bytes(record.value[:2], "big")
                c.note_answer(f"value {version}", decode_coordinator_value(GROUP, key.api_key, record.value), version)


@question(ONCE)
def the_records_of_a_group(c: Conversation, _version: int) -> None:
    group, topic = new_group(c), create_topic(c, partitions=2)
    member = c.ask(join_request(group, instance="i", protocols=(RANGE, ("x", b"y"))), 9, note=False).member_id
    c.ask(sync_request(group, 1, member, {member: b"all", "made up": b"x"}, instance="i"), 5, note=False)
    own: dict[str, Any] = {"member_id": member, "generation": 1, "instance": "i"}
    c.ask(commit_request(group, topic, (0, 1), (1, 2), (9, 1), epoch=3, metadata=None, **own), 9, note=False)
    c.ask(commit_request(group, topic, (0, 7), member_id=member, generation=1, retention_ms=0), 4, note=False)
    c.ask(join_request(group, instance="i", session_ms=20_000, rebalance_ms=7), 9, note=False)
    c.ask(leave_request(group, ("", "i")), 5, note=False)
    c.ask(delete_request(group, (topic[0], [1, 1])), 0, note=False)
    c.ask(DeleteGroupsRequest(groups_names=[group]), 2, note=False)
    note_records(c, group)


@question(ONCE)
def a_transaction_in_the_records_of_a_group(c: Conversation, _version: int) -> None:
    group, (topic, topic_id) = new_group(c), create_topic(c, partitions=2)
    producer = Producer(c)
    producer.init()
    index = partition_of(group, PARTITIONS)
    wanted = DescribeProducersRequest.TopicRequest(name=GROUP_METADATA_TOPIC, partition_indexes=[index])
    for offset in (5, 6):
        commit_in_transaction(c, producer, group, topic, topic_id, 5, offset=offset, partitions=(0, 1))
        described = c.ask(DescribeProducersRequest(topics=[wanted]), 0, note=False).topics[0].partitions[0]
        ours = [each for each in described.active_producers if each.producer_id == producer.producer_id]
        c.note("last sequences", [each.last_sequence for each in ours])
    producer.end(True, BUMPING)
    note_records(c, group)
