"""The transaction coordinator of one node: which shard a transactional id belongs to, and what is done around shards.

Transactional ids live in ``__transaction_state``; each of its partitions that this node leads is a
``TransactionShard``. This module follows the image (elections, configuration, features), gives a shard its request and,
where a decision needs one, a fresh producer id. Markers are in ``markers``, rules of transactions in ``kbroker.txn``,
which is imported with the first shard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kbroker.coordinator.markers import Markers
from kbroker.coordinator.runtime import CoordinatorRuntime
from kbroker.kraft.image import RESOURCE_BROKER
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.record_codec import TRANSACTION
from kbroker.replies import Reply, then, unless_refused
from kbroker.txn.settings import TransactionSettings
from kbroker.types import TRANSACTION_STATE_TOPIC, TopicPartition

if TYPE_CHECKING:
    from kbroker.config import BrokerConfig
    from kbroker.coordinator.group_coordinator import GroupCoordinator
    from kbroker.coordinator.producer_ids import ProducerIds
    from kbroker.host import Clock
    from kbroker.kraft.image import MetadataDelta, MetadataImage
    from kbroker.protocol.coordinator_record import Decision, Now
    from kbroker.protocol.messages.describe_transactions import DescribeTransactionsResponse
    from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
    from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
    from kbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
    from kbroker.replication.replicas import ReplicaManager
    from kbroker.txn.shard import TransactionShard
    from kbroker.txn.state import Asker, PutOff

logger = logging.getLogger(__name__)

T = TypeVar("T")
Operation: TypeAlias = "Callable[[TransactionShard, Now], Decision[T]]"

FEATURE = "transaction.version"


class Admission(IntEnum):
    """What the version of a write says of its client (``TransactionSupportedOperation``)."""

    VERIFY = 0
    """The partition must have been added; the client knows INVALID_TXN_STATE only."""
    VERIFY_ABORTABLE = 1
    """The same, and the client knows TRANSACTION_ABORTABLE."""
    ADD = 2
    """The write itself adds the partition (KIP-890)."""

    @classmethod
    def of(cls, version: int, *, abortable_since: int, adds_since: int) -> Admission:
        """That of a write in this version of its API."""
        if version >= adds_since:
            return cls.ADD
        return cls.VERIFY_ABORTABLE if version >= abortable_since else cls.VERIFY


class TransactionCoordinator:
    """Owner: the node. ``config`` gives the effective configuration of the moment."""

    def __init__(
        self,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        producer_ids: ProducerIds,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._producer_ids = producer_ids
        self._config = config
        self._feature_level = 0
        self._settings = TransactionSettings.of(config(), self._feature_level)
        self._verifies = config().boolean("transaction.partition.verification.enable")
        self.markers = Markers(replicas, groups, clock, loop)
        self._runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TRANSACTION_STATE_TOPIC,
            TRANSACTION,
            replicas,
            clock,
            loop,
            lambda: config().integer("transaction.state.log.num.partitions"),
            self._new_shard,
            on_loaded=self.markers.send_again,
            on_committed=self.markers.send_soon,
        )

    # --- following the image; subscribed after the replicas and the group coordinator

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Elections of this node, changed configuration and features."""
        level = image.features.get(FEATURE, 0)
        if level != self._feature_level or any(kind == RESOURCE_BROKER for kind, _ in delta.changed_configs):
            self._feature_level = level
            self._adopt_config()
        self._runtime.on_metadata(delta, image)
        if delta.deleted_topics:
            # Markers may be waiting for partitions that are gone.
            for hosted in self._runtime.active():
                self.markers.send_again(hosted)

    def _adopt_config(self) -> None:
        config = self._config()
        self._settings = TransactionSettings.of(config, self._feature_level)
        self._verifies = config.boolean("transaction.partition.verification.enable")
        for hosted in self._runtime.all():
            hosted.shard.settings = self._settings

    def _new_shard(self) -> TransactionShard:
        from kbroker.txn.shard import TransactionShard  # with the first shard: many a broker never sees a transaction

        return TransactionShard(self._settings, self._producer_ids.take_if_at_hand)

    # --- life

    async def finish_loading(self) -> None:
        """Return when every shard that this node leads answers."""
        await self._runtime.finish_loading()

    async def stop(self) -> None:
        """Coordinate nothing any more."""
        self.markers.stop()
        await self._runtime.stop()

    def partition_of(self, transactional_id: str) -> int:
        """The partition of the topic that holds a transactional id, or will hold it once the topic is made."""
        return self._runtime.partition_of(transactional_id)

    # --- producers

    def initialise(self, request: InitProducerIdRequest, asker: Asker) -> Reply[InitProducerIdResponse]:
        """Give a transactional id its producer id and epoch. Raises ``ApiError``."""
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The transactional id is empty: name one, or send none.")
        return self._with_producer_id(
            request.transactional_id,
            lambda fresh_id: lambda shard, now: shard.producers.initialise(request, asker, now, fresh_id),
        )

    def end(self, request: EndTxnRequest, client_version: int, asker: Asker) -> Reply[EndTxnResponse]:
        """Commit or abort a transaction. Raises ``ApiError``."""
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The transactional id is empty.")
        return self._with_producer_id(
            request.transactional_id,
            lambda fresh_id: lambda shard, now: shard.endings.end(request, client_version, asker, now, fresh_id),
        )

    def _with_producer_id(self, transactional_id: str, operation: Callable[[int | None], Operation[T]]) -> Reply[T]:
        """Perform an operation; again with a producer id that nobody had, if it turns out to need one."""
        from kbroker.txn.producers import ProducerIdNeededError

        try:
            return self._runtime.run(transactional_id, operation(None))
        except ProducerIdNeededError:
            producer_id = self._producer_ids.take()
        return then(producer_id, lambda fresh_id: self._runtime.run(transactional_id, operation(fresh_id)))

    # --- partitions

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[TopicPartition],
        client_version: int,
    ) -> Reply[ErrorCode]:
        """Let partitions join a transaction; the code of all of them. Raises ``ApiError``."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        return self._runtime.run(
            transactional_id,
            lambda shard, now: shard.membership.add(
                transactional_id, producer_id, epoch, partitions, client_version, now
            ),
        )

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is part of the producer's transaction. Raises ``ApiError``."""
        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        shard = self._runtime.of(transactional_id).shard
        return shard.membership.verify(transactional_id, producer_id, epoch, partitions)

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: list[TopicPartition],
        admission: Admission,
    ) -> Reply[dict[TopicPartition, ApiError]]:
        """See to it that partitions are in the transaction before something is written to them; why they are not.

        What is written without that might hang for ever: no marker would follow (KIP-890).
        """
        from kbroker.txn.transaction import BUMPING_VERSION

        if admission is not Admission.ADD and not self._verifies:
            return {}

        def ask() -> Reply[dict[TopicPartition, ErrorCode]]:
            if not self._runtime.has_topic:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if admission is not Admission.ADD:
                return self.verify(transactional_id, producer_id, epoch, partitions)
            added = self.add(transactional_id, producer_id, epoch, partitions, BUMPING_VERSION)
            return then(added, lambda code: dict.fromkeys(partitions, code))

        codes = unless_refused(ask, lambda error: dict.fromkeys(partitions, error.code))
        return then(codes, lambda codes: self._refusals(transactional_id, codes, admission))

    def _refusals(
        self, transactional_id: str, codes: dict[TopicPartition, ErrorCode], admission: Admission
    ) -> dict[TopicPartition, ApiError]:
        """The codes as the version of the write may know them (``AddPartitionsToTxnManager``)."""
        return {
            partition: self.fenced(transactional_id) if code is ErrorCode.PRODUCER_FENCED else _refusal(code, admission)
            for partition, code in codes.items()
            if code is not ErrorCode.NONE
        }

    def fenced(self, transactional_id: str, otherwise: str = "another producer has the id now") -> ApiError:
        """What a fenced writer is told: by whom it was fenced, or what is known instead."""
        try:
            why = self.put_off(transactional_id) or otherwise
        except ApiError:
            why = otherwise
        return ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH, f"The producer of transactional id {transactional_id!r} is fenced: {why}."
        )

    # --- seeing

    def describe(self, transactional_id: str) -> Reply[DescribeTransactionsResponse.TransactionState]:
        """What is known of a transactional id, an error code in it where it is not coordinated here."""
        from kbroker.protocol.messages.describe_transactions import DescribeTransactionsResponse

        code = ErrorCode.INVALID_REQUEST
        if transactional_id:
            try:
                return self._runtime.query(transactional_id, lambda shard: shard.describe(transactional_id))
            except ApiError as error:
                code = error.code
        return DescribeTransactionsResponse.TransactionState(transactional_id=transactional_id, error_code=code)

    def list_transactions(self, request: ListTransactionsRequest) -> Reply[ListTransactionsResponse]:
        """The ids of all shards here that pass the filters. Raises ``ApiError``."""
        from kbroker.protocol.messages.list_transactions import ListTransactionsResponse
        from kbroker.txn.seeing import Filter

        wanted = Filter(request, self._runtime.context.now().wall_ms)
        return then(
            self._runtime.query_all(lambda shard: shard.list_transactions(wanted)),
            lambda listed: ListTransactionsResponse(
                unknown_state_filters=wanted.unknown_states, transaction_states=listed
            ),
        )

    def put_off(self, transactional_id: str) -> PutOff | None:
        """How the id's producer was last fenced or timed out. Raises ``ApiError``."""
        return self._runtime.of(transactional_id).shard.put_off(transactional_id)

    def history(self, transactional_id: str) -> tuple[PutOff, ...]:
        """How the id's latest producers were fenced or timed out, oldest first. Raises ``ApiError``."""
        return self._runtime.of(transactional_id).shard.put_offs(transactional_id)


def _refusal(code: ErrorCode, admission: Admission) -> ApiError:
    if code is ErrorCode.TRANSACTION_ABORTABLE and admission is Admission.VERIFY:
        code = ErrorCode.INVALID_TXN_STATE
    return ApiError(code)
