"""Fetch: records for consumers and followers, at once or as soon as there are enough.

The road: the request becomes a context (sessionless, full or incremental: ``fetch_sessions``), its partitions are read
in turn within the limits, and the answer leaves if it has enough bytes, an error, or no time to wait. Otherwise it is
parked (``kbroker.replication.fetching``) and woken by the append that completes it.

Records leave as ranges of files: nothing is read here, but what versions 0 to 3 understand, message sets of format 0 or
1: those are converted as they leave, all but the first batch.
"""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.handlers.fetch_sessions import TOPIC_IDS_SINCE, FetchContext, SessionError
from kbroker.log.file_records import FileRecords
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.records.conversion import DownConverted
from kbroker.replication.fetching import (
    HIGH_WATERMARK,
    LOG_END,
    TXN_COMMITTED,
    DelayedFetch,
    FetchedPartition,
    FetchParams,
    Reading,
    failed,
    read_from_log,
)
from kbroker.replies import Reply

_BATCHES_SINCE = 4
"""The version from which batches of format 2 are understood (KIP-98); 2 and 3 know format 1, 0 and 1 format 0."""
_FORMAT_1_SINCE = 2
_SOFT_LIMITS_SINCE = 3
"""The version from which the first batch comes whole however large it is (KIP-74)."""
_FUTURE_REPLICA = -3
"""The replica id of a broker that copies a log between its own directories: no consumer, and no follower either."""
_ZSTD_SINCE = 4
"""The version from which a topic whose own codec is zstd is served; 10 before Kafka 4 (KIP-110)."""


def handle(context: RequestContext, request: FetchRequest) -> Reply[FetchResponse]:
    """Answer at once, or when there is enough to answer."""
    node = context.node
    replicas = node.replicas
    params = _params(request, context.api_version, replicas.fetch_max_bytes)
    fetch = node.fetch_sessions.open(request, context.api_version, params, replicas)
    if isinstance(fetch, SessionError):
        return fetch.answer()
    entries = fetch.select()
    reading = read_from_log(replicas, params, entries)
    reads_nothing = reading.unknown_count == len(entries) and not fetch.has_quiet()
    if not 0 <= request.isolation_level <= 1 and not reads_nothing:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"There is no isolation level {request.isolation_level}: use 0 or 1."
        )
    if reading.size >= params.min_bytes or params.max_wait_ms <= 0 or reading.must_answer or reads_nothing:
        return _answer(context, params, fetch, entries, reading)
    delayed = DelayedFetch(
        replicas,
        params,
        fetch.park(entries, reading),
        fetch.select,
        lambda entries, reading: _answer(context, params, fetch, entries, reading),
        fetch.give_up,
    )
    if reading.size:
        delayed.try_complete()
    return delayed.future


def error_response(context: RequestContext, request: FetchRequest, error: ApiError) -> FetchResponse:
    """The code for the whole answer and, before version 13, for each partition: older clients look only there."""
    response = FetchResponse(
        throttle_time_ms=context.throttle_time_ms, error_code=error.code, session_id=request.session_id
    )
    if context.api_version < TOPIC_IDS_SINCE:
        for topic in request.topics:
            response.responses.append(
                FetchResponse.FetchableTopicResponse(
                    topic=topic.topic,
                    partitions=[
                        FetchResponse.PartitionData(
                            partition_index=wanted.partition, error_code=error.code, high_watermark=-1, records=b""
                        )
                        for wanted in topic.partitions
                    ],
                )
            )
    return response


def _params(request: FetchRequest, version: int, fetch_max_bytes: int) -> FetchParams:
    replica_id = request.replica_id if version < 15 else request.replica_state.replica_id
    max_bytes = min(request.max_bytes, fetch_max_bytes)
    consumer_isolation = TXN_COMMITTED if request.isolation_level == 1 else HIGH_WATERMARK
    return FetchParams(
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        isolation=LOG_END if replica_id >= 0 or replica_id == _FUTURE_REPLICA else consumer_isolation,
        # Consumers may read from followers since they can tell which they ask (KIP-392).
        leader_only=replica_id >= 0 or version < 11,
        replica_id=replica_id,
        hard_max_bytes=version < _SOFT_LIMITS_SINCE,
    )


def _answer(
    context: RequestContext,
    params: FetchParams,
    fetch: FetchContext,
    entries: list[FetchedPartition],
    reading: Reading,
) -> FetchResponse:
    version = context.api_version
    if reading.unknown_count:
        entries = reading.unknown_last(entries, ids_first=params.replica_id < 0)
    if version < _ZSTD_SINCE:
        _hold_back_zstd(context, entries, reading)
    if version < _BATCHES_SINCE and reading.size:
        _down_convert(version, entries, reading)
    response = fetch.answer(entries, reading)
    if context.throttle_time_ms:
        response.throttle_time_ms = context.throttle_time_ms
    if reading.has_errors:
        if version <= 5:
            _rename_storage_errors(response)
        elif version >= 16:
            _point_to_leaders(context, response, with_endpoints=params.replica_id < 0)
    return response


def _hold_back_zstd(context: RequestContext, entries: list[FetchedPartition], reading: Reading) -> None:
    replicas = context.node.replicas
    for position, entry in enumerate(entries):
        partition = None if entry.topic is None else replicas.get(entry.topic, entry.partition)
        if partition is not None and partition.config.compression_type == "zstd":
            reading.answers[position] = failed(entry, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


def _down_convert(version: int, entries: list[FetchedPartition], reading: Reading) -> None:
    magic = 1 if version >= _FORMAT_1_SINCE else 0
    for position, entry in enumerate(entries):
        answer = reading.answers[position]
        if not isinstance(answer.records, FileRecords):
            continue
        try:
            answer.records = DownConverted(answer.records, magic, entry.fetch_offset)
        except ApiError as error:
            reading.answers[position] = failed(entry, error.code)
            reading.has_errors = True


def _rename_storage_errors(response: FetchResponse) -> None:
    """Clients of version 5 and older do not know KAFKA_STORAGE_ERROR and would not retry (KIP-112)."""
    for topic in response.responses:
        for answer in topic.partitions:
            if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


def _point_to_leaders(context: RequestContext, response: FetchResponse, *, with_endpoints: bool) -> None:
    """Where a partition is led elsewhere, say by whom and, to a consumer, under which address (KIP-951)."""
    for topic in response.responses:
        name = topic.topic or context.node.replicas.topic_name(topic.topic_id)
        for answer in topic.partitions:
            if answer.error_code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                continue
            leader = None if name is None else context.current_leader(name, answer.partition_index)
            if leader is None:
                continue
            leader_id, leader_epoch, endpoint = leader
            answer.current_leader = FetchResponse.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
            if (
                with_endpoints
                and endpoint is not None
                and all(known.node_id != leader_id for known in response.node_endpoints)
            ):
                host, port, rack = endpoint
                response.node_endpoints.append(
                    FetchResponse.NodeEndpoint(node_id=leader_id, host=host, port=port, rack=rack)
                )
