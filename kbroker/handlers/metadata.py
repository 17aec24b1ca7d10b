"""Metadata: brokers, topics and leaders as the asking listener sees them; creates topics where it is allowed to.

A topic that is created here is in this very answer (Kafka answers UNKNOWN_TOPIC_OR_PARTITION first and lets the client
ask again).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable
from typing import Final

from kbroker.handlers.auto_creation import creatable_topic
from kbroker.handlers.cluster_view import (
    ALL_CLUSTER_OPERATIONS,
    ALL_TOPIC_OPERATIONS,
    controller_seen,
    is_live,
    leader_seen,
    live_brokers,
    offline_replicas,
)
from kbroker.handlers.context import RequestContext
from kbroker.handlers.replies import then
from kbroker.kraft.controller.topics import CreatableTopicResult, check_topic_name
from kbroker.kraft.image import ClusterImage, MetadataImage, PartitionImage, TopicImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.types import INTERNAL_TOPICS, METADATA_TOPIC, ZERO_UUID, Uuid

logger = logging.getLogger(__name__)

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition

_FIRST_WITH_IDS: Final = 12


def handle(context: RequestContext, request: MetadataRequest) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer; or create what is missing, and then answer."""
    _check(context, request)
    missing = _creatable(context, request)
    if not missing:
        return _answer(context, request)
    config = context.node.quorum.effective_config
    live = sum(not broker.fenced for broker in context.node.quorum.image.cluster.brokers.values())
    topics = [creatable_topic(name, config, live) for name in missing]
    try:
        created = context.node.quorum.create_topics(topics)
    except ApiError as error:
        logger.warning("Topics %s cannot be created: %s", ", ".join(missing), error)
        return _answer(context, request)

    def answer(results: list[CreatableTopicResult]) -> MetadataResponse:
        for result in results:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                logger.warning("Topic %s cannot be created on demand: %s", result.name, result.error_message)
        return _answer(context, request)

    return then(created, answer)


def error_response(context: RequestContext, request: MetadataRequest, error: ApiError) -> MetadataResponse:
    """The error stands at every topic that was asked for, and from version 13 on at the top."""
    topics = [
        Topic(
            error_code=error.code,
            name=each.name or "",
            topic_id=each.topic_id,
        )
        for each in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=error.code)


def _is_all_topics(context: RequestContext, request: MetadataRequest) -> bool:
    return request.topics is None or (context.api_version == 0 and not request.topics)


def _check(context: RequestContext, request: MetadataRequest) -> None:
    if context.api_version >= _FIRST_WITH_IDS:
        if any(topic.name is None and topic.topic_id == ZERO_UUID for topic in request.topics or ()):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "A topic is asked for by neither name nor id.")
        return
    for topic in request.topics or ():
        if topic.name is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {context.api_version}")
        if topic.topic_id != ZERO_UUID:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Topic IDs are not supported in requests for version {context.api_version}",
            )


def _requested_ids(request: MetadataRequest) -> list[Uuid]:
    """Ids win over names: with one id in the request, names are not looked at."""
    return list(dict.fromkeys(each.topic_id for each in request.topics or () if each.topic_id != ZERO_UUID))


def _creatable(context: RequestContext, request: MetadataRequest) -> list[str]:
    """The names that are missing and shall be created."""
    by_name = context.node.quorum.image.topics.by_name
    missing = [each.name for each in request.topics or () if each.name is not None and each.name not in by_name]
    if not missing or not request.allow_auto_topic_creation or _requested_ids(request):
        return []
    if not context.node.quorum.effective_config.boolean("auto.create.topics.enable"):
        return []
    valid = [name for name in dict.fromkeys(missing) if _name_error(name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    return [name for name in valid if name != METADATA_TOPIC]


def _name_error(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except ApiError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _answer(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    quorum, version = context.node.quorum, context.api_version
    image = quorum.image
    topics = _topics(context, request, image)
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == ErrorCode.NONE or topic.name is not None:
                topic.topic_authorized_operations = ALL_TOPIC_OPERATIONS
    response = MetadataResponse(
        throttle_time_ms=context.throttle_time_ms,
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker, endpoint in live_brokers(image.cluster, context.listener)
        ],
        cluster_id=context.node.cluster_id,
        controller_id=controller_seen(image.cluster, quorum.leader_id, context.listener),
        topics=topics,
    )
    if request.include_cluster_authorized_operations and 8 <= version <= 10:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response


def _topics(context: RequestContext, request: MetadataRequest, image: MetadataImage) -> list[Topic]:
    if _is_all_topics(context, request):
        return list(_known(context, image.topics.by_name.values(), image.cluster))
    ids = _requested_ids(request)
    if ids:
        unknown = [
            Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=each)
            for each in ids
            if each not in image.topics.by_id
        ]
        known = [image.topics.by_id[each] for each in ids if each in image.topics.by_id]
        return [*unknown, *_known(context, known, image.cluster)]
    names = dict.fromkeys(each.name or "" for each in request.topics or ())
    known = [image.topics.by_name[each] for each in names if each in image.topics.by_name]
    missing = [
        Topic(error_code=_name_error(each), name=each, is_internal=each in INTERNAL_TOPICS)
        for each in names
        if each not in image.topics.by_name
    ]
    return [*_known(context, known, image.cluster), *missing]


def _known(context: RequestContext, topics: Iterable[TopicImage], cluster: ClusterImage) -> Iterable[Topic]:
    version, listener = context.api_version, context.listener
    for topic in topics:
        yield Topic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[
                _partition(number, partition, cluster, listener, version)
                for number, partition in topic.partitions.items()
            ],
        )


def _partition(number: int, partition: PartitionImage, cluster: ClusterImage, listener: str, version: int) -> Partition:
    replicas, isr = partition.replicas, partition.isr
    if version == 0:
        # Version 0 cannot say which replicas are offline: it leaves them out, and says so with an error.
        replicas = tuple(each for each in replicas if is_live(cluster, each, listener))
        isr = tuple(each for each in isr if is_live(cluster, each, listener))
    leader = leader_seen(cluster, partition, listener)
    error = ErrorCode.NONE
    if leader < 0:
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if partition.leader in cluster.brokers and version >= 6:
            error = ErrorCode.LISTENER_NOT_FOUND
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return Partition(
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(isr),
        offline_replicas=offline_replicas(cluster, partition, listener),
    )
