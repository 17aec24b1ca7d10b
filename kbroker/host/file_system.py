"""Everything on a file system made durable in one go: Linux's ``syncfs``, where it can be trusted and is worth it.

A file's ``fsync`` costs a commit of the journal and a flush of the drive, a thousand files' a thousand of them; here
all share one. The price is that it waits for what other programs have written to the same file system, too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_OLDEST_KERNEL = (5, 8)
"""Before it ``syncfs`` does not tell of what could not be written."""
_TYPES = frozenset({0xEF53, 0x58465342, 0x9123683E, 0x01021994})
"""ext2, 3 and 4, XFS, btrfs, tmpfs. Not: FUSE, which does not ask its server to sync, overlayfs, which does not tell of
what could not be written, and what nobody has looked at."""
_LINE_OF_BYTES = ("Dirty:", "Writeback:")


def sync_file_system(descriptor: int, others_size_max: int) -> bool:
    """Put everything on the descriptor's file system on stable storage; whether that was done.

    It was not if more than ``others_size_max`` bytes, anybody's, wait to be written; nor if anything written since the
    descriptor was opened is lost: fsyncs tell of which files.
    """
    if sys.platform != "linux" or _kernel() < _OLDEST_KERNEL or unwritten_size() > others_size_max:
        return False
    import ctypes  # paid by those who need it

    library = ctypes.CDLL(None)
    if not (hasattr(library, "syncfs") and hasattr(library, "fstatfs")):
        return False
    found = ctypes.create_string_buffer(512)
    if library.fstatfs(descriptor, found) != 0:
        return False
    kind = int.from_bytes(found.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder)
    return kind in _TYPES and bool(library.syncfs(descriptor) == 0)


def _kernel() -> tuple[int, ...]:
    numbers = os.uname().release.split("-")[0].split(".")[:2]
    return tuple(int(each) for each in numbers if each.isdigit())


def unwritten_size() -> int:
    """How many bytes of all files are in memory only, or on their way; as many as can be where nobody can say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return sys.maxsize
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_LINE_OF_BYTES))
