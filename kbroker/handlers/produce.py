"""Produce: a producer's batches, each appended to its partition's log.

The road: look up the partition, append, fill its slot of the answer. Records are views into the receive buffer and die
when ``handle`` returns, so every append happens before anything waits. With acks=all and more than one in-sync replica
the answer then waits for the high watermark, and where ``flush.messages`` asks for it, for an fsync
(``DelayedProduce``).

Before version 3 records may come as message sets of format 0 or 1: they are converted to one batch first.

With acks=0 there is no answer; a failure closes the connection, the one way to tell such a producer to refresh its
metadata. A partition named twice is taken once, with its last records, as Kafka's map does it.
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING

from kbroker.handlers.admission import Refused, Write, admit
from kbroker.handlers.context import ConnectionMustCloseError, RequestContext
from kbroker.log.rules import topic_codec
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.records.batch import BATCH_OVERHEAD, CODEC_BITS, LOG_OVERHEAD, TRANSACTIONAL_BIT
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.conversion import is_legacy, up_convert
from kbroker.protocol.records.errors import RecordValidationError
from kbroker.protocol.records.validation import check_produce_records
from kbroker.replication.delayed_produce import DelayedProduce
from kbroker.replies import Reply, then
from kbroker.types import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kbroker.host import Buffer
    from kbroker.replication.partition import Partition

logger = logging.getLogger(__name__)

ADMIN_CLIENT_ID = "__admin_client"
"""The one client id that may write to internal topics (Kafka's ``AdminUtils.ADMIN_CLIENT_ID``)."""

_PREFIX_SIZE = 23
_read_prefix = struct.Struct(">8xi4xb4xh").unpack_from
"""Length, magic and attributes of a batch: what is looked at before the log checks it."""
_LENGTH_MIN = 14
"""The least length that Kafka takes for a record of any magic (``LegacyRecord.RECORD_OVERHEAD_V0``)."""
_LENGTH_MAX = 2**31 - 1 - LOG_OVERHEAD
"""The greatest length with which Kafka can reckon."""
_ZSTD_SINCE = 7
"""The version from which records may be compressed with zstd (KIP-110)."""
_LEADER_HINTS_SINCE = 10
"""The version from which an answer says who leads (KIP-951)."""
_TOPIC_IDS_SINCE = 13
"""The version from which topics go by their ids (KIP-516)."""
_ONE_BATCH_SINCE = 3
"""The version from which a partition gets exactly one batch of format 2 (KIP-98)."""

_NONE_REFUSED: Refused = {}

_Topic = ProduceRequest.TopicProduceData
_Slot = ProduceResponse.PartitionProduceResponse

_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_REQUIRED_ACKS,
    }
)
"""The codes with which Kafka does not tell the log's start offset."""


def handle(context: RequestContext, request: ProduceRequest) -> Reply[ProduceResponse | None]:
    """Append what is to be appended; the answer comes at once unless it has to wait for other replicas."""
    topics = request.topic_data
    if len(topics) != 1 or len(topics[0].partition_data) != 1:
        topics = _each_partition_once(topics, context.api_version)
    is_transactional = _has_transactional_records(request)
    if _ONE_BATCH_SINCE <= context.api_version < _ZSTD_SINCE:
        _check_codecs(context, topics)
    if not is_transactional:
        return _append_all(context, request, topics, _NONE_REFUSED)
    refused = admit(context, request.transactional_id or "", _writes(context, topics))
    if isinstance(refused, dict):
        return _append_all(context, request, topics, refused)
    for topic in topics:
        for data in topic.partition_data:
            data.records = None if data.records is None else bytearray(data.records)

    def append(refused: Refused) -> Reply[ProduceResponse | None]:
        return _append_all(context, request, topics, refused)

    return then(refused, append)


def _writes(context: RequestContext, topics: list[_Topic]) -> list[Write]:
    """What is written, by the names of the partitions; what has no name here is refused later."""
    writes: list[Write] = []
    for topic in topics:
        name = _name_of(context, topic)
        if name is not None:
            writes += [
                (TopicPartition(name, data.index), data.records)
                for data in topic.partition_data
                if data.records is not None
            ]
    return writes


def _name_of(context: RequestContext, topic: _Topic | ProduceResponse.TopicProduceResponse) -> str | None:
    if context.api_version < _TOPIC_IDS_SINCE:
        return topic.name
    return context.node.replicas.topic_name(topic.topic_id)


