"""What differs between two transcripts, and which differences are meant."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Any

MISSING = "<absent>"
ANY = object()


@dataclass(frozen=True)
class Difference:
    """One field: where, what Apache Kafka says, what kbroker says."""

    question: str
    path: str
    reference: Any
    kbroker: Any

    def __str__(self) -> str:
        return f"{self.question}: {self.path}\n    Apache Kafka: {self.reference!r}\n    kbroker:      {self.kbroker!r}"


@dataclass(frozen=True)
class Deviation:
    """A difference that is meant: patterns of questions and paths, and the reason.

    ``reference`` limits it to one answer of Apache Kafka or, a frozenset, to those between which it varies.
    """

    question: str
    path: str
    reason: str
    reference: Any = ANY

    def covers(self, difference: Difference) -> bool:
        answers = self.reference if isinstance(self.reference, frozenset) else (self.reference,)
        if self.reference is not ANY and all(each != difference.reference for each in answers):
            return False
        return fnmatch.fnmatchcase(difference.question, self.question) and fnmatch.fnmatchcase(
            difference.path, self.path
        )


def differences(question: str, reference: Any, kbroker: Any, path: str = "") -> list[Difference]:
    """Every leaf at which two plain values differ."""
    if isinstance(reference, dict) and isinstance(kbroker, dict):
        found = []
        for name in [*reference, *(name for name in kbroker if name not in reference)]:
            left, right = reference.get(name, MISSING), kbroker.get(name, MISSING)
            found += differences(question, left, right, f"{path}.{name}" if path else name)
        return found
    if isinstance(reference, list | tuple) and isinstance(kbroker, list | tuple):
        found = []
        for index in range(max(len(reference), len(kbroker))):
            left = reference[index] if index < len(reference) else MISSING
            right = kbroker[index] if index < len(kbroker) else MISSING
            found += differences(question, left, right, f"{path}/{index}")
        return found
    if reference == kbroker and type(reference) is type(kbroker):
        return []
    return [Difference(question, path, reference, kbroker)]


def labelled(transcript: list[tuple[str, Any]]) -> dict[str, Any]:
    """A transcript as a dictionary whose keys number the entries: ``2 Produce``."""
    return {f"{number} {label}": answer for number, (label, answer) in enumerate(transcript)}
