"""Lines of files and pipes, as they come.

A thread of its own reads them, because nobody can interrupt a read of a terminal or of a pipe that is silent: the
command's loop goes on meanwhile, and when the command ends, the thread is left where it waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from queue import Queue
from typing import BinaryIO, Final

READ_BYTES: Final = 256 * 1024
CHUNKS_MAX: Final = 8
"""Read and not yet taken; then the reader waits."""


async def arriving(files: Sequence[BinaryIO]) -> AsyncIterator[list[bytes]]:
    """The lines, without what ends them, as many as are there; none of them whenever no more is there yet."""
    loop = asyncio.get_running_loop()
    read: Queue[list[bytes] | BaseException | None] = Queue(CHUNKS_MAX)
    news = asyncio.Event()

    def tell(found: list[bytes] | BaseException | None) -> None:
        read.put(found)
        with contextlib.suppress(RuntimeError):  # the command has ended
            loop.call_soon_threadsafe(news.set)

    def work() -> None:
        try:
            for lines in _chunks(files):
                tell(lines)
        except Exception as error:  # noqa: BLE001 (it belongs to the command)
            tell(error)
        else:
            tell(None)

    threading.Thread(target=work, name="lines", daemon=True).start()
    while True:
        if read.empty():
            yield []
        while read.empty():  # news may be of what was taken already
            await news.wait()
            news.clear()
        found = read.get_nowait()
        if found is None:
            return
        if isinstance(found, BaseException):
            raise found
        yield found


def _chunks(files: Sequence[BinaryIO]) -> Iterator[list[bytes]]:
    for file in files:
        parts: list[bytes] = []
        while data := _read(file):
            head, newline, tail = data.rpartition(b"\n")
            if not newline:
                parts.append(data)
                continue
            yield _split(b"".join((*parts, head)))
            parts = [tail]
        rest = b"".join(parts)
        if rest:
            yield _split(rest)


def _split(data: bytes) -> list[bytes]:
    return [line.removesuffix(b"\r") for line in data.split(b"\n")]


def _read(file: BinaryIO) -> bytes:
    """Some bytes as soon as there are some. Not through the file's buffer: its lock would be missed at the exit."""
    try:
        descriptor = file.fileno()
    except OSError:  # no file of the system's
        return file.read(READ_BYTES)
    return os.read(descriptor, READ_BYTES)