def _append_all(
    context: RequestContext, request: ProduceRequest, topics: list[_Topic], refused: Refused
) -> Reply[ProduceResponse | None]:
    acks = request.acks
    node = context.node
    now_ms = node.host.clock.wall_ms()
    response = ProduceResponse(throttle_time_ms=context.throttle_time_ms)
    delayed: DelayedProduce | None = None
    failure: _Slot | None = None
    for topic in topics:
        slots: list[_Slot] = []
        response.responses.append(
            ProduceResponse.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=slots)
        )
        for data in topic.partition_data:
            partition: Partition | None = None
            try:
                partition = _find(context, topic, data)
                if refused and partition.name in refused:
                    failure = _failed(data, None, refused[partition.name])
                    slots.append(failure)
                    continue
                records = _checked(context, acks, partition, data)
                if records is None:
                    slots.append(_Slot(index=data.index, base_offset=-1))
                    continue
                info = partition.append_as_leader(records, acks, now_ms)
            except ApiError as error:
                failure = _failed(data, partition, error)
                slots.append(failure)
                continue
            except Exception:
                logger.exception("Appending to partition %d of %s failed", data.index, topic.name or topic.topic_id)
                failure = _Slot(index=data.index, error_code=ErrorCode.UNKNOWN_SERVER_ERROR, base_offset=-1)
                slots.append(failure)
                continue
            slot = _Slot(
                index=data.index,
                base_offset=info.first_offset,
                log_append_time_ms=info.log_append_time_ms,
                log_start_offset=info.log_start_offset,
            )
            slots.append(slot)
            if acks == -1 and partition.high_watermark <= info.last_offset:
                if delayed is None:
                    delayed = DelayedProduce(node.replicas, response, request.timeout_ms)
                delayed.wait_for(partition, info.last_offset + 1, slot)
            elif acks == 1 and partition.is_unflushed(info.last_offset):
                if delayed is None:
                    delayed = DelayedProduce(node.replicas, response, None)
                delayed.wait_for_flush(partition, info.last_offset + 1, slot)
    if failure is not None:
        if acks == 0:
            raise ConnectionMustCloseError(
                f"A produce request with acks=0 failed: {ErrorCode(failure.error_code).name}"
            )
        if context.api_version >= _LEADER_HINTS_SINCE:
            _point_to_leaders(context, response)
    if acks == 0:
        return None
    return response if delayed is None else delayed.future


def error_response(context: RequestContext, request: ProduceRequest, error: ApiError) -> ProduceResponse:
    """Every partition gets the error. Raises ``ConnectionMustCloseError`` with acks=0, which knows no answer."""
    if request.acks == 0:
        raise ConnectionMustCloseError(f"A produce request with acks=0 failed: {error}")
    return ProduceResponse(
        throttle_time_ms=context.throttle_time_ms,
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_failed(data, None, error) for data in topic.partition_data],
            )
            for topic in _each_partition_once(request.topic_data, context.api_version)
        ],
    )


def _find(context: RequestContext, topic: _Topic, data: ProduceRequest.PartitionProduceData) -> Partition:
    """The partition that is written to. Raises ``ApiError`` when it is not here."""
    replicas = context.node.replicas
    if context.api_version >= _TOPIC_IDS_SINCE:
        return replicas.partition_by_id(topic.topic_id, data.index)
    return replicas.partition(topic.name, data.index)


def _checked(
    context: RequestContext,
    acks: int,
    partition: Partition,
    data: ProduceRequest.PartitionProduceData,
) -> Buffer | None:
    """What only the request can tell about its records; the log checks the rest.

    None when there is nothing to append and nothing wrong with that, which is so in the oldest versions only.
    """
    records = data.records
    is_old = context.api_version < _ONE_BATCH_SINCE
    if is_old and records is not None and is_legacy(records):
        _check_destination(context, acks, partition)
        return _converted(records, partition)
    if records is None or len(records) == 0:
        raise ApiError(ErrorCode.INVALID_RECORD, "A produce request must bring one record batch for each partition.")
    if context.api_version < _ZSTD_SINCE and not is_old and _attributes(records) & CODEC_BITS == Compression.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "Records compressed with zstd need produce version 7 or later."
        )
    if not is_old and not _fills(records):
        check_produce_records(records, context.api_version)
    _check_destination(context, acks, partition)
    return records


def _check_destination(context: RequestContext, acks: int, partition: Partition) -> None:
    if not -1 <= acks <= 1:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {acks}: it must be -1, 0 or 1.")
    if partition.name.topic in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.name.topic} is internal: clients do not write to it."
        )


def _converted(records: Buffer, partition: Partition) -> bytearray | None:
    """A message set of format 0 or 1 as one batch, None when nothing whole is in it. Raises ``ApiError``."""
    codec, level = topic_codec(partition.config)
    return up_convert(
        records, partition.name, codec=codec, level=level, max_message_bytes=partition.config.max_message_bytes
    )


