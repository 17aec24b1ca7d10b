"""Registration of brokers, their heartbeats, fencing and controlled shutdown (KIP-631, KIP-1066's fields included).

    fenced     caught up, wants to serve              unfenced
    fenced     wants to shut down                     may shut down now
    unfenced   wants to be fenced, or lost contact    fenced
    unfenced   wants to shut down and leads           in controlled shutdown
    unfenced   wants to shut down and leads nothing   may shut down now
    shutdown   leads nothing any more, and the        may shut down now
               others have seen it go

Registrations are durable (the image); the time of last contact is not: ``BrokerSessions`` belongs to the active
controller and is dropped with its activity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.directories import cordoned_directory_records, offline_directory_records
from kbroker.kraft.controller.features import SUPPORTED
from kbroker.kraft.controller.partitions import is_elr_enabled, leader_and_isr_updates
from kbroker.kraft.controller.result import ControllerResult
from kbroker.kraft.image import METADATA_VERSION, BrokerImage, MetadataImage
from kbroker.kraft.metadata_versions import CORDONED_DIRECTORIES, DIRECTORIES
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kbroker.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kbroker.protocol.messages.records import metadata as m
from kbroker.types import is_directory, uuid_to_string

FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1


@dataclass(slots=True)
class Session:
    """``metadata_offset``: the offset up to which the broker said it has applied the log."""

    contact_ms: int
    metadata_offset: int = -1
    shutdown_offset: int = -1


@dataclass(slots=True)
class BrokerSessions:
    """When the active controller last heard of each broker. Changed by heartbeats and registrations only."""

    timeout_ms: int
    by_broker: dict[int, Session] = field(default_factory=dict)

    def touch(self, broker_id: int, now: int, metadata_offset: int) -> None:
        session = self.by_broker.get(broker_id)
        if session is None:
            session = self.by_broker[broker_id] = Session(now)
        session.contact_ms = now
        session.metadata_offset = max(session.metadata_offset, metadata_offset)

    def has_valid_session(self, broker_id: int, now: int) -> bool:
        session = self.by_broker.get(broker_id)
        return session is not None and now - session.contact_ms < self.timeout_ms

    def lowest_offset(self, image: MetadataImage) -> int | None:
        """How far every active broker has come; None when none is active."""
        offsets = [
            self.by_broker[each.id].metadata_offset
            for each in image.cluster.brokers.values()
            if each.is_active and each.id in self.by_broker
        ]
        return min(offsets, default=None)


def check_broker_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """The broker's registration. Raises STALE_BROKER_EPOCH when it is not that of the epoch."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )
    return broker


def register_broker(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    next_offset: int,
    has_valid_session: bool,
    config: BrokerConfig,
) -> ControllerResult[BrokerRegistrationResponse]:
    """A new registration, or an amended one of the same incarnation. The new epoch is the log's next offset."""
    if request.cluster_id != cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}",
        )
    existing = image.cluster.brokers.get(request.broker_id)
    is_new = existing is None or existing.incarnation_id != request.incarnation_id
    if existing is not None and is_new and has_valid_session:
        raise ApiError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id.")
    if request.is_migrating_zk_broker:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    _check_directories(image, request)
    record = m.RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        rack=request.rack,
        end_points=[
            m.RegisterBrokerRecord.BrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in request.listeners
        ],
        features=_checked_features(image, request),
        log_dirs=list(request.log_dirs) if image.metadata_version >= DIRECTORIES else [],
    )
    records: list[Any] = []
    if existing is None or is_new:
        record.broker_epoch = next_offset
        if existing is not None:
            records += _end_of_incarnation(image, request, existing, config)
    else:
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
        record.broker_epoch = existing.epoch
    records.append(record)
    return ControllerResult(BrokerRegistrationResponse(broker_epoch=record.broker_epoch), records)


def _end_of_incarnation(
    image: MetadataImage, request: BrokerRegistrationRequest, existing: BrokerImage, config: BrokerConfig
) -> list[Any]:
    """The old incarnation leaves every ISR; without a clean shutdown in that very epoch it is not eligible either."""
    if request.previous_broker_epoch == existing.epoch or not is_elr_enabled(image):
        return list(leader_and_isr_updates(image, config, removed=request.broker_id))
    return list(leader_and_isr_updates(image, config, unclean_shutdown=request.broker_id))


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    if not request.log_dirs:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if not all(map(is_directory, request.log_dirs)):
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(dict.fromkeys(request.log_dirs)) != len(request.log_dirs):
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for broker in image.cluster.brokers.values():
        for directory in request.log_dirs:
            if broker.id != request.broker_id and directory in broker.directories:
                raise ApiError(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {broker.id} is already registered with directory {uuid_to_string(directory)}",
                )


