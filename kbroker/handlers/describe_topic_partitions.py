"""DescribeTopicPartitions (KIP-966): topics in the order of their names, page by page."""

from __future__ import annotations

from kbroker.handlers.cluster_view import ALL_TOPIC_OPERATIONS, ClusterView
from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.topics import check_topic_name
from kbroker.kraft.image import TopicImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kbroker.types import INTERNAL_TOPICS

Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
_INT_MAX = 2**31 - 1


def handle(context: RequestContext, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """At most as many partitions as the request and the broker allow; the cursor says where to go on."""
    image = context.node.quorum.image
    cursor = request.cursor
    everything = not request.topics
    names = list(image.topics.by_name) if everything else list(dict.fromkeys(each.name for each in request.topics))
    if cursor is not None:
        _check_cursor(cursor, names, everything=everything)
        names = [each for each in names if each >= cursor.topic_name]
    if "" in names and cursor is None:  # with a cursor Kafka takes it for a name like others
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "A topic's name is empty.")
    limit = context.node.quorum.effective_config.integer("max.request.partition.size.limit")
    room = max(min(limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse(throttle_time_ms=context.throttle_time_ms)
    view = ClusterView(image.cluster, context.listener)
    for name in sorted(names):
        if room == 0:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.by_name.get(name)
        if topic is None:
            if not everything:
                response.topics.append(_unknown(name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        end = min(_sum_of_ints(first, room), len(topic.partitions))
        response.topics.append(_described(topic, range(first, end), view))
        room -= max(0, end - first)
        if end < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=end)
            break
    return response


def _check_cursor(cursor: DescribeTopicPartitionsRequest.Cursor, names: list[str], *, everything: bool) -> None:
    if not everything and cursor.topic_name not in names:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest topic list should contain the cursor topic: {cursor.topic_name}",
        )
    if cursor.partition_index < 0:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "DescribeTopicPartitionsRequest cursor partition must be valid: "
            f"Cursor(topicName='{cursor.topic_name}', partitionIndex={cursor.partition_index})",
        )


def error_response(
    context: RequestContext, request: DescribeTopicPartitionsRequest, error: ApiError
) -> DescribeTopicPartitionsResponse:
    """The error at every topic that was named."""
    return DescribeTopicPartitionsResponse(
        throttle_time_ms=context.throttle_time_ms,
        topics=[Topic(name=each.name, error_code=error.code) for each in request.topics],
    )


def _unknown(name: str) -> Topic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except ApiError as error:
        code = error.code
    return Topic(
        name=name,
        error_code=code,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )


def _sum_of_ints(first: int, second: int) -> int:
    """As Java adds: a cursor at the end of the numbers wraps around."""
    total = first + second
    return total if total <= _INT_MAX else total - (1 << 32)


def _described(topic: TopicImage, numbers: range, view: ClusterView) -> Topic:
    partitions = [
        Partition(
            partition_index=number,
            leader_id=view.leader(partition),
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            eligible_leader_replicas=list(partition.elr),
            last_known_elr=list(partition.last_known_elr),
            offline_replicas=view.offline(partition),
        )
        for number in numbers
        for partition in (topic.partitions[number],)
    ]
    return Topic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=ALL_TOPIC_OPERATIONS,
    )