def _failed(data: ProduceRequest.PartitionProduceData, partition: Partition | None, error: ApiError) -> _Slot:
    code = error.code
    slot = _Slot(index=data.index, error_code=code, base_offset=-1, error_message=error.message)
    if partition is not None and code not in _WITHOUT_LOG_START and _is_one_batch(data.records):
        slot.log_start_offset = partition.log_start_offset
    if isinstance(error, RecordValidationError):
        slot.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=message)
            for batch_index, message in error.record_errors
        ]
    return slot


def _fills(records: Buffer) -> bool:
    """Whether the first batch says that it is all there is: then it is the only one."""
    if len(records) < BATCH_OVERHEAD:
        return False
    length, magic, _ = _read_prefix(records)
    return bool(magic == 2 and LOG_OVERHEAD + length == len(records))


def _is_one_batch(records: Buffer | None) -> bool:
    """Whether Kafka would have asked the log at all: what is no whole batch, or several, is refused before."""
    if records is None or len(records) < BATCH_OVERHEAD:
        return False
    length, magic, _ = _read_prefix(records)
    left: int = len(records) - LOG_OVERHEAD - length
    if magic != 2 or left < 0:
        return False
    if left < BATCH_OVERHEAD:
        return True
    following: int = _read_prefix(records, len(records) - left)[0]
    return left < LOG_OVERHEAD + following


def _has_transactional_records(request: ProduceRequest) -> bool:
    """Whether any batch belongs to a transaction.

    Raises ``ApiError``: CORRUPT_MESSAGE when bytes cannot be a batch, and TRANSACTIONAL_ID_AUTHORIZATION_FAILED when
    the request names no transactional id. Both fail the whole request: Kafka looks here before it looks at partitions.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None and _attributes(data.records) & TRANSACTIONAL_BIT:
                if request.transactional_id is None:
                    raise ApiError(
                        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                        "The records belong to a transaction, but the request names no transactional id.",
                    )
                return True
    return False


def _check_codecs(context: RequestContext, topics: list[_Topic]) -> None:
    """Raise for the whole request where a batch has an unknown codec: Kafka looks for zstd before it appends."""
    for topic in topics:
        for data in topic.partition_data:
            if (
                data.records is not None
                and _attributes(data.records) & CODEC_BITS > Compression.ZSTD
                and context.node.replicas.is_known(topic.name, data.index)
            ):
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The records have an unknown compression type.")


def _attributes(records: Buffer) -> int:
    """The attributes of the first batch; 0 when there is no whole batch of magic 2. Raises CORRUPT_MESSAGE."""
    if len(records) < _PREFIX_SIZE:
        return 0
    length, magic, attributes = _read_prefix(records)
    if length < _LENGTH_MIN or not 0 <= magic <= 2:
        if length < _LENGTH_MIN:
            reason = f"Record size {length} is less than the minimum record overhead ({_LENGTH_MIN})"
        else:
            reason = f"Invalid magic found in record: {magic}"
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, reason)
    if length > _LENGTH_MAX:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"A batch of {length} bytes cannot be counted.")
    if magic != 2 or LOG_OVERHEAD + length > len(records):
        return 0
    return int(attributes)


def _each_partition_once(topics: list[_Topic], version: int) -> list[_Topic]:
    """The same request with each topic and partition once: the place of the first mention, the records of the last.

    A topic without partitions is not answered.
    """
    merged: dict[object, dict[int, ProduceRequest.PartitionProduceData]] = {}
    first: dict[object, _Topic] = {}
    for topic in topics:
        key: object = topic.topic_id if version >= _TOPIC_IDS_SINCE else topic.name
        first.setdefault(key, topic)
        partitions = merged.setdefault(key, {})
        for data in topic.partition_data:
            partitions[data.index] = data
    return [
        _Topic(name=topic.name, topic_id=topic.topic_id, partition_data=list(merged[key].values()))
        for key, topic in first.items()
        if merged[key]
    ]


def _point_to_leaders(context: RequestContext, response: ProduceResponse) -> None:
    """Where a partition is led elsewhere, say by whom and under which address (KIP-951)."""
    for topic in response.responses:
        for slot in topic.partition_responses:
            if slot.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            name = _name_of(context, topic)
            leader = None if name is None else context.current_leader(name, slot.index)
            if leader is None:
                continue
            leader_id, leader_epoch, endpoint = leader
            slot.current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            if endpoint is not None and all(known.node_id != leader_id for known in response.node_endpoints):
                host, port, rack = endpoint
                response.node_endpoints.append(
                    ProduceResponse.NodeEndpoint(node_id=leader_id, host=host, port=port, rack=rack)
                )
