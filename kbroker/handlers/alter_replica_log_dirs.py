"""AlterReplicaLogDirs (KIP-113): takes replicas to other data directories of this broker (``replication.moves``)."""

from __future__ import annotations

from kbroker.config.java_maps import grouped_by_topic
from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kbroker.types import TopicPartition

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
    return _response(context, {name: context.node.replicas.moves.alter(name, path) for name, path in wanted.items()})


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
