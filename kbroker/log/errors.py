"""What can go wrong with a log, beyond the codes that a client's request earns."""

from __future__ import annotations

import errno

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.types import TopicPartition

_REFUSALS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM})


def is_refusal(error: OSError) -> bool:
    """Whether the disk has no room or may not be written: nothing was done, what it holds is as good as before."""
    return error.errno in _REFUSALS


DISK_FULL_PAUSE_MS = 1000
"""How long whoever works by itself waits before it tries again what a disk has refused."""


class DiskFullError(ApiError):
    """What was asked for finds no room on the disk, or may not write there: it can be tried again when that changes."""

    def __init__(self, partition: TopicPartition, error: OSError) -> None:
        message = f"{error.strerror}: let the disk of {partition} be written, or free space on it, and try again"
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class LogOfflineError(ApiError):
    """The log failed (an I/O error, a corrupt file) and serves nobody until it has been recovered."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class CorruptFileError(Exception):
    """A file holds what its format forbids. Says which file, at which position, and what is wrong there."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} is corrupt at byte {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason

    def __reduce__(self) -> tuple[type[CorruptFileError], tuple[str, int, str]]:
        return type(self), (self.path, self.position, self.reason)


class CutBatchError(CorruptFileError):
    """A file ends inside a batch: how a write looks that was never finished."""


class OffsetOverflowError(Exception):
    """A segment holds offsets that its indexes cannot name (Kafka's ``LogSegmentOffsetOverflowException``)."""

    def __init__(self, base_offset: int) -> None:
        super().__init__(f"the segment at offset {base_offset} holds offsets too far from it")
        self.base_offset = base_offset


class InconsistentDirectoryError(Exception):
    """A data directory belongs to another node or cluster, or is in use. The message is one line for a person."""


class UnexpectedOffsetError(Exception):
    """A follower was handed batches that do not continue its log (Kafka's ``UnexpectedAppendOffsetException``)."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset
