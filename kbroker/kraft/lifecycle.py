"""A broker's life in the metadata: registered, fenced, serving, in controlled shutdown, gone (KIP-631).

    register     starting  -> registered and fenced
    unfence      fenced    -> serving, once the broker has caught up with its registration
    shut_down    serving   -> its partitions were handed over, it may stop

A broker beside the active controller speaks to it directly and needs no periodic heartbeat: a node does not lose
contact with itself. Heartbeats over the network belong to clusters.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import Final, TypeVar

from kbroker.kraft.controller.features import SUPPORTED
from kbroker.kraft.image import Endpoint
from kbroker.kraft.quorum import Quorum, Reply
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kbroker.protocol.messages.broker_registration import BrokerRegistrationRequest
from kbroker.types import Uuid

logger = logging.getLogger(__name__)

T = TypeVar("T")

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
        rack: str | None = None,
        previous_broker_epoch: int = -1,
    ) -> None:
        self._quorum = quorum
        self._incarnation_id = incarnation_id
        self._endpoints = list(endpoints)
        self._directories = list(directories)
        self._rack = rack
        self._previous_broker_epoch = previous_broker_epoch
        self.broker_epoch = -1

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

    async def shut_down(self) -> None:
        """Hand over what this broker leads, then leave."""
        for _ in range(_SHUTDOWN_ATTEMPTS):
            try:
                reply = await self._heartbeat(want_shut_down=True)
            except ApiError as error:
                if error.code != ErrorCode.STALE_BROKER_EPOCH:
                    raise
                logger.warning("This broker was unregistered meanwhile; there is nothing to hand over.")
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
        )
        return await settled(self._quorum.heartbeat(request))


async def settled(reply: Reply[T]) -> T:
    """The reply of an operation, whether it is here already or to be waited for."""
    return await reply if inspect.isawaitable(reply) else reply
