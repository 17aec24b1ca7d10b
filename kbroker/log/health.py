"""Whether a log can be trusted: what happens when one of its operations fails.

A failed operation takes the log offline until it is opened anew, and its data directory with it (KIP-112): the owner
of the directory is told. A file that is corrupt takes only the log offline where it is to be changed; who reads there
is told so, and the rest of the log is served, as by Kafka. A disk that is full, or may not be written, spoils nothing:
what needed that is refused, and can be tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NoReturn, TypeVar

from kbroker.log.errors import CorruptFileError, DiskFullError, LogOfflineError, is_refusal
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.types import TopicPartition

logger = logging.getLogger(__name__)

T = TypeVar("T")


def _nobody(_error: Exception) -> None:
    """A log that stands alone, in no data directory that could fail."""


class Health:
    """Owned by its ``Log``. ``on_io_error`` is told of a failed operation once, perhaps in a worker thread."""

    __slots__ = ("_known", "_on_io_error", "_partition", "offline")

    def __init__(self, partition: TopicPartition, on_io_error: Callable[[Exception], None] | None) -> None:
        self._partition = partition
        self._on_io_error = on_io_error or _nobody
        self.offline: LogOfflineError | None = None
        """Why the log is offline; None while it is not."""
        self._known: set[str] = set()
        """What of its files is known to be corrupt: each is told once, however often it is read."""

    def take_offline(self, error: Exception) -> bool:
        """Serve nobody from now on; whether that is new."""
        if self.offline is not None:
            return False
        self.offline = LogOfflineError(f"the log of {self._partition} is offline: {error}")
        return True

    def fail(self, error: Exception) -> NoReturn:
        """Take the log offline, and its data directory with it if that failed. Raises ``LogOfflineError``."""
        if self.take_offline(error):
            logger.error("The log of %s goes offline: %s", self._partition, error)
            if isinstance(error, OSError):
                self._on_io_error(error)
        assert self.offline is not None
        raise self.offline from error

    def refuse(self, error: OSError) -> NoReturn:
        """Refuse what finds no room on the disk or may not write there, ``fail`` otherwise. Raises ``ApiError``."""
        if is_refusal(error):
            raise DiskFullError(self._partition, error) from error
        self.fail(error)

    def attempt(self, action: Callable[[], T]) -> T:
        """Do what needs room on the disk, and can be tried again when there is none. Raises ``ApiError``."""
        if self.offline is not None:
            raise self.offline
        try:
            return action()
        except OSError as error:
            self.refuse(error)

    def guarded(self, action: Callable[[], T]) -> T:
        """Do what touches files; a failure takes the log offline. Raises ``LogOfflineError``."""
        if self.offline is not None:
            raise self.offline
        try:
            return action()
        except (OSError, CorruptFileError) as error:
            self.fail(error)

    def reading(self, action: Callable[[], T]) -> T:
        """Look something up. What is corrupt is so for the reader alone. Raises ``ApiError``."""
        if self.offline is not None:
            raise self.offline
        try:
            return action()
        except OSError as error:
            self.fail(error)
        except CorruptFileError as error:
            self.refuse_to_read(error)

    def refuse_to_read(self, error: CorruptFileError) -> NoReturn:
        """Raises ``ApiError``."""
        reason = str(error)
        if reason not in self._known:
            self._known.add(reason)
            logger.error("Part of the log of %s cannot be read: %s", self._partition, reason)
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, reason) from error
