"""The real disk: files by path, their descriptors in a bounded cache.

A ``RealFile`` outlives its descriptor. At most ``descriptors_max`` descriptors are open at a time (pinned ones apart);
when one more is needed, the cache takes one from a file that was not used lately (second chance: the cheap
approximation of least-recently-used, one attribute store per access instead of a list move). The next access opens the
file again by its path. Renames and removals made through the same ``RealDisk`` are followed, so a file that is open
means the same bytes whatever happens to its name, as POSIX promises for a descriptor.

Threads: every operation of a ``RealFile`` may run in a worker thread. An access first pins the file, then looks at its
descriptor; the cache first takes the descriptor away, then looks for pins, and gives it back when it finds one. So
either the access sees that the descriptor is gone, or the cache sees the pin: a descriptor is never closed under an
access. Appending to and popping from a list are the pins because both are atomic. Everything that opens, takes or
closes descriptors holds the disk's lock; an access to a file that has its descriptor takes no lock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from kbroker.host import Buffer
from kbroker.host.file_system import sync_file_system

T = TypeVar("T")

_OPEN_FLAGS = os.O_RDWR | os.O_CLOEXEC
_FALLOC_FL_KEEP_SIZE = 1
_DARWIN = sys.platform == "darwin"

DESCRIPTORS_APART = 16

_OTHERS_SIZE = 1024 * 1024
"""What a disk writes in the time that the fsyncs of one directory's files take: if more than this for each waits to be
written, syncing them one by one is sooner than waiting for all."""


class RealFile:
    """One open file of a ``RealDisk``, which alone changes ``descriptor``, ``closed`` and ``path``.

    Invariant: ``descriptor`` is -1 or open, and files with a descriptor are in the disk's ring, locks and removed files
    apart: theirs could not be had again.
    """

    __slots__ = ("_disk", "closed", "descriptor", "path", "pins", "used")

    def __init__(self, disk: RealDisk, path: str, descriptor: int) -> None:
        self.path = path
        self._disk = disk
        self.descriptor = descriptor
        self.pins: list[None] = []
        self.used = False  # a first access earns the second chance
        self.closed = False

    def size(self) -> int:
        pins = self.pins
        pins.append(None)
        try:
            descriptor = self.descriptor
            return os.fstat(descriptor if descriptor >= 0 else self._disk.reopen(self)).st_size
        finally:
            pins.pop()

    def pread(self, size: int, position: int) -> bytes:
        pins = self.pins
        pins.append(None)
        try:
            descriptor = self.descriptor
            if descriptor < 0:
                descriptor = self._disk.reopen(self)
            self.used = True
            data = os.pread(descriptor, size, position)
            if len(data) == size:
                return data
            return _read_rest(descriptor, data, size, position)
        finally:
            pins.pop()

    def pwrite(self, data: Buffer, position: int) -> None:
        pins = self.pins
        pins.append(None)
        try:
            descriptor = self.descriptor
            if descriptor < 0:
                descriptor = self._disk.reopen(self)
            self.used = True
            written = os.pwrite(descriptor, data, position)
            if written != len(data):
                _write_rest(descriptor, data, written, position)
        finally:
            pins.pop()

    def truncate(self, size: int) -> None:
        self._with_descriptor(lambda descriptor: os.ftruncate(descriptor, size))

    def reserve(self, size: int) -> None:
        self._with_descriptor(lambda descriptor: _reserve(descriptor, size))

    def sync(self) -> None:
        self._with_descriptor(_sync)

    def sync_together(self, directories: Sequence[str]) -> bool:
        try:
            device = os.stat(self.path).st_dev
            if any(os.stat(directory).st_dev != device for directory in directories):
                return False
        except OSError:
            return False
        others_size_max = len(directories) * _OTHERS_SIZE
        return self._with_descriptor(lambda descriptor: sync_file_system(descriptor, others_size_max))

    def close(self) -> None:
        self._disk.close(self)

    def _with_descriptor(self, operation: Callable[[int], T]) -> T:
        self.pins.append(None)
        try:
            descriptor = self.descriptor
            return operation(descriptor if descriptor >= 0 else self._disk.reopen(self))
        finally:
            self.pins.pop()
            if self.closed:
                self._disk.close_doomed()


class RealDisk:
    """The file system, with at most ``descriptors_max`` descriptors in its cache.

    A subclass may say what its files are (``file_class``): that is how tests make a disk fail.
    """

    file_class: type[RealFile] = RealFile

    def __init__(self, descriptors_max: int = 128) -> None:
        if descriptors_max < 1:
            raise ValueError(f"descriptors_max is {descriptors_max}: at least 1 is needed")
        self.descriptors_max = descriptors_max
        self._ring: OrderedDict[RealFile, None] = OrderedDict()
        self._open: dict[str, dict[str, list[RealFile]]] = {}  # directory -> path in it -> open files
        self._doomed: list[tuple[RealFile, int]] = []  # closed while an access was under way in another thread
        self._mutex = threading.RLock()

    def __reduce__(self) -> tuple[type[RealDisk], tuple[int]]:
        """In another process: the same file system with a cache of its own, for the few files of one computation."""
        return type(self), (DESCRIPTORS_APART,)

    @property
    def descriptor_count(self) -> int:
        """How many descriptors the cache holds now."""
        return len(self._ring)

    def open(self, path: str, *, create: bool = False) -> RealFile:
        with self._mutex:
            self._make_room()
            file = self.file_class(self, path, os.open(path, _OPEN_FLAGS | (os.O_CREAT if create else 0), 0o644))
            self._ring[file] = None
            self._register(file)
        return file

    def reopen(self, file: RealFile) -> int:
        """Give a pinned file its descriptor again. For ``RealFile`` only."""
        with self._mutex:
            if file.closed:
                raise OSError(errno.EBADF, "the file was closed", file.path)
            if file.descriptor < 0:
                self._make_room()
                file.descriptor = os.open(file.path, _OPEN_FLAGS)
                self._ring[file] = None
            return file.descriptor

    def close(self, file: RealFile) -> None:
        """Close a file; harmless when it is closed. An access under way in another thread keeps the descriptor."""
        with self._mutex:
            if file.closed:
                return
            file.closed = True
            self._forget(file)
            descriptor, file.descriptor = file.descriptor, -1
            if descriptor >= 0:
                self._ring.pop(file, None)
                self._doomed.append((file, descriptor))
                self.close_doomed()

    def close_doomed(self) -> None:
        """Close the descriptors of closed files that nobody uses any more."""
        with self._mutex:
            doomed, self._doomed = self._doomed, []
            for file, descriptor in doomed:
                if file.pins:
                    self._doomed.append((file, descriptor))
                else:
                    os.close(descriptor)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_dirs(self, path: str) -> None:
        try:
            os.mkdir(path)
        except OSError:
            os.makedirs(path, exist_ok=True)

    def read(self, path: str) -> bytes:
        with open(path, "rb", buffering=0) as file:
            return file.readall()

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        descriptor = os.open(temporary, _OPEN_FLAGS | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            try:
                _write_rest(descriptor, data, 0, 0)
                if sync:
                    _sync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):  # where there was no room, what was written of it must not take more
                os.unlink(temporary)
            raise
        if sync:
            self.sync_dir(os.path.dirname(path) or ".")

    def rename(self, old: str, new: str) -> None:
        """Rename; open files follow, those directly in a renamed directory too (deeper ones do not)."""
        with self._mutex:
            self._keep_descriptor(new)
            os.replace(old, new)
            for file in self._files_at(old):
                self._forget(file)
                file.path = new
                self._register(file)
            for files in self._open.pop(old, {}).values():
                for file in files:
                    file.path = os.path.join(new, os.path.basename(file.path))
                    self._register(file)

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def remove(self, path: str) -> None:
        with self._mutex:
            self._keep_descriptor(path)
        # Not under the lock: a large file takes long, and the loop may want a descriptor. Nobody opens what is removed.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        import shutil  # pulls in every compression module: paid by those who remove trees only

        with self._mutex:
            for open_path in list(self._open.get(path, ())):
                self._keep_descriptor(open_path)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot sync a directory
                raise
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> RealFile | None:
        descriptor = os.open(path, _OPEN_FLAGS | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.ftruncate(descriptor, 0)  # What it says of its holder is of the one before.
        file = self.file_class(self, path, descriptor)
        with self._mutex:
            self._register(file)
        return file

    def _make_room(self) -> None:
        """Take descriptors away until one more fits; pinned files keep theirs, beyond the bound when all are pinned."""
        ring = self._ring
        steps_left = 2 * len(ring)  # the first round takes second chances away, the second finds who had none
        while len(ring) >= self.descriptors_max and steps_left:
            steps_left -= 1
            file, _ = ring.popitem(last=False)
            if file.used:
                file.used = False
                ring[file] = None
                continue
            descriptor, file.descriptor = file.descriptor, -1
            if file.pins:
                file.descriptor = descriptor
                ring[file] = None
            else:
                os.close(descriptor)

    def _keep_descriptor(self, path: str) -> None:
        """The name is about to go: files open under it hold their descriptors from now on."""
        for file in self._files_at(path):
            if file.descriptor < 0:
                file.descriptor = os.open(path, _OPEN_FLAGS)
            else:
                self._ring.pop(file, None)
            self._forget(file)

    def _files_at(self, path: str) -> list[RealFile]:
        return list(self._open.get(os.path.dirname(path), {}).get(path, ()))

    def _register(self, file: RealFile) -> None:
        self._open.setdefault(os.path.dirname(file.path), {}).setdefault(file.path, []).append(file)

    def _forget(self, file: RealFile) -> None:
        directory = os.path.dirname(file.path)
        files = self._open.get(directory, {}).get(file.path, [])
        if file in files:
            files.remove(file)
            if not files:
                del self._open[directory][file.path]
            if not self._open[directory]:
                del self._open[directory]


def _read_rest(descriptor: int, data: bytes, size: int, position: int) -> bytes:
    """A short read is the end of the file, or a system that reads in pieces (2 GiB at most on Linux)."""
    pieces = [data]
    got = len(data)
    while data and got < size:
        data = os.pread(descriptor, size - got, position + got)
        pieces.append(data)
        got += len(data)
    return b"".join(pieces)


def _write_rest(descriptor: int, data: Buffer, written: int, position: int) -> None:
    view = memoryview(data)
    while written < len(view):
        written += os.pwrite(descriptor, view[written:], position + written)


if _DARWIN:

    def _sync(descriptor: int) -> None:
        """On macOS ``fsync`` stops at the drive's cache; Kafka's Java asks for ``F_FULLFSYNC``, and so do we."""
        try:
            fcntl.fcntl(descriptor, 51)  # F_FULLFSYNC, which typeshed knows on macOS only
        except OSError:
            os.fsync(descriptor)

else:

    def _sync(descriptor: int) -> None:
        """The size of a file is synced with its data, its times are not: nobody reads those."""
        os.fdatasync(descriptor)


def _reserve(descriptor: int, size: int) -> None:
    fallocate = _find_fallocate()
    if fallocate is not None:
        fallocate(descriptor, _FALLOC_FL_KEEP_SIZE, 0, size)  # a refusal is no harm: the write itself will tell


_fallocate: list[Callable[[int, int, int, int], int] | None] = []


def _find_fallocate() -> Callable[[int, int, int, int], int] | None:
    """The C library's fallocate (glibc, musl); None where there is none. ctypes is imported at the first use."""
    if not _fallocate:
        function: Callable[[int, int, int, int], int] | None = None
        if sys.platform == "linux":
            import ctypes

            library = ctypes.CDLL(None)
            found = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
            if found is not None:
                found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
                found.restype = ctypes.c_int
                function = found
        _fallocate.append(function)
    return _fallocate[0]
