"""DescribeProducers (KIP-664): the producers that a partition remembers, and their open transactions."""

from __future__ import annotations

from kbroker.config.java_maps import in_map_order
from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.topics import check_topic_name
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse

PartitionResponse = DescribeProducersResponse.PartitionResponse
TopicResponse = DescribeProducersResponse.TopicResponse
NO_TXN = -1


def handle(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """One answer for each partition named."""
    topics = []
    for topic in request.topics:
        error = _topic_error(context, topic.name)
        if error is None:
            partitions = [_partition(context, topic.name, index) for index in topic.partition_indexes]
        else:
            partitions = [_failed(index, error) for index in topic.partition_indexes]
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(throttle_time_ms=context.throttle_time_ms, topics=topics)


def error_response(
    context: RequestContext, request: DescribeProducersRequest, error: ApiError
) -> DescribeProducersResponse:
    """The error at every partition."""
    topics = [
        TopicResponse(name=topic.name, partitions=[_failed(index, error) for index in topic.partition_indexes])
        for topic in request.topics
    ]
    return DescribeProducersResponse(throttle_time_ms=context.throttle_time_ms, topics=topics)


def _topic_error(context: RequestContext, name: str) -> ApiError | None:
    try:
        check_topic_name(name)
    except ApiError as error:
        return error
    if name not in context.node.quorum.image.topics.by_name:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return None


def _failed(index: int, error: ApiError) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)


def _partition(context: RequestContext, topic: str, index: int) -> PartitionResponse:
    try:
        partition = context.node.replicas.partition(topic, index)
    except ApiError as error:
        return PartitionResponse(partition_index=index, error_code=error.code)
    if not partition.is_leader:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    producers = {} if partition.log is None else partition.log.active_producers()
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            DescribeProducersResponse.ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=NO_TXN if each.txn_first_offset is None else each.txn_first_offset,
            )
            for each in (producers[producer_id] for producer_id in in_map_order(producers))
        ],
    )
