"""AddPartitionsToTxn: partitions join a transaction, or are asked whether they have joined (KIP-98, KIP-890).

Up to version 3 a producer asks for one transaction; from 4 on a broker asks for many, and some only to verify. One
partition that does not exist keeps the rest of its transaction's out.
"""

from __future__ import annotations

from kbroker.config.java_maps import in_map_order, partitions_in_scala_map_order
from kbroker.handlers.context import RequestContext
from kbroker.handlers.transaction_replies import older_code
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kbroker.replies import Reply, then, together, unless_refused
from kbroker.txn.transaction import BUMPING_VERSION
from kbroker.types import INTERNAL_TOPICS, TopicPartition

BATCHED_SINCE = 4
REFUSALS = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_FENCED_SINCE = 2

_Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
_Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
_TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
_Codes = dict[TopicPartition, ErrorCode]


def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> Reply[AddPartitionsToTxnResponse]:
    """Each transaction by itself; the answer comes when the last is written."""
    transactions = _transactions(context, request)
    codes = together([_codes(context, each) for each in transactions])
    return then(
        codes,
        lambda found: _answer(
            context,
            transactions,
            [_shown(context, each, codes) for each, codes in zip(transactions, found, strict=True)],
        ),
    )


def error_response(
    context: RequestContext, request: AddPartitionsToTxnRequest, error: ApiError
) -> AddPartitionsToTxnResponse:
    """The code at every partition, and at the whole from version 4 on."""
    transactions = _transactions(context, request)
    results = [_by_topic(context, each, dict.fromkeys(_partitions(each), error.code)) for each in transactions]
    response = _answer(context, transactions, results)
    response.error_code = error.code
    return response


def _transactions(context: RequestContext, request: AddPartitionsToTxnRequest) -> list[_Transaction]:
    if context.api_version >= BATCHED_SINCE:
        return request.transactions
    return [
        _Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def _partitions(transaction: _Transaction) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]


def _codes(context: RequestContext, transaction: _Transaction) -> Reply[_Codes]:
    """The code of each partition."""
    partitions = _partitions(transaction)
    refusals = {each: _refusal(context, each) for each in partitions}
    if any(refusals.values()):
        return {each: code or ErrorCode.OPERATION_NOT_ATTEMPTED for each, code in refusals.items()}
    transactions = context.node.transactions
    transactional_id, producer_id = transaction.transactional_id, transaction.producer_id
    epoch = transaction.producer_epoch
    if transaction.verify_only:
        return unless_refused(
            lambda: transactions.verify(transactional_id, producer_id, epoch, partitions),
            lambda error: dict.fromkeys(partitions, error.code),
        )
    client_version = BUMPING_VERSION if context.api_version >= BATCHED_SINCE else 0
    code = unless_refused(
        lambda: transactions.add(transactional_id, producer_id, epoch, partitions, client_version),
        lambda error: error.code,
    )
    return then(code, lambda code: dict.fromkeys(partitions, code))


def _refusal(context: RequestContext, partition: TopicPartition) -> ErrorCode | None:
    """Why a partition cannot join at all: clients, who ask up to version 3, have no business in internal topics."""
    if context.api_version < BATCHED_SINCE and partition.topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None if context.node.replicas.is_known(*partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _shown(context: RequestContext, transaction: _Transaction, codes: _Codes) -> list[_TopicResult]:
    """One code for all is answered as it was asked; where each partition has its own, in the order of Kafka's maps."""
    if not transaction.verify_only and REFUSALS.isdisjoint(codes.values()):
        return _by_topic(context, transaction, codes)
    topics: dict[str, _TopicResult] = {}
    for partition in partitions_in_scala_map_order(codes):
        topic = topics.setdefault(partition.topic, _TopicResult(name=partition.topic))
        code = older_code(context, codes[partition], _FENCED_SINCE)
        topic.results_by_partition.append(
            _PartitionResult(partition_index=partition.partition, partition_error_code=code)
        )
    return [topics[name] for name in in_map_order(topics)]


def _by_topic(context: RequestContext, transaction: _Transaction, codes: _Codes) -> list[_TopicResult]:
    def code_of(name: str, index: int) -> ErrorCode:
        return older_code(context, codes[TopicPartition(name, index)], _FENCED_SINCE)

    return [
        _TopicResult(
            name=topic.name,
            results_by_partition=[
                _PartitionResult(partition_index=index, partition_error_code=code_of(topic.name, index))
                for index in topic.partitions
            ],
        )
        for topic in transaction.topics
    ]


def _answer(
    context: RequestContext, transactions: list[_Transaction], results: list[list[_TopicResult]]
) -> AddPartitionsToTxnResponse:
    response = AddPartitionsToTxnResponse(throttle_time_ms=context.throttle_time_ms)
    if context.api_version < BATCHED_SINCE:
        response.results_by_topic_v3_and_below = results[0]
    else:
        response.results_by_transaction = [
            _Result(transactional_id=transaction.transactional_id, topic_results=topics)
            for transaction, topics in zip(transactions, results, strict=True)
        ]
    return response
