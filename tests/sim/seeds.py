"""Which seeds a run without seeds takes: they derive from the source, so that a rerun is the same run."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def tree_hash(root: Path = ROOT) -> str:
    """A hash of the broker's and the simulation's source, whatever else lies about. Needs no version control."""
    digest = hashlib.sha256()
    for folder in (root / "kbroker", root / "tests" / "sim"):
        for path in sorted(folder.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def seeds_of(text: str, count: int) -> list[int]:
    """``count`` seeds drawn from a text. The first n of more are the n of fewer."""
    return [int.from_bytes(hashlib.sha256(f"{text}/{number}".encode()).digest()[:4], "big") for number in range(count)]
