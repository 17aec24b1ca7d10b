"""The partitions' directories that the last broker left behind, until their partitions ask for them.

A partition has one log and, while it moves to another data directory, its future there. A crash, or a data directory
that failed and came back, can leave more: where the cluster knows the replica to be decides.

============================================  =========================================================================
one log                                       taken
a log in each of two data directories         a move ended, the old log was not removed: that of the assigned directory
                                              is taken, the other removed; with neither assigned, nobody can know
a future beside a log                         the move goes on
a future without a log, in the assigned       the move was about to end: the future is the log
directory
a future without a log, elsewhere             set aside
another topic's                               set aside
its topic cannot be read                      it is offline; if it was never synced it is taken: what says its topic
                                              was torn
============================================  =========================================================================

Follows Kafka's ``LogManager.loadLog`` and ``recoverAbandonedFutureLogs``, which throws away the log in the third case
if the future is in the assigned directory: here the future first gets what it lacks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import NamedTuple

from kbroker.host import Disk
from kbroker.log import partition_metadata
from kbroker.log.data_directory import DataDirectory, FoundLog
from kbroker.log.errors import CorruptFileError, LogOfflineError
from kbroker.log.paths import DELETE_DIRECTORY, FUTURE_DIRECTORY, STRAY_DIRECTORY, moved_directory_name
from kbroker.types import METADATA_TOPIC, TopicPartition, Uuid

logger = logging.getLogger(__name__)


class LeftLog(NamedTuple):
    """A log, or the future of one, on the disk."""

    directory: DataDirectory
    path: str


class LeftLogs:
    """Owned by ``LogManager``. ``remove_later`` takes a directory that nobody needs any more, and where it lies."""

    def __init__(
        self, disk: Disk, unique: Callable[[], str], remove_later: Callable[[DataDirectory, str], None]
    ) -> None:
        self._disk = disk
        self._unique = unique
        self._remove_later = remove_later
        self._logs: dict[TopicPartition, list[LeftLog]] = {}
        self._futures: dict[TopicPartition, list[LeftLog]] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._logs or partition in self._futures

    def add(self, directory: DataDirectory, found: FoundLog) -> None:
        kept = self._futures if found.kind == FUTURE_DIRECTORY else self._logs
        kept.setdefault(found.partition, []).append(LeftLog(directory, found.path))
        directory.replica_count += found.kind is None

    def directory_of(self, partition: TopicPartition) -> DataDirectory | None:
        """The data directory of its log, for those who ask before it is claimed."""
        left = self._logs.get(partition)
        return left[0].directory if left else None

    def claim(
        self, partition: TopicPartition, topic_id: Uuid, assigned: Uuid | None
    ) -> tuple[LeftLog | None, LeftLog | None]:
        """The log and the future that the partition goes on with; what it does not is renamed and removed, or kept.

        Raises ``LogOfflineError`` when it has two logs and nothing says which is the right one, and ``OSError``.
        """
        logs = self._of_topic(self._logs.pop(partition, []), partition, topic_id)
        futures = self._of_topic(self._futures.pop(partition, []), partition, topic_id, are_spare=bool(logs))
        log = self._assigned(logs, assigned) if len(logs) > 1 else next(iter(logs), None)
        if log is None and logs:
            self._logs[partition] = logs
            raise LogOfflineError(f"{partition} is in both {logs[0].path} and {logs[1].path}: remove one of them")
        for other in logs:
            if other is not log:
                self._discard(partition, other, "the log has moved")
        future = self._assigned(futures, assigned) or next(iter(futures), None)
        for other in futures:
            if other is not future:
                self._discard(partition, other, "the log moves elsewhere")
        if log is None and future is not None:
            return self._without_log(partition, future, assigned), None
        if log is not None and future is not None and log.directory is future.directory:
            self._discard(partition, future, "the log is here already")
            future = None
        return log, future

    @staticmethod
    def _assigned(left: list[LeftLog], assigned: Uuid | None) -> LeftLog | None:
        return next((each for each in left if each.directory.id is not None and each.directory.id == assigned), None)

    def _without_log(self, partition: TopicPartition, future: LeftLog, assigned: Uuid | None) -> LeftLog | None:
        if future.directory.id is None or future.directory.id != assigned:
            self._set_aside(partition, future)
            return None
        path = future.directory.path_of(partition)
        self._disk.rename(future.path, path)
        future.directory.replica_count += 1
        logger.info("%s was about to move to %s: the move has ended", partition, future.directory.path)
        return LeftLog(future.directory, path)

    def _of_topic(
        self, left: list[LeftLog], partition: TopicPartition, topic_id: Uuid, *, are_spare: bool = False
    ) -> list[LeftLog]:
        own = []
        for each in left:
            try:
                written = partition_metadata.read(self._disk, each.path)
            except CorruptFileError as error:
                if are_spare:
                    self._discard(partition, each, str(error))
                    continue
                if each.directory.clean or each.directory.recovery_points.get(partition):
                    kept = self._futures if each.path != each.directory.path_of(partition) else self._logs
                    kept[partition] = left
                    raise LogOfflineError(f"{error}; restore it, or remove it if the log is this topic's") from error
                logger.warning("%s: it was never synced, and is written anew", error)
                partition_metadata.write(self._disk, each.path, topic_id)
                written = topic_id
            if written is not None and written != topic_id:
                self._set_aside(partition, each)
            else:
                own.append(each)
        return own

    def set_aside_all(self, but: Collection[TopicPartition]) -> list[str]:
        """What no partition has asked for is kept under another name; the new paths."""
        moved = []
        for kept in (self._logs, self._futures):
            for partition in [each for each in kept if each.topic != METADATA_TOPIC and each not in but]:
                moved += [self._set_aside(partition, each) for each in kept.pop(partition)]
        return moved

    def _set_aside(self, partition: TopicPartition, left: LeftLog) -> str:
        moved = self._rename(partition, left, STRAY_DIRECTORY)
        logger.warning("%s belongs to no topic of this cluster: it is kept as %s", left.path, moved)
        return moved

    def _discard(self, partition: TopicPartition, left: LeftLog, reason: str) -> None:
        logger.warning("%s is removed: %s", left.path, reason)
        self._remove_later(left.directory, self._rename(partition, left, DELETE_DIRECTORY))

    def _rename(self, partition: TopicPartition, left: LeftLog, kind: str) -> str:
        moved = f"{left.directory.path}/{moved_directory_name(partition, self._unique(), kind)}"
        self._disk.rename(left.path, moved)
        if left.path == left.directory.path_of(partition):
            left.directory.replica_count -= 1
        left.directory.forget(partition)
        return moved
