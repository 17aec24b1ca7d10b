"""DescribeLogDirs and AlterReplicaLogDirs."""

from __future__ import annotations

import pytest

from kbroker.handlers import alter_replica_log_dirs, describe_log_dirs
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.unit.replication.one_node import OneNode


def test_a_directory_tells_its_replicas_sizes_those_without_a_log_too(node: OneNode) -> None:
    node.create("t", 2)
    node.append("t", count=3)
    answer = describe_log_dirs.handle(node.context(35, 4), DescribeLogDirsRequest(topics=None))
    (directory,) = answer.results
    assert directory.log_dir == "/data"
    assert directory.total_bytes > directory.usable_bytes > 0
    (topic,) = directory.topics
    log = node.partition("t").log
    assert log is not None
    assert [(each.partition_index, each.partition_size) for each in topic.partitions] == [(0, log.size), (1, 0)]


def test_unknown_partitions_are_left_out(node: OneNode) -> None:
    node.create("t")
    wanted = DescribeLogDirsRequest.DescribableLogDirTopic(topic="t", partitions=[7])
    answer = describe_log_dirs.handle(node.context(35, 4), DescribeLogDirsRequest(topics=[wanted]))
    assert answer.results[0].topics == []


@pytest.mark.parametrize(
    ("path", "topic", "code"),
    [
        ("/data", "t", ErrorCode.NONE),
        ("/elsewhere", "t", ErrorCode.LOG_DIR_NOT_FOUND),
        ("/data", "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("/data", "of-others", ErrorCode.REPLICA_NOT_AVAILABLE),
    ],
)
def test_a_replica_may_stay_where_it_is(node: OneNode, path: str, topic: str, code: ErrorCode) -> None:
    node.create("t")
    node.create("of-others", replicas=(2,), leader=2)
    moved = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[0])
    request = AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDirsRequest.AlterReplicaLogDir(path=path, topics=[moved])]
    )
    answer = alter_replica_log_dirs.handle(node.context(34, 2), request)
    assert [each.error_code for each in answer.results[0].partitions] == [code]
