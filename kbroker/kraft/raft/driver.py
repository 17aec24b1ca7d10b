"""The Raft driver: gives the pure core its disk, its clock and, one day, its peers.

It carries out parcels in their order: election state, truncation, records, then messages. A leader's append becomes
durable in one of two ways: with ``fsync`` a worker flushes what has gathered while the loop goes on, and the high
watermark follows; without it the page cache is enough (as it is for every partition's log) and ``append`` returns with
the high watermark already advanced, in the same turn of the loop.

Messages to peers are handed to ``send``; a quorum of one sends none. Not here: what the records mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kbroker.host import Host, Timer
from kbroker.host.waiting import pause
from kbroker.kraft.batches import control_batch, data_batch
from kbroker.kraft.raft.core import Raft, RaftConfig
from kbroker.kraft.raft.log_state import LogState
from kbroker.kraft.raft.messages import LeaderChange, Message, Parcel
from kbroker.kraft.raft.quorum_state import read_quorum_state, write_quorum_state
from kbroker.kraft.raft.voters import ControlRecord, Voter, Voters
from kbroker.log.errors import DISK_FULL_PAUSE_MS, DiskFullError, LogOfflineError
from kbroker.protocol.messages.records.control import LeaderChangeMessage
from kbroker.protocol.records.control import ControlRecordType

logger = logging.getLogger(__name__)


class MetadataLog(Protocol):
    """What the quorum needs of the log of ``__cluster_metadata-0``. Batches come with their offsets and epoch set."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def written_bytes(self) -> int:
        """How much was in the log when it was opened and has been appended since; never falls."""

    def epochs(self) -> Sequence[tuple[int, int]]:
        """Each leader epoch and its first offset, in order."""

    def append(self, batch: bytes, epoch: int) -> None:
        """Append a batch of this node's own."""

    def append_fetched(self, batches: bytes) -> None:
        """Append what the leader sent."""

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches, the first being the one that holds ``offset``; at least one when there is any."""

    def sync(self) -> Callable[[], None]:
        """Make everything appended durable. Blocking; safe in a worker while the loop appends.

        What it returns is the owner's half, to be called on the loop.
        """

    def truncate(self, end_offset: int) -> None: ...

    def start_anew_at(self, offset: int) -> None:
        """Drop everything and go on at ``offset``: a snapshot reaches beyond the log."""

    @property
    def size(self) -> int:
        """Its bytes on the disk."""

    def drop_before(self, offset: int) -> Callable[[], None]:
        """Let go of whole segments below ``offset``; what it returns removes them, and blocks."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Listener:
    """Who follows the quorum. ``elected`` comes once the LeaderChangeMessage is written, and may append at once."""

    elected: Callable[[int], None]
    resigned: Callable[[], None]
    committed: Callable[[int], None]
    failed: Callable[[BaseException], None]


class RaftDriver:
    """Owner of the core, of the metadata log's writes and of ``quorum-state``."""

    def __init__(
        self,
        node_id: int,
        voters: Voters,
        own: Voter,
        directory: str,
        log: MetadataLog,
        host: Host,
        listener: Listener,
        *,
        fsync: bool,
        config: RaftConfig | None = None,
        send: Callable[[int, Message], None] | None = None,
    ) -> None:
        self._directory = directory
        self._log = log
        self._host = host
        self._listener = listener
        self._fsync = fsync
        self._send = send
        self._timer: Timer | None = None
        self._flushing: asyncio.Future[None] | None = None
        self._closed = False
        self.voters = voters
        self._own = own
        election = read_quorum_state(host.disk, directory, alone=voters.ids == [node_id])
        state = LogState(log.end_offset, log.epochs())
        self.raft = Raft(node_id, voters.ids, election, state, host.random, host.clock.monotonic_ms(), config)

    def start(self) -> None:
        """Take part: a lone voter is elected before this returns."""
        self._tick()

    def receive(self, message: Message) -> None:
        """Take a message of a peer."""
        self._carry_out(self.raft.step(message, self._host.clock.monotonic_ms()))

    def append(self, records: Sequence[Any], timestamp: int, level: int) -> int:
        """Append one batch as the leader; the log's new end. Without fsync it is committed when this returns.

        ``level`` of ``metadata.version`` says in which versions the records are written.
        """
        batch = data_batch(records, self._log.end_offset, self.raft.epoch, timestamp, level)
        return self._append(batch)

    def write_voters(self, kraft_version: int, timestamp: int) -> int:
        """Write down the voters at this level of ``kraft.version``, as the leader; the log's new end."""
        voters = self.voters.written(self._own, kraft_version)
        batch = control_batch(voters.control_records(), self._log.end_offset, self.raft.epoch, timestamp)
        end_offset = self._append(batch)
        self.voters = voters
        return end_offset

    def resign(self) -> None:
        """Hand over leadership, as a clean shutdown does."""
        self._carry_out(self.raft.resign(self._host.clock.monotonic_ms()))

    async def close(self) -> None:
        """Stop: nothing is written after this."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._flushing is not None:
            await self._flushing
        try:
            if self._fsync:
                await self._host.workers.run(self._log.sync)
            self._log.close()
        except (DiskFullError, LogOfflineError) as error:
            logger.warning("The metadata log is not closed cleanly, the next start reads it as after a kill: %s", error)

    # --- parcels

    def _tick(self) -> None:
        self._timer = None
        self._carry_out(self.raft.tick(self._host.clock.monotonic_ms()))

    def _carry_out(self, parcel: Parcel) -> None:
        if parcel.lost_leadership:
            self._listener.resigned()
        if parcel.persist is not None:
            # On the loop: elections are rare, and nothing else may happen before the vote is remembered.
            write_quorum_state(self._host.disk, self._directory, parcel.persist, self.voters, sync=self._fsync)
        if parcel.truncate_to is not None:
            self._log.truncate(parcel.truncate_to)
        for batch in parcel.append:
            if not isinstance(batch, bytes):
                raise TypeError(f"records of a peer must be bytes, not {type(batch).__name__}")
            self._log.append_fetched(batch)
        if parcel.leader_change is not None:
            self._append_leader_change(parcel.leader_change)
            self._listener.elected(self.raft.epoch)
        if parcel.high_watermark is not None:
            self._listener.committed(parcel.high_watermark)
        for target, message in parcel.send:
            if self._send is not None:
                self._send(target, message)
        self._set_timer()

    def _append_leader_change(self, change: LeaderChange) -> None:
        voter = LeaderChangeMessage.Voter
        message = LeaderChangeMessage(
            version=0,
            leader_id=self.raft.node_id,
            voters=[voter(voter_id=each) for each in self.raft.voters],
            granting_voters=[voter(voter_id=each) for each in change.granting_voters],
        )
        records: list[ControlRecord] = [(ControlRecordType.LEADER_CHANGE, message)]
        voters = self.voters
        if voters.kraft_version and not (voters.in_log and self._own in voters.all):
            voters = voters.written(self._own, voters.kraft_version)
            records += voters.control_records()
        self._append(control_batch(records, self._log.end_offset, change.epoch, self._host.clock.wall_ms()))
        self.voters = voters

    def _append(self, batch: bytes) -> int:
        self._log.append(batch, self.raft.epoch)
        end_offset = self._log.end_offset
        self.raft.appended(end_offset)
        if self._fsync:
            if self._flushing is None:
                self._flushing = asyncio.ensure_future(self._flush())
        else:
            self._carry_out(self.raft.flushed(end_offset, self._host.clock.monotonic_ms()))
        return end_offset

    async def _flush(self) -> None:
        """One flush at a time; what is appended meanwhile is the next one's."""
        try:
            while self.raft.flushed_offset < self._log.end_offset and not self._closed:
                end_offset = self._log.end_offset
                synced: Awaitable[Callable[[], None]] = self._host.workers.run(self._log.sync)
                try:
                    (await synced)()
                except DiskFullError as error:
                    logger.warning("The metadata log is not synced, nothing is committed: %s", error)
                    await pause(self._host.clock, DISK_FULL_PAUSE_MS)
                    continue
                # Truncation meanwhile (a lost election) must not be counted as durable.
                flushed = min(end_offset, self._log.end_offset)
                self._carry_out(self.raft.flushed(flushed, self._host.clock.monotonic_ms()))
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must not go on
            self._listener.failed(error)
        finally:
            self._flushing = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_ms = self.raft.wake_ms
        if wake_ms is not None and not self._closed:
            delay = max(0, wake_ms - self._host.clock.monotonic_ms())
            self._timer = self._host.clock.call_later(delay, self._tick)
