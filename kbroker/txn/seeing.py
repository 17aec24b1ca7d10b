"""What people may see of transactions: DescribeTransactions and ListTransactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kbroker.config.java_maps import partitions_in_map_order
from kbroker.protocol.expressions import Expression
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsResponse
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kbroker.txn.transaction import STATE_BY_NAME, Transaction, TransactionState
from kbroker.types import TopicPartition

_Described = DescribeTransactionsResponse.TransactionState
_Listed = ListTransactionsResponse.TransactionState


class Filter:
    """A request for a list, made ready. Raises ``ApiError`` (INVALID_REGULAR_EXPRESSION)."""

    def __init__(self, request: ListTransactionsRequest, now_ms: int) -> None:
        known = {name: STATE_BY_NAME.get(name) for name in request.state_filters}
        self.unknown_states = [name for name, state in known.items() if state is None]
        self._states: Collection[TransactionState] = [state for state in known.values() if state is not None]
        self.gives_nothing = bool(request.state_filters) and not self._states
        self._producer_ids = frozenset(request.producer_id_filters)
        self._duration_ms = request.duration_filter
        self._now_ms = now_ms
        self._pattern = Expression(request.transactional_id_pattern) if request.transactional_id_pattern else None

    def takes(self, transaction: Transaction) -> bool:
        return (
            (not self._producer_ids or transaction.producer_id in self._producer_ids)
            and (not self._states or transaction.state in self._states)
            and (self._duration_ms < 0 or self._now_ms - transaction.started_ms > self._duration_ms)
            and (self._pattern is None or self._pattern.matches(transaction.transactional_id))
        )


def listed(transactions: Iterable[Transaction], wanted: Filter) -> list[_Listed]:
    if wanted.gives_nothing:
        return []
    return [
        _Listed(
            transactional_id=each.transactional_id, producer_id=each.producer_id, transaction_state=each.state.shown
        )
        for each in transactions
        if wanted.takes(each)
    ]


def described(transaction: Transaction, partitions: Mapping[TopicPartition, None]) -> _Described:
    """``partitions`` are those that still take part: with its marker one is out of it."""
    topics: dict[str, DescribeTransactionsResponse.TopicData] = {}
    for topic, index in partitions_in_map_order(partitions):
        if topic not in topics:
            topics[topic] = DescribeTransactionsResponse.TopicData(topic=topic, partitions=[])
        topics[topic].partitions.append(index)
    return _Described(
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.state.shown,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=list(topics.values()),
    )
