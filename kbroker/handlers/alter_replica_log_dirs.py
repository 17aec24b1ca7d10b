"""AlterReplicaLogDirs (KIP-113): replicas that stay where they are.

Moving a log between two directories of one broker is not served: such a move is KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from kbroker.config.java_maps import grouped_by_topic
from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kbroker.types import TopicPartition

PATH_LENGTH_MAX = 255
_FUTURE_SUFFIX = f".{'0' * 32}-future"
"""What Kafka appends to the name of a partition's directory while it copies it."""

PartitionResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult
TopicResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult


def handle(context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """One result for each partition; of one that is named twice the last directory counts."""
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    return _response(context, {name: _code(context, name, path) for name, path in wanted.items()})


def error_response(
    context: RequestContext, request: AlterReplicaLogDirsRequest, error: ApiError
) -> AlterReplicaLogDirsResponse:
    """The error at every partition."""
    codes = {
        TopicPartition(topic.name, index): error.code
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    return _response(context, codes)


def _response(context: RequestContext, codes: dict[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    results = [
        TopicResult(
            topic_name=topic,
            partitions=[
                PartitionResult(partition_index=index, error_code=codes[TopicPartition(topic, index)])
                for index in indexes
            ],
        )
        for topic, indexes in grouped_by_topic(codes)
    ]
    return AlterReplicaLogDirsResponse(throttle_time_ms=context.throttle_time_ms, results=results)


def _code(context: RequestContext, name: TopicPartition, path: str) -> ErrorCode:
    if len(f"{name}{_FUTURE_SUFFIX}") > PATH_LENGTH_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    node = context.node
    directories = {node.host.disk.absolute(each.path): each for each in node.logs.directories}
    target = directories.get(path)
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if target.error is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if node.replicas.get(*name) is None:
        known = node.replicas.is_known(*name)
        return ErrorCode.REPLICA_NOT_AVAILABLE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    home = node.logs.home_of(name, node.replicas.directory_id(name))
    return ErrorCode.NONE if home is target else ErrorCode.KAFKA_STORAGE_ERROR
