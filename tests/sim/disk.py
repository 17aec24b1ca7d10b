"""A disk that forgets: what was not synced may be gone, or half there, after a power loss.

``SimDisk`` is the device; a process sees it through a ``Mount`` (which implements ``kbroker.host.Disk``) that dies with
it.

- ``kill -9`` loses nothing: what was written is in the page cache, which belongs to the kernel.
- ``lose_power`` keeps what was synced. Of a file's later writes it keeps, by seed, nothing, everything, a prefix whose
  last write is torn, or any subset of the dirty sectors (zeros between). Of the later changes of names it keeps a
  prefix.

Names are journalled, as on ext4, xfs and APFS: any sync makes all earlier changes of names durable. With
``strict_names`` only ``sync_dir`` does, and only for its directory, which is all that POSIX promises.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from kbroker.host import Buffer
from tests.sim.process import Killed, Process
from tests.sim.trace import Trace, fingerprint

SECTOR = 512

SPACE = 1 << 40
"""Bytes of a simulated disk; half of them are free."""


class FileNode:
    """A file's content: as the page cache has it, as the platter has it, and the writes between the two."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.stable = b""
        self.dirty: list[tuple[int, bytes] | int] = []  # a write, or the size of a truncation
        self.locked = False
        self.handles: list[SimFile] = []

    def write(self, position: int, data: bytes) -> None:
        _write(self.content, position, data)
        self.dirty.append((position, data))

    def truncate(self, size: int) -> None:
        _truncate(self.content, size)
        self.dirty.append(size)

    def sync(self) -> None:
        if self.dirty:
            self.stable = bytes(self.content)
            self.dirty.clear()

    def lose_power(self, random: Random) -> str:
        """Keep what the seed says. Returns how it went, for the trace."""
        outcome = "synced"
        if self.dirty:
            outcome = random.choice(("nothing", "everything", "prefix", "torn", "sectors"))
            self.content = self._surviving(outcome, random)
        self.stable = bytes(self.content)
        self.dirty.clear()
        self.locked = False
        self.handles.clear()
        return outcome

    def _surviving(self, outcome: str, random: Random) -> bytearray:
        kept = bytearray(self.stable)
        if outcome == "nothing":
            return kept
        if outcome == "everything":
            return self.content
        count = random.randint(0, len(self.dirty))
        if outcome in ("prefix", "torn"):
            for change in self.dirty[:count]:
                _apply(kept, change)
            if outcome == "torn" and count < len(self.dirty):
                change = self.dirty[count]
                if not isinstance(change, int):
                    position, data = change
                    size = random.randint(0, len(data))
                    if random.random() < 0.5:
                        size -= (position + size) % SECTOR  # whole sectors of the file
                    _write(kept, position, data[: max(0, size)])
            return kept
        return self._some_sectors(kept, random)

    def _some_sectors(self, kept: bytearray, random: Random) -> bytearray:
        """The new size made it to the platter; of the dirty sectors, some did.

        What a truncation freed is zeros until it is written again: a journal does not show freed blocks.
        """
        sectors: dict[int, None] = {}
        for change in self.dirty:
            if isinstance(change, int):
                _truncate(kept, min(change, len(kept)))
            else:
                position, data = change
                sectors.update(dict.fromkeys(range(position // SECTOR, (position + len(data) - 1) // SECTOR + 1)))
        _truncate(kept, len(self.content))
        odds = random.random()
        for sector in sectors:
            if random.random() < odds:
                start = sector * SECTOR
                kept[start : start + SECTOR] = self.content[start : start + SECTOR]
        return kept


class DirectoryNode:
    """Names, as the kernel has them and as the platter has them."""

    def __init__(self) -> None:
        self.entries: dict[str, FileNode | DirectoryNode] = {}
        self.stable: dict[str, FileNode | DirectoryNode] = {}


Step = tuple[DirectoryNode, str, FileNode | DirectoryNode | None]


@dataclass
class Fault:
    """An operation that fails: the ``nth`` from now on, and the ``count - 1`` after it."""

    operation: str
    nth: int
    code: int
    count: int = 1


@dataclass
class SimDisk:
    """The device. ``on_blocked(seconds)`` is told how long an operation held its caller."""

    random: Random
    trace: Trace
    strict_names: bool = False
    syncs_together: bool = True
    """Whether it can sync many files in one go."""
    capacity: int | None = None
    on_blocked: Callable[[float], None] = lambda _: None
    slow_s: float = 0.0
    root: DirectoryNode = field(default_factory=DirectoryNode)
    faults: list[Fault] = field(default_factory=list)
    failures: int = 0
    """How many operations have failed, be it for want of room."""
    kill_in: int | None = None  # so many operations from now, the process that asks is killed in the middle of one
    on_kill_due: Callable[[], None] = lambda: None
    _journal: list[list[Step]] = field(default_factory=list)

    def mount(self, process: Process) -> Mount:
        return Mount(self, process)

    def lose_power(self) -> None:
        """What only the page cache had is lost, torn or kept, by seed. Every process must be dead."""
        self._settle_journal()
        for path, node in self._walk(self.root, ""):  # changes the names of a directory before it follows them
            if isinstance(node, DirectoryNode):
                node.entries = dict(node.stable)
            self.trace.record("lost", path, node.lose_power(self.random) if isinstance(node, FileNode) else "names")
        self.trace.record("power", "off")

    def change_names(self, steps: list[Step]) -> None:
        """One atomic change of names, durable at the next sync that covers it."""
        for directory, name, node in steps:
            if node is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = node
        self._journal.append(steps)

    def sync_names(self, directory: DirectoryNode | None) -> None:
        """Make changes of names durable: all (a journal), or those of one directory (``strict_names``)."""
        if self.strict_names and directory is None:
            return
        kept: list[list[Step]] = []
        for steps in self._journal:
            if not self.strict_names or any(step[0] is directory for step in steps):
                _commit(steps)
            else:
                kept.append(steps)
        self._journal = kept

    def check(self, operation: str, path: str) -> None:
        """Raise the ``OSError`` that is planned for this operation, or ``Killed``, if one is."""
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in <= 0:
                self.kill_in = None
                self.trace.record("killed in", operation, path)
                self.on_kill_due()
                raise Killed
        if self.slow_s:
            self.on_blocked(round(self.random.uniform(0, self.slow_s), 6))
        for fault in self.faults:
            if fault.operation == operation:
                fault.nth -= 1
                if fault.nth < 0 and fault.count > 0:
                    fault.count -= 1
                    self.failures += 1
                    self.trace.record("fault", operation, errno.errorcode[fault.code])
                    raise OSError(fault.code, os.strerror(fault.code), path)

    def room_for(self, node: FileNode, end: int) -> int:
        """How far a write that wants to end at ``end`` may go."""
        if self.capacity is None or end <= len(node.content):
            return end
        return max(len(node.content), min(end, len(node.content) + self.capacity - self.used()))

    def used(self) -> int:
        """The bytes of all files."""
        return sum(len(file.content) for file in self.files())

    def files(self) -> Iterator[FileNode]:
        """Every file, by path."""
        return (file for _, file in self._walk(self.root, "") if isinstance(file, FileNode))

    def _settle_journal(self) -> None:
        """Power loss: a prefix of the changes made it (with ``strict_names``, a prefix in each directory)."""
        if not self.strict_names:
            for steps in self._journal[: self.random.randint(0, len(self._journal))]:
                _commit(steps)
        else:
            cut_off: list[DirectoryNode] = []
            for steps in self._journal:
                directories = [step[0] for step in steps]
                if self.random.random() < 0.5 or any(one is other for one in directories for other in cut_off):
                    cut_off.extend(directories)
                else:
                    _commit(steps)
        self._journal = []

    def _walk(self, node: DirectoryNode, path: str) -> Iterator[tuple[str, FileNode | DirectoryNode]]:
        """Every node; a directory before what is in it, so that its names may be changed before they are followed."""
        yield path, node
        for name, child in sorted(node.entries.items()):
            if isinstance(child, DirectoryNode):
                yield from self._walk(child, f"{path}/{name}")
            else:
                yield f"{path}/{name}", child


class SimFile:
    """An open file of a mount."""

    def __init__(self, mount: Mount, path: str, node: FileNode, *, holds_lock: bool = False) -> None:
        self.path = path
        self.node = node
        self._mount = mount
        self._holds_lock = holds_lock
        self._closed = False
        node.handles.append(self)

    def size(self) -> int:
        self._enter("size")
        return len(self.node.content)

    def pread(self, size: int, position: int) -> bytes:
        self._enter("pread")
        return bytes(self.node.content[position : position + size])

    def pwrite(self, data: Buffer, position: int) -> None:
        whole = bytes(data)
        try:
            disk = self._enter("pwrite")
        except Killed:
            self.node.write(position, whole[: self._mount.draw_part(len(whole))])
            raise
        fits = disk.room_for(self.node, position + len(whole)) - position
        disk.trace.record("pwrite", self.path, position, fingerprint(whole))
        if fits > 0:
            self.node.write(position, whole[:fits])
        if fits < len(whole):
            disk.failures += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def truncate(self, size: int) -> None:
        self._enter("truncate").trace.record("truncate", self.path, size)
        self.node.truncate(size)

    def reserve(self, size: int) -> None:  # noqa: ARG002 # the protocol's signature; there is nothing to reserve
        self._enter("reserve")

    def sync(self) -> None:
        disk = self._enter("sync")
        disk.trace.record("sync", self.path)
        self.node.sync()
        disk.sync_names(None)

    def sync_together(self, directories: Sequence[str]) -> bool:
        try:
            disk = self._enter("sync_together")
        except OSError:
            return False
        if disk.syncs_together:
            disk.trace.record("sync_together", *directories)
            self._mount.sync_together(directories)
        return disk.syncs_together

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self in self.node.handles:
                self.node.handles.remove(self)
            if self._holds_lock:
                self.node.locked = False

    def _enter(self, operation: str) -> SimDisk:
        if self._closed:
            raise OSError(errno.EBADF, "the file was closed", self.path)
        return self._mount.enter(operation, self.path)


class Mount:
    """The disk as one process sees it, until it dies."""

    def __init__(self, disk: SimDisk, process: Process) -> None:
        self._disk = disk
        self._process = process
        self._locks: list[SimFile] = []
        process.on_kill(self._let_go)

    def enter(self, operation: str, path: str) -> SimDisk:
        if not self._process.alive:
            raise OSError(errno.EIO, "a dead process touches the disk", path)
        self._disk.check(operation, path)
        return self._disk

    def draw_part(self, size: int) -> int:
        """How much of a write was done when its process was killed."""
        return self._disk.random.choice((0, size, self._disk.random.randint(0, size)))

    def open(self, path: str, *, create: bool = False) -> SimFile:
        disk = self.enter("open", path)
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if isinstance(node, DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is None:
            if not create:
                raise _not_found(path)
            node = FileNode()
            disk.trace.record("create", path)
            disk.change_names([(directory, name, node)])
        return SimFile(self, path, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), DirectoryNode)

    def absolute(self, path: str) -> str:
        return path

    def space(self, path: str) -> tuple[int, int]:
        self.enter("space", path)
        self._directory(path)
        return SPACE, SPACE // 2

    def list_dir(self, path: str) -> list[str]:
        self.enter("list_dir", path)
        return sorted(self._directory(path).entries)

    def make_dirs(self, path: str) -> None:
        disk = self.enter("make_dirs", path)
        directory = disk.root
        for name in _parts(path):
            child = directory.entries.get(name)
            if child is None:
                child = DirectoryNode()
                disk.trace.record("make_dir", path)
                disk.change_names([(directory, name, child)])
            if not isinstance(child, DirectoryNode):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            directory = child

    def read(self, path: str) -> bytes:
        self.enter("read", path)
        return bytes(self._file(path).content)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = self.open(path + ".tmp", create=True)
        try:
            temporary.truncate(0)
            temporary.pwrite(data, 0)
            if sync:
                temporary.sync()
            temporary.close()
            self.rename(path + ".tmp", path)
        except OSError:
            with contextlib.suppress(OSError):
                self.remove(path + ".tmp")
            raise
        if sync:
            self.sync_dir(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        disk = self.enter("rename", old)
        from_directory, from_name = self._parent(old)
        to_directory, to_name = self._parent(new)
        node = from_directory.entries.get(from_name)
        if node is None:
            raise _not_found(old)
        in_the_way = to_directory.entries.get(to_name)
        if isinstance(in_the_way, DirectoryNode) and in_the_way.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new)
        disk.trace.record("rename", old, new)
        disk.change_names([(from_directory, from_name, None), (to_directory, to_name, node)])
        _rename_handles(node, new)

    def remove(self, path: str) -> None:
        disk = self.enter("remove", path)
        node = self._find(path)
        if isinstance(node, DirectoryNode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node is not None:
            disk.trace.record("remove", path)
            directory, name = self._parent(path)
            disk.change_names([(directory, name, None)])

    def remove_tree(self, path: str) -> None:
        disk = self.enter("remove_tree", path)
        node = self._find(path)
        if isinstance(node, DirectoryNode):
            for name, child in sorted(node.entries.items()):
                if isinstance(child, DirectoryNode):
                    self.remove_tree(f"{path}/{name}")
                else:
                    self.remove(f"{path}/{name}")
            disk.trace.record("remove_dir", path)
            directory, name = self._parent(path)
            disk.change_names([(directory, name, None)])

    def sync_dir(self, path: str) -> None:
        disk = self.enter("sync_dir", path)
        disk.trace.record("sync_dir", path)
        disk.sync_names(self._directory(path))

    def sync_together(self, directories: Sequence[str]) -> None:
        """No more than what is asked for, although a real disk would."""
        for path in directories:
            directory = self._directory(path)
            for node in directory.entries.values():
                if isinstance(node, FileNode):
                    node.sync()
            for named in (directory, self._directory(os.path.dirname(path))):
                self._disk.sync_names(named)

    def lock(self, path: str) -> SimFile | None:
        file = self.open(path, create=True)
        node = file.node
        file.close()
        if node.locked:
            return None
        node.locked = True
        lock = SimFile(self, path, node, holds_lock=True)
        self._locks.append(lock)
        return lock

    def _let_go(self) -> None:
        for lock in self._locks:
            lock.close()

    def _find(self, path: str) -> FileNode | DirectoryNode | None:
        node: FileNode | DirectoryNode | None = self._disk.root
        for name in _parts(path):
            if not isinstance(node, DirectoryNode):
                return None
            node = node.entries.get(name)
        return node

    def _file(self, path: str) -> FileNode:
        node = self._find(path)
        if isinstance(node, FileNode):
            return node
        raise _not_found(path)

    def _directory(self, path: str) -> DirectoryNode:
        node = self._find(path)
        if isinstance(node, DirectoryNode):
            return node
        raise _not_found(path)

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        return self._directory(os.path.dirname(path)), os.path.basename(path)


def _parts(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _not_found(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _commit(steps: list[Step]) -> None:
    for directory, name, node in steps:
        if node is None:
            directory.stable.pop(name, None)
        else:
            directory.stable[name] = node


def _rename_handles(node: FileNode | DirectoryNode, path: str) -> None:
    if isinstance(node, FileNode):
        for handle in node.handles:
            handle.path = path
    else:
        for name, child in node.entries.items():
            _rename_handles(child, f"{path}/{name}")


def _write(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _truncate(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _apply(content: bytearray, change: tuple[int, bytes] | int) -> None:
    if isinstance(change, int):
        _truncate(content, change)
    else:
        _write(content, *change)
