"""DeleteRecords (KIP-107): the start of a log moves up; the segments below go with the next look at retention."""

from __future__ import annotations

from typing import Final

from kbroker.config.java_maps import grouped_by_topic
from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kbroker.types import INTERNAL_TOPICS

PartitionResult = DeleteRecordsResponse.DeleteRecordsPartitionResult
TopicResult = DeleteRecordsResponse.DeleteRecordsTopicResult
INVALID_LOW_WATERMARK: Final = -1


def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete below an offset, -1 standing for the high watermark. Of a partition named twice the last offset counts."""
    wanted = {(topic.name, each.partition_index): each.offset for topic in request.topics for each in topic.partitions}
    topics = [
        TopicResult(name=topic, partitions=[_delete(context, topic, index, wanted[topic, index]) for index in indexes])
        for topic, indexes in grouped_by_topic(wanted)
    ]
    return DeleteRecordsResponse(throttle_time_ms=context.throttle_time_ms, topics=topics)


def error_response(context: RequestContext, request: DeleteRecordsRequest, error: ApiError) -> DeleteRecordsResponse:
    """The error at every partition."""
    topics = [
        TopicResult(
            name=topic.name, partitions=[_failed(each.partition_index, error.code) for each in topic.partitions]
        )
        for topic in request.topics
    ]
    return DeleteRecordsResponse(throttle_time_ms=context.throttle_time_ms, topics=topics)


def _failed(index: int, code: int) -> PartitionResult:
    return PartitionResult(partition_index=index, low_watermark=INVALID_LOW_WATERMARK, error_code=code)


def _delete(context: RequestContext, topic: str, index: int, offset: int) -> PartitionResult:
    replicas = context.node.replicas
    if not replicas.is_known(topic, index):
        return _failed(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic in INTERNAL_TOPICS:
        return _failed(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    try:
        low_watermark = replicas.partition(topic, index).delete_records(offset)
    except ApiError as error:
        return _failed(index, error.code)
    return PartitionResult(partition_index=index, low_watermark=low_watermark)
