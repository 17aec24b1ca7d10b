"""Putting a cleaned segment in the place of those it was made of, while the log is being read and written.

The steps, and what a start does after a crash between them, are told in ``cleaned_segment``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from kbroker.log.cleaned_segment import name_swap, remove_cleaned
from kbroker.log.log import Log
from kbroker.log.segments import Discarded


class CleaningAbortedError(Exception):
    """The log was cut, deleted or failed while it was being cleaned, or is not to be: what was done is dropped."""


def check_unchanged(log: Log, truncations: int) -> None:
    """Raises ``CleaningAbortedError`` when ``log`` is no more what it was when it had been cut so many times.

    Or when its topic is not compacted any more.
    """
    if not log.config.compact:
        raise CleaningAbortedError(f"the log of {log.partition} is not to be compacted any more")
    if log.offline_error is not None or log.truncations != truncations:
        raise CleaningAbortedError(f"the log of {log.partition} has changed")


def swap_in(
    log: Log, base_offsets: tuple[int, ...], truncations: int, discard: Callable[[Discarded], None]
) -> Iterator[Callable[[], None]]:
    """Put the cleaned segment in the place of those that begin at ``base_offsets``.

    Between two steps on the loop; each step, blocking work, in a worker. ``discard`` takes the old segments once their
    files are renamed. Raises ``CleaningAbortedError`` with the log as it was, ``OSError``, and ``LogOfflineError``.
    """
    disk = log.disk
    try:
        check_unchanged(log, truncations)
        yield partial(name_swap, disk, log.directory, base_offsets[0])
        check_unchanged(log, truncations)
    except BaseException:
        if log.offline_error is None:
            with suppress(OSError):  # the next start removes it
                remove_cleaned(disk, log.directory, base_offsets[0])
        raise
    discarded = log.swap_in(base_offsets)
    yield partial(log.rename, discarded)
    log.finish_swap(base_offsets[0])
    discard(discarded)
    yield partial(disk.sync_dir, log.directory)
