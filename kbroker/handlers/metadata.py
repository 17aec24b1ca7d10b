"""Metadata: brokers, topics and leaders as the asking listener sees them; creates topics where it is allowed to.

A topic that is created here is in this very answer (Kafka answers UNKNOWN_TOPIC_OR_PARTITION first and lets the client
ask again).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from kbroker.config.java_maps import in_map_order, in_set_order
from kbroker.handlers.auto_creation import creatable_topic
from kbroker.handlers.cluster_view import ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS, ClusterView
from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.topics import CreatableTopicResult, check_topic_name
from kbroker.kraft.image import MetadataImage, PartitionImage, TopicImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.replies import Reply, then
from kbroker.types import INTERNAL_TOPICS, METADATA_TOPIC, ZERO_UUID, Uuid

logger = logging.getLogger(__name__)

Topic = MetadataResponse.MetadataResponseTopic
Partition = MetadataResponse.MetadataResponsePartition

ANSWERS_FOLLOW_FROM_IMAGE: Final = True

_IDS_SINCE: Final = 12
_LISTENER_ERROR_SINCE: Final = 6


def handle(context: RequestContext, request: MetadataRequest) -> Reply[MetadataResponse]:
    """Answer; or create what is missing, and then answer."""
    _check(context, request)
    missing = _creatable(context, request)
    if not missing:
        context.follows_from_image = True
        return _answer(context, request)
    config = context.node.quorum.effective_config
    unfenced = len(context.node.quorum.image.cluster.unfenced())
    topics = [creatable_topic(name, config, unfenced) for name in missing]
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


def error_response(_context: RequestContext, request: MetadataRequest, error: ApiError) -> MetadataResponse:
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
    if context.api_version >= _IDS_SINCE:
        if not _requested_ids(request) and any(topic.name is None for topic in request.topics or ()):
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
    view = ClusterView(image.cluster, context.listener)
    topics = _topics(context, request, image, view)
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == ErrorCode.NONE or topic.name is not None:
                topic.topic_authorized_operations = ALL_TOPIC_OPERATIONS
    response = MetadataResponse(
        throttle_time_ms=context.throttle_time_ms,
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=broker.id,
                host=context.connection.told_host(endpoint.host),
                port=endpoint.port,
                rack=broker.rack,
            )
            for broker, endpoint in view.live.values()
        ],
        cluster_id=context.node.cluster_id,
        controller_id=view.controller(quorum.leader_id),
        topics=topics,
    )
    if request.include_cluster_authorized_operations and 8 <= version <= 10:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response


def _topics(context: RequestContext, request: MetadataRequest, image: MetadataImage, view: ClusterView) -> list[Topic]:
    version = context.api_version
    if _is_all_topics(context, request):
        return list(_known(image.topics.by_name.values(), image, view, version))
    ids = _requested_ids(request)
    if ids:
        unknown = [
            Topic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=each)
            for each in ids
            if each not in image.topics.by_id
        ]
        known = [image.topics.by_id[each] for each in ids if each in image.topics.by_id]
        return [*unknown, *_known(known, image, view, version)]
    names = in_set_order(dict.fromkeys(each.name or "" for each in request.topics or ()))
    known = [image.topics.by_name[each] for each in names if each in image.topics.by_name]
    missing = [
        Topic(error_code=_name_error(each), name=each, is_internal=each in INTERNAL_TOPICS)
        for each in in_map_order([each for each in names if each not in image.topics.by_name])
    ]
    return [*_known(known, image, view, version), *missing]


def _known(topics: Iterable[TopicImage], image: MetadataImage, view: ClusterView, version: int) -> Iterator[Topic]:
    for topic in topics:
        yield Topic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[
                _partition(number, partition, image, view, version) for number, partition in topic.partitions.items()
            ],
        )


def _partition(
    number: int, partition: PartitionImage, image: MetadataImage, view: ClusterView, version: int
) -> Partition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    leader = view.leader(partition)
    error = ErrorCode.NONE
    if version == 0:
        # Version 0 cannot say which replicas are offline: it leaves them out, and says so with an error.
        replicas, isr = view.live_among(replicas), view.live_among(isr)
        if len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    if leader < 0:
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if partition.leader in image.cluster.brokers and version >= _LISTENER_ERROR_SINCE:
            error = ErrorCode.LISTENER_NOT_FOUND
    return Partition(
        error_code=error,
        partition_index=number,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline(partition),
    )
