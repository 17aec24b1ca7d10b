"""A shard in a script: operations are run, their records written to a log and replayed, markers written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kbroker.protocol.coordinator_record import CoordinatorRecord, Decision, Deferred, Now
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kbroker.protocol.record_codec import (
    TRANSACTION,
    decode_coordinator_key,
    decode_coordinator_value,
    encode_coordinator_key,
    encode_coordinator_value,
)
from kbroker.txn.producers import ProducerIdNeededError
from kbroker.txn.settings import TransactionSettings
from kbroker.txn.shard import Marker, TransactionShard
from kbroker.txn.state import Asker
from kbroker.txn.transaction import Transaction
from kbroker.types import TopicPartition

T = TypeVar("T")
WALL_MS = 1_700_000_000_000
ID = "tx"
BUMPING = 2
CLASSIC = 0


def tp(index: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, index)


class Script:
    """One shard, its log and its time."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.settings = settings or TransactionSettings()
        self.time_ms = 0
        self.next_id = 1000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.refuses_writes: ErrorCode | None = None
        self.has_ids = True
        self.shard = TransactionShard(self.settings, self.take_id)
        self.run(self.shard.loaded(self.now))

    @property
    def now(self) -> Now:
        return Now(WALL_MS + self.time_ms, self.time_ms)

    # --- what the runtime does

    def run(self, decision: Decision[T]) -> T:
        if decision.records and self.refuses_writes is not None:
            error = ApiError(self.refuses_writes)
            if decision.failed is not None:
                decision.failed(error, self.now)
            raise error
        for record in decision.records:
            value = None if record.value is None else encode_coordinator_value(record.value, record.version)
            self.log.append((encode_coordinator_key(record.key), value))
            self.shard.replay(record, len(self.log) - 1, None)
        assert not isinstance(decision.reply, Deferred)
        return decision.reply

    def with_id(self, operation: Callable[[int | None], Decision[T]]) -> T:
        try:
            return self.run(operation(None))
        except ProducerIdNeededError:
            return self.run(operation(self.take_id()))

    def take_id(self) -> int | None:
        if not self.has_ids:
            return None
        self.next_id += 1
        return self.next_id

    def pass_time(self, ms: int) -> None:
        """Let time pass, deadline by deadline."""
        end = self.time_ms + ms
        while True:
            at = self.shard.deadlines.next_ms()
            if at is None or at > end:
                break
            self.time_ms = max(self.time_ms, at)
            action = self.shard.deadlines.pop_due(self.time_ms)
            if action is not None:
                self.run(action(self.now))
        self.time_ms = end

    def restart(self) -> None:
        """The shard is gone and read anew from its log, as it is in a compacted one."""
        self.shard.unload()
        self.shard = TransactionShard(self.settings, self.take_id)
        for offset, (key_bytes, value_bytes) in enumerate(dict(self.log).items()):
            key = decode_coordinator_key(TRANSACTION, key_bytes)
            value = None if value_bytes is None else decode_coordinator_value(TRANSACTION, key.api_key, value_bytes)
            self.shard.replay(CoordinatorRecord(key, value), offset, None)
        self.run(self.shard.loaded(self.now))

    # --- requests

    def init(
        self,
        transactional_id: str = ID,
        *,
        timeout_ms: int = 60_000,
        expected: tuple[int, int] = (-1, -1),
        asker: Asker = Asker("c", "1.2.3.4"),  # noqa: B008 - a constant tuple
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        return self.with_id(lambda fresh_id: self.shard.producers.initialise(request, asker, self.now, fresh_id))

    def start(self, transactional_id: str = ID, **options: int) -> tuple[int, int]:
        answer = self.init(transactional_id, **options)  # type: ignore[arg-type]  # the keywords of init
        return answer.producer_id, answer.producer_epoch

    def add(
        self,
        producer: tuple[int, int],
        *partitions: int,
        transactional_id: str = ID,
        version: int = CLASSIC,
    ) -> ErrorCode:
        joining = [tp(index) for index in partitions]
        return self.run(self.shard.membership.add(transactional_id, *producer, joining, version, self.now))

    def verify(self, producer: tuple[int, int], *partitions: int, transactional_id: str = ID) -> list[ErrorCode]:
        asked = [tp(index) for index in partitions]
        return list(self.shard.membership.verify(transactional_id, *producer, asked).values())

    def end(
        self, producer: tuple[int, int], committed: bool, version: int = BUMPING, transactional_id: str = ID
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        asker = Asker("c", "1.2.3.4")
        return self.with_id(lambda fresh_id: self.shard.endings.end(request, version, asker, self.now, fresh_id))

    def code(self, ask: Callable[[], object]) -> ErrorCode:
        """The code with which something is refused; NONE when it is not."""
        try:
            ask()
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    # --- what the coordinator does

    def write_markers(self, at_most: int = 1000) -> list[Marker]:
        """Write markers into partitions that take everything, and complete what is done."""
        written = []
        for marker in list(self.shard.markers()):
            written.append(marker)
            is_done = not marker.partitions
            for partition in marker.partitions[:at_most]:
                is_done = self.shard.endings.marked(marker.transactional_id, partition)
            if is_done:
                self.run(self.shard.endings.complete(marker.transactional_id, self.now))
        return written

    def state(self, transactional_id: str = ID) -> Transaction:
        return self.shard.transactions[transactional_id]
