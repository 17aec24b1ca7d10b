"""A real text to move through a broker: Python's own documentation topics, repeated to 100 000 lines."""

from __future__ import annotations

import itertools
from functools import cache
from pydoc_data import topics

LINE_COUNT = 100_000


@cache
def lines(count: int = LINE_COUNT) -> tuple[bytes, ...]:
    """``count`` lines, each begun with its own number so that a lost, doubled or reordered one is seen."""
    text = "\n".join(topics.topics[name] for name in sorted(topics.topics))
    sentences = [line for line in text.splitlines() if line.strip()]
    return tuple(f"{number:06d} {line}".encode() for number, line in zip(range(count), itertools.cycle(sentences)))
