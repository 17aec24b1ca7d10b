"""Temporary folders of test brokers: each is locked by the process that owns it, and goes with it.

A run that was killed leaves its folder unlocked; the next run removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time

PREFIX = "kbroker-test-"
OWNER = "owner.lock"
UNLOCKED_S_MAX = 60
"""A folder without its lock file is one that is being made, unless it is older than this."""

_swept: list[str] = []


class Folder:
    """A temporary folder that is locked until ``remove``."""

    def __init__(self) -> None:
        root = tempfile.gettempdir()
        if root not in _swept:
            _swept.append(root)
            sweep(root)
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        unnamed = f"{self.path}/{OWNER}.new"
        self.descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        os.rename(unnamed, f"{self.path}/{OWNER}")  # locked from the moment that a sweep can find it

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def sweep(root: str) -> list[str]:
    """Remove the folders in ``root`` whose owners are gone; their paths."""
    removed = []
    with os.scandir(root) as entries:
        found = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for path in sorted(found):
        with contextlib.suppress(OSError):
            if _is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
    return removed


def _is_abandoned(path: str) -> bool:
    try:
        descriptor = os.open(f"{path}/{OWNER}", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - os.stat(path).st_mtime > UNLOCKED_S_MAX
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
