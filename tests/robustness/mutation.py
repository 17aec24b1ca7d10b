"""Valid requests, and what a seed makes of them: flipped bits, wild lengths, cuts, repeats, noise.

Half of the produce requests have the CRC of their batch made right again after the mutation, so that the broker's
checks behind the CRC are reached.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import crc32c

from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.protocol.records.compression import Compression
from tests.wire import LENGTH, request_frame

CRC_POSITION = 17
CRC_BEGIN = 21
WILD_LENGTHS = (-(2**31), -1, 0, 1, 0x7F, 0x7FFF, 0xFFFF, 2**31 - 1)


def batch(random: Random) -> bytearray:
    records = [
        Record(n, 1_700_000_000_000 + n, random.randbytes(random.randrange(20)), random.randbytes(40), [("h", b"1")])
        for n in range(random.randrange(1, 8))
    ]
    idempotent = random.random() < 0.3
    return bytearray(
        build_batch(
            records,
            compression=random.choice(list(Compression)),
            producer_id=random.randrange(5) if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            base_sequence=random.randrange(3) if idempotent else -1,
        )
    )


def produce(topic: str, records: bytes, random: Random) -> tuple[Any, int]:
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)
    data = ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    acks = random.choice((1, -1))
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data]), random.randrange(3, 13)


def other_requests(topic: str, random: Random) -> list[tuple[Any, int]]:
    """One of each other API, in a version of the seed's choice."""
    fetch_partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=random.randrange(3), partition_max_bytes=1 << 20
    )
    epoch_partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    offsets_partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=random.choice((-1, -2, 5)))
    creatable = CreateTopicsRequest.CreatableTopic(name=f"{topic}-made", num_partitions=2, replication_factor=1)
    alteration = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2,
        resource_name=topic,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", config_operation=0, value="86400000")
        ],
    )
    return [
        (ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), random.randrange(6)),
        (MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)]), random.randrange(13)),
        (
            FetchRequest(
                max_wait_ms=1,
                min_bytes=0,
                topics=[FetchRequest.FetchTopic(topic=topic, partitions=[fetch_partition])],
            ),
            random.randrange(4, 13),
        ),
        (
            ListOffsetsRequest(
                topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[offsets_partition])]
            ),
            random.randrange(1, 12),
        ),
        (
            OffsetForLeaderEpochRequest(
                topics=[OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[epoch_partition])]
            ),
            random.randrange(2, 5),
        ),
        (InitProducerIdRequest(transaction_timeout_ms=1000), random.randrange(6)),
        (CreateTopicsRequest(topics=[creatable], timeout_ms=1000), random.randrange(2, 8)),
        (DeleteTopicsRequest(topic_names=[f"{topic}-made"], timeout_ms=1000), random.randrange(1, 6)),
        (DescribeClusterRequest(), random.randrange(2)),
        (
            DescribeConfigsRequest(
                resources=[DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name=topic)]
            ),
            random.randrange(1, 5),
        ),
        (IncrementalAlterConfigsRequest(resources=[alteration]), random.randrange(2)),
        (
            DescribeTopicPartitionsRequest(
                topics=[DescribeTopicPartitionsRequest.TopicRequest(name=topic)], response_partition_limit=10
            ),
            0,
        ),
    ]


def group_requests(topic: str, random: Random) -> list[tuple[Any, int]]:
    """One of each API of groups and offsets; few groups, so that requests meet."""
    group = f"group-{random.randrange(20)}"
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=random.randbytes(20))
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=100,
        protocol_type="consumer",
        protocols=[protocol],
    )
    committed = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    commit = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[committed])]
    )
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
    deleted = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name=topic, partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)]
    )
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id="m", assignment=b"a")
    return [
        (FindCoordinatorRequest(coordinator_keys=[group]), random.randrange(4, 7)),
        (join, random.choice((2, 4, 9))),
        (
            SyncGroupRequest(group_id=group, generation_id=1, member_id="m", assignments=[assignment]),
            random.randrange(5),
        ),
        (HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), random.randrange(5)),
        (
            LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.MemberIdentity(member_id="m")]),
            random.randrange(3, 6),
        ),
        (commit, random.randrange(2, 10)),
        (OffsetFetchRequest(groups=[wanted]), random.randrange(8, 11)),
        (OffsetDeleteRequest(group_id=group, topics=[deleted]), 0),
        (ListGroupsRequest(), random.randrange(6)),
        (DescribeGroupsRequest(groups=[group]), random.randrange(7)),
        (DeleteGroupsRequest(groups_names=[group]), random.randrange(4)),
    ]


def mutate(data: bytearray, random: Random) -> None:
    """One to four changes in place, anywhere."""
    for _ in range(random.randrange(1, 5)):
        if not data:
            return
        position = random.randrange(len(data))
        kind = random.randrange(6)
        if kind == 0:
            data[position] ^= 1 << random.randrange(8)
        elif kind == 1:
            data[position] = random.randrange(256)
        elif kind == 2 and len(data) >= 4:
            struct.pack_into(">i", data, random.randrange(len(data) - 3), random.choice(WILD_LENGTHS))
        elif kind == 3:
            del data[position : position + random.randrange(1, 9)]
        elif kind == 4:
            data[position:position] = data[position : position + random.randrange(1, 33)]
        else:
            data[position:position] = random.randbytes(random.randrange(1, 17))


def mutated_batch_frame(topic: str, random: Random) -> bytes:
    """A well-formed produce request whose batch was changed, before or behind its CRC, which is then made right."""
    records = batch(random)
    mutate(records, random)
    if len(records) > CRC_BEGIN and random.random() < 0.9:
        struct.pack_into(">I", records, CRC_POSITION, crc32c.crc32c(records[CRC_BEGIN:]))
    request, version = produce(topic, bytes(records), random)
    return request_frame(request, version, random.randrange(1 << 31))


def mutated_frame(topic: str, random: Random) -> bytes:
    """Any request, changed anywhere; its length field is made right again in nine of ten."""
    requests = [
        *other_requests(topic, random),
        *group_requests(topic, random),
        produce(topic, bytes(batch(random)), random),
    ]
    request, version = random.choice(requests)
    frame = bytearray(request_frame(request, version, random.randrange(1 << 31)))
    body = frame[4:]
    mutate(body, random)
    if random.random() < 0.9:
        return LENGTH.pack(len(body)) + bytes(body)
    return bytes(frame[:4]) + bytes(body)
