"""The logs of one broker and the data directories they live in. Follows Kafka's ``LogManager``.

Start: ``open`` opens the data directories (``log.data_directory``) and lists what is there; each log is loaded when its
partition asks for it (``get_or_create``, with the topic id and config that the metadata image has); what nobody asked
for is then set aside by ``mark_strays``. A partition that never got a record has no directory: that it exists is said
by the metadata log.

A log that moves to another data directory has a second one there, its future, until that has all of it (``futures``;
the copying is ``replication.moves``). A data directory in which an operation fails goes offline with all its logs
(KIP-112); a file that is corrupt takes only its log offline. Neither stops the others.

Nothing here waits for the disk while the broker serves: ``due_for_sync`` and ``checkpoint_job`` name the work that
the owner hands to its workers. High watermarks are ``replication``'s; only their file is written here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Literal, NamedTuple, NoReturn

from kbroker.host import Host
from kbroker.log import checkpoints, meta_properties, partition_metadata
from kbroker.log.closing import close_logs, release_logs
from kbroker.log.data_directory import DataDirectory
from kbroker.log.errors import CorruptFileError, InconsistentDirectoryError, LogOfflineError, is_refusal
from kbroker.log.left_logs import LeftLog, LeftLogs
from kbroker.log.log import DEFAULT_PRODUCER_EXPIRY_MS, Log
from kbroker.log.paths import DELETE_DIRECTORY, FUTURE_DIRECTORY, moved_directory_name
from kbroker.log.retention import delete_old_segments
from kbroker.log.rules import LogConfig
from kbroker.log.segments import Discarded
from kbroker.protocol.errors import ApiError
from kbroker.types import TopicPartition, Uuid, is_directory, uuid_to_string

logger = logging.getLogger(__name__)

DEFAULT_FILE_DELETE_DELAY_MS = 60_000
REMOVALS_IN_A_JOB = 32
"""Each is a directory, or the segments of one slice of retention."""


class Removal(NamedTuple):
    """Something to remove from a data directory once the monotonic clock says so."""

    due_ms: int
    directory: DataDirectory
    remove: Callable[[], None]


class LogManager:
    """Owns every ``Log`` of the broker, and the locks of its data directories."""

    def __init__(
        self,
        host: Host,
        directories: Iterable[str],
        *,
        producer_expiry_ms: int = DEFAULT_PRODUCER_EXPIRY_MS,
        validation: Literal["header", "full"] = "header",
        fsync: bool = True,
    ) -> None:
        self._host = host
        self._disk = host.disk
        self.directories = [DataDirectory(path.rstrip("/") or "/") for path in directories]
        self._expiry_ms = producer_expiry_ms
        self._validation = validation
        self.fsync = fsync
        """Whether what is said to be durable must have been synced (``kbroker.fsync``)."""
        self.logs: dict[TopicPartition, Log] = {}
        self.cordoned: frozenset[str] = frozenset()
        """Paths of the data directories that take no new logs (KIP-1066)."""
        self.futures: dict[TopicPartition, Log] = {}
        """Logs on their way into another data directory."""
        self.on_io_error: Callable[[DataDirectory, Exception], None] = self.take_offline
        """Told when an operation in a data directory has failed, perhaps in a worker thread. Set by the owner, who has
        to call ``take_offline`` on the loop."""
        self._homes: dict[TopicPartition, DataDirectory] = {}
        """Where each log is, or will be made at its first record."""
        self._targets: dict[TopicPartition, DataDirectory] = {}
        """Where each future is."""
        self._left = LeftLogs(self._disk, self._unique, self._remove_tree_later)
        self._failed: dict[TopicPartition, tuple[DataDirectory, LogOfflineError]] = {}
        """Logs that could not be loaded: their directories stay where they are, for a person to look at."""
        self._doomed: list[Removal] = []

    # --- start

    def open(self, node_id: int, cluster_id: str | None = None) -> None:
        """Lock and read every data directory, making those that do not exist.

        Raises ``InconsistentDirectoryError`` when one is in use or another's, two have one id, or none can be used.
        """
        for directory in self.directories:
            try:
                directory.open(self._disk, node_id, cluster_id)
                self._list(directory)
            except (OSError, CorruptFileError) as error:
                self.take_offline(directory, error)
        if all(directory.error for directory in self.directories):
            reasons = "; ".join(f"{directory.path}: {directory.error}" for directory in self.directories)
            raise InconsistentDirectoryError(
                f"no data directory can be used: {reasons}. Make it one that this user may write, or choose another "
                "(log.dirs, --data-dir)"
            )
        meta_properties.check_ids((each.path, each.properties) for each in self.directories if each.properties)

    def _list(self, directory: DataDirectory) -> None:
        for found in directory.logs(self._disk):
            if found.kind in (None, FUTURE_DIRECTORY):
                self._left.add(directory, found)
            elif found.kind == DELETE_DIRECTORY:
                self._remove_tree_later(directory, found.path)
            else:
                logger.warning("%s is left alone: it is of kind %s", found.path, found.kind)

    def format(self, cluster_id: str, node_id: int) -> None:
        """Write ``meta.properties`` into the directories that have none, or one without an id. Raises ``OSError``."""
        for directory in self.directories:
            if directory.id is None and directory.error is None:
                directory_id = self._host.random.getrandbits(128).to_bytes(16)
                directory.format(self._disk, cluster_id, node_id, directory_id, sync=self.fsync)

    # --- logs

    def get_or_create(
        self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, *, directory_id: Uuid | None = None
    ) -> Log:
        """The partition's log: the open one, the one on disk loaded, or a new one in the least used directory.

        A directory that belongs to another topic id is set aside first. Raises ``LogOfflineError``: the other logs
        serve.
        """
        log = self.logs.get(partition)
        if log is not None and log.topic_id == topic_id:
            return log
        if log is not None:
            self.delete(partition)
        if partition in self._failed:
            raise self._failed[partition][1]
        left = future = None
        if partition in self._left:
            self._check_assigned(directory_id)
            try:
                left, future = self._left.claim(partition, topic_id, directory_id)
            except LogOfflineError as error:
                self._load_failed(partition, self._left.directory_of(partition) or self._place(directory_id), error)
        home = self._settle(partition, directory_id, left)
        if left is None:
            partition_metadata.check_free(self._disk, home.path_of(partition), topic_id)
        log = self._load(partition, topic_id, config, home, home.path_of(partition))
        self.logs[partition] = log
        if future is not None:
            self._load_future(partition, topic_id, config, future)
        return log

    def _load(
        self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, directory: DataDirectory, path: str
    ) -> Log:
        """Raises ``LogOfflineError``, and takes the whole data directory offline when an operation in it failed."""
        directory.check()
        try:
            log = Log.open(
                self._disk,
                path,
                partition,
                topic_id,
                config,
                recovery_point=directory.recovery_points.get(partition, 0),
                log_start_offset=directory.starts.get(partition, 0),
                clean=directory.clean,
                now_ms=self._host.clock.wall_ms(),
                producer_expiry_ms=self._expiry_ms,
                validation=self._validation,
                jitter=self._host.random.randrange,
                on_io_error=lambda error: self.on_io_error(directory, error),
            )
        except CorruptFileError as error:
            self._load_failed(partition, directory, LogOfflineError(f"the log of {partition} is offline: {error}"))
        except OSError as error:
            self.on_io_error(directory, error)
            raise LogOfflineError(f"the log of {partition} is offline: {error}") from error
        log.clean_end_offset = directory.cleaned.get(partition)
        now_ms = self._host.clock.wall_ms()
        if log.is_due_for_sync(now_ms, rolled=False):
            # What a kill left in the page cache is served from now on: `flush.messages` says that it cannot be lost.
            log.mark_flushed(log.sync(), now_ms)
        return log

    def _load_failed(self, partition: TopicPartition, directory: DataDirectory, error: LogOfflineError) -> NoReturn:
        logger.error("%s", error.message)
        directory.spoilt = True
        self._failed[partition] = (directory, error)
        raise error

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition has a log: open, on disk for ``get_or_create`` to load, or one that failed to load."""
        return partition in self.logs or partition in self._left or partition in self._failed

    # --- where logs are

    def _settle(
        self, partition: TopicPartition, directory_id: Uuid | None, left: LeftLog | None = None
    ) -> DataDirectory:
        """Decide where the partition's log is or will be made, once and for all. Raises ``LogOfflineError``."""
        home = self._homes.get(partition)
        if home is not None and (left is None or left.directory is home):
            return home
        if home is not None:
            home.replica_count -= 1
        if left is not None:
            home = left.directory
        else:
            home = self._place(directory_id)
            home.replica_count += 1
        self._homes[partition] = home
        return home

    def _check_assigned(self, directory_id: Uuid | None) -> None:
        """A log in a directory that is not seen is not made anew elsewhere. Raises ``LogOfflineError``."""
        if directory_id is None or not is_directory(directory_id):
            return
        is_online = any(each.id == directory_id for each in self.directories if each.error is None)
        if not is_online and any(each.error is not None for each in self.directories):
            raise LogOfflineError(
                f"the data directory with the id {uuid_to_string(directory_id)} is offline, or this broker's no more"
            )

    def _place(self, directory_id: Uuid | None) -> DataDirectory:
        for directory in self.directories:
            if directory_id is not None and directory.id == directory_id:
                directory.check()
                return directory
        self._check_assigned(directory_id)
        live = [directory for directory in self.directories if directory.error is None]
        if not live:
            raise LogOfflineError("every data directory is offline")
        open_ones = [directory for directory in live if directory.path not in self.cordoned]
        return min(open_ones or live, key=lambda directory: directory.replica_count)

    def directory_of(self, partition: TopicPartition) -> DataDirectory | None:
        """Where the partition's log is or, before its first record, will be made, if that is decided."""
        return self._homes.get(partition) or self._left.directory_of(partition)

    def home_of(self, partition: TopicPartition, directory_id: Uuid | None) -> DataDirectory:
        """As ``directory_of``, decided now if it was not; the directory may be offline. Raises ``LogOfflineError``."""
        return self.directory_of(partition) or self._settle(partition, directory_id)

    def directory_at(self, path: str) -> DataDirectory | None:
        """The data directory with an absolute path, exactly as others are told it."""
        return next((each for each in self.directories if self._disk.absolute(each.path) == path), None)

    def cordon(self, paths: Collection[str]) -> None:
        """These data directories, and no others, take no new logs (KIP-1066)."""
        self.cordoned = frozenset(path.rstrip("/") or "/" for path in paths)

    def take_offline(self, directory: DataDirectory, error: Exception) -> None:
        """An operation in it has failed: none of its logs is trusted before the next start (KIP-112)."""
        if directory.error is not None:
            return
        directory.error = str(error)
        logger.error("The data directory %s goes offline with all its logs: %s", directory.path, error)
        for logs, homes in ((self.logs, self._homes), (self.futures, self._targets)):
            for partition in [each for each in logs if homes[each] is directory]:
                logs[partition].take_offline(error)

    # --- moves between data directories

    def begin_move(self, partition: TopicPartition, target: DataDirectory) -> Log:
        """A future for the partition's log, empty, in another data directory. Raises ``LogOfflineError``."""
        log = self.logs[partition]
        path = f"{target.path}/{moved_directory_name(partition, self._unique(), FUTURE_DIRECTORY)}"
        target.forget(partition)
        future = self._load(partition, log.topic_id, log.config, target, path)
        self.futures[partition] = future
        self._targets[partition] = target
        return future

    def _load_future(self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, left: LeftLog) -> None:
        try:
            self.futures[partition] = self._load(partition, topic_id, config, left.directory, left.path)
        except LogOfflineError as error:
            self._failed.pop(partition, None)
            logger.warning("The future of %s in %s is not gone on with: %s", partition, left.directory.path, error)
            if left.directory.error is None:
                self._remove_tree_later(left.directory, left.path)
        else:
            self._targets[partition] = left.directory

    def target_of(self, partition: TopicPartition) -> DataDirectory | None:
        """Where the partition's log is moving to."""
        return self._targets.get(partition)

    def settle_elsewhere(self, partition: TopicPartition, target: DataDirectory) -> None:
        """A partition that never got a record gets its log in ``target``."""
        self.logs.pop(partition, None)
        home = self._homes.get(partition)
        if home is not None:
            home.replica_count -= 1
        self._homes[partition] = target
        target.replica_count += 1

    def end_move(self, partition: TopicPartition) -> Log:
        """Put the future, which has everything, in the place of the log; that one's directory is removed later.

        The names change in Kafka's order: a crash between the two leaves a log in each data directory, of which the
        next start takes that of the assigned one. Raises ``OSError``; then the log stays.
        """
        old, future = self.logs[partition], self.futures[partition]
        home, target = self._homes[partition], self._targets[partition]
        future.rename_directory(target.path_of(partition))
        del self.futures[partition], self._targets[partition]
        self.logs[partition] = future
        self._homes[partition] = target
        home.replica_count -= 1
        target.replica_count += 1
        self._retire(old, home)
        return future

    def cancel_move(self, partition: TopicPartition) -> None:
        """Drop the future, if there is one."""
        future, target = self.futures.pop(partition, None), self._targets.pop(partition, None)
        if future is not None and target is not None:
            self._retire(future, target)

    def _retire(self, log: Log, directory: DataDirectory) -> None:
        """The log is over: its directory gets another name now and is removed later."""
        directory.forget(log.partition)
        if not log.segments or directory.error is not None:
            return
        moved = f"{directory.path}/{moved_directory_name(log.partition, self._unique(), DELETE_DIRECTORY)}"
        try:
            log.rename_directory(moved)
        except OSError as error:
            self.on_io_error(directory, error)
            return
        self._remove_later(directory, log.config.file_delete_delay_ms, partial(self._remove_log, log, moved))

    # --- deletion

    def mark_strays(self, offline: Collection[TopicPartition] = ()) -> list[str]:
        """Set aside what no partition of the image has asked for; the new paths. Those that are offline may yet ask."""
        return self._left.set_aside_all(offline)

    def delete(self, partition: TopicPartition) -> None:
        """Forget the partition's log; its directory gets another name now and is removed later.

        Fetches under way go on reading. Harmless when there is no such log.
        """
        self.cancel_move(partition)
        failed = self._failed.pop(partition, None)
        log, home = self.logs.pop(partition, None), self._homes.pop(partition, None)
        if home is not None:
            home.replica_count -= 1
        if failed is not None:
            self._delete_failed(partition, failed[0])
        elif log is not None and home is not None:
            self._retire(log, home)

    def _delete_failed(self, partition: TopicPartition, directory: DataDirectory) -> None:
        moved = f"{directory.path}/{moved_directory_name(partition, self._unique(), DELETE_DIRECTORY)}"
        try:
            self._disk.rename(directory.path_of(partition), moved)
        except OSError as error:
            self.on_io_error(directory, error)
            return
        self._remove_tree_later(directory, moved)

    def _remove_log(self, log: Log, directory: str) -> None:
        log.release()
        self._disk.remove_tree(directory)

    def _remove_tree_later(self, directory: DataDirectory, path: str) -> None:
        self._remove_later(directory, DEFAULT_FILE_DELETE_DELAY_MS, partial(self._disk.remove_tree, path))

    def _remove_later(self, directory: DataDirectory, delay_ms: int, remove: Callable[[], None]) -> None:
        self._doomed.append(Removal(self._host.clock.monotonic_ms() + delay_ms, directory, remove))

    def _unique(self) -> str:
        return f"{self._host.random.getrandbits(128):032x}"

    # --- periodic work

    def removal_job(self) -> Callable[[], None] | None:
        """What has waited long enough, to be removed by calling the result in a worker: a large file takes long.

        Not more than ``REMOVALS_IN_A_JOB``: fsyncs and checkpoints wait for its end.
        """
        now_ms = self._host.clock.monotonic_ms()
        due = [removal for removal in self._doomed if removal.due_ms <= now_ms][:REMOVALS_IN_A_JOB]
        if not due:
            return None
        self._doomed = [removal for removal in self._doomed if removal not in due]

        def remove_all() -> None:
            for removal in due:
                if removal.directory.error is None:
                    self._remove(removal)

        return remove_all

    def _remove(self, removal: Removal) -> None:
        """In a worker. What fails takes the data directory offline; what may not be done now a later start does."""
        try:
            removal.remove()
        except OSError as error:
            logger.warning("What was deleted could not be removed from the disk: %s", error)
            if not is_refusal(error):
                self.on_io_error(removal.directory, error)

    def take_old_segments(
        self, partition: TopicPartition, high_watermark: int, count_max: int | None = None
    ) -> Discarded | None:
        """Retention of one log: the segments that it lets go of, to be renamed, and removed by ``discard``.

        None when there is nothing, or the log is offline: then it keeps all it has.
        """
        log = self.logs.get(partition)
        if log is None:
            return None
        try:
            discarded = delete_old_segments(log, self._host.clock.wall_ms(), high_watermark, count_max)
        except ApiError:
            return None
        if discarded is not None:
            logger.info("%s deletes %d segments by retention", partition, len(discarded.segments))
        return discarded

    def discard(self, log: Log, discarded: Discarded) -> None:
        """Remove the files of segments that ``log`` let go of after ``file.delete.delay.ms``."""
        path = log.directory.rpartition("/")[0] or "/"
        directory = next(each for each in self.directories if each.path == path)
        self._remove_later(directory, log.config.file_delete_delay_ms, discarded.remove)

    def expire_producers_after(self, expiry_ms: int) -> None:
        """Take a changed ``producer.id.expiration.ms``, for every log and those to come."""
        if expiry_ms != self._expiry_ms:
            self._expiry_ms = expiry_ms
            for log in self.logs.values():
                log.producer_expiry_ms = expiry_ms

    def remove_expired_producers(self) -> None:
        now_ms = self._host.clock.wall_ms()
        for log in self.logs.values():
            log.remove_expired_producers(now_ms)

    def due_for_sync(self) -> list[Log]:
        """The logs to ``sync`` in a worker: rolled since the last time, or past ``flush.messages`` or ``flush.ms``.

        With ``kbroker.fsync`` off only the latter two count: they were asked for by name.
        """
        now_ms = self._host.clock.wall_ms()
        logs = [log for log in self.logs.values() if log.offline_error is None]
        return [log for log in logs if log.is_due_for_sync(now_ms, rolled=self.fsync)]

    def checkpoint_job(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> Callable[[], bool]:
        """The checkpoints of this moment, to be written by calling the result in a worker: whether all were."""
        files: list[tuple[DataDirectory, str, dict[TopicPartition, int]]] = []
        for directory in self.directories:
            if directory.error is not None:
                continue
            logs = self._logs_in(directory)
            points, starts, marks = directory.recovery_points, directory.starts, directory.high_watermarks
            for partition, log in logs.items():
                points[partition] = log.recovery_point
                if log.log_start_offset > log.segments[0].base_offset:
                    starts[partition] = log.log_start_offset
                else:
                    starts.pop(partition, None)
                mark = None if high_watermarks is None else high_watermarks.get(partition)
                if mark is not None:
                    marks[partition] = min(mark, log.log_end_offset)
            files.append((directory, checkpoints.RECOVERY_POINT, dict(points)))
            files.append((directory, checkpoints.LOG_START_OFFSET, dict(starts)))
            if high_watermarks is not None:
                files.append((directory, checkpoints.HIGH_WATERMARK, dict(marks)))
        return lambda: self._write_checkpoints(files)

    def _logs_in(self, directory: DataDirectory) -> dict[TopicPartition, Log]:
        """The logs and futures in a data directory that have files there."""
        here = {p: log for p, log in self.logs.items() if self._homes[p] is directory and log.segments}
        here.update((p, log) for p, log in self.futures.items() if self._targets[p] is directory and log.segments)
        return here

    def _write_checkpoints(self, files: list[tuple[DataDirectory, str, dict[TopicPartition, int]]]) -> bool:
        """In a worker; whether all were written. What fails but a full disk takes the data directory offline."""
        complete = True
        for directory, name, offsets in files:
            try:
                checkpoints.write_offsets(self._disk, f"{directory.path}/{name}", offsets, sync=self.fsync)
            except OSError as error:
                complete = False
                logger.error("%s/%s stays as it was, the next start has more to do: %s", directory.path, name, error)
                if not is_refusal(error):
                    self.on_io_error(directory, error)
        return complete

    def cleaner_checkpoint_job(self) -> Callable[[], bool]:
        """``cleaner-offset-checkpoint`` as of now, to be written in a worker."""
        for partition, log in self.logs.items():
            if log.clean_end_offset is not None:
                self._homes[partition].cleaned[partition] = log.clean_end_offset
        live = [directory for directory in self.directories if directory.error is None]
        files = [(directory, checkpoints.CLEANER, dict(directory.cleaned)) for directory in live]
        return lambda: self._write_checkpoints(files)

    def high_watermark(self, partition: TopicPartition) -> int:
        """What the last run knew to be committed of the partition's log; 0 when it said nothing."""
        home = self._homes.get(partition)
        return 0 if home is None else home.high_watermarks.get(partition, 0)

    # --- end

    def close(
        self, *, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int] | None = None, clean: bool = True
    ) -> None:
        """Complete and sync every log, write checkpoints and clean-shutdown markers, unlock. Blocks.

        A directory with a log that failed gets no marker: the next start recovers it. ``clean=False`` only lets go.
        """
        now_ms = self._host.clock.wall_ms()
        unclean = {directory.path for directory in self.directories if directory.spoilt}
        for directory in self.directories:
            logs = list(self._logs_in(directory).values())
            if not clean:
                release_logs(logs)
            elif not close_logs(directory, logs, now_ms, fsync=self.fsync):
                unclean.add(directory.path)
        if clean and not self.checkpoint_job(high_watermarks)():
            unclean |= {directory.path for directory in self.directories}
        for directory in self.directories:
            if clean and directory.error is None and directory.path not in unclean:
                try:
                    directory.write_clean_marker(self._disk, broker_epoch, sync=self.fsync)
                except OSError as error:
                    logger.error("%s gets no clean-shutdown marker: %s", directory.path, error)
            directory.unlock()
