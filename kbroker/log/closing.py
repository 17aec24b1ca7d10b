"""The logs of a data directory as a clean stop leaves them: complete, and on stable storage.

Synced file by file each of them takes some eight fsyncs, and a thousand take seconds. So what they have to write is
written first, then all of it is synced in one go where the disk can do that (``File.sync_together``). Leader epochs are
staged beside the old ones, which they replace only when they are durable: so there is a second go for the new names.
Only after all this the owner writes the clean-shutdown marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from kbroker.log.data_directory import DataDirectory
from kbroker.log.log import Log
from kbroker.protocol.errors import ApiError


def close_logs(directory: DataDirectory, logs: Sequence[Log], now_ms: int, *, fsync: bool) -> bool:
    """Complete, sync and release the logs of a data directory; whether all of them are complete and durable. Blocks."""
    complete = _those_that(Log.close, logs)
    if fsync:
        complete = _sync(directory, complete, now_ms)
    released = release_logs(logs)
    return len(complete) == len(released) == len(logs) and all(log.offline_error is None for log in logs)


def release_logs(logs: Iterable[Log]) -> list[Log]:
    """Let go of the files as they are; those of which that went well."""
    return _those_that(Log.release, logs)


def _sync(directory: DataDirectory, logs: Sequence[Log], now_ms: int) -> list[Log]:
    """Those that are durable now."""
    unsynced = [log for log in logs if not log.durability.is_complete]
    if unsynced:
        _sync_together(directory, unsynced)
    return _those_that(lambda log: log.mark_flushed(log.sync(), now_ms), logs)  # those that are durable cost nothing


def _sync_together(directory: DataDirectory, logs: Sequence[Log]) -> None:
    staged = _those_that(lambda log: log.durability.stage_epochs(), logs)
    if not directory.sync_together([log.directory for log in staged]):
        return
    for log in staged:
        log.durability.mark_synced()
    placed = _those_that(lambda log: log.durability.place_epochs(), staged)
    renamed = [log for log in placed if log.durability.is_new]
    if renamed and directory.sync_together([log.directory for log in renamed]):
        for log in renamed:
            log.durability.mark_synced()


def _those_that(action: Callable[[Log], object], logs: Iterable[Log]) -> list[Log]:
    """The logs for which ``action`` went well."""
    done = []
    for log in logs:
        with suppress(ApiError):
            action(log)
            done.append(log)
    return done
