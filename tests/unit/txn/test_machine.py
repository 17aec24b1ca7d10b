"""Coordinator, partitions and readers under random events: both protocols, fencing, time-outs, lost writes, crashes.

The partitions are real logs on a simulated disk. Invariants: a read_committed reader sees every record of a committed
transaction and none of an open or aborted one, in order; the last stable offset never falls; a producer that was fenced
never writes again; once everything has calmed down no transaction hangs.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kbroker.log.log import Log
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import batches, read_records
from kbroker.protocol.records.control import ControlRecordType, EndTransactionMarker, build_end_transaction_marker
from kbroker.protocol.records.validation import AppendOrigin
from kbroker.txn.transaction import TransactionState
from tests.unit.log.logs import Bench, batch
from tests.unit.txn.script import BUMPING, CLASSIC, ID, Script, tp

PARTITIONS = 2
WHICH = st.sampled_from([-1, -1, -1, -2])
"""Mostly the client that holds the id, at times the one before it."""
NOW_MS = 2000


class Client:
    """A producer as its library sees it: the id it was given, and what it wrote in the transaction that is open."""

    def __init__(self, producer: tuple[int, int], version: int) -> None:
        self.producer = producer
        self.version = version
        self.sequences = [0] * PARTITIONS
        self.written: list[tuple[int, bytes]] = []
        self.added: set[int] = set()
        self.is_dead = False

    def begin_again(self, producer: tuple[int, int]) -> None:
        if producer != self.producer:
            self.sequences = [0] * PARTITIONS
        self.producer = producer
        self.written = []
        self.added = set()


class Seen(NamedTuple):
    """What a reader was given."""

    offset: int
    value: bytes


class TransactionMachine(RuleBasedStateMachine):
    """One transactional id, used by one client after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.script = Script()
        self.benches = [Bench(seed=number) for number in range(PARTITIONS)]
        self.committed: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self.stable = [0] * PARTITIONS
        self.clients: list[Client] = []
        self.in_doubt: list[tuple[int, bytes]] | None = None
        self.count = 0

    # --- what a partition's leader does

    def log(self, index: int) -> Log:
        return self.benches[index].log

    def write(self, client: Client, index: int, value: bytes) -> None:
        """One batch of one record. Raises ``ApiError``."""
        producer_id, epoch = client.producer
        if not self.log(index).producers.has_open_transaction(producer_id, epoch):
            if client.version == BUMPING:
                code = self.script.add(client.producer, index, version=BUMPING)
            else:
                (code,) = self.script.verify(client.producer, index)
            if code is not ErrorCode.NONE:
                raise ApiError(code)
        records = batch(
            value,
            producer_id=producer_id,
            producer_epoch=epoch,
            sequence=client.sequences[index],
            transactional=True,
        )
        self.log(index).append_as_leader(records, 0, NOW_MS)
        self.log(index).on_high_watermark(self.log(index).log_end_offset)

    def mark(self, at_most: int) -> None:
        """Write markers, at most so many, and complete what is done."""
        for marker in list(self.script.shard.markers()):
            is_done = not marker.partitions
            for partition in marker.partitions:
                if at_most == 0:
                    return
                at_most -= 1
                kind = ControlRecordType.COMMIT if marker.is_commit else ControlRecordType.ABORT
                end = build_end_transaction_marker(
                    EndTransactionMarker(kind, 0),
                    timestamp=NOW_MS,
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                )
                log = self.log(partition.partition)
                log.append_as_leader(
                    bytearray(end),
                    0,
                    NOW_MS,
                    origin=AppendOrigin.COORDINATOR,
                    transaction_version=marker.transaction_version,
                )
                log.on_high_watermark(log.log_end_offset)
                is_done = self.script.shard.endings.marked(marker.transactional_id, tp(partition.partition))
            if is_done:
                self.complete(marker.transactional_id)

    def complete(self, transactional_id: str) -> None:
        with contextlib.suppress(ApiError):
            self.script.run(self.script.shard.endings.complete(transactional_id, self.script.now))

    # --- clients

    @initialize()
    def first_client(self) -> None:
        self.comes(BUMPING)

    @rule(version=st.sampled_from([CLASSIC, BUMPING]))
    def comes(self, version: int) -> None:
        """A client initialises the id; those before it are fenced."""
        try:
            answer = self.script.init()
        except ApiError:
            return
        if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            return
        for client in self.clients:
            client.is_dead = True
        self.clients = [*self.clients[-2:], Client((answer.producer_id, answer.producer_epoch), version)]

    @rule(which=WHICH, index=st.integers(0, PARTITIONS - 1))
    def writes(self, which: int, index: int) -> None:
        client = self.clients[max(which, -len(self.clients))]
        self.count += 1
        value = b"%d" % self.count
        try:
            if client.version == CLASSIC and index not in client.added:
                code = self.script.add(client.producer, index)
                if code is not ErrorCode.NONE:
                    return
                client.added.add(index)
            self.write(client, index, value)
        except ApiError:
            return
        assert not client.is_dead, "a fenced producer wrote"
        client.sequences[index] += 1
        client.written.append((index, value))

    @rule(which=WHICH, committed=st.booleans(), lost=st.booleans())
    def ends(self, which: int, committed: bool, lost: bool) -> None:
        """EndTxn; when the answer is lost the client asks again, as its library does."""
        client = self.clients[max(which, -len(self.clients))]
        try:
            answer = self.script.end(client.producer, committed, client.version)
        except ApiError:
            return
        assert not client.is_dead, "a fenced producer ended a transaction"
        if lost:
            self.mark(100)
            if self.script.shard.has_markers():
                self.complete(ID)
            if not self.script.shard.has_markers():
                answer = self.script.end(client.producer, committed, client.version)
        if committed:
            for index, value in client.written:
                self.committed[index].append(value)
        client.begin_again((answer.producer_id, answer.producer_epoch))

    @rule(
        indexes=st.lists(st.integers(0, PARTITIONS - 1), max_size=4), committed=st.booleans(), at_most=st.integers(0, 3)
    )
    def a_whole_transaction(self, indexes: list[int], committed: bool, at_most: int) -> None:
        """What a client does when nobody disturbs it."""
        self.mark(100)
        for index in indexes:
            self.writes(-1, index)
        self.ends(-1, committed, lost=False)
        self.mark(at_most)

    # --- the world

    @rule(at_most=st.integers(0, 3))
    def markers_are_written(self, at_most: int) -> None:
        self.mark(at_most)

    @rule(ms=st.sampled_from([1_000, 30_000, 70_000]))
    def time_passes(self, ms: int) -> None:
        with contextlib.suppress(ApiError):
            self.script.pass_time(ms)
        if self.script.state(ID).state is not TransactionState.ONGOING:
            for client in self.clients:
                client.added = set()

    @rule(code=st.sampled_from([None, None, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def the_coordinators_disk_changes_its_mind(self, code: ErrorCode | None) -> None:
        self.script.refuses_writes = code

    @rule()
    def the_coordinator_crashes(self) -> None:
        self.script.restart()

    @rule(index=st.integers(0, PARTITIONS - 1))
    def a_partition_restarts(self, index: int) -> None:
        bench = self.benches[index]
        bench.kill()
        bench.open(clean=False)
        self.log(index).on_high_watermark(self.log(index).log_end_offset)

    # --- readers

    def read_committed(self, index: int) -> list[Seen]:
        """What a consumer makes of a fetch: up to the last stable offset, without what the aborted list names."""
        log = self.log(index)
        end = log.first_unstable_offset
        end = log.log_end_offset if end is None else end
        if end == 0:
            return []
        records = log.read(0, 1 << 20, end_offset=end, at_least_one=True)
        data = records if isinstance(records, bytes) else records.to_bytes()
        aborted = sorted(log.aborted_transactions(0, end), key=lambda each: each.first_offset)
        dropped: set[int] = set()
        seen: list[Seen] = []
        for header, one in batches(data):
            while aborted and aborted[0].first_offset <= header.last_offset:
                dropped.add(aborted.pop(0).producer_id)
            if header.is_control:
                dropped.discard(header.producer_id)
            elif header.producer_id not in dropped:
                seen += [
                    Seen(record.offset, record.value or b"") for record in read_records(one, max_decompressed=1 << 20)
                ]
        return seen

    @invariant()
    def readers_see_whole_transactions_in_order(self) -> None:
        for index in range(PARTITIONS):
            seen = [each.value for each in self.read_committed(index)]
            assert seen == self.committed[index][: len(seen)]

    @invariant()
    def the_last_stable_offset_never_falls(self) -> None:
        for index in range(PARTITIONS):
            first = self.log(index).first_unstable_offset
            stable = self.log(index).log_end_offset if first is None else first
            assert stable >= self.stable[index]
            self.stable[index] = stable

    def teardown(self) -> None:
        """The faults stop: everything that was committed is read, nothing hangs."""
        self.script.refuses_writes = None
        self.script.pass_time(200_000)
        self.mark(1000)
        for index in range(PARTITIONS):
            assert self.log(index).first_unstable_offset is None
            assert [each.value for each in self.read_committed(index)] == self.committed[index]


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
