"""The composition root: builds, starts and stops every part of a broker. Wiring, no logic.

The order of a start is the order of dependence: the data directories (and whose they are), the metadata quorum, the
replicas that follow its image, the sockets, the broker's registration. A stop goes the other way: refuse new work,
answer what is in progress, leave the cluster, close the logs cleanly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence

from kbroker.config import BrokerConfig, ConfigError
from kbroker.config.listeners import Listener
from kbroker.coordinator.group_coordinator import GroupCoordinator
from kbroker.coordinator.producer_ids import ProducerIds
from kbroker.coordinator.transaction_coordinator import TransactionCoordinator
from kbroker.handlers import SERVED
from kbroker.handlers.auto_creation import creatable_topic
from kbroker.handlers.context import Node
from kbroker.handlers.fetch_sessions import FetchSessions, capacity
from kbroker.host import Host
from kbroker.kraft.image import METADATA_VERSION, RESOURCE_BROKER, Endpoint, MetadataDelta, MetadataImage
from kbroker.kraft.lifecycle import BrokerLifecycle
from kbroker.kraft.quorum import Quorum
from kbroker.log.data_directory import DataDirectory
from kbroker.log.errors import DiskFullError, InconsistentDirectoryError, LogOfflineError
from kbroker.log.manager import LogManager
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.replication.housekeeping import Housekeeping
from kbroker.replication.replicas import ReplicaManager
from kbroker.replies import settled
from kbroker.server.dispatch import Dispatcher
from kbroker.server.limits import Limits
from kbroker.server.listeners import Server
from kbroker.types import ZERO_UUID, StartupError, Uuid, uuid_to_string

logger = logging.getLogger(__name__)

STOP_GRACE_MS = 300
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class StorageError(Exception):
    """The broker cannot go on without the data directories that it lost."""


_DISK_ERRORS = (OSError, DiskFullError, LogOfflineError)


class Broker:
    """One node, broker and controller. Owner of its parts; everything runs on one event loop.

    ``start`` once, ``stop`` once; ``stop`` is right after a ``start`` that failed, too. ``failure`` is set when a
    node cannot go on: a metadata log that cannot be written, our own bug in the controller, no data directory left.
    Then the start ends with it or, later, ``on_failure`` is told. ``server`` listens already and its broker is gone:
    this one takes it over, sockets and all.
    """

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        loop: asyncio.AbstractEventLoop,
        on_failure: Callable[[BaseException], None] | None = None,
        server: Server | None = None,
    ) -> None:
        self.config = config
        self.node_id = config.node_id
        self.failure: BaseException | None = None
        self._host = host
        self._loop = loop
        self._on_failure = on_failure
        validation = config.string("kbroker.record.validation")
        self._logs = LogManager(
            host,
            config.log_dirs,
            producer_expiry_ms=config.integer("producer.id.expiration.ms"),
            validation="full" if validation == "full" else "header",
            fsync=config.boolean("kbroker.fsync"),
        )
        is_apart = config.metadata_log_dir not in config.log_dirs
        self._metadata_directory = DataDirectory(config.metadata_log_dir.rstrip("/")) if is_apart else None
        """``metadata.log.dir`` where it is none of ``log.dirs``."""
        self._quorum: Quorum | None = None
        self._lifecycle: BrokerLifecycle | None = None
        self._housekeeping: Housekeeping | None = None
        self._server = server
        self._takes_over = server is not None
        self._node: Node | None = None
        self._starting: asyncio.Task[None] | None = None
        self._reports: dict[asyncio.Task[None], None] = {}
        """Words to the controller that are on their way."""

    @property
    def node(self) -> Node:
        """The running broker's services. Raises ``RuntimeError`` before it has started."""
        if self._node is None:
            raise RuntimeError("the broker has not started")
        return self._node

    @property
    def server(self) -> Server:
        """The sockets. Raises ``RuntimeError`` before they are bound."""
        if self._server is None:
            raise RuntimeError("the broker has not started")
        return self._server

    @property
    def cluster_id(self) -> str:
        return self.node.cluster_id

    @property
    def bootstrap_servers(self) -> str:
        """Where clients of this machine connect: host and real port of the first listener for clients."""
        if self._server is None:
            raise RuntimeError("the broker has not started")
        listener = self.config.broker_listeners[0]
        host = listener.host if listener.host not in ("", "0.0.0.0", "::") else "localhost"  # noqa: S104 - recognised
        return f"{host}:{self._server.port(listener.name)}"

    async def start(self) -> None:
        """Return when clients can connect and every topic that was asked for is there. Raises ``StartupError``."""
        starting = self._starting = self._loop.create_task(self._start())
        try:
            await starting
        except (asyncio.CancelledError, *_DISK_ERRORS) as error:
            reason = self.failure or error
            if not isinstance(reason, (StorageError, *_DISK_ERRORS)):
                raise reason from None
            directories = ", ".join(dict.fromkeys((self.config.metadata_log_dir, *self.config.log_dirs)))
            said = reason.message if isinstance(reason, ApiError) else reason
            raise StartupError(
                f"{said}: free space on the disks of {directories}, let them be written, repair what is broken, "
                "then start again"
            ) from reason
        finally:
            self._starting = None

    async def _start(self) -> None:
        cluster_id = self._open_directories()
        quorum = self._quorum = Quorum(
            config=self.config,
            cluster_id=cluster_id,
            directory_id=self._metadata_directory_id(),
            host=self._host,
            failed=self._fail,
        )
        await quorum.start()
        node = self._node = self._build_node(cluster_id, quorum)
        dispatcher = Dispatcher(node, self._loop, SERVED)
        server = self._server
        if server is None:
            listeners = self.config.broker_listeners
            server = Server(listeners, dispatcher, self._host.clock, self._loop, Limits.of(self.config))
            self._server = server
            await server.bind()
        for follow in (node.replicas.on_metadata, node.groups.on_metadata, node.transactions.on_metadata):
            quorum.subscribe(follow)
        quorum.subscribe(self._follow_configs)
        quorum.subscribe(self._follow_version)
        lifecycle = self._lifecycle = self._build_lifecycle(quorum, server)
        await lifecycle.enter(self._host.clock, self.config.integer("initial.broker.registration.timeout.ms"))
        node.replicas.assignments.connect(lifecycle.assign_directories)
        await self._create_wanted_topics()
        await asyncio.sleep(0)  # a data directory that failed while its logs were loaded is known now
        if self._takes_over:
            server.dispatch = dispatcher
        else:
            await server.listen()
        self._logs.mark_strays(node.replicas.offline)
        self._housekeeping = Housekeeping(self._logs, node.replicas, self.config, self._host, self._loop)
        self._housekeeping.start()

    async def stop(self) -> None:
        """Refuse new work, answer what is in progress, hand over, close the logs: in under a second.

        It takes longer only with thousands of partitions that were written to, and where their files have to be synced
        one by one (``log.closing``).
        """
        if self._server is not None:
            await self._server.refuse_new()
            if self._node is not None:
                await self._node.transactions.stop()
                await self._node.groups.stop()
            await self._server.stop(STOP_GRACE_MS)
        if self._node is not None:
            self._node.replicas.assignments.disconnect()
        if self._lifecycle is not None and self.failure is None:
            await self._lifecycle.shut_down()
        if self._quorum is not None:
            await self._quorum.stop()
        if self._housekeeping is not None:
            await self._housekeeping.stop()
        epoch = -1 if self._lifecycle is None else self._lifecycle.broker_epoch
        marks = None if self._node is None else self._node.replicas.high_watermarks()
        clean = epoch >= 0 and self.failure is None
        await self._host.workers.run(lambda: self._logs.close(broker_epoch=epoch, high_watermarks=marks, clean=clean))
        if self._metadata_directory is not None:
            self._metadata_directory.unlock()

    def _build_node(self, cluster_id: str, quorum: Quorum) -> Node:
        """Every service that handlers use."""
        host, config = self._host, self.config
        replicas = ReplicaManager(self.node_id, config, self._logs, host.clock, self._loop, quorum.image, host.workers)
        replicas.on_directory_failed = self._on_directory_failed
        producer_ids = ProducerIds(self._allocate_producer_ids, self._loop)
        groups = GroupCoordinator(replicas, config, host.clock, host.random, self._loop)
        return Node(
            node_id=self.node_id,
            cluster_id=cluster_id,
            config=config,
            host=host,
            quorum=quorum,
            logs=self._logs,
            replicas=replicas,
            fetch_sessions=FetchSessions(
                capacity(config.integer("max.incremental.fetch.session.cache.slots")), host.clock, host.random
            ),
            producer_ids=producer_ids,
            groups=groups,
            transactions=TransactionCoordinator(
                replicas, groups, producer_ids, lambda: quorum.effective_config, host.clock, self._loop
            ),
        )

    def _build_lifecycle(self, quorum: Quorum, server: Server) -> BrokerLifecycle:
        directories = self._logs.directories
        return BrokerLifecycle(
            quorum,
            incarnation_id=self._host.random.randbytes(16),
            endpoints=self._endpoints(server),
            directories=[each.id or ZERO_UUID for each in directories if each.error is None],
            cordoned=self._cordoned_directories(),
            rack=self.config.string("broker.rack"),
            previous_broker_epoch=min(each.previous_broker_epoch for each in directories),
        )

    def _follow_configs(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        if not any(kind == RESOURCE_BROKER for kind, _ in delta.changed_configs):
            return
        if self._server is not None:
            try:
                self._server.limit_connections(Limits.of(self.node.quorum.effective_config))
            except ConfigError as error:
                logger.warning("The limits of connections stay as they are: %s", error)
        if self._lifecycle is not None and self._lifecycle.broker_epoch >= 0:
            self._report(self._lifecycle.cordon(self._cordoned_directories()))

    def _follow_version(self, delta: MetadataDelta, image: MetadataImage) -> None:
        lifecycle = self._lifecycle
        if METADATA_VERSION in delta.changed_features and lifecycle is not None and lifecycle.broker_epoch >= 0:
            self._report(lifecycle.follow_version(delta.before.metadata_version, image.metadata_version))

    def _cordoned_directories(self) -> list[Uuid]:
        return [each.id for each in self._logs.directories if each.id is not None and each.path in self._logs.cordoned]

    def _on_directory_failed(self, directory: DataDirectory) -> None:
        """Go on with the others, or end when none is left, or the one of the metadata log is gone (KIP-112)."""
        directories = self._logs.directories
        if all(each.error is not None for each in directories):
            paths = ", ".join(each.path for each in directories)
            self._fail(StorageError(f"Shutdown broker because all log dirs in {paths} have failed: {directory.error}"))
        elif directory.path == self.config.metadata_log_dir.rstrip("/"):
            reason = f"Shutdown broker because the metadata log dir {directory.path} has failed: {directory.error}"
            self._fail(StorageError(reason))
        elif directory.id is None:
            reason = f"{directory.path} has failed, and has no id by which the controller could be told"
            self._fail(StorageError(reason))
        elif self._lifecycle is not None:
            self._report(self._lifecycle.report_offline(directory.id))

    def _report(self, report: Coroutine[None, None, None]) -> None:
        """Tell the controller something about this broker, after the callback that noticed it."""
        task = self._loop.create_task(report)
        self._reports[task] = None
        task.add_done_callback(self._on_reported)

    def _on_reported(self, task: asyncio.Task[None]) -> None:
        del self._reports[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("The controller does not know the state of this broker's data directories", exc_info=error)

    def _open_directories(self) -> str:
        """Lock the data directories, format the empty ones; the id of the cluster they belong to."""
        wanted = self.config.string("kbroker.cluster.id")
        apart, disk = self._metadata_directory, self._host.disk
        try:
            if apart is not None:
                apart.open(disk, self.node_id, wanted)
                wanted = wanted if apart.properties is None else apart.properties.cluster_id
            self._logs.open(self.node_id, wanted)
            owners = [each.properties for each in self._logs.directories if each.properties is not None]
            cluster_id = owners[0].cluster_id if owners else wanted or uuid_to_string(self._host.random.randbytes(16))
            self._logs.format(cluster_id, self.node_id)
            if apart is not None and apart.id is None:
                new_id = self._host.random.randbytes(16)
                apart.format(disk, cluster_id, self.node_id, new_id, sync=self._logs.fsync)
        except (InconsistentDirectoryError, OSError) as error:
            raise StartupError(str(error)) from error
        return cluster_id

    def _metadata_directory_id(self) -> Uuid:
        """A directory that an old Kafka formatted may have none."""
        directory = self._metadata_directory
        if directory is None:
            path = self.config.metadata_log_dir.rstrip("/") or "/"
            directory = next(each for each in self._logs.directories if each.path == path)
        return directory.id or ZERO_UUID

    def _endpoints(self, server: Server) -> Sequence[Endpoint]:
        """What is registered: the advertised listeners, with the real port where a free one was asked for."""

        def endpoint(listener: Listener) -> Endpoint:
            port = listener.port or server.port(listener.name)
            return Endpoint(listener.name, listener.host, port, SECURITY_PROTOCOLS[listener.protocol])

        return [endpoint(listener) for listener in self.config.advertised_listeners]

    async def _create_wanted_topics(self) -> None:
        """The topics of ``--topic``: those that are there already are left alone."""
        assert self._quorum is not None
        image = self._quorum.image
        wanted = []
        for text in self.config.strings("kbroker.topics"):
            name, _, counts = text.partition(":")
            partitions, _, replicas = counts.partition(":")
            topic = creatable_topic(name, self.config, 1)
            topic.num_partitions = int(partitions or topic.num_partitions)
            topic.replication_factor = int(replicas or topic.replication_factor)
            if name not in image.topics.by_name:
                wanted.append(topic)
        if not wanted:
            return
        for result in await settled(self._quorum.create_topics(wanted)):
            if result.error_code != ErrorCode.NONE:
                raise StartupError(f"topic {result.name} cannot be made: {result.error_message}")

    async def _allocate_producer_ids(self) -> tuple[int, int]:
        assert self._quorum is not None
        assert self._lifecycle is not None
        block = await settled(self._quorum.allocate_producer_ids(self.node_id, self._lifecycle.broker_epoch))
        return block.first, block.size

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        if self._starting is not None and self._starting.cancel():
            return
        if self._on_failure is not None:
            self._on_failure(error)
