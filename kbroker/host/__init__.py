"""The outside world, passed in: clocks and timers, disk, randomness, slow work.

Everything that could make two runs with the same seed differ comes through a ``Host``. The real implementations are
``kbroker.host.real``; the simulation brings its own. The network comes through the event loop itself
(``loop.create_server``), which the simulation also replaces.

Two clocks are kept apart: ``wall_ms`` stamps records and decides retention; ``monotonic_ms`` drives sessions, time-outs
and elections, so that a laptop that slept does not expire everybody.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Buffer = bytes | bytearray | memoryview


class Timer(Protocol):
    """A callback that has not fired yet."""

    def cancel(self) -> None:
        """Forget the callback; harmless when it has fired or was cancelled."""


class Clock(Protocol):
    """Both clocks and all timers of one broker. Every timer of the broker is set here, never on the event loop."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as the machine believes: may jump."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some moment: never falls, never jumps."""

    def call_later(self, delay_ms: float, callback: Callable[..., None], *arguments: object) -> Timer:
        """Call back on the owner's loop after ``delay_ms`` of monotonic time."""


class File(Protocol):
    """An open file, usable until closed; the descriptor behind it may come and go (a bounded cache).

    It stays the same file when it, or the directory it lies in, is renamed or removed. Its operations may run in a
    worker thread; who closes it while one runs is at fault.
    """

    path: str

    def size(self) -> int: ...

    def pread(self, size: int, position: int) -> bytes:
        """At most ``size`` bytes from ``position``; fewer only at the end of the file."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of ``data`` at ``position``. Raises ``OSError`` (a part may have been written)."""

    def truncate(self, size: int) -> None: ...

    def reserve(self, size: int) -> None:
        """Ask for room up to ``size`` without changing the file's size; does nothing where that cannot be had."""

    def sync(self) -> None:
        """Return when everything written is on stable storage. Safe to call from a worker thread."""

    def sync_together(self, directories: Sequence[str]) -> bool:
        """Make durable what lies directly in the directories, and their names, in one go; whether that was done.

        False when it cannot be had for the file system of this file, a directory lies on another one, it might take
        longer than syncing file by file, or anything on it could not be written since this file was opened: then
        ``sync`` and ``sync_dir`` are to be called one by one, and will tell what it was. Blocks.
        """

    def close(self) -> None: ...


class Disk(Protocol):
    """Directories and files by path (plain strings)."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing. Raises ``FileNotFoundError`` unless ``create``."""

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def list_dir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def make_dirs(self, path: str) -> None:
        """Make the directory and its parents; no error when it exists."""

    def read(self, path: str) -> bytes:
        """The whole of a (small) file. Raises ``FileNotFoundError``."""

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replace a (small) file: readers see the old or the new content, after a crash too when ``sync``."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing a file that is in the way."""

    def remove(self, path: str) -> None:
        """Remove a file; no error when it is absent."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and what is in it; no error when it is absent."""

    def absolute(self, path: str) -> str:
        """The path from the root, as others are told it."""

    def space(self, path: str) -> tuple[int, int]:
        """Total and usable bytes of the disk that holds a directory. Raises ``OSError``."""

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable (a no-op where directories cannot be synced)."""

    def lock(self, path: str) -> File | None:
        """Take an exclusive lock on a file, made if needed; None when another holds it. Closing the file lets go."""


class Steps(Protocol[T_co]):
    """A generator that runs apart from the loop, from one ``yield`` to the next when asked. One call at a time."""

    def next(self) -> Awaitable[T_co | None]:
        """Let it run to its next ``yield``; what that yields, or None at the end. Raises what it raises."""

    def close(self) -> Awaitable[None]:
        """Close the generator: its ``finally`` blocks have run when this is over. Harmless at its end."""


class Apart(Protocol):
    """A place for computations that take seconds: the loop goes on beside them. Owned by whoever asked for it."""

    def run(self, make: Callable[[], Generator[T, None, None]]) -> Steps[T]:
        """The steps of a generator, once those before are through or closed.

        ``make``, what is yielded and what is raised must be picklable: it may be another process.
        """

    def close(self) -> Awaitable[None]:
        """Let the place go. Harmless when nothing was run."""


class LostWorkerError(Exception):
    """The process that computed has ended in the middle of it."""


class Workers(Protocol):
    """Slow work that must not hold the event loop: what blocks (fsync), and what computes for long."""

    def run(self, work: Callable[[], T]) -> Awaitable[T]:
        """Run in a worker; the result (or exception) arrives on the owner's loop."""

    def apart(self) -> Apart:
        """A place for long computations, made when the first comes."""

    def close(self) -> None:
        """Wait for what runs and let the workers go; the broker's last act. Harmless when none were started."""


@dataclass(frozen=True, slots=True)
class Host:
    """What one broker gets of the outside world."""

    clock: Clock
    disk: Disk
    random: Random
    workers: Workers
