"""DescribeQuorum (KIP-595, KIP-836, KIP-853): leader, voters and observers of the metadata log."""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kbroker.types import METADATA_TOPIC

PartitionData = DescribeQuorumResponse.PartitionData
TopicData = DescribeQuorumResponse.TopicData
ReplicaState = DescribeQuorumResponse.ReplicaState


def handle(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describe ``__cluster_metadata-0``; asked for anything else or more, know none of it, as Kafka does."""
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if asked != [(METADATA_TOPIC, [0])]:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        return DescribeQuorumResponse(
            topics=[
                TopicData(
                    topic_name=name,
                    partitions=[
                        PartitionData(partition_index=index, error_code=unknown[0], error_message=unknown[1])
                        for index in partitions
                    ],
                )
                for name, partitions in asked
            ]
        )
    quorum = context.node.quorum
    if not quorum.is_active:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"The leader of the quorum is node {quorum.leader_id}.")
    view = quorum.describe()
    partition = PartitionData(
        partition_index=0,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=[
            ReplicaState(
                replica_id=each.node_id,
                replica_directory_id=each.directory_id,
                log_end_offset=each.end_offset,
                last_fetch_timestamp=each.fetched_ms,
                last_caught_up_timestamp=each.caught_up_ms,
            )
            for each in view
        ],
    )
    response = DescribeQuorumResponse(topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[partition])])
    if context.api_version >= 2:
        response.nodes = [_node(context, each.node_id) for each in view]
    return response


def _node(context: RequestContext, node_id: int) -> DescribeQuorumResponse.Node:
    """Where a voter listens: as is written down of it, else as this node knows of itself."""
    voter = context.node.quorum.voters.find(node_id)
    endpoints: Iterable[tuple[str, str, int]] = () if voter is None else voter.endpoints
    if not endpoints and node_id == context.node.node_id:
        told_host = context.connection.told_host
        own = context.node.config.controller_endpoints
        endpoints = [(each.name, told_host(each.host), each.port) for each in own]
    listener = DescribeQuorumResponse.Listener
    return DescribeQuorumResponse.Node(
        node_id=node_id, listeners=[listener(name=name, host=host, port=port) for name, host, port in endpoints]
    )


def error_response(
    _context: RequestContext, _request: DescribeQuorumRequest, error: ApiError
) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=error.code, error_message=error.message)
