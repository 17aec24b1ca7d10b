"""Generators that the tests run in another process, which imports them from here."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path


def count_to(end: int) -> Generator[int, None, None]:
    yield from range(1, end + 1)


def own_process() -> Generator[tuple[int, int], None, None]:
    print("whatever is printed is no answer")
    yield os.getpid(), os.nice(0)


def fail(error: Exception) -> Generator[int, None, None]:
    yield 1
    raise error


def die() -> Generator[int, None, None]:
    yield 1
    os._exit(3)


def leave_a_trace(path: Path) -> Generator[int, None, None]:
    try:
        yield 1
        yield 2
    finally:
        path.write_text("closed")


class UnspeakableError(Exception):
    """Its arguments do not make it again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def fail_unspeakably() -> Generator[int, None, None]:
    yield 1
    raise UnspeakableError("so", "bad")
