"""The quorum as the rest of the broker sees it: the committed metadata image, and operations of the active controller.

Decisions are made on the *written* image, which includes what is not committed yet; everybody else sees the *committed*
one. An operation's records are appended, and once the high watermark passes them the image is published to the
subscribers in their order, in one turn of the loop, and only then the reply leaves. Without fsync all of it happens
before the call returns, and the reply is returned itself instead of a future. A leader that resigns forgets what
it wrote and stands on the committed image again. A subscriber does not call operations from within its callback.

A failure inside the controller is our own bug or a broken log: the node must not go on deciding, so ``failed`` is
called and stops the broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kbroker.config import BrokerConfig
from kbroker.config.dynamic import with_stored
from kbroker.host import Host, Timer
from kbroker.kraft import snapshots
from kbroker.kraft.batches import CorruptMetadataError
from kbroker.kraft.controller import brokers, directories, features, producer_ids, topics
from kbroker.kraft.controller.result import ControllerResult
from kbroker.kraft.image import EMPTY, RESOURCE_BROKER, MetadataDelta, MetadataImage
from kbroker.kraft.raft.driver import Listener, MetadataLog, RaftDriver
from kbroker.kraft.raft.metadata_log import PartitionMetadataLog
from kbroker.kraft.raft.quorum_state import QuorumStateError
from kbroker.kraft.raft.voters import KRAFT_VERSIONS, Voter, VoterEndpoint, Voters
from kbroker.kraft.replay import LogReader, control_records
from kbroker.kraft.snapshot_keeper import SnapshotKeeper
from kbroker.log.errors import CorruptFileError, DiskFullError
from kbroker.protocol.errors import ApiError, ErrorCode, ProtocolError
from kbroker.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from kbroker.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kbroker.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kbroker.protocol.messages.records import metadata as m
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest
from kbroker.replies import Reply
from kbroker.types import StartupError, Uuid

logger = logging.getLogger(__name__)

T = TypeVar("T")
"""What an operation returns: the reply itself when it is committed already, else a future of it."""

Subscriber = Callable[[MetadataDelta, MetadataImage], None]


class QuorumReplica(NamedTuple):
    """One voter: how far its log goes, when it last fetched, when it last had everything.

    ``directory_id`` is zero in a quorum of static voters.
    """

    node_id: int
    directory_id: Uuid
    end_offset: int
    fetched_ms: int
    caught_up_ms: int


class _Written(NamedTuple):
    """An image that is written up to ``end_offset`` and waits to be committed."""

    end_offset: int
    timestamp: int
    image: MetadataImage
    delta: MetadataDelta


class _Parked(NamedTuple):
    """A reply that waits until everything below ``end_offset`` is committed."""

    end_offset: int
    future: asyncio.Future[Any]
    reply: Any


class Quorum:
    """One node's metadata quorum. Owner: the composition root; used by everything above."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        cluster_id: str,
        directory_id: Uuid,
        host: Host,
        failed: Callable[[BaseException], None],
        open_log: Callable[[str, BrokerConfig, Host], MetadataLog] = PartitionMetadataLog.open,
    ) -> None:
        """``directory_id`` is that of the directory that holds the metadata log."""
        self.node_id = config.node_id
        self.cluster_id = cluster_id
        self._directory_id = directory_id
        self._config = config
        self._host = host
        self._failed = failed
        self._open_log = open_log
        self._fsync = config.boolean("kbroker.fsync")
        self._log_directory = config.metadata_log_dir
        self._directory = f"{self._log_directory}/{snapshots.METADATA_DIRECTORY}"
        self._image = self._written = EMPTY
        self._effective: tuple[Mapping[str, str], Mapping[str, str], BrokerConfig] = ({}, {}, config)
        self._pending: deque[_Written] = deque()
        self._parked: deque[_Parked] = deque()
        self._subscribers: list[Subscriber] = []
        self._published = False
        self._is_active = False
        self._sessions = self._new_sessions()
        self._session_timer: Timer | None = None
        self._ready: asyncio.Future[None] | None = None
        self._bootstrap: list[Any] = []
        self._high_watermark = 0
        self._has_failed = False
        self._is_loaded = False
        self._log: MetadataLog
        self._snapshots: SnapshotKeeper
        self._reader: LogReader
        self._driver: RaftDriver

    # --- what everybody may read

    @property
    def image(self) -> MetadataImage:
        """The committed image."""
        return self._image

    @property
    def leader_id(self) -> int:
        """The active controller, -1 when none is known."""
        return self._driver.raft.leader_id

    @property
    def epoch(self) -> int:
        """The epoch of the quorum."""
        return self._driver.raft.epoch

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._is_active

    @property
    def high_watermark(self) -> int:
        """The first offset of the metadata log that is not known to be committed."""
        return self._high_watermark

    @property
    def effective_config(self) -> BrokerConfig:
        """This broker's configuration with the dynamic values of the committed image on top."""
        return self._effective_for(self._image)

    @property
    def voters(self) -> Voters:
        """Who the voters are, and at which level of ``kraft.version`` that is written down."""
        return self._driver.voters

    def describe(self) -> list[QuorumReplica]:
        """The voters as the leader sees them, wall-clock times in ms, -1 for never."""
        raft = self._driver.raft
        now_ms, monotonic_ms = self._host.clock.wall_ms(), self._host.clock.monotonic_ms()
        replicas = []
        for voter, directory_id, _ in self.voters.all:
            if voter == self.node_id:
                replicas.append(QuorumReplica(voter, directory_id, self._log.end_offset, now_ms, now_ms))
                continue
            progress = raft.progress_of(voter)
            fetched_ms = -1 if progress.fetched_ms < 0 else now_ms - (monotonic_ms - progress.fetched_ms)
            has_all = progress.end_offset >= self._high_watermark
            caught_up_ms = fetched_ms if has_all else -1
            replicas.append(QuorumReplica(voter, directory_id, progress.end_offset, fetched_ms, caught_up_ms))
        return replicas

    def subscribe(self, subscriber: Subscriber) -> None:
        """Follow the committed image, after those who came before; a late one is given everything at once."""
        self._subscribers.append(subscriber)
        if self._published:
            subscriber(MetadataDelta.of_everything(self._image), self._image)

    # --- life

    async def start(self) -> None:
        """Load snapshot and log, take part in the quorum, return once there is a committed image.

        Raises ``StartupError`` when what is on the disk is not sound or of another quorum, ``OSError`` and
        ``DiskFullError`` when the disk fails.
        """
        try:
            self._load()
        except DiskFullError:
            raise
        except (CorruptMetadataError, CorruptFileError, QuorumStateError, ProtocolError, ApiError) as error:
            raise StartupError(f"the metadata log cannot be read, restore it from a copy: {error}") from error
        self._ready = asyncio.get_running_loop().create_future()
        self._driver.start()
        await self._ready

    def _load(self) -> None:
        self._bootstrap = features.bootstrap_records()
        voters = Voters((Voter(self.node_id),))
        bootstrap = snapshots.read_bootstrap(self._host.disk, self._log_directory)
        if bootstrap is not None:
            self._bootstrap = bootstrap.records
            voters = voters.replay(bootstrap.controls, in_log=False)
        self._log = self._open_log(self._directory, self._config, self._host)
        voters = self._load_snapshot(voters)
        voters = voters.replay(control_records(self._log, self._reader.next_offset), in_log=True)
        own = self._own_voter(voters)
        if bootstrap is None and self._log.end_offset == 0 and self._config.leaves_voters_to_the_log:
            voters = Voters((own,), KRAFT_VERSIONS[1])
        self._check_voters(voters, own)
        self._snapshots = SnapshotKeeper(
            self._log,
            self._directory,
            self._config,
            self._host,
            lambda: (self._image, self._reader.last_timestamp, self.voters),
            self._fail,
        )
        listener = Listener(self._on_elected, self._on_resigned, self._on_committed, self._fail)
        self._driver = RaftDriver(
            self.node_id,
            voters,
            own,
            self._directory,
            self._log,
            self._host,
            listener,
            fsync=self._fsync,
        )
        self._is_loaded = True

    async def stop(self) -> None:
        """Give up leadership and close the log; a snapshot under way is dropped. Right after any ``start``."""
        if not self._is_loaded:
            return
        if self._session_timer is not None:
            self._session_timer.cancel()
        await self._snapshots.stop()
        self._driver.resign()
        await self._driver.close()

    def _own_voter(self, voters: Voters) -> Voter:
        """What this node says of itself as a voter. What its configuration leaves open stays as it was."""
        voter = voters.find(self.node_id)
        written = () if voter is None else voter.endpoints
        hosts = {each.name: each.host for each in written}
        endpoints = [
            VoterEndpoint(each.name, each.host or hosts.get(each.name, "localhost"), each.port)
            for each in self._config.controller_endpoints
        ]
        return Voter(self.node_id, self._directory_id, tuple(endpoints) or written)

    def _check_voters(self, voters: Voters, own: Voter) -> None:
        """Raises ``StartupError`` when others decide: this node would wait for them for ever."""
        if voters.kraft_version and [voter[:2] for voter in voters.all] != [own[:2]]:
            keys = ", ".join(voter.key for voter in voters.all)
            raise StartupError(
                f"the voters of this quorum are [{keys}], and kbroker runs a quorum of one, {own.key}: let the Kafka "
                "that has the others remove them, or format the directory anew"
            )

    def _load_snapshot(self, voters: Voters) -> Voters:
        """Begin with the latest snapshot; the voters that it knows."""
        found = snapshots.list_snapshots(self._host.disk, self._directory)
        start = self._log.start_offset
        if found:
            latest = found[-1]
            content = snapshots.read_snapshot(self._host.disk, self._directory, latest)
            self._image, _ = EMPTY.apply_snapshot(content.records, latest.end_offset - 1, latest.epoch)
            voters = voters.replay(content.controls, in_log=True)
            start = latest.end_offset
            if self._log.end_offset < start:
                self._log.start_anew_at(start)
        self._reader = LogReader(self._log, start)
        self._high_watermark = start
        return voters

    # --- operations of the active controller

    def create_topics(
        self, requested: Sequence[topics.CreatableTopic], *, validate_only: bool = False
    ) -> Reply[list[topics.CreatableTopicResult]]:
        """Create topics whose names are unique in the request; one result each, in order."""
        return self.decide(
            lambda image, config: topics.create_topics(
                image, requested, config=config, chance=self._host.random, new_topic_id=self._new_uuid
            ),
            validate_only=validate_only,
        )

    def delete_topics(self, topic_ids: Sequence[Uuid]) -> Reply[dict[Uuid, ApiError | None]]:
        """Delete topics; what went wrong with each, None for those that are gone."""
        return self._perform(lambda image, _: topics.delete_topics(image, topic_ids))

    def decide(
        self,
        decision: Callable[[MetadataImage, BrokerConfig], ControllerResult[T]],
        *,
        validate_only: bool = False,
    ) -> Reply[T]:
        """Perform a pure decision of ``kraft.controller`` on the written image and the effective configuration."""

        def decide(image: MetadataImage, _offset: int) -> ControllerResult[T]:
            result = decision(image, self._effective_for(image))
            return ControllerResult(result.reply) if validate_only else result

        return self._perform(decide)

    def update_features(self, request: UpdateFeaturesRequest) -> Reply[None]:
        """Raise or lower finalized levels, all or none."""
        kraft_version = self.voters.kraft_version
        return self.decide(
            lambda image, config: features.update_features(image, request, self.node_id, config, kraft_version),
            validate_only=request.validate_only,
        )

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> Reply[producer_ids.ProducerIdBlock]:
        """The next block of producer ids for a broker."""
        return self._perform(lambda image, _: producer_ids.allocate_producer_ids(image, broker_id, broker_epoch))

    def register_broker(self, request: BrokerRegistrationRequest) -> Reply[BrokerRegistrationResponse]:
        """Register a broker; it is fenced until its heartbeat says that it has caught up."""
        now = self._host.clock.monotonic_ms()
        # This node's own former incarnation is dead: it held the lock on the data directory that we hold now.
        is_own = request.broker_id == self.node_id

        def decide(image: MetadataImage, offset: int) -> ControllerResult[BrokerRegistrationResponse]:
            result = brokers.register_broker(
                image,
                request,
                cluster_id=self.cluster_id,
                next_offset=offset,
                has_valid_session=not is_own and self._sessions.has_valid_session(request.broker_id, now),
                config=self._effective_for(image),
            )
            self._sessions.by_broker.pop(request.broker_id, None)
            self._touch_session(request.broker_id, now, -1)
            return result

        return self._perform(decide)

    def heartbeat(self, request: BrokerHeartbeatRequest) -> Reply[BrokerHeartbeatResponse]:
        """A broker's sign of life, and its wishes. The reply does not wait when nothing changes."""
        now = self._host.clock.monotonic_ms()

        def decide(image: MetadataImage, offset: int) -> ControllerResult[BrokerHeartbeatResponse]:
            result = brokers.broker_heartbeat(image, self._sessions, request, offset, self._effective_for(image))
            self._touch_session(request.broker_id, now, request.current_metadata_offset)
            return result

        return self._perform(decide)

    def assign_replicas_to_dirs(self, request: AssignReplicasToDirsRequest) -> Reply[AssignReplicasToDirsResponse]:
        """A broker says in which of its directories it has its replicas."""

        def decide(image: MetadataImage, config: BrokerConfig) -> ControllerResult[AssignReplicasToDirsResponse]:
            broker = brokers.check_broker_epoch(image, request.broker_id, request.broker_epoch)
            return directories.assign_replicas_to_dirs(image, request, broker, config)

        return self.decide(decide)

    def _perform(self, decide: Callable[[MetadataImage, int], ControllerResult[T]]) -> Reply[T]:
        """Decide on the written image, write, and reply once that is committed. Raises what the decision refuses."""
        if not self._is_active:
            raise ApiError(
                ErrorCode.NOT_CONTROLLER, f"The active controller appears to be node {self._driver.raft.leader_id}."
            )
        try:
            result = decide(self._written, self._log.end_offset)
        except ApiError:
            raise
        except Exception as error:
            self._fail(error)
            raise
        if result.records:
            self._write(result.records)
        if result.kraft_version is not None:
            self._driver.write_voters(result.kraft_version, self._host.clock.wall_ms())
        end_offset = self._log.end_offset
        if self._high_watermark >= end_offset:
            return result.reply
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._parked.append(_Parked(end_offset, future, result.reply))
        return future

    def _write(self, records: Sequence[Any]) -> None:
        """One batch: onto the written image first, so that the commit finds what it publishes.

        Raises ``DiskFullError``: then nothing was decided. Any other failure is the node's end.
        """
        base_offset, now_ms = self._log.end_offset, self._host.clock.wall_ms()
        before = self._written
        try:
            image, delta = before.apply(records, base_offset, self._driver.raft.epoch)
            self._written = image
            self._pending.append(_Written(base_offset + len(records), now_ms, image, delta))
            self._driver.append(records, now_ms, before.metadata_version)
        except DiskFullError:
            self._written = before
            self._pending.pop()
            raise
        except Exception as error:
            self._fail(error)
            raise

    def _new_uuid(self) -> Uuid:
        """Random and, like Kafka's, of version 4; never one whose text begins with a dash."""
        while True:
            uuid = bytearray(self._host.random.randbytes(16))
            uuid[6] = uuid[6] & 0x0F | 0x40
            uuid[8] = uuid[8] & 0x3F | 0x80
            if uuid[0] >> 2 != 62:  # 62 is '-' in URL-safe base64: tools would take it for an option
                return bytes(uuid)

    def _effective_for(self, image: MetadataImage) -> BrokerConfig:
        default = image.configs.of(RESOURCE_BROKER, "")
        own = image.configs.of(RESOURCE_BROKER, str(self.node_id))
        if self._effective[0] != default or self._effective[1] != own:
            self._effective = (default, own, with_stored(self._config, default=default, own=own))
        return self._effective[2]

    # --- what Raft reports

    def _on_elected(self, epoch: int) -> None:
        logger.info("[QuorumController id=%d] Becoming the active controller at epoch %d.", self.node_id, epoch)
        end_offset = self._log.end_offset
        self._written = self._image
        if self._reader.next_offset < end_offset:
            # Written but not committed here yet: it will be with the first record of this epoch.
            image, delta = self._image.apply_batches(self._reader.read_to(end_offset))
            self._written = image
            self._pending.append(_Written(end_offset, self._reader.last_timestamp, image, delta))
        self._is_active = True
        self._sessions = self._new_sessions()
        now = self._host.clock.monotonic_ms()
        for broker_id, broker in self._written.cluster.brokers.items():
            if not broker.fenced:
                self._touch_session(broker_id, now, -1)
        if self._reader.in_transaction:
            self._write_or_fail([m.AbortTransactionRecord(reason="The controller that began it is gone.")])
        activation = features.activation_records(self._written, self._bootstrap, self._config)
        if activation:
            self._write_or_fail(activation)
        self._maybe_ready()

    def _write_or_fail(self, records: Sequence[Any]) -> None:
        """What a controller cannot begin without."""
        try:
            self._write(records)
        except DiskFullError as error:
            self._fail(error)
            raise

    def _on_resigned(self) -> None:
        logger.info("[QuorumController id=%d] No longer the active controller.", self.node_id)
        self._is_active = False
        self._pending.clear()
        self._written = self._image
        self._reader = LogReader(self._log, self._high_watermark)
        self._sessions = self._new_sessions()
        parked, self._parked = self._parked, deque()
        for each in parked:
            if not each.future.done():
                each.future.set_exception(
                    ApiError(ErrorCode.NOT_CONTROLLER, "The active controller changed before this was committed.")
                )

    def _on_committed(self, high_watermark: int) -> None:
        try:
            self._high_watermark = high_watermark
            if self._pending:
                self._publish_pending(high_watermark)
            if self._reader.next_offset < high_watermark and not self._pending:
                image, delta = self._image.apply_batches(self._reader.read_to(high_watermark))
                self._publish(image, delta)
            while self._parked and self._parked[0].end_offset <= high_watermark:
                parked = self._parked.popleft()
                if not parked.future.done():
                    parked.future.set_result(parked.reply)
            self._snapshots.on_committed()
            self._maybe_ready()
        except Exception as error:
            self._fail(error)
            raise

    def _publish_pending(self, high_watermark: int) -> None:
        while self._pending and self._pending[0].end_offset <= high_watermark:
            written = self._pending.popleft()
            self._reader.skip_to(written.end_offset, written.image.epoch, written.timestamp)
            self._publish(written.image, written.delta)

    def _publish(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self._image = image
        if not self._published:
            delta = MetadataDelta.of_everything(image)
            self._published = True
        for subscriber in self._subscribers:
            subscriber(delta, image)

    def _maybe_ready(self) -> None:
        if self._ready is not None and not self._ready.done() and not self._image.is_empty:
            self._ready.set_result(None)

    def _fail(self, error: BaseException) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        self._is_active = False
        logger.error("[QuorumController id=%d] The controller failed; the node stops.", self.node_id, exc_info=error)
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error)
        self._failed(error)

    # --- sessions of brokers

    def _new_sessions(self) -> brokers.BrokerSessions:
        return brokers.BrokerSessions(self._config.integer("broker.session.timeout.ms"))

    def _touch_session(self, broker_id: int, now: int, metadata_offset: int) -> None:
        self._sessions.touch(broker_id, now, metadata_offset)
        if self._session_timer is None and broker_id != self.node_id:
            self._session_timer = self._host.clock.call_later(self._sessions.timeout_ms / 4, self._check_sessions)

    def _check_sessions(self) -> None:
        """Fence who lost contact. A node cannot lose contact with itself, however busy its loop was."""
        self._session_timer = None
        if not self._is_active:
            return
        now = self._host.clock.monotonic_ms()
        self._touch_session(self.node_id, now, self._high_watermark - 1)
        self._perform(
            lambda image, _: brokers.fence_stale_broker(image, self._sessions, now, self._effective_for(image))
        )
        if any(each != self.node_id for each in self._written.cluster.brokers):
            self._session_timer = self._host.clock.call_later(self._sessions.timeout_ms / 4, self._check_sessions)
