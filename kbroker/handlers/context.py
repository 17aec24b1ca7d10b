"""What a handler is given: the node's services and the request's surroundings.

A handler holds no state of its own. Everything it may touch comes through ``RequestContext.node``; who asks, over which
listener and in which version comes through the rest of the context. Security and quotas find their place here: the
principal is set by the connection, ``throttle_time_ms`` by whoever measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbroker.config import BrokerConfig
    from kbroker.coordinator.group_coordinator import GroupCoordinator
    from kbroker.coordinator.producer_ids import ProducerIds
    from kbroker.coordinator.transaction_coordinator import TransactionCoordinator
    from kbroker.handlers.fetch_sessions import FetchSessions
    from kbroker.host import Host
    from kbroker.kraft.quorum import Quorum
    from kbroker.log.manager import LogManager
    from kbroker.replication.replicas import ReplicaManager

WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 (recognised, not bound)
"""Hosts that stand for every address of the machine: no client can connect to one."""
ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection that did not authenticate (``KafkaPrincipal.ANONYMOUS``)."""


class ConnectionMustCloseError(Exception):
    """Raised by a handler whose failure has no answer: the server closes the connection and logs the reason.

    The one case today is a produce request with acks=0 that fails: its client expects no answer, and only the closed
    connection tells it to refresh its metadata.
    """


@dataclass(slots=True)
class Node:
    """The services of one broker, wired by the composition root. Owner: ``kbroker.broker``."""

    node_id: int
    cluster_id: str
    config: BrokerConfig
    host: Host
    quorum: Quorum
    logs: LogManager
    replicas: ReplicaManager
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TransactionCoordinator


class ConnectionInfo:
    """Who is at the other end of a connection; one object per connection, shared by its requests."""

    __slots__ = (
        "client_host",
        "client_software_name",
        "client_software_version",
        "listener",
        "principal",
        "server_host",
    )

    def __init__(self, listener: str, client_host: str, principal: str = ANONYMOUS, server_host: str = "") -> None:
        self.listener = listener
        self.client_host = client_host
        self.server_host = server_host
        """The address of ours that the client reached: what to advertise where a listener has no address of its own."""
        self.principal = principal
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"

    def told_host(self, advertised: str) -> str:
        """The host to name in an answer: the advertised one or, where that is every address, the one reached here."""
        return self.server_host or advertised if advertised in WILDCARDS else advertised


class RequestContext:
    """One request's surroundings. ``client_id`` is None when the client sent none."""

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "connection",
        "correlation_id",
        "follows_from_image",
        "node",
        "throttle_time_ms",
    )

    def __init__(
        self,
        node: Node,
        connection: ConnectionInfo,
        api_key: int,
        api_version: int,
        correlation_id: int = 0,
        client_id: str | None = None,
    ) -> None:
        self.node = node
        self.connection = connection
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.throttle_time_ms = 0
        self.follows_from_image = False
        """Set by a handler whose answer follows from the request, the connection's info and the image alone."""

    @property
    def listener(self) -> str:
        """The name of the listener that the request came in by."""
        return self.connection.listener

    @property
    def principal(self) -> str:
        """Who asks, as ``Type:name``."""
        return self.connection.principal

    @property
    def client_host(self) -> str:
        """The client's address."""
        return self.connection.client_host

    def current_leader(self, topic: str, partition: int) -> tuple[int, int, tuple[str, int, str | None] | None] | None:
        """Who leads a partition: node, epoch, and its host, port and rack on this listener (KIP-951).

        The address is None when the leader is not known to listen here; all is None when there is no such partition.
        """
        image = self.node.quorum.image
        topic_image = image.topics.by_name.get(topic)
        state = None if topic_image is None else topic_image.partitions.get(partition)
        if state is None:
            return None
        broker = image.cluster.brokers.get(state.leader)
        endpoint = None if broker is None else broker.endpoints.get(self.connection.listener)
        if broker is None or endpoint is None:
            return state.leader, state.leader_epoch, None
        return state.leader, state.leader_epoch, (self.connection.told_host(endpoint.host), endpoint.port, broker.rack)
