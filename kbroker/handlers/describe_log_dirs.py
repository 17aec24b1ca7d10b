"""DescribeLogDirs (KIP-113, KIP-827, KIP-1066): each data directory, its disk, the sizes of the replicas in it."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.log.data_directory import DataDirectory
from kbroker.log.log import Log
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kbroker.types import TopicPartition

Result = DescribeLogDirsResponse.DescribeLogDirsResult
Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
Entry = DescribeLogDirsResponse.DescribeLogDirsPartition


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Of all replicas here (None), or of those named; the unknown are left out."""
    replicas = context.node.replicas
    if request.topics is None:
        wanted = replicas.all()
    else:
        names = dict.fromkeys((topic.topic, index) for topic in request.topics for index in topic.partitions)
        wanted = [each for each in (replicas.get(*name) for name in names) if each is not None]
    logs = context.node.logs
    found: dict[str, list[tuple[TopicPartition, Entry]]] = {}
    for partition in wanted:
        name, log = partition.name, partition.log
        home = logs.home_of(name, replicas.directory_id(name))
        lag = max(partition.high_watermark - partition.log_end_offset, 0)
        found.setdefault(home.path, []).append((name, _entry(name, log, lag)))
        future, target = logs.futures.get(name), logs.target_of(name)
        if future is not None and target is not None:
            lag = partition.log_end_offset - future.log_end_offset
            found.setdefault(target.path, []).append((name, _entry(name, future, lag, is_future=True)))
    results = [_result(context, each, found.get(each.path, [])) for each in logs.directories]
    return DescribeLogDirsResponse(throttle_time_ms=context.throttle_time_ms, results=results)


def error_response(
    context: RequestContext, _request: DescribeLogDirsRequest, error: ApiError
) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(throttle_time_ms=context.throttle_time_ms, error_code=error.code)


def _entry(name: TopicPartition, log: Log | None, lag: int, *, is_future: bool = False) -> Entry:
    size = 0 if log is None else log.size
    return Entry(partition_index=name.partition, partition_size=size, offset_lag=lag, is_future_key=is_future)


def _result(context: RequestContext, directory: DataDirectory, found: list[tuple[TopicPartition, Entry]]) -> Result:
    path = context.node.host.disk.absolute(directory.path)
    if directory.error is not None:
        return Result(log_dir=path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    try:
        total, usable = context.node.host.disk.space(directory.path)
    except OSError:
        return Result(log_dir=path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topics: dict[str, Topic] = {}
    for name, entry in found:
        topics.setdefault(name.topic, Topic(name=name.topic)).partitions.append(entry)
    return Result(
        log_dir=path,
        topics=list(topics.values()),
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=directory.path in context.node.logs.cordoned,
    )
