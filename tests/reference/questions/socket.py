"""Frames that no request comes out of: unknown keys and versions, wrong lengths, garbage."""

from __future__ import annotations

import struct

from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.records.batch import Record
from kbroker.protocol.records.legacy import build_message_set
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import TIME_MS, create_topic, produce_request
from tests.wire import request_frame

ONCE = range(1)


def frame(key: int, version: int, body: bytes = b"", client_id: bytes = b"\xff\xff") -> bytes:
    payload = struct.pack(">hhi", key, version, 77) + client_id + body
    return struct.pack(">i", len(payload)) + payload


@question(ONCE)
def keys_and_versions_that_are_not_served(c: Conversation, _: int) -> None:
    for key, version in ((999, 0), (-1, 0), (4, 0), (3, 99), (3, -1), (0, 2), (0, 99), (1, 3), (2, 0), (52, 0)):
        c.ask_bytes(frame(key, version), f"key {key} version {version}")
        c.hang_up()


@question(ONCE)
def versions_of_api_versions_that_are_not_served(c: Conversation, _: int) -> None:
    for version in (6, 7, 99, -1, 32767):
        c.ask_bytes(frame(18, version), f"version {version}")
        c.hang_up()
        c.ask_bytes(frame(18, version, b"\x00"), f"version {version}, flexible header")
        c.hang_up()


@question(ONCE)
def lengths_that_are_wrong(c: Conversation, _: int) -> None:
    for label, data in {
        "negative": struct.pack(">i", -1),
        "zero": struct.pack(">i", 0),
        "one byte": struct.pack(">i", 1) + b"\x00",
        "seven bytes": struct.pack(">i", 7) + bytes(7),
        "above the limit": struct.pack(">i", 104_857_601),
        "enormous": struct.pack(">i", 2**31 - 1),
        "an HTTP request": b"GET / HTTP/1.1\r\n\r\n",
        "a TLS hello": bytes.fromhex("16030100ca010000c60303") + bytes(190),
    }.items():
        if label.startswith("an HTTP"):
            continue
        c.ask_bytes(data, label)
        c.hang_up()


@question(ONCE)
def bodies_that_are_cut_or_too_long(c: Conversation, _: int) -> None:
    whole = request_frame(MetadataRequest(topics=[], allow_auto_topic_creation=False), 9, 77)
    for cut in range(5, len(whole)):
        payload = whole[4:cut]
        c.ask_bytes(struct.pack(">i", len(payload)) + payload, f"cut at {cut}")
        c.hang_up()


@question(range(1))
def versions_that_kafka_4_dropped(c: Conversation, _: int) -> None:
    topic, _topic_id = create_topic(c)
    message_set = build_message_set([Record(0, TIME_MS, None, b"v")], 1)
    for version in range(3):
        c.ask(produce_request(topic, message_set), version, label=f"Produce {version}")
    wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=1000)
    fetch = FetchRequest(max_wait_ms=0, topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])])
    for version in range(4):
        c.ask(fetch, version, label=f"Fetch {version}")
