"""The logs of one broker and the data directories they live in. Follows Kafka's ``LogManager``.

Start: ``open`` locks the directories, reads whose they are, takes the clean-shutdown markers away and lists what is
there; each log is loaded when its partition asks for it (``get_or_create``, with the topic id and config that the
metadata image has); what nobody asked for is then set aside by ``mark_strays``. A log or directory that fails does
not stop the others. A partition that never got a record has no directory: that it exists is said by the metadata log.

Nothing here waits for the disk while the broker serves: ``due_for_sync`` and ``checkpoint_job`` name the work that
the owner hands to its workers. High watermarks are ``replication``'s; only their file is written here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Literal

from kbroker.host import File, Host
from kbroker.log import checkpoints, meta_properties, partition_metadata
from kbroker.log.errors import CorruptFileError, InconsistentDirectoryError, LogOfflineError
from kbroker.log.log import DEFAULT_PRODUCER_EXPIRY_MS, Log
from kbroker.log.meta_properties import MetaProperties
from kbroker.log.paths import DELETE_DIRECTORY, STRAY_DIRECTORY, directory_name, moved_directory_name, parse_directory
from kbroker.log.retention import delete_old_segments
from kbroker.log.rules import LogConfig
from kbroker.log.segments import Discarded
from kbroker.types import METADATA_TOPIC, TopicPartition, Uuid

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
DEFAULT_FILE_DELETE_DELAY_MS = 60_000
REMOVALS_IN_A_JOB = 32
"""Each is a directory, or the segments of one slice of retention."""


class DataDirectory:
    """One of ``log.dirs``.

    ``clean`` says how the last broker left it, ``spoilt`` that a log in it failed to load: no clean marker then.
    ``error`` says why it is offline.
    """

    __slots__ = (
        "clean",
        "cleaned",
        "error",
        "lock",
        "path",
        "previous_broker_epoch",
        "properties",
        "recovery_points",
        "spoilt",
        "starts",
    )

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock: File | None = None
        self.properties: MetaProperties | None = None
        self.clean = False
        self.spoilt = False
        self.previous_broker_epoch = -1
        self.error: str | None = None
        self.recovery_points: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.cleaned: dict[TopicPartition, int] = {}
        """Up to where each compacted log is clean."""


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
        self._fsync = fsync
        self.logs: dict[TopicPartition, Log] = {}
        self._homes: dict[TopicPartition, DataDirectory] = {}
        self._found: dict[TopicPartition, DataDirectory] = {}
        """Partitions' directories that nobody has asked for yet."""
        self._failed: dict[TopicPartition, tuple[DataDirectory, LogOfflineError]] = {}
        """Logs that could not be loaded: their directories stay where they are, for a person to look at."""
        self._doomed: list[tuple[int, Callable[[], None]]] = []
        """Removals that wait, by monotonic time."""

    # -- start

    def open(self, node_id: int, cluster_id: str | None = None) -> None:
        """Lock and read every data directory, making those that do not exist.

        Raises ``InconsistentDirectoryError`` when one is in use or another's, or when none can be used.
        """
        for directory in self.directories:
            try:
                self._open_directory(directory, node_id, cluster_id)
            except (OSError, CorruptFileError) as error:
                self._directory_failed(directory, error)
        if all(directory.error for directory in self.directories):
            reasons = "; ".join(f"{directory.path}: {directory.error}" for directory in self.directories)
            raise InconsistentDirectoryError(f"no data directory can be used: {reasons}")

    def _open_directory(self, directory: DataDirectory, node_id: int, cluster_id: str | None) -> None:
        path = directory.path
        self._disk.make_dirs(path)
        directory.lock = self._disk.lock(f"{path}/{LOCK}")
        if directory.lock is None:
            raise InconsistentDirectoryError(
                f"data directory {path} is in use by another process: stop that broker, or give another directory"
            )
        directory.properties = meta_properties.read(self._disk, path)
        if directory.properties is not None:
            meta_properties.check_owner(path, directory.properties, cluster_id, node_id)
        self._read_clean_marker(directory)
        directory.recovery_points = self._read_offsets(directory, checkpoints.RECOVERY_POINT)
        directory.starts = self._read_offsets(directory, checkpoints.LOG_START_OFFSET)
        directory.cleaned = self._read_offsets(directory, checkpoints.CLEANER)
        self._list(directory)

    def _read_clean_marker(self, directory: DataDirectory) -> None:
        """Taken away at once: a crash while loading must not look like a clean stop."""
        marker = f"{directory.path}/{CLEAN_SHUTDOWN}"
        if self._disk.exists(marker):
            directory.clean = True
            try:
                directory.previous_broker_epoch = int(json.loads(self._disk.read(marker))["brokerEpoch"])
            except (ValueError, KeyError, TypeError):
                directory.previous_broker_epoch = -1
            self._disk.remove(marker)

    def _read_offsets(self, directory: DataDirectory, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self._disk, f"{directory.path}/{name}")
        except CorruptFileError as error:
            logger.warning("%s: read as empty", error)
            return {}

    def _list(self, directory: DataDirectory) -> None:
        for name in self._disk.list_dir(directory.path):
            path = f"{directory.path}/{name}"
            parsed = parse_directory(name)
            if parsed is None or not self._disk.is_dir(path):
                continue
            partition, kind = parsed
            if kind == DELETE_DIRECTORY:
                self._remove_later(DEFAULT_FILE_DELETE_DELAY_MS, partial(self._disk.remove_tree, path))
            elif kind is not None:
                logger.warning("%s is left alone: it is of kind %s", path, kind)
            elif partition in self._found:
                raise InconsistentDirectoryError(
                    f"{partition} is in both {self._found[partition].path} and {directory.path}: remove one of them"
                )
            else:
                self._found[partition] = directory

    def format(self, cluster_id: str, node_id: int) -> None:
        """Write ``meta.properties`` into the directories that have none. Raises ``OSError``."""
        for directory in self.directories:
            if directory.properties is None and directory.error is None:
                directory_id = self._host.random.getrandbits(128).to_bytes(16)
                directory.properties = MetaProperties(cluster_id, node_id, directory_id)
                meta_properties.write(self._disk, directory.path, directory.properties)

    def _directory_failed(self, directory: DataDirectory, error: Exception) -> None:
        directory.error = str(error)
        logger.error("Data directory %s goes offline: %s", directory.path, error)

    # -- logs

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
        home = self._found.pop(partition, None)
        if home is not None and self._is_strange(home, partition, topic_id):
            self._set_aside(home, partition)
            home = None
        if home is None:
            home = self._place(directory_id)
        path = f"{home.path}/{directory_name(partition)}"
        try:
            log = Log.open(
                self._disk,
                path,
                partition,
                topic_id,
                config,
                recovery_point=home.recovery_points.get(partition, 0),
                log_start_offset=home.starts.get(partition, 0),
                clean=home.clean,
                now_ms=self._host.clock.wall_ms(),
                producer_expiry_ms=self._expiry_ms,
                validation=self._validation,
                jitter=self._host.random.randrange,
            )
        except (OSError, CorruptFileError) as error:
            logger.error("The log of %s in %s is offline: %s", partition, path, error)
            home.spoilt = True
            offline = LogOfflineError(f"the log of {partition} is offline: {error}")
            self._failed[partition] = (home, offline)
            raise offline from error
        log.clean_end_offset = home.cleaned.get(partition)
        self.logs[partition] = log
        self._homes[partition] = home
        return log

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition has a log: open, on disk for ``get_or_create`` to load, or one that failed to load."""
        return partition in self.logs or partition in self._found or partition in self._failed

    def _is_strange(self, home: DataDirectory, partition: TopicPartition, topic_id: Uuid) -> bool:
        try:
            written = partition_metadata.read(self._disk, f"{home.path}/{directory_name(partition)}")
        except (OSError, CorruptFileError) as error:
            logger.error("%s: %s is set aside", error, partition)
            return True
        return written is not None and written != topic_id

    def _place(self, directory_id: Uuid | None) -> DataDirectory:
        live = [directory for directory in self.directories if directory.error is None]
        if not live:
            raise LogOfflineError("every data directory is offline")
        for directory in live:
            properties = directory.properties
            if directory_id is not None and properties is not None and properties.directory_id == directory_id:
                return directory
        if len(live) == 1:
            return live[0]
        homes = list(self._homes.values())
        return min(live, key=homes.count)

    def directory_of(self, partition: TopicPartition) -> DataDirectory | None:
        return self._homes.get(partition)

    def home_of(self, partition: TopicPartition, directory_id: Uuid | None) -> DataDirectory:
        """Where the partition's log is or, before its first record, will be made. Raises ``LogOfflineError``."""
        return self._homes.get(partition) or self._found.get(partition) or self._place(directory_id)

    def mark_strays(self) -> list[str]:
        """Set aside the directories that no partition of the image has asked for; their new paths."""
        strays = [partition for partition in self._found if partition.topic != METADATA_TOPIC]
        return [self._set_aside(self._found.pop(partition), partition) for partition in strays]

    def _set_aside(self, home: DataDirectory, partition: TopicPartition) -> str:
        path = f"{home.path}/{directory_name(partition)}"
        moved = f"{home.path}/{moved_directory_name(partition, self._unique(), STRAY_DIRECTORY)}"
        self._disk.rename(path, moved)
        logger.warning("%s belongs to no topic of this cluster: it is kept as %s", path, moved)
        return moved

    def delete(self, partition: TopicPartition) -> None:
        """Forget the partition's log; its directory gets another name now and is removed later.

        Fetches under way go on reading. Harmless when there is no such log. Raises ``OSError``.
        """
        if partition in self._failed:
            self._delete_failed(partition)
            return
        log = self.logs.pop(partition, None)
        home = self._homes.pop(partition, None)
        if log is None or home is None:
            return
        home.recovery_points.pop(partition, None)
        home.starts.pop(partition, None)
        home.cleaned.pop(partition, None)
        if log.segments:
            moved = f"{home.path}/{moved_directory_name(partition, self._unique(), DELETE_DIRECTORY)}"
            log.rename_directory(moved)
            self._remove_later(log.config.file_delete_delay_ms, partial(self._remove_log, log, moved))

    def _delete_failed(self, partition: TopicPartition) -> None:
        path = self._failed.pop(partition)[0].path
        moved = f"{path}/{moved_directory_name(partition, self._unique(), DELETE_DIRECTORY)}"
        self._disk.rename(f"{path}/{directory_name(partition)}", moved)
        self._remove_later(DEFAULT_FILE_DELETE_DELAY_MS, partial(self._disk.remove_tree, moved))

    def _remove_log(self, log: Log, directory: str) -> None:
        log.release()
        self._disk.remove_tree(directory)

    def _remove_later(self, delay_ms: int, remove: Callable[[], None]) -> None:
        self._doomed.append((self._host.clock.monotonic_ms() + delay_ms, remove))

    def _unique(self) -> str:
        return f"{self._host.random.getrandbits(128):032x}"

    # -- periodic work

    def removal_job(self) -> Callable[[], None] | None:
        """What has waited long enough, to be removed by calling the result in a worker: a large file takes long.

        Not more than ``REMOVALS_IN_A_JOB``: fsyncs and checkpoints wait for its end.
        """
        now_ms = self._host.clock.monotonic_ms()
        due = [entry for entry in self._doomed if entry[0] <= now_ms][:REMOVALS_IN_A_JOB]
        if not due:
            return None
        self._doomed = [entry for entry in self._doomed if entry not in due]

        def remove_all() -> None:
            for _, remove in due:
                try:
                    remove()
                except OSError as error:
                    logger.warning("What was deleted could not be removed from the disk: %s", error)

        return remove_all

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
        except LogOfflineError:
            return None
        if discarded is not None:
            logger.info("%s deletes %d segments by retention", partition, len(discarded.segments))
        return discarded

    def discard(self, log: Log, discarded: Discarded) -> None:
        """Remove the files of segments that ``log`` let go of after ``file.delete.delay.ms``."""
        self._remove_later(log.config.file_delete_delay_ms, discarded.remove)

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
        return [log for log in logs if log.is_due_for_sync(now_ms, rolled=self._fsync)]

    def checkpoint_job(self, high_watermarks: Mapping[TopicPartition, int] | None = None) -> Callable[[], None]:
        """The checkpoints of this moment, to be written by calling the result in a worker. That raises ``OSError``."""
        files: list[tuple[str, dict[TopicPartition, int]]] = []
        for directory in self.directories:
            if directory.error is not None:
                continue
            logs = {p: log for p, log in self.logs.items() if self._homes[p] is directory and log.segments}
            points, starts = directory.recovery_points, directory.starts
            for partition, log in logs.items():
                points[partition] = log.recovery_point
                if log.log_start_offset > log.segments[0].base_offset:
                    starts[partition] = log.log_start_offset
                else:
                    starts.pop(partition, None)
            files.append((f"{directory.path}/{checkpoints.RECOVERY_POINT}", dict(points)))
            files.append((f"{directory.path}/{checkpoints.LOG_START_OFFSET}", dict(starts)))
            if high_watermarks is not None:
                here = {p: offset for p, offset in high_watermarks.items() if p in logs}
                files.append((f"{directory.path}/{checkpoints.HIGH_WATERMARK}", here))

        def write() -> None:
            for path, offsets in files:
                checkpoints.write_offsets(self._disk, path, offsets, sync=self._fsync)

        return write

    def cleaner_checkpoint_job(self) -> Callable[[], None]:
        """``cleaner-offset-checkpoint`` as of now, to be written in a worker. That raises ``OSError``."""
        for partition, log in self.logs.items():
            if log.clean_end_offset is not None:
                self._homes[partition].cleaned[partition] = log.clean_end_offset
        live = [directory for directory in self.directories if directory.error is None]
        files = [(f"{directory.path}/{checkpoints.CLEANER}", dict(directory.cleaned)) for directory in live]

        def write() -> None:
            for path, offsets in files:
                checkpoints.write_offsets(self._disk, path, offsets, sync=self._fsync)

        return write

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """What ``replication-offset-checkpoint`` says in all directories."""
        result: dict[TopicPartition, int] = {}
        for directory in self.directories:
            if directory.error is None:
                result.update(self._read_offsets(directory, checkpoints.HIGH_WATERMARK))
        return result

    # -- end

    def close(
        self, *, broker_epoch: int = -1, high_watermarks: Mapping[TopicPartition, int] | None = None, clean: bool = True
    ) -> None:
        """Complete and sync every log, write checkpoints and clean-shutdown markers, unlock. Blocks.

        A directory with a log that failed gets no marker: the next start recovers it. ``clean=False`` only lets go.
        """
        unclean = {directory.path for directory in self.directories if directory.spoilt}
        for partition, log in self.logs.items():
            try:
                if clean:
                    self._close_log(log)
                else:
                    log.release()
            except LogOfflineError:
                unclean.add(self._homes[partition].path)
        if clean:
            try:
                self.checkpoint_job(high_watermarks)()
            except OSError as error:
                logger.error("The checkpoints were not written: %s", error)
                unclean |= {directory.path for directory in self.directories}
        for directory in self.directories:
            if clean and directory.error is None and directory.path not in unclean:
                self._write_clean_marker(directory, broker_epoch)
            if directory.lock is not None:
                directory.lock.close()
                directory.lock = None

    def _close_log(self, log: Log) -> None:
        log.close()
        if self._fsync and log.segments:
            log.mark_flushed(log.sync(), self._host.clock.wall_ms())
        log.release()
        if log.offline_error is not None:
            raise log.offline_error

    def _write_clean_marker(self, directory: DataDirectory, broker_epoch: int) -> None:
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
        try:
            self._disk.write_atomically(f"{directory.path}/{CLEAN_SHUTDOWN}", content, sync=self._fsync)
        except OSError as error:
            logger.error("%s gets no clean-shutdown marker: %s", directory.path, error)