def _checked_features(
    image: MetadataImage, request: BrokerRegistrationRequest
) -> list[m.RegisterBrokerRecord.BrokerFeature]:
    offered = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    offered.setdefault(METADATA_VERSION, (SUPPORTED[METADATA_VERSION][0],) * 2)
    for name, level in image.features.items():
        lowest, highest = offered.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {lowest} and {highest}, inclusive.",
            )
    return [
        m.RegisterBrokerRecord.BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in offered.items()
    ]


def broker_heartbeat(
    image: MetadataImage,
    sessions: BrokerSessions,
    request: BrokerHeartbeatRequest,
    next_offset: int,
    config: BrokerConfig,
) -> ControllerResult[BrokerHeartbeatResponse]:
    """The next state of a broker by the table above. The caller touches the session."""
    broker = check_broker_epoch(image, request.broker_id, request.broker_epoch)
    caught_up = request.current_metadata_offset >= broker.registered_at
    reply = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=broker.fenced, should_shut_down=False)
    records: list[Any] = []
    if broker.fenced:
        if request.want_shut_down:
            reply.should_shut_down = True
        elif not request.want_fence and caught_up:
            records = unfence_records(image, broker, config)
            reply.is_fenced = False
    elif broker.in_controlled_shutdown:
        session = sessions.by_broker.get(broker.id)
        lowest = sessions.lowest_offset(image)
        gone = lowest is None or session is None or session.shutdown_offset <= lowest
        if gone and not _leads(image, broker.id):
            records = fence_records(image, broker, config)
            reply.is_fenced = reply.should_shut_down = True
    elif request.want_fence or (request.want_shut_down and not _leads(image, broker.id)):
        records = fence_records(image, broker, config)
        reply.is_fenced = True
        reply.should_shut_down = request.want_shut_down
    elif request.want_shut_down:
        records = _controlled_shutdown_records(image, broker, config)
        if broker.id in sessions.by_broker:
            sessions.by_broker[broker.id].shutdown_offset = next_offset + len(records) - 1
    records += offline_directory_records(image, broker, request.offline_log_dirs, config)
    if image.metadata_version >= CORDONED_DIRECTORIES:
        records += cordoned_directory_records(broker, request.cordoned_log_dirs)
    return ControllerResult(reply, records)


def _leads(image: MetadataImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id
        for topic in image.topics.by_id.values()
        for partition in topic.partitions.values()
    )


def fence_records(image: MetadataImage, broker: BrokerImage, config: BrokerConfig) -> list[Any]:
    """The broker leaves every ISR and leads nothing."""
    change = m.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCE)
    return [*leader_and_isr_updates(image, config, removed=broker.id), change]


def unfence_records(image: MetadataImage, broker: BrokerImage, config: BrokerConfig) -> list[Any]:
    """The broker may lead; partitions without a leader look whether it can lead them."""
    change = m.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE)
    return [change, *leader_and_isr_updates(image, config, added=broker.id)]


def _controlled_shutdown_records(image: MetadataImage, broker: BrokerImage, config: BrokerConfig) -> list[Any]:
    change = m.BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
    )
    return [change, *leader_and_isr_updates(image, config, removed=broker.id)]


def fence_stale_broker(
    image: MetadataImage, sessions: BrokerSessions, now: int, config: BrokerConfig
) -> ControllerResult[int | None]:
    """Fence one broker that lost contact; one at a time, so that the next sees its effect. The reply names it."""
    for broker in image.cluster.brokers.values():
        if not broker.fenced and not sessions.has_valid_session(broker.id, now):
            return ControllerResult(broker.id, fence_records(image, broker, config))
    return ControllerResult(None)


def unregister_broker(image: MetadataImage, broker_id: int, config: BrokerConfig) -> ControllerResult[None]:
    """Forget a broker: it leaves every ISR and leads nothing. Raises BROKER_ID_NOT_REGISTERED."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    record = m.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
    return ControllerResult(None, [*leader_and_isr_updates(image, config, removed=broker_id), record])
