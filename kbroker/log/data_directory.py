"""One of ``log.dirs``, or ``metadata.log.dir`` apart from them: whose it is, how the last broker left it, what its
checkpoints say and what lies in it.

The directory of a partition's log is ``<topic>-<partition>``; ``-future`` ones are on their way into this data
directory, ``-delete`` ones on their way out (``log.paths``). What is done with them is ``log.manager``'s business.
"""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kbroker.host import Disk, File
from kbroker.log import checkpoints, meta_properties
from kbroker.log.errors import CorruptFileError, InconsistentDirectoryError, LogOfflineError
from kbroker.log.meta_properties import MetaProperties
from kbroker.log.paths import directory_name, parse_directory
from kbroker.types import TopicPartition, Uuid

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"


class FoundLog(NamedTuple):
    """A directory of a partition's log, and of which kind it is: None, or as its name ends."""

    partition: TopicPartition
    kind: str | None
    path: str


class DataDirectory:
    """Owned by ``LogManager``.

    ``clean`` says how the last broker left it, ``spoilt`` that a log in it failed to load: no clean marker then.
    ``error`` says why it is offline. ``replica_count`` is what placement goes by: logs here and those to be made here.
    """

    __slots__ = (
        "clean",
        "cleaned",
        "error",
        "high_watermarks",
        "lock",
        "path",
        "previous_broker_epoch",
        "properties",
        "recovery_points",
        "replica_count",
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
        self.replica_count = 0
        self.recovery_points: dict[TopicPartition, int] = {}
        self.starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        """What the last run knew to be committed."""
        self.cleaned: dict[TopicPartition, int] = {}
        """Up to where each compacted log is clean."""

    @property
    def id(self) -> Uuid | None:
        """None when it was never read, or formatted by an old Kafka."""
        return None if self.properties is None else self.properties.directory_id

    def path_of(self, partition: TopicPartition) -> str:
        return f"{self.path}/{directory_name(partition)}"

    def check(self) -> None:
        """Raises ``LogOfflineError`` when it is offline."""
        if self.error is not None:
            raise LogOfflineError(f"the data directory {self.path} is offline: {self.error}")

    def open(self, disk: Disk, node_id: int, cluster_id: str | None) -> None:
        """Lock and read it, made if it does not exist.

        Raises ``InconsistentDirectoryError`` when it is in use or another's, ``OSError`` when it cannot be read.
        """
        if disk.exists(self.path) and not disk.is_dir(self.path):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", self.path)
        disk.make_dirs(self.path)
        self.lock = disk.lock(f"{self.path}/{LOCK}")
        if self.lock is None:
            raise InconsistentDirectoryError(
                f"data directory {self.path} is in use by another process: stop that broker, or give another directory"
            )
        self.properties = meta_properties.read(disk, self.path)
        if self.properties is not None:
            meta_properties.check_owner(self.path, self.properties, cluster_id, node_id)
        self._take_clean_marker(disk)
        self.recovery_points = self._read_offsets(disk, checkpoints.RECOVERY_POINT)
        self.starts = self._read_offsets(disk, checkpoints.LOG_START_OFFSET)
        self.high_watermarks = self._read_offsets(disk, checkpoints.HIGH_WATERMARK)
        self.cleaned = self._read_offsets(disk, checkpoints.CLEANER)

    def format(self, disk: Disk, cluster_id: str, node_id: int, new_id: Uuid, *, sync: bool) -> None:
        """Write ``meta.properties``. Raises ``OSError``."""
        self.properties = MetaProperties(cluster_id, node_id, new_id)
        meta_properties.write(disk, self.path, self.properties, sync=sync)

    def _take_clean_marker(self, disk: Disk) -> None:
        """Taken away at once: a crash while loading must not look like a clean stop."""
        marker = f"{self.path}/{CLEAN_SHUTDOWN}"
        if disk.exists(marker):
            self.clean = True
            try:
                self.previous_broker_epoch = int(json.loads(disk.read(marker))["brokerEpoch"])
            except (ValueError, KeyError, TypeError):
                self.previous_broker_epoch = -1
            disk.remove(marker)

    def _read_offsets(self, disk: Disk, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(disk, f"{self.path}/{name}")
        except CorruptFileError as error:
            logger.warning("%s: read as empty", error)
            return {}

    def logs(self, disk: Disk) -> Iterator[FoundLog]:
        """The directories of partitions that lie in it. Raises ``OSError``."""
        for name in disk.list_dir(self.path):
            path = f"{self.path}/{name}"
            parsed = parse_directory(name)
            if parsed is not None and disk.is_dir(path):
                yield FoundLog(*parsed, path)

    def forget(self, partition: TopicPartition) -> None:
        """Its log is here no more: the next checkpoints say nothing of it."""
        for offsets in (self.recovery_points, self.starts, self.high_watermarks, self.cleaned):
            offsets.pop(partition, None)

    def write_clean_marker(self, disk: Disk, broker_epoch: int, *, sync: bool) -> None:
        """Raises ``OSError``."""
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
        disk.write_atomically(f"{self.path}/{CLEAN_SHUTDOWN}", content, sync=sync)

    def sync_together(self, directories: Sequence[str]) -> bool:
        """Make directories of logs in it durable in one go; whether that was done (``File.sync_together``).

        The lock is the file that has been open since the start: what could not be written since then is noticed.
        """
        return self.lock is not None and self.lock.sync_together(directories)

    def unlock(self) -> None:
        if self.lock is not None:
            self.lock.close()
            self.lock = None
