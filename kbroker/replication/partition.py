"""One replica of a partition: its role, who is in sync, what is committed, and who waits for that.

The log (``kbroker.log``) knows bytes and offsets; this module knows leadership. A replica is a leader, a follower, or
neither yet. The leader appends, keeps the fetch position of every follower, and from those the high watermark: the
least log end offset among the in-sync replicas (KIP-101). With one replica that is its own log end offset at once.
Records that ``flush.messages`` wants on stable storage count for nothing until an fsync has put them there.

Invariants: the high watermark never falls under one leader; an append is refused under acks=all while fewer replicas
are in sync than ``min.insync.replicas`` (capped by the replication factor, as Kafka caps it) demands; who waits is told
in the order of offsets. A partition that never got a record has no log.

Changes of the ISR will go through the controller (AlterPartition, KIP-497): ``isr`` is then the larger set until the
change is confirmed. Follows Kafka's ``Partition``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from kbroker.log.errors import DiskFullError
from kbroker.log.file_records import FileRecords
from kbroker.log.lookup import lies_in_older_segment
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.records.batch import BATCH_OVERHEAD, LOG_OVERHEAD
from kbroker.protocol.records.validation import AppendOrigin
from kbroker.replication.fetching import HIGH_WATERMARK, TXN_COMMITTED, FetchedPartition, FetchParams
from kbroker.replication.first_writes import FirstWrites, producer_of
from kbroker.types import TopicPartition, Uuid

if TYPE_CHECKING:
    from kbroker.config import TopicConfig
    from kbroker.host import Buffer
    from kbroker.kraft.image import PartitionImage
    from kbroker.log.append_info import AppendInfo
    from kbroker.log.log import Log
    from kbroker.replication.replicas import ReplicaManager

TO_HIGH_WATERMARK = -1
"""What DeleteRecords asks for when it wants everything committed gone."""


class Parked(Protocol):
    """Somebody who waits for a commit: a produce with acks=all, a coordinator's reply."""

    def settle(self, partition: Partition, code: ErrorCode, /) -> None:
        """Committed (NONE, or too few replicas were left), or never under this leader."""


