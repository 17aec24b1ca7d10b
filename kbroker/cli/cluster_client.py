"""What the client commands stand on: a cluster reached through any of its brokers, over ``kbroker.peer``.

Works against any Kafka. ``CommandError`` is how every command ends that cannot do what it was asked: a line that says
what is wrong, and one that says what to try.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from itertools import groupby
from typing import Any, Final, TypeVar

import click

from kbroker import __version__
from kbroker.cli.client_settings import ClientSettings, current_settings
from kbroker.host.real import RealClock
from kbroker.peer import TIMEOUT_MS, Peer, PeerError, UnsupportedByPeerError
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest

T = TypeVar("T")
Topic = MetadataResponse.MetadataResponseTopic

GROUP: Final = 0
TRANSACTION: Final = 1
"""Kinds of coordinators, as FindCoordinator numbers them."""
ONE_KEY_UNTIL: Final = 3
ONE_GROUP_UNTIL: Final = 7
_NOT_YET: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
RETRY_S: Final = 0.1
PORT_MAX: Final = 65535

NEXT_STEPS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "kbroker topic list, or kbroker topic create NAME",
    ErrorCode.TOPIC_ALREADY_EXISTS: "--if-not-exists, or kbroker topic describe NAME",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "letters, digits, '.', '_' and '-', at most 249 of them",
    ErrorCode.INVALID_REPLICATION_FACTOR: "fewer --replicas; kbroker cluster info shows the brokers",
    ErrorCode.INVALID_PARTITIONS: "a larger number; kbroker topic describe NAME shows the present one",
    ErrorCode.INVALID_CONFIG: "kbroker config show ... --all shows the keys with their values",
    ErrorCode.INVALID_REQUEST: "kbroker config show broker ID --all shows which keys are read only",
    ErrorCode.INVALID_RECORD: "records with keys, if kbroker config show topic NAME shows cleanup.policy compact",
    ErrorCode.INVALID_TIMESTAMP: "kbroker config show topic NAME --all shows message.timestamp.*",
    ErrorCode.POLICY_VIOLATION: "kbroker config show topic NAME shows cleanup.policy",
    ErrorCode.OFFSET_OUT_OF_RANGE: "kbroker topic describe NAME --offsets",
    ErrorCode.MESSAGE_TOO_LARGE: "kbroker config set topic NAME max.message.bytes=...",
    ErrorCode.GROUP_ID_NOT_FOUND: "kbroker group list",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "kbroker txn list",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "an expression of RE2, as 'orders-.*'",
    ErrorCode.NON_EMPTY_GROUP: "stop the group's members first; kbroker group describe NAME shows them",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the group's members first; kbroker group describe NAME shows them",
    ErrorCode.REQUEST_TIMED_OUT: "--timeout with more seconds, or kbroker cluster health",
    ErrorCode.UNKNOWN_MEMBER_ID: "stop the group's members first; kbroker group describe NAME shows them",
    ErrorCode.TOPIC_DELETION_DISABLED: "delete.topic.enable=true in the broker's configuration",
    ErrorCode.NOT_ENOUGH_REPLICAS: "kbroker topic describe NAME shows which replicas are in sync",
}


class CommandError(click.ClickException):
    """A command that failed: what is wrong, and what to try next. Ends with status 1."""

    def __init__(self, message: str, try_next: str) -> None:
        super().__init__(message)
        self.try_next = try_next

    def show(self, file: Any = None) -> None:
        click.echo(f"kbroker: {self.message}\n  try: {self.try_next}", err=file is None, file=file)


def failed(what: str, code: int, message: str | None = None, try_next: str | None = None) -> CommandError:
    """The error of an answer that carries a code; without ``try_next`` with what is good for most of its kind."""
    error = ErrorCode(code)
    text = message or error.description
    return CommandError(f"{what}: {text} ({error.name})", try_next or NEXT_STEPS.get(error, "kbroker cluster health"))


def check(what: str, code: int, message: str | None = None) -> None:
    """Raise unless the code is NONE."""
    if code != ErrorCode.NONE:
        raise failed(what, code, message)


def confirm(question: str) -> None:
    """Ask before what cannot be undone. Raises ``CommandError`` unless the answer is yes."""
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort:
        click.echo(err=True)
        raise CommandError(
            "nothing was done: the answer was not yes", "--yes, where nobody is there to answer"
        ) from None


def raise_errors(errors: Sequence[CommandError]) -> None:
    """Show them in their order and raise the last; what to try stands once below all that it is good for."""
    shown = [
        CommandError("\nkbroker: ".join(each.message for each in alike), try_next)
        for try_next, alike in groupby(errors, lambda each: each.try_next)
    ]
    for error in shown[:-1]:
        error.show()
    if shown:
        raise shown[-1]


class Cluster:
    """Connections to the brokers of one cluster, made when needed. Owner: one command."""

    def __init__(self, bootstrap: Peer, clock: RealClock, timeout_ms: int, settings: ClientSettings) -> None:
        self.bootstrap = bootstrap
        self.timeout_ms = timeout_ms
        self.settings = settings
        self._clock = clock
        self._peers: dict[int, Peer] = {}
        self._addresses: dict[int, tuple[str, int]] = {}

    @classmethod
    async def connect(cls, servers: str, timeout_ms: int) -> Cluster:
        """Reach the first broker that answers. Raises ``CommandError``."""
        clock = RealClock(asyncio.get_running_loop())
        settings = current_settings()
        reasons = []
        for server in servers.split(","):
            host, separator, port = server.strip().rpartition(":")
            if not separator:
                host, port = port, "9092"
            if not (host and port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX):
                raise CommandError(f"{server!r} is no address", "host:port, for several brokers with commas between")
            try:
                peer = await _connect(host.strip("[]"), int(port), clock, timeout_ms, settings)
                return cls(peer, clock, timeout_ms, settings)
            except PeerError as error:
                reasons.append(str(error))
        raise CommandError("; ".join(reasons), "-b HOST:PORT with the address of a broker that runs (kbroker dev)")

    async def metadata(self, topics: Sequence[str] | None = ()) -> MetadataResponse:
        """Brokers, controller, and the topics named (all with None). Remembers where the brokers are."""
        wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        answer: MetadataResponse = await self.bootstrap.call(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=False), timeout_ms=self.timeout_ms
        )
        self._addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        return answer

    async def topic(self, name: str) -> Topic:
        """One topic with its partitions in order. Raises ``CommandError``."""
        (topic,) = (await self.metadata([name])).topics
        check(f"topic {name}", topic.error_code)
        topic.partitions.sort(key=lambda each: each.partition_index)
        return topic

    async def broker(self, node_id: int) -> Peer:
        """A connection to one broker. Raises ``CommandError``."""
        if node_id < 0:
            raise CommandError("there is no leader now", "again in a moment, or kbroker cluster health")
        peer = self._peers.get(node_id)
        if peer is None or not peer.is_open:  # a broker closes connections on which nothing was said for long
            if node_id not in self._addresses:
                await self.metadata()
            address = self._addresses.get(node_id)
            if address is None:
                raise CommandError(f"no broker {node_id} is in the cluster", "kbroker cluster info")
            peer = self._peers[node_id] = await _connect(*address, self._clock, self.timeout_ms, self.settings)
        return peer

    async def coordinator(self, name: str, kind: int) -> int:
        """The broker that coordinates a group or transactional id, when it answers for it. Raises ``CommandError``.

        On a fresh cluster it comes with the question, and may say that it is none for a moment more.
        """
        deadline = time.monotonic() + self.timeout_ms / 1000
        while True:
            answer = await self.ask(FindCoordinatorRequest(key=name, key_type=kind), at_most=ONE_KEY_UNTIL)
            node_id, code = int(answer.node_id), int(answer.error_code)
            if code == ErrorCode.NONE:
                await self.metadata()
                code = await self._coordinator_code(node_id, name, kind)
            if code not in _NOT_YET or time.monotonic() > deadline:
                break
            await asyncio.sleep(RETRY_S)
        check(f"{'transactional id' if kind == TRANSACTION else 'group'} {name}", code)
        return node_id

    async def _coordinator_code(self, node_id: int, name: str, kind: int) -> int:
        """What a coordinator says when it is asked about something harmless; NONE unless it is none yet."""
        if kind == GROUP:
            request = OffsetFetchRequest(group_id=name, topics=[])
            answer = await self.ask(request, broker=node_id, at_most=ONE_GROUP_UNTIL)
            code = int(answer.error_code)
        else:
            answer = await self.ask(DescribeTransactionsRequest(transactional_ids=[name]), broker=node_id)
            code = int(answer.transaction_states[0].error_code)
        return code if code in _NOT_YET else ErrorCode.NONE

    async def ask(self, request: Any, *, broker: int | None = None, at_most: int | None = None) -> Any:
        """The answer of one broker, or of whichever was reached first. Raises ``PeerError``, ``CommandError``."""
        peer = self.bootstrap if broker is None else await self.broker(broker)
        return await peer.call(request, at_most=at_most, timeout_ms=self.timeout_ms)

    async def ask_leaders(
        self, topic: Topic, partitions: Sequence[int], make: Callable[[list[int]], Any], *, at_most: int | None = None
    ) -> list[Any]:
        """Ask every broker that leads some of the partitions about those."""
        leaders: dict[int, list[int]] = {}
        known = {each.partition_index: each.leader_id for each in topic.partitions}
        for partition in partitions:
            if partition not in known:
                raise CommandError(f"topic {topic.name} has no partition {partition}", f"0 to {len(known) - 1}")
            leaders.setdefault(known[partition], []).append(partition)
        return [await self.ask(make(some), broker=leader, at_most=at_most) for leader, some in leaders.items()]

    def close(self) -> None:
        for peer in (self.bootstrap, *self._peers.values()):
            peer.close()


async def _connect(host: str, port: int, clock: RealClock, timeout_ms: int, settings: ClientSettings) -> Peer:
    return await Peer.connect(
        host,
        port,
        clock,
        client_id=settings.text("client.id"),
        software="kbroker-cli",
        software_version=__version__,
        timeout_ms=timeout_ms,
    )


def run(servers: str, work: Callable[[Cluster], Coroutine[Any, Any, T]], timeout_ms: int = TIMEOUT_MS) -> T:
    """Connect, do the work, disconnect. What goes wrong on the way is a ``CommandError``."""

    async def perform() -> T:
        cluster = await Cluster.connect(servers, timeout_ms)
        try:
            return await work(cluster)
        except UnsupportedByPeerError as error:
            raise CommandError(
                str(error), "a newer broker; kbroker cluster info --apis shows what this one serves"
            ) from error
        except PeerError as error:
            raise CommandError(str(error), "kbroker cluster health, or --timeout with more seconds") from error
        finally:
            cluster.close()

    return asyncio.run(perform())
