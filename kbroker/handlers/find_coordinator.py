"""FindCoordinator: which node coordinates a group or a transactional id (KIP-699: many keys since version 4).

The first question makes the internal topic and is answered in the same request: the first group of a fresh broker
waits no longer than the second. (Kafka says COORDINATOR_NOT_AVAILABLE first and lets the client ask again.)
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.handlers.auto_creation import creatable_topic
from kbroker.handlers.cluster_view import ClusterView
from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsResponse
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kbroker.replies import Reply, then
from kbroker.types import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

BATCHED_SINCE = 4
TOPICS = {0: GROUP_METADATA_TOPIC, 1: TRANSACTION_STATE_TOPIC}
"""The internal topic of each type of key."""

Coordinator = FindCoordinatorResponse.Coordinator


def handle(context: RequestContext, request: FindCoordinatorRequest) -> Reply[FindCoordinatorResponse]:
    """Make the internal topic if it is missing, and answer."""
    topic = TOPICS.get(request.key_type)
    if topic is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"There are no coordinators of type {request.key_type}.")
    if topic in context.node.quorum.image.topics.by_name:
        return _answer(context, request, topic)
    return then(_create(context, topic), lambda _: _answer(context, request, topic))


def error_response(
    context: RequestContext, request: FindCoordinatorRequest, error: ApiError
) -> FindCoordinatorResponse:
    """The code, at every key where there are several."""
    return _response(context, request, lambda key: _failed(key, error.code, error.message))


def _create(context: RequestContext, topic: str) -> Reply[list[CreateTopicsResponse.CreatableTopicResult]]:
    quorum = context.node.quorum
    unfenced = len(quorum.image.cluster.unfenced())
    return quorum.create_topics([creatable_topic(topic, quorum.effective_config, unfenced)])


def _answer(context: RequestContext, request: FindCoordinatorRequest, topic: str) -> FindCoordinatorResponse:
    view = ClusterView(context.node.quorum.image.cluster, context.listener)
    return _response(context, request, lambda key: _find(context, view, topic, key))


def _find(context: RequestContext, view: ClusterView, topic: str, key: str) -> Coordinator:
    known = context.node.quorum.image.topics.by_name.get(topic)
    if known is None:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic} could not be made: see the broker's log.")
    coordinator = context.node.groups if topic == GROUP_METADATA_TOPIC else context.node.transactions
    partition = known.partitions[coordinator.partition_of(key)]
    if partition.leader not in view.live:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator's node is not there: ask again.")
    _, endpoint = view.live[partition.leader]
    return Coordinator(key=key, node_id=partition.leader, host=endpoint.host, port=endpoint.port)


def _failed(key: str, code: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=message)


def _response(
    context: RequestContext, request: FindCoordinatorRequest, find: Callable[[str], Coordinator]
) -> FindCoordinatorResponse:
    if context.api_version >= BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=[find(key) for key in request.coordinator_keys])
    found = find(request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message="NONE" if found.error_code == ErrorCode.NONE else found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )
