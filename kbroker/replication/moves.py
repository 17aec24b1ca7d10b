"""Moves of logs between the data directories of one broker (AlterReplicaLogDirs, KIP-113, KIP-858).

A move copies the log into a future of it in the target directory, piece by piece, while the partition goes on serving
from the log:

    copying    the future gets what the log has, at most ``replica.alter.log.dirs.io.max.bytes.per.second``
    assigning  it has everything and is on stable storage: the controller is told of the target, the checkpoints written
    over       in one turn of the loop it gets the last records and takes the log's place

Everything but fsync and checkpoints runs on the loop, in slices of ``SLICE_BYTES``: so a move can be given up at any
moment (another target, the directory the log is in, the topic deleted, a directory that fails), and nobody sees two
logs. What the log is cut to, the future is cut to by leader epochs (KIP-101), as after a restart. Follows Kafka's
``ReplicaAlterLogDirsThread``.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kbroker.host.waiting import pause
from kbroker.kraft.image import RESOURCE_BROKER
from kbroker.log.errors import DISK_FULL_PAUSE_MS, CorruptFileError, DiskFullError, UnexpectedOffsetError
from kbroker.log.file_records import FileRecords
from kbroker.log.paths import FUTURE_DIRECTORY, is_too_long
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.replication.throttle import Throttle

if TYPE_CHECKING:
    from kbroker.host import Workers
    from kbroker.log.data_directory import DataDirectory
    from kbroker.log.log import Log
    from kbroker.log.manager import LogManager
    from kbroker.replication.partition import Partition
    from kbroker.replication.replicas import ReplicaManager
    from kbroker.types import TopicPartition

logger = logging.getLogger(__name__)

RATE_KEY = "replica.alter.log.dirs.io.max.bytes.per.second"
SLICE_BYTES = 128 * 1024
THROTTLED_PAUSE_MS = 200
"""The longest rest before the rate is looked at again."""
FLUSHES_MAX = 10
"""So often a move waits for an fsync of the future to catch up with those of the log; the last one holds the loop."""


class Move:
    """One log on its way. Owner: ``LogMoves``."""

    __slots__ = (
        "clean_end_offset",
        "flushes",
        "future",
        "home",
        "is_assigned",
        "is_over",
        "partition",
        "target",
        "truncations",
        "wake",
    )

    def __init__(self, partition: Partition, log: Log, future: Log, home: DataDirectory, target: DataDirectory) -> None:
        self.partition = partition
        self.future = future
        self.home = home
        self.target = target
        self.clean_end_offset = log.clean_end_offset
        """What was clean when the copying began is clean in the copy."""
        self.truncations = -1
        """As of when the future was held against the log."""
        self.flushes = 0
        self.is_assigned = False
        self.is_over = False
        self.wake: asyncio.Future[None] | None = None


class LogMoves:
    """Owner: ``ReplicaManager``. Invariant: there is a move exactly where ``LogManager`` has a future."""

    def __init__(
        self,
        replicas: ReplicaManager,
        logs: LogManager,
        workers: Workers,
        loop: asyncio.AbstractEventLoop,
        moves_max: int,
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._workers = workers
        self._loop = loop
        self._turns = asyncio.Semaphore(moves_max)
        """So many move at a time; the others wait."""
        self._moves: dict[TopicPartition, Move] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._throttle = Throttle(replicas.clock)

    # --- what is asked for

    def alter(self, name: TopicPartition, path: str) -> ErrorCode:
        """Take the replica's log to the data directory at ``path``; NONE says that this has begun or need not."""
        if is_too_long(name, FUTURE_DIRECTORY):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        target = self._logs.directory_at(path)
        if target is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if target.error is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if target.path in self._logs.cordoned:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        try:
            partition = self._replicas.partition(*name)
            self._take(partition, target)
        except ApiError as error:
            elsewhere = error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.REPLICA_NOT_AVAILABLE if elsewhere else error.code
        return ErrorCode.NONE

    def _take(self, partition: Partition, target: DataDirectory) -> None:
        name = partition.name
        home = self._logs.home_of(name, self._replicas.directory_id(name))
        move = self._moves.get(name)
        if move is not None:
            if move.target is target:
                return
            self.cancel(name)
        if home is target:
            return
        offline = next((each for each in self._logs.directories if each.error is not None), None)
        if offline is not None:
            offline.check()  # the log's future might lie there already
        log = partition.log
        if log is None or not log.segments:
            partition.log = None
            self._logs.settle_elsewhere(name, target)
            self._replicas.assign_directory(partition, target)
            return
        self._begin(partition, log, self._logs.begin_move(name, target))

    def resume(self, partition: Partition) -> None:
        """Go on with a move that the last run began."""
        future = self._logs.futures.get(partition.name)
        if future is not None and partition.log is not None and partition.name not in self._moves:
            self._begin(partition, partition.log, future)

    def _begin(self, partition: Partition, log: Log, future: Log) -> None:
        name = partition.name
        home, target = self._logs.directory_of(name), self._logs.target_of(name)
        assert home is not None
        assert target is not None
        move = self._moves[name] = Move(partition, log, future, home, target)
        logger.info("%s moves from %s to %s", name, home.path, target.path)
        task = self._loop.create_task(self._run(move))
        self._tasks[task] = None
        task.add_done_callback(self._on_done)

    def cancel(self, name: TopicPartition) -> None:
        """Give the move up, if there is one: the future is removed, the controller told where the log stays."""
        move = self._end(name)
        if move is not None:
            logger.info("%s stays in %s", name, move.home.path)
            self._logs.cancel_move(name)
            if move.is_assigned:
                self._replicas.assign_directory(move.partition, move.home)

    def drop_from(self, directory: DataDirectory) -> None:
        """A data directory has failed: what moves into it stays, what moves out of it is seen to at the next start."""
        for name in [name for name, move in self._moves.items() if directory in (move.home, move.target)]:
            move = self._moves[name]
            if directory is move.target:
                self.cancel(name)
            else:
                self._end(name)

    def _end(self, name: TopicPartition) -> Move | None:
        move = self._moves.pop(name, None)
        if move is not None:
            move.is_over = True
            if move.wake is not None and not move.wake.done():
                move.wake.set_result(None)
        return move

    async def stop(self) -> None:
        """Returns when no worker touches a future any more; the next start goes on with them."""
        for name in list(self._moves):
            self._end(name)
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    # --- the way

    def _on_done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("A move between data directories failed; the log stays where it is.", exc_info=error)

    async def _run(self, move: Move) -> None:
        async with self._turns:
            while not move.is_over:
                try:
                    await self._step(move)
                except DiskFullError as error:
                    logger.warning("The move of %s waits: %s", move.partition.name, error)
                    await self._pause(move, DISK_FULL_PAUSE_MS)
                except (ApiError, CorruptFileError, OSError) as error:
                    logger.error("The move of %s to %s is given up: %s", move.partition.name, move.target.path, error)
                    self._give_up(move)
                except Exception:
                    self._give_up(move)
                    raise

    def _give_up(self, move: Move) -> None:
        log = move.partition.log
        if move.is_over:
            return
        if log is None or log.offline_error is not None:
            self._end(move.partition.name)  # the future stays for the next start
        else:
            self.cancel(move.partition.name)

    async def _step(self, move: Move) -> None:
        log = move.partition.log
        assert log is not None
        if log.truncations != move.truncations:
            is_new = not move.future.segments
            self._align(move, log)
            if is_new and self._logs.fsync:
                await self._flush(move)  # from now on the move outlives a loss of power
                return
        copied = self._copy(move, log)
        if copied:
            await self._rest(move, copied)
        elif not await self._has_waited(move, log):
            self._finish(move, log)
            await self._write_checkpoints()

    async def _flush(self, move: Move) -> None:
        await self._replicas.flusher.flush(move.future)
        if move.future.offline_error is not None:
            raise move.future.offline_error

    def _align(self, move: Move, log: Log) -> None:
        """Cut from the future what the log does not have (any more)."""
        future, now_ms = move.future, self._replicas.clock.wall_ms()
        move.truncations = log.truncations
        while future.segments:
            epoch, end_offset = log.offset_for_leader_epoch(future.latest_epoch)
            if epoch < 0:
                break
            _, own_end_offset = future.offset_for_leader_epoch(epoch)
            if epoch == future.latest_epoch or own_end_offset < 0:
                own_end_offset = future.log_end_offset
            future.truncate_to(min(end_offset, own_end_offset), now_ms)
            if future.latest_epoch <= epoch:
                return
        self._start_over(move, log)

    def _start_over(self, move: Move, log: Log) -> None:
        """Begin the future where the log begins: with the whole batch that holds its first record."""
        start = log.log_start_offset
        first = log.read(start, 1, at_least_one=True)
        if isinstance(first, FileRecords):
            start = min(start, first.base_offset)
        move.future.truncate_fully_and_start_at(start, self._replicas.clock.wall_ms())
        move.future.ensure_directory(self._replicas.clock.wall_ms())

    def _copy(self, move: Move, log: Log) -> int:
        """Copy one slice; its size, 0 when the future has everything."""
        future = move.future
        if future.log_end_offset < log.log_start_offset:
            self._start_over(move, log)  # retention was faster
        if future.log_end_offset >= log.log_end_offset:
            return 0
        start = max(future.log_end_offset, log.log_start_offset)  # the first batch may begin before the first record
        records = log.read(start, SLICE_BYTES, at_least_one=True)
        if isinstance(records, FileRecords):
            records.leave_out_cut_batch()
            try:
                future.append_as_follower(records.to_bytes(), self._replicas.clock.wall_ms())
            except UnexpectedOffsetError:
                self._start_over(move, log)
                return len(records)
        future.update_log_start_offset(min(log.log_start_offset, future.log_end_offset))
        future.on_high_watermark(move.partition.high_watermark)
        return len(records)

    async def _rest(self, move: Move, copied: int) -> None:
        """Let others have their turn, and keep to the rate."""
        rate = self._rate()
        if rate is None:
            await asyncio.sleep(0)
            return
        if rate > 0:
            self._throttle.moved(copied, rate)
        while not move.is_over and (wait_ms := self._throttle.wait_ms if rate > 0 else THROTTLED_PAUSE_MS):
            await self._pause(move, min(wait_ms, THROTTLED_PAUSE_MS))
            if self._rate() != rate:
                self._throttle.forgive()
                return

    def _rate(self) -> int | None:
        """Bytes a second, None for no limit. A setting that Kafka does not describe: it is dynamic only."""
        configs = self._replicas.image.configs
        for scope in (str(self._replicas.node_id), ""):
            value = configs.of(RESOURCE_BROKER, scope).get(RATE_KEY)
            if value is not None:
                return int(value)
        return None

    async def _pause(self, move: Move, delay_ms: float) -> None:
        move.wake = self._loop.create_future()
        await pause(self._replicas.clock, delay_ms, move.wake)

    async def _has_waited(self, move: Move, log: Log) -> bool:
        """Do the next thing that must be done before the future may take the log's place and takes time, if any."""
        future = move.future
        durable_end = log.recovery_point
        if move.flushes == 0 and self._logs.fsync:
            durable_end = future.log_end_offset
        if future.recovery_point < durable_end:
            move.flushes += 1
            if move.flushes < FLUSHES_MAX:
                await self._flush(move)
                return True
            future.mark_flushed(future.sync(), self._replicas.clock.wall_ms())
        if not move.is_assigned:
            move.is_assigned = True
            await asyncio.wait([self._replicas.assign_directory(move.partition, move.target)])
            await self._write_checkpoints()
            return True
        return False

    async def _write_checkpoints(self) -> None:
        await self._workers.run(self._logs.checkpoint_job(self._replicas.high_watermarks()))

    def _finish(self, move: Move, log: Log) -> None:
        partition = move.partition
        future = move.future
        future.config = log.config
        future.take_over(log)
        future.clean_end_offset = move.clean_end_offset
        try:
            self._logs.end_move(partition.name)
        except OSError as error:
            self._logs.on_io_error(move.target, error)
            raise
        self._end(partition.name)
        partition.move_to(future)
        logger.info("%s has moved from %s to %s", partition.name, move.home.path, move.target.path)
