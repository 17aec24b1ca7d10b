"""Whether transactional batches may be written: each partition must be part of the producer's transaction (KIP-890).

A partition that holds records of the open transaction already has been through this, and one that has heard of a later
epoch needs no second opinion. The others are asked of the transaction coordinator, or added by it where the version of
the request says that the client counts on that. Follows Kafka's ``ReplicaManager.handleProduceAppend``.
"""

from __future__ import annotations

from kbroker.coordinator.transaction_coordinator import Admission
from kbroker.handlers.context import RequestContext
from kbroker.host import Buffer
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import ATTRIBUTE_BITS_OFFSET, BATCH_OVERHEAD, TRANSACTIONAL_BIT
from kbroker.replication.first_writes import producer_of
from kbroker.replies import Reply, then
from kbroker.types import TopicPartition

ABORTABLE_SINCE = 11
ADDS_SINCE = 12

_UNSURE = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Refused = dict[TopicPartition, ApiError]
Write = tuple[TopicPartition, Buffer]


def admit(context: RequestContext, transactional_id: str, writes: list[Write]) -> Reply[Refused]:
    """Why each partition may not be written to, where it may not. Raises ``ApiError`` for the whole request."""
    replicas = context.node.replicas
    producer: tuple[int, int] | None = None
    unknown: list[TopicPartition] = []
    fenced: Refused = {}
    for name, records in writes:
        if len(records) < BATCH_OVERHEAD or not records[ATTRIBUTE_BITS_OFFSET] & TRANSACTIONAL_BIT:
            continue
        producer_id, epoch, sequence = producer_of(records)
        if producer_id < 0:
            continue
        if producer is None:
            producer = producer_id, epoch
        elif producer != (producer_id, epoch):
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
            )
        partition = replicas.get(*name)
        if partition is None or not partition.is_leader:
            continue
        try:
            is_open = partition.log is not None and partition.log.producers.has_open_transaction(producer_id, epoch)
        except ApiError as error:
            fenced[name] = context.node.transactions.fenced(transactional_id, str(error))
            continue
        if not is_open:
            partition.expect_first_write(producer_id, epoch, sequence, starts_anew=context.api_version >= ADDS_SINCE)
            unknown.append(name)
    if producer is None or not unknown:
        return fenced
    admission = Admission.of(context.api_version, abortable_since=ABORTABLE_SINCE, adds_since=ADDS_SINCE)
    refused = context.node.transactions.admit(transactional_id, *producer, unknown, admission)
    return then(refused, lambda others: fenced | {name: _told(error, admission) for name, error in others.items()})


def _told(refusal: ApiError, admission: Admission) -> ApiError:
    """A refusal of the coordinator's, as one who writes is told it."""
    code = refusal.code
    if code is ErrorCode.INVALID_TXN_STATE:
        return ApiError(code, "Partition was not added to the transaction")
    if code in _UNSURE or (code is ErrorCode.CONCURRENT_TRANSACTIONS and admission is not Admission.ADD):
        # Clients of old do not try these again; this one they do, without asking for metadata.
        return ApiError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return refusal
