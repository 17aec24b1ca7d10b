"""A broker's life in the metadata: registered, fenced, serving, in controlled shutdown, gone (KIP-631).

    register     starting  -> registered and fenced
    unfence      fenced    -> serving, once the broker has caught up with its registration
    shut_down    serving   -> its partitions were handed over, it may stop

A broker beside the active controller speaks to it directly and needs no periodic heartbeat: a node does not lose
contact with itself. Heartbeats over the network belong to clusters.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from kbroker.host import Clock
from kbroker.host.waiting import pause
from kbroker.kraft.controller.features import SUPPORTED
from kbroker.kraft.image import Endpoint
from kbroker.kraft.metadata_versions import CORDONED_DIRECTORIES, DIRECTORIES
from kbroker.kraft.quorum import Quorum
from kbroker.log.errors import DISK_FULL_PAUSE_MS, DiskFullError
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kbroker.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kbroker.protocol.messages.broker_registration import BrokerRegistrationRequest
from kbroker.replies import settled
from kbroker.types import StartupError, Uuid

logger = logging.getLogger(__name__)

_SHUTDOWN_ATTEMPTS: Final = 3


class BrokerLifecycle:
    """Owner: the composition root."""

    def __init__(
        self,
        quorum: Quorum,
        *,
        incarnation_id: Uuid,
        endpoints: Sequence[Endpoint],
        directories: Sequence[Uuid],
        cordoned: Sequence[Uuid] = (),
        rack: str | None = None,
        previous_broker_epoch: int = -1,
    ) -> None:
        self._quorum = quorum
        self._incarnation_id = incarnation_id
        self._endpoints = list(endpoints)
        self._directories = list(directories)
        self._rack = rack
        self._previous_broker_epoch = previous_broker_epoch
        self._offline: list[Uuid] = []
        self._cordoned = list(cordoned)
        self.broker_epoch = -1

    async def enter(self, clock: Clock, patience_ms: int) -> None:
        """Register and begin to serve; while the metadata log's disk is full, again and again, for so long.

        Raises ``StartupError``.
        """
        give_up_ms = clock.monotonic_ms() + patience_ms
        while True:
            try:
                await self.register()
                await self.unfence()
                return
            except DiskFullError as error:
                if clock.monotonic_ms() >= give_up_ms:
                    raise StartupError(f"the broker cannot be registered: {error.message}") from error
                logger.warning("The broker is not registered yet: %s", error.message)
            await pause(clock, DISK_FULL_PAUSE_MS)

    async def register(self) -> None:
        """Register this incarnation. ``previous_broker_epoch`` is that of the last clean shutdown, -1 without one."""
        request = BrokerRegistrationRequest
        reply = await settled(
            self._quorum.register_broker(
                request(
                    broker_id=self._quorum.node_id,
                    cluster_id=self._quorum.cluster_id,
                    incarnation_id=self._incarnation_id,
                    listeners=[
                        request.Listener(
                            name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
                        )
                        for each in self._endpoints
                    ],
                    features=[
                        request.Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                        for name, (lowest, highest) in SUPPORTED.items()
                    ],
                    rack=self._rack,
                    log_dirs=self._directories,
                    previous_broker_epoch=self._previous_broker_epoch,
                )
            )
        )
        self.broker_epoch = reply.broker_epoch

    async def unfence(self) -> None:
        """Begin to serve: leaders are elected for the partitions that wait for this broker."""
        reply = await self._heartbeat(want_shut_down=False)
        if reply.is_fenced:
            raise RuntimeError(
                "the controller keeps this broker fenced although it has caught up with its registration"
            )

    async def follow_version(self, before: int, now: int) -> None:
        """The level of ``metadata.version`` has risen: say what the controller could not write down before."""
        if before < DIRECTORIES <= now:
            await self.register()
        if before < CORDONED_DIRECTORIES <= now:
            await self._heartbeat(want_shut_down=False)

    async def report_offline(self, directory_id: Uuid) -> None:
        """A data directory has failed: others lead what was in it, if there are others."""
        self._offline.append(directory_id)
        if self.broker_epoch >= 0:
            await self._heartbeat(want_shut_down=False)

    async def cordon(self, directory_ids: Sequence[Uuid]) -> None:
        """These data directories, and no others, take no new replicas."""
        if set(directory_ids) != set(self._cordoned):
            self._cordoned = list(directory_ids)
            await self._heartbeat(want_shut_down=False)

    async def assign_directories(self, assignments: Mapping[tuple[Uuid, int], Uuid]) -> None:
        """Say in which data directory replicas are, by topic id and partition. Raises ``ApiError``.

        Where the level of ``metadata.version`` knows of no directories, nobody is told.
        """
        if self._quorum.image.metadata_version < DIRECTORIES:
            return
        by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
        for (topic_id, index), directory_id in assignments.items():
            by_directory.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        request = AssignReplicasToDirsRequest
        directories = [
            request.DirectoryData(
                id=directory_id,
                topics=[
                    request.TopicData(
                        topic_id=topic_id,
                        partitions=[request.PartitionData(partition_index=index) for index in indexes],
                    )
                    for topic_id, indexes in topics.items()
                ],
            )
            for directory_id, topics in by_directory.items()
        ]
        await settled(
            self._quorum.assign_replicas_to_dirs(
                request(broker_id=self._quorum.node_id, broker_epoch=self.broker_epoch, directories=directories)
            )
        )

    async def shut_down(self) -> None:
        """Hand over what this broker leads, then leave."""
        for _ in range(_SHUTDOWN_ATTEMPTS):
            try:
                reply = await self._heartbeat(want_shut_down=True)
            except ApiError as error:
                if error.code == ErrorCode.STALE_BROKER_EPOCH:
                    logger.warning("This broker was unregistered meanwhile; there is nothing to hand over.")
                else:
                    logger.warning("This broker leaves without handing over what it leads: %s", error)
                return
            if reply.should_shut_down:
                return

    async def _heartbeat(self, *, want_shut_down: bool) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._quorum.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._quorum.image.offset,
            want_fence=False,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(self._offline),
            cordoned_log_dirs=list(self._cordoned),
        )
        return await settled(self._quorum.heartbeat(request))