class Partition:
    """The replica that this node has of a partition. Owner: ``ReplicaManager``."""

    __slots__ = (
        "_acks_all_refused",
        "_alone",
        "_first_writes",
        "_flush_end",
        "_parked_flushes",
        "_parked_produces",
        "_replicas",
        "_unflushed_from",
        "config",
        "follower_end_offsets",
        "high_watermark",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "log",
        "name",
        "partition_epoch",
        "replica_ids",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        replicas: ReplicaManager,
        name: TopicPartition,
        topic_id: Uuid,
        config: TopicConfig,
        log: Log | None,
        high_watermark: int = 0,
    ) -> None:
        self._replicas = replicas
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.log = log
        self.is_leader = False
        self.leader_id = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.leader_epoch_start_offset = 0
        self.replica_ids: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        # What the last run knew to be committed, as far as the log reached the disk.
        self.high_watermark = 0 if log is None else max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        if log is not None:
            log.on_high_watermark(self.high_watermark)
        self.follower_end_offsets: dict[int, int] = {}
        """What each follower has asked for last; -1 until it has fetched under this leader."""
        self.watchers: dict[FetchedPartition, None] = {}
        self._parked_produces: deque[tuple[int, Parked]] | None = None
        """Made when first needed: an empty one weighs more than the rest of an idle partition."""
        self._alone = False
        self._acks_all_refused = False
        self._unflushed_from: int | None = None
        """From here on records wait for an fsync, which has to reach ``_flush_end``."""
        self._flush_end = 0
        self._parked_flushes: deque[tuple[int, Parked]] | None = None
        self._first_writes: FirstWrites | None = None
        """Of transactions that the coordinator was asked about, and those for which there was no room."""

    # --- what there is

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return 0 if self.log is None else self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return 0 if self.log is None else self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end of what ``read_committed`` sees: the first open transaction, or the high watermark."""
        if self.log is not None:
            unstable = self.log.first_unstable_offset
            if unstable is not None and unstable < self.high_watermark:
                return unstable
        return self.high_watermark

    def visible_end(self, isolation: int) -> int:
        """The end of what a fetch of this isolation sees."""
        if isolation == HIGH_WATERMARK:
            return self.high_watermark
        if isolation == TXN_COMMITTED:
            return self.last_stable_offset
        return self.log_end_offset

    # --- roles

    def become_leader(self, state: PartitionImage) -> None:
        """Take the lead, or go on leading under a changed state (ISR, replicas)."""
        is_new = not self.is_leader or state.leader_epoch > self.leader_epoch
        self._adopt(state)
        if is_new:
            self.is_leader = True
            self.leader_epoch_start_offset = self.log_end_offset
            if self.log is not None:
                self.log.begin_epoch(self.leader_epoch)
            self.follower_end_offsets = {}
        me = self._replicas.node_id
        known = self.follower_end_offsets
        self.follower_end_offsets = {replica: known.get(replica, -1) for replica in self.replica_ids if replica != me}
        self._alone = self.isr == (me,)
        self._judge_min_isr()
        self._advance_high_watermark()
        self.progressed()

    def become_follower(self, state: PartitionImage) -> None:
        """Follow ``state.leader``; who waits here for commits is sent there."""
        self._adopt(state)
        self.is_leader = False
        self._alone = False
        self.follower_end_offsets = {}
        self._give_up_produces(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.progressed()

    def retire(self, code: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        """The replica is here no more (topic deleted, replica moved, its data directory failed): who waits is told."""
        self.is_leader = False
        self.log = None
        self._give_up_produces(code)
        self.progressed()

    def move_to(self, log: Log) -> None:
        """Go on with the same records in another data directory."""
        self.log = log
        log.on_high_watermark(self.high_watermark)

    def reconfigure(self, config: TopicConfig) -> None:
        """Take a topic's changed configuration."""
        self.config = config
        if self.log is not None:
            self.log.config = config
        self._judge_min_isr()

    def _adopt(self, state: PartitionImage) -> None:
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replica_ids = tuple(state.replicas)
        self.isr = tuple(state.isr)

    def _judge_min_isr(self) -> None:
        needed = min(self.config.min_insync_replicas, len(self.replica_ids))
        self._acks_all_refused = len(self.isr) < needed

    # --- writing

    def append_as_leader(
        self,
        records: Buffer,
        required_acks: int,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Append a batch; the reply may leave when the high watermark has passed it (acks=all).

        Raises ``ApiError``: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and whatever the log finds wrong.
        """
        if not self.is_leader:
            raise self._not_leader()
        if required_acks == -1 and self._acks_all_refused:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"Only the replicas {list(self.isr)} of {self.name} are in sync, and min.insync.replicas is"
                f" {self.config.min_insync_replicas}: bring a replica back or lower it.",
            )
        log = self.log
        if log is None:
            log = self.log = self._replicas.open_log(self)
        first_write = None
        if self._first_writes and origin is AppendOrigin.CLIENT:
            first_write = self._first_writes.of(records)
        try:
            info = log.append_as_leader(
                records,
                self.leader_epoch,
                now_ms,
                origin=origin,
                transaction_version=transaction_version,
                first_write=first_write,
            )
        except DiskFullError:
            self._expect_again(log, records)
            raise
        if self._first_writes and not info.is_duplicate:
            self._first_writes.appended(records)
        if log.log_end_offset - log.recovery_point >= self.config.flush_messages:
            self._hold_for_flush(log, info)
        if self._alone and self._unflushed_from is None:
            self.high_watermark = log.log_end_offset
            if log.first_unstable_offset is not None:
                log.on_high_watermark(self.high_watermark)
        else:
            self._advance_high_watermark()
        if self.watchers:
            self.progressed()
        return info

    def delete_records(self, offset: int) -> int:
        """Let the log begin at ``offset``, or at the high watermark (-1); the new start, never a lower one.

        Raises ``ApiError``: NOT_LEADER_OR_FOLLOWER, POLICY_VIOLATION where records are only compacted,
        OFFSET_OUT_OF_RANGE.
        """
        if not self.is_leader:
            raise self._not_leader()
        if self.config.compact and not self.config.delete:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of {self.name} can not be deleted due to its cleanup policy: add delete to cleanup.policy.",
            )
        wanted = self.high_watermark if offset == TO_HIGH_WATERMARK else offset
        if not 0 <= wanted <= self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} can be cut up to its high watermark {self.high_watermark}, not at {offset}.",
            )
        if self.log is not None and self.log.update_log_start_offset(wanted):
            self.progressed()
        return self.log_start_offset

    def expect_first_write(
        self, producer_id: int, epoch: int, sequence: int, *, starts_anew: bool, had_no_room: bool = False
    ) -> None:
        """A transaction's first batch is on its way here, once the coordinator has said that it belongs."""
        if self._first_writes is None:
            self._first_writes = FirstWrites()
        self._first_writes.expect(producer_id, epoch, sequence, starts_anew=starts_anew, had_no_room=had_no_room)

    def _expect_again(self, log: Log, records: Buffer) -> None:
        """There was no room for a producer's first batch: the next one may find some, but must not come first."""
        producer_id, epoch, sequence = producer_of(records)
        if producer_id >= 0 and producer_id not in log.active_producers():
            self.expect_first_write(producer_id, epoch, sequence, starts_anew=False, had_no_room=True)

    def park_produce(self, required_offset: int, produce: Parked) -> None:
        """Tell ``produce`` when the high watermark has reached ``required_offset``."""
        if self._parked_produces is None:
            self._parked_produces = deque()
        self._parked_produces.append((required_offset, produce))

    def is_unflushed(self, offset: int) -> bool:
        """Whether the record at ``offset`` has to wait for an fsync, whatever its producer asks for."""
        return self._unflushed_from is not None and offset >= self._unflushed_from

    def park_until_flushed(self, required_offset: int, produce: Parked) -> None:
        """Tell ``produce`` when everything before ``required_offset`` is on stable storage here."""
        if self._parked_flushes is None:
            self._parked_flushes = deque()
        self._parked_flushes.append((required_offset, produce))

    def _hold_for_flush(self, log: Log, info: AppendInfo) -> None:
        """An append has filled ``flush.messages``: it is neither committed nor answered before the fsync."""
        if self._unflushed_from is None:
            self._unflushed_from = max(info.first_offset, log.recovery_point)
        self._flush_end = max(self._flush_end, log.log_end_offset)
        self._replicas.flusher.request(log)

    def on_synced(self) -> None:
        """An fsync of the log is over: go on with what it reached, or give up if it failed."""
        log = self.log
        if log is None:
            return
        if log.offline_error is not None:
            self._give_up_produces(ErrorCode.KAFKA_STORAGE_ERROR)
            self.progressed()
            return
        if self._unflushed_from is None:
            return
        durable_end = log.recovery_point
        if durable_end >= min(self._flush_end, log.log_end_offset):
            self._unflushed_from = None
            durable_end = log.log_end_offset
        else:
            self._unflushed_from = max(self._unflushed_from, durable_end)
            self._replicas.flusher.request(log)
        parked = self._parked_flushes
        while parked and parked[0][0] <= durable_end:
            parked.popleft()[1].settle(self, ErrorCode.NONE)
        if self._advance_high_watermark():
            self.progressed()

    def on_follower_fetch(self, replica_id: int, fetch_offset: int) -> None:
        """A follower asks from ``fetch_offset``: it has everything before it."""
        if self.follower_end_offsets.get(replica_id, fetch_offset) == fetch_offset:
            return
        self.follower_end_offsets[replica_id] = fetch_offset
        if self._advance_high_watermark():
            self.progressed()

    def _advance_high_watermark(self) -> bool:
        """Raise the high watermark to the least end offset in the ISR; True when it rose."""
        if not self.is_leader:
            return False
        end_offset = self.log_end_offset if self._unflushed_from is None else self._unflushed_from
        for replica, follower_end_offset in self.follower_end_offsets.items():
            if follower_end_offset < end_offset and replica in self.isr:
                end_offset = follower_end_offset
        if end_offset <= self.high_watermark:
            return False
        self.high_watermark = end_offset
        if self.log is not None:
            self.log.on_high_watermark(end_offset)
        parked = self._parked_produces
        code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if self._acks_all_refused else ErrorCode.NONE
        while parked and parked[0][0] <= end_offset:
            parked.popleft()[1].settle(self, code)
        return True

    def _give_up_produces(self, code: ErrorCode) -> None:
        parked, self._parked_produces = self._parked_produces, None
        waiting, self._parked_flushes = self._parked_flushes, None
        for _, produce in [*(parked or ()), *(waiting or ())]:
            produce.settle(self, code)

    # --- reading

    def fetch(
        self, entry: FetchedPartition, params: FetchParams, limit: int, at_least_one: bool
    ) -> FetchResponse.PartitionData:
        """Read for one entry of a fetch; ``limit`` bytes are left in the answer.

        Raises ``ApiError``: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE, or
        what is wrong with the log.
        """
        if entry.current_leader_epoch >= 0 and entry.current_leader_epoch != self.leader_epoch:
            raise self._wrong_epoch(entry.current_leader_epoch)
        if params.leader_only and not self.is_leader:
            raise self._not_leader()
        log = self.log
        if log is not None and log.offline_error is not None:
            raise log.offline_error
        if params.replica_id >= 0 and params.replica_id not in self.follower_end_offsets:
            raise self._not_my_follower(entry, params.replica_id)
        fetch_offset = entry.fetch_offset
        high_watermark = self.high_watermark
        last_stable_offset = self.last_stable_offset
        log_start_offset = self.log_start_offset
        answer = FetchResponse.PartitionData(
            partition_index=entry.partition,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if entry.last_fetched_epoch >= 0:
            diverging = self._divergence(entry, log_start_offset)
            if diverging is not None:
                answer.diverging_epoch = FetchResponse.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
                return answer
        isolation = params.isolation
        if isolation == HIGH_WATERMARK:
            end_offset = high_watermark
        elif isolation == TXN_COMMITTED:
            end_offset = last_stable_offset
            answer.aborted_transactions = []
        else:
            end_offset = self.log_end_offset
        if log_start_offset <= fetch_offset < end_offset:
            self._read_into(answer, entry, end_offset, limit, at_least_one, isolation)
        elif fetch_offset < log_start_offset or fetch_offset > self.log_end_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} holds the offsets {log_start_offset} to {self.log_end_offset}, not {fetch_offset}.",
            )
        if params.replica_id >= 0:
            self.on_follower_fetch(params.replica_id, fetch_offset)
        return answer

    def _read_into(
        self,
        answer: FetchResponse.PartitionData,
        entry: FetchedPartition,
        end_offset: int,
        limit: int,
        at_least_one: bool,
        isolation: int,
    ) -> None:
        max_bytes = min(entry.max_bytes, limit)
        if max_bytes < 0:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"A fetch of {max_bytes} bytes of {self.name} makes no sense."
            )
        if max_bytes == 0 and not at_least_one:
            return
        log = self.log
        assert log is not None
        records = log.read(entry.fetch_offset, max_bytes, end_offset=end_offset, at_least_one=at_least_one)
        if not at_least_one and len(records) == max_bytes and _is_cut_in_first_batch(log, records):
            answer.aborted_transactions = None
            return
        answer.records = records
        if isolation == TXN_COMMITTED and isinstance(records, FileRecords):
            answer.aborted_transactions = [
                FetchResponse.AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in log.aborted_transactions(entry.fetch_offset, log.upper_bound_of(records))
            ]

    def readable(self, entry: FetchedPartition, params: FetchParams) -> int:
        """How many bytes a waiting fetch could have of this partition now; 1 for any number where one is enough.

        The partition's limit counts, even where it cuts the first batch. A segment that is full will not have more:
        what it has is enough.

        Raises ``ApiError`` when the fetch must be answered at once instead.
        """
        if entry.current_leader_epoch >= 0 and entry.current_leader_epoch != self.leader_epoch:
            raise self._wrong_epoch(entry.current_leader_epoch)
        if params.leader_only and not self.is_leader:
            raise self._not_leader()
        self.check_log()
        end_offset = self.visible_end(params.isolation)
        if entry.fetch_offset >= end_offset:
            if entry.fetch_offset > self.log_end_offset:
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
            return 0
        if self.log is None or (params.min_bytes <= 1 and entry.max_bytes > 0):
            return 1
        if lies_in_older_segment(self.log.segments, entry.fetch_offset, end_offset):
            return params.min_bytes
        # What was deleted meanwhile is told when there is enough, or when the time is over.
        offset = max(entry.fetch_offset, self.log.log_start_offset)
        return min(len(self.log.read(offset, max(0, entry.max_bytes), end_offset=end_offset)), entry.max_bytes)

    def _divergence(self, entry: FetchedPartition, log_start_offset: int) -> tuple[int, int] | None:
        """Where the fetcher's log parts from this one (KIP-595), None when it does not."""
        epoch, end_offset = self.offset_for_leader_epoch(entry.last_fetched_epoch)
        if epoch < 0 or end_offset < 0:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} does not know where the last fetched epoch {entry.last_fetched_epoch} ends.",
            )
        if entry.fetch_offset < log_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.name} starts at {log_start_offset}, after {entry.fetch_offset}."
            )
        if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
            return epoch, end_offset
        return None

    # --- offsets

    def check_leader(self, current_leader_epoch: int) -> None:
        """Refuse a fetcher that takes another epoch to be current (-1: it does not say), or this node for the leader.

        Raises ``ApiError``: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        self.check_log()
        self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise self._not_leader()

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a fetcher that takes another epoch to be current (-1: it does not say)."""
        if current_leader_epoch not in (-1, self.leader_epoch):
            raise self._wrong_epoch(current_leader_epoch)

    def check_log(self) -> None:
        """Refuse everybody while the log is offline. Raises ``LogOfflineError``."""
        if self.log is not None and self.log.offline_error is not None:
            raise self.log.offline_error

    def offset_for_leader_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above ``epoch`` and where it ends; (-1, -1) when that is not known (KIP-320)."""
        if self.log is None:
            # A log without records knows one epoch, the current one, which starts at its end.
            return (epoch, 0) if epoch != -1 and epoch <= self.leader_epoch else (-1, -1)
        return self.log.offset_for_leader_epoch(epoch)

    def epoch_of_start(self) -> int:
        """The leader epoch of the first readable offset; -1 when it is not known."""
        if self.log is None:
            return self.leader_epoch
        epoch = self.log.epoch_at(self.log.log_start_offset)
        return -1 if epoch is None else epoch

    # --- those who wait

    def progressed(self) -> None:
        """Something that a fetch may report has changed: put those who watch back to where they are looked at."""
        watchers, self.watchers = self.watchers, {}
        wakeups = self._replicas.wakeups
        for entry in watchers:
            entry.watched = None
            interest = entry.interest
            if interest is not None:
                interest.active[entry] = None
                if interest.waiter is not None:
                    wakeups.schedule(interest.waiter)

    # --- refusals

    def _not_leader(self) -> ApiError:
        return ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"Node {self._replicas.node_id} does not lead {self.name} (node {self.leader_id}?): refresh the metadata.",
        )

    def _wrong_epoch(self, epoch: int) -> ApiError:
        if epoch < self.leader_epoch:
            return ApiError(
                ErrorCode.FENCED_LEADER_EPOCH, f"{self.name} is at leader epoch {self.leader_epoch}, past {epoch}."
            )
        return ApiError(
            ErrorCode.UNKNOWN_LEADER_EPOCH, f"{self.name} is at leader epoch {self.leader_epoch}, not yet at {epoch}."
        )

    def _not_my_follower(self, entry: FetchedPartition, replica_id: int) -> ApiError:
        # With an epoch the request is sound and the assignment just not known here yet; without, nobody can say.
        known = entry.current_leader_epoch >= 0
        return ApiError(
            ErrorCode.UNKNOWN_LEADER_EPOCH if known else ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"Replica {replica_id} is not one of the replicas {list(self.replica_ids)} of {self.name}.",
        )


def _is_cut_in_first_batch(log: Log, records: FileRecords | bytes) -> bool:
    """Whether a read ends before its first batch does: Kafka then gives nothing, it cuts only after a whole batch.

    Raises ``LogOfflineError``.
    """
    if isinstance(records, bytes) or len(records) < BATCH_OVERHEAD:
        return True
    try:
        length = records.read(8, 4)
    except OSError as error:
        log.fail(error)
    return LOG_OVERHEAD + int.from_bytes(length, "big") > len(records)
