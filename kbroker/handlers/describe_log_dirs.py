"""DescribeLogDirs (KIP-113, KIP-827, KIP-1066): each data directory, its disk, the sizes of the replicas in it."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.log.manager import DataDirectory
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kbroker.replication.partition import Partition

Result = DescribeLogDirsResponse.DescribeLogDirsResult
Topic = DescribeLogDirsResponse.DescribeLogDirsTopic


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Of all replicas here (None), or of those named; the unknown are left out."""
    replicas = context.node.replicas
    if request.topics is None:
        wanted = replicas.all()
    else:
        names = dict.fromkeys((topic.topic, index) for topic in request.topics for index in topic.partitions)
        wanted = [each for each in (replicas.get(*name) for name in names) if each is not None]
    by_directory: dict[str, list[Partition]] = {}
    for partition in wanted:
        home = context.node.logs.home_of(partition.name, replicas.directory_id(partition.name))
        by_directory.setdefault(home.path, []).append(partition)
    results = [_result(context, each, by_directory.get(each.path, [])) for each in context.node.logs.directories]
    return DescribeLogDirsResponse(throttle_time_ms=context.throttle_time_ms, results=results)


def error_response(
    context: RequestContext, _request: DescribeLogDirsRequest, error: ApiError
) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(throttle_time_ms=context.throttle_time_ms, error_code=error.code)


def _result(context: RequestContext, directory: DataDirectory, partitions: list[Partition]) -> Result:
    path = context.node.host.disk.absolute(directory.path)
    if directory.error is not None:
        return Result(log_dir=path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    try:
        total, usable = context.node.host.disk.space(directory.path)
    except OSError:
        return Result(log_dir=path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topics: dict[str, Topic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.name.topic, Topic(name=partition.name.topic))
        topic.partitions.append(
            DescribeLogDirsResponse.DescribeLogDirsPartition(
                partition_index=partition.name.partition,
                partition_size=0 if partition.log is None else partition.log.size,
                offset_lag=max(partition.high_watermark - partition.log_end_offset, 0),
                is_future_key=False,
            )
        )
    return Result(log_dir=path, topics=list(topics.values()), total_bytes=total, usable_bytes=usable)
