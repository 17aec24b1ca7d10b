"""A copy loop in the simulation: consume, transform, produce, with the offsets in the same transaction.

What it has consumed is what its group has committed. Invariant: the copies that a read_committed reader sees are, in
each partition, exactly the committed records of the source, in order, each once; after the faults all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kbroker.types import TopicPartition
from tests.sim.checkers import Violation
from tests.sim.client import Unavailable
from tests.sim.ledger import ABORTED, WHOLE, CommittedReader, Ledger, TransactionalProducer

if TYPE_CHECKING:
    from tests.sim.world import World

GROUP = "copiers"
UNSTABLE = {ErrorCode.UNSTABLE_OFFSET_COMMIT}


class Copier(TransactionalProducer):
    """Copies each partition of the source into the partition of the target with its number."""

    def __init__(
        self, world: World, name: str, source: Ledger, copies: Ledger, partitions: list[TopicPartition], target: str
    ) -> None:
        self.targets = {partition: TopicPartition(target, partition.partition) for partition in partitions}
        super().__init__(world, name, copies, list(self.targets.values()))
        self._reader = CommittedReader(world, f"{name}-consumer", source, partitions)

    async def run(self) -> None:
        find = FindCoordinatorRequest(key=GROUP, key_type=0)
        await self._ask(find, 3, FindCoordinatorResponse, lambda found: found.error_code, "FindCoordinator")
        await self.begin_anew()
        while not self.stopping:
            await self.pause(0.5)
            await self.copy_once()

    async def finish(self, at_most: int) -> None:
        """Copy what is left, after everything has calmed down; no longer batch by batch, of which there may be many."""
        self._reader.max_bytes = WHOLE
        await self.begin_anew()
        for _ in range(at_most):
            await self.copy_once()
            if all(self._reader.is_at_end.values()):
                return
            await self.pause(1)
        raise Violation(f"Liveness: {self.name} does not come to the end of what it copies")

    async def copy_once(self) -> None:
        """One transaction with what is there: committed or aborted, or left open for its successor to abort."""
        await self.copy(leaves_open=self.random.random() < 0.05, commits=self.random.random() < 0.8)

    async def copy(self, *, commits: bool, leaves_open: bool = False) -> None:
        """One transaction with what is there, and its end."""
        self._reader.seen = {partition: [] for partition in self.targets}
        try:
            await self._reader.fetch_once()
        except Unavailable:
            return
        if not any(self._reader.seen.values()):
            return
        values: list[str] = []
        is_whole = await self._copy(values)
        if not is_whole or leaves_open:
            self._ledger.decide(values, ABORTED)
            await self.begin_anew()
            return
        before = self.committed
        await self._end(values, commits)
        if self.committed == before:
            await self.begin_anew()

    async def _copy(self, values: list[str]) -> bool:
        for partition, seen in self._reader.seen.items():
            if not seen:
                continue
            target = self.targets[partition]
            if not self._bumps and await self._add(target) != ErrorCode.NONE:
                return False
            batch = [f"{self.name}#{self._number + n}={value}" for n, value in enumerate(seen)]
            self._number += len(batch)
            for value in batch:
                self._ledger.on_sent(target, value)
                values.append(value)
            if await self._produce(target, batch) != ErrorCode.NONE:
                return False
        return await self._commit_offsets() == ErrorCode.NONE

    async def _commit_offsets(self) -> int:
        if not self._bumps:
            joining = AddOffsetsToTxnRequest(
                transactional_id=self.name, producer_id=self._id, producer_epoch=self._epoch, group_id=GROUP
            )
            code = await self._ask(
                joining, 3, AddOffsetsToTxnResponse, lambda found: found.error_code, "AddOffsetsToTxn"
            )
            if code != ErrorCode.NONE:
                return code
        slot = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        topic = next(iter(self.targets)).topic
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=GROUP,
            producer_id=self._id,
            producer_epoch=self._epoch,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        slot(partition_index=partition.partition, committed_offset=position)
                        for partition, position in self._reader.positions.items()
                    ],
                )
            ],
        )
        return await self._ask(
            request,
            5 if self._bumps else 3,
            TxnOffsetCommitResponse,
            lambda found: found.topics[0].partitions[0].error_code,
            "TxnOffsetCommit",
        )

    async def begin_anew(self) -> None:
        """A new epoch, and the positions that are committed: a transaction that is open must be over first."""
        await self._initialise()
        topic = next(iter(self.targets)).topic
        request = OffsetFetchRequest(
            require_stable=True,
            groups=[
                OffsetFetchRequest.OffsetFetchRequestGroup(
                    group_id=GROUP,
                    topics=[
                        OffsetFetchRequest.OffsetFetchRequestTopics(
                            name=topic, partition_indexes=[partition.partition for partition in self.targets]
                        )
                    ],
                )
            ],
        )
        answer, _ = await self._answer(request, 8, OffsetFetchResponse, _worst, "OffsetFetch", again=UNSTABLE)
        for found in answer.groups[0].topics[0].partitions:
            self._reader.positions[TopicPartition(topic, found.partition_index)] = max(0, found.committed_offset)
        self._reader.is_at_end = dict.fromkeys(self.targets, False)


def _worst(answer: OffsetFetchResponse) -> int:
    group = answer.groups[0]
    codes = [group.error_code, *(each.error_code for topic in group.topics for each in topic.partitions)]
    return next((code for code in codes if code), 0)


def check_copies(source: list[str], copies: list[str], partition: TopicPartition) -> None:
    """What was copied is what was there to copy."""
    copied = [value.partition("=")[2] for value in copies]
    if copied != source:
        raise Violation(f"CopiesAreExact: {partition} was {source}, its copy is {copied}")
