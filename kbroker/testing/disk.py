"""A disk that fails on request: errors, slowness, no room, and the loss of what was not synced.

``FaultyDisk`` is the real disk with a question before each operation. A process that is killed loses its disk
(``die``): its descriptors are closed, its locks are free, and whatever it still tries fails.

Invariant: with ``lose_unsynced`` each file that was opened ends no longer than it was at its last sync.
"""

from __future__ import annotations

import errno
import os
import time
import weakref
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch

from kbroker.host import Buffer
from kbroker.host.disk import RealDisk, RealFile

OPERATIONS = ("read", "write", "sync", "open")


class DiskRule:
    """What happens to an operation on the files that ``path`` (a pattern over whole paths) names."""

    def __init__(
        self, operations: tuple[str, ...], path: str, code: int, delay_ms: float, after: int, times: int | None
    ) -> None:
        self.operations = operations
        self.path = path
        self.code = code
        self.delay_ms = delay_ms
        self.is_optional = False
        self.fired = 0
        self._after = after
        """Operations that are still to go well."""
        self._times = times

    def __str__(self) -> str:
        what = errno.errorcode[self.code] if self.code else f"{self.delay_ms:g} ms"
        return f"disk {what} ({', '.join(self.operations)} of {self.path})"

    @property
    def count(self) -> str:
        """How often it has happened, for people."""
        return f"fired {self.fired} times"

    def applies(self, operation: str, path: str) -> bool:
        """Count an operation; whether the fault happens to it."""
        if operation not in self.operations or not fnmatch(path, self.path):
            return False
        if self._after > 0:
            self._after -= 1
            return False
        if self._times is not None and self.fired >= self._times:
            return False
        self.fired += 1
        return True

    def end(self) -> None:
        """It happens no more."""
        self._times = 0


class FaultyFile(RealFile):
    """A file of a ``FaultyDisk``."""

    __slots__ = ("__weakref__", "_asked", "synced_size")

    def __init__(self, disk: FaultyDisk, path: str, descriptor: int) -> None:
        super().__init__(disk, path, descriptor)
        self._asked = disk
        self.synced_size = os.fstat(descriptor).st_size
        disk.opened.add(self)

    def pread(self, size: int, position: int) -> bytes:
        if self._asked.rules:
            self._asked.ask("read", self.path)
        return super().pread(size, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        if self._asked.rules:
            self._asked.ask("write", self.path)
        super().pwrite(data, position)

    def sync(self) -> None:
        if self._asked.rules:
            self._asked.ask("sync", self.path)
        size = self.size()
        super().sync()
        self.synced_size = size

    def sync_together(self, directories: Sequence[str]) -> bool:  # noqa: ARG002 - the disk's signature
        """Never: each file is asked about."""
        return False

    def truncate(self, size: int) -> None:
        super().truncate(size)
        self.synced_size = min(self.synced_size, size)


class FaultyDisk(RealDisk):
    """One process's disk. Owner: the engine. ``rules`` is the list of the fault book, for all disks."""

    file_class = FaultyFile

    def __init__(self, descriptors_max: int, rules: list[DiskRule]) -> None:
        super().__init__(descriptors_max)
        self.rules = rules
        self.opened: weakref.WeakSet[FaultyFile] = weakref.WeakSet()
        self.is_dead = False

    def ask(self, operation: str, path: str) -> None:
        """Raise or wait, if a rule says so."""
        for rule in self.rules:
            if rule.applies(operation, path):
                if rule.delay_ms:
                    time.sleep(rule.delay_ms / 1000)
                if rule.code:
                    raise OSError(rule.code, os.strerror(rule.code), path)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        self._check_alive(path)
        if self.rules:
            self.ask("open", path)
        return super().open(path, create=create)

    def reopen(self, file: RealFile) -> int:
        self._check_alive(file.path)
        return super().reopen(file)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._check_alive(path)
        if self.rules:
            self.ask("write", path)
        super().write_atomically(path, data, sync=sync)

    def remove_tree(self, path: str) -> None:
        self._check_alive(path)
        super().remove_tree(path)

    def _check_alive(self, path: str) -> None:
        if self.is_dead:
            raise OSError(errno.EIO, "the broker was killed", path)

    def die(self, *, lose_unsynced: bool = False) -> None:
        """The process is gone: nothing more is written, every descriptor closes, every lock is free."""
        self.is_dead = True
        for file in sorted(self.opened, key=lambda each: each.path):
            if lose_unsynced:
                _cut(file)
            file.close()

    def descriptors(self) -> Iterator[int]:
        """What is open now."""
        return (file.descriptor for file in list(self.opened) if file.descriptor >= 0)


def _cut(file: FaultyFile) -> None:
    try:
        if not file.closed and os.path.getsize(file.path) > file.synced_size:
            os.truncate(file.path, file.synced_size)
    except FileNotFoundError:
        pass
