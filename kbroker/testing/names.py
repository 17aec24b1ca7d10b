"""Names and numbers that a test gives, held against those that can be: a wrong one is told at once."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")
Topics = Mapping[str, int] | Iterable[str]
"""Topics to be made: names to numbers of partitions, or ``"name"`` and ``"name:partitions"``, several of it."""

_LEGAL_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def check_name(kind: str, given: str, known: Iterable[str]) -> str:
    """``given`` as it is spelled among ``known``, whatever its case. Raises ``ValueError`` with the nearest name."""
    by_folded = {_folded(name): name for name in known}
    folded = _folded(str(given))
    found = by_folded.get(folded)
    if found is not None:
        return found
    nearest = get_close_matches(folded, list(by_folded), n=1, cutoff=0.3)
    hint = f": did you mean {by_folded[nearest[0]]!r}?" if nearest else ""
    raise ValueError(f"there is no {kind} {given!r}{hint}")


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def check_exact(kind: str, given: str, known: Iterable[str]) -> None:
    """The name of a topic or a group, where upper and lower case are two names. Raises ``ValueError``."""
    names = sorted(known)
    if given in names:
        return
    nearest = get_close_matches(str(given), names, n=1, cutoff=0.5)
    if nearest:
        raise ValueError(f"there is no {kind} {given!r}: did you mean {nearest[0]!r}?")
    raise ValueError(f"there is no {kind} {given!r}; there are: {', '.join(names[:20]) or 'none'}")


def check_new_topic(name: object) -> None:
    """A name that a topic may be made with. Raises ``ValueError``."""
    if not isinstance(name, str) or not _LEGAL_TOPIC.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a topic: ASCII letters, digits, '.', '_' and '-' make one")


def check_count(what: str, given: object, least: int) -> None:
    """A whole number that is not too small. Raises ``ValueError``."""
    if not isinstance(given, int) or given < least:
        raise ValueError(f"{what} is a whole number, at least {least} is needed, not {given!r}")


def check_timeout(given: object) -> None:
    """A time-out in seconds: without one, a wait in vain would hang. Raises ``ValueError``."""
    if not isinstance(given, (int, float)):
        raise ValueError(f"a timeout is a number of seconds, not {given!r}")


def check_ms(kind: str, given: object) -> None:
    """A time in milliseconds. Raises ``ValueError``."""
    if not isinstance(given, (int, float)) or given <= 0:
        raise ValueError(f"a {kind} needs ms, more than 0, not {given!r}")


def new_topics(given: Topics | None) -> dict[str, int]:
    """Topics to be made: names to numbers of partitions. Raises ``ValueError``."""
    if isinstance(given, str) or not isinstance(given or (), Iterable):
        raise ValueError(f"topics are given as {{name: partitions}} or as ['name:partitions'], not as {given!r}")
    wanted = given if isinstance(given, Mapping) else dict(map(_named_topic, given or ()))
    for name, partitions in wanted.items():
        check_new_topic(name)
        if not isinstance(partitions, int) or partitions < 1:
            raise ValueError(f"topic {name!r} needs a number of partitions, at least 1, not {partitions!r}")
    return dict(wanted)


def _named_topic(given: str) -> tuple[str, int]:
    """A topic as ``"name"``, ``"name:partitions"`` or, as there is one broker, ``"name:partitions:1"``."""
    name, _, partitions = str(given).removesuffix(":1" if str(given).count(":") > 1 else "").partition(":")
    if not (partitions or "1").isdecimal():
        raise ValueError(f"a topic is given as 'name' or 'name:partitions', not as {given!r}")
    return name.strip(), int(partitions or 1)


def several(what: str, given: Iterable[T]) -> list[T]:
    """The elements of an iterable. Raises ``ValueError`` for what is one thing and would be taken to pieces."""
    if isinstance(given, (str, bytes, bytearray, Mapping)) or not isinstance(given, Iterable):
        raise ValueError(f"{what} takes a list, not {given!r}")
    return list(given)


def served_api(given: str) -> tuple[int, str]:
    """Key and name of an API that the broker serves. Raises ``ValueError``."""
    from kbroker.handlers import SERVED
    from kbroker.protocol.apis import API_BY_KEY

    keys = {API_BY_KEY[key].name: int(key) for key in SERVED}
    name = check_name("served API", given, keys)
    return keys[name], name


def error_code(given: str | int) -> int:
    """The number of one of Kafka's errors, by name or number. Raises ``ValueError``."""
    from kbroker.protocol.errors import ErrorCode

    if isinstance(given, int):
        if given not in {int(each) for each in ErrorCode} - {0}:
            raise ValueError(f"there is no error {given}")
        return int(given)
    return int(ErrorCode[check_name("error", given, [each.name for each in ErrorCode if each])])


def errno_of(name: str) -> int:
    """The number of an operating system's error. Raises ``ValueError``."""
    names = {errno.errorcode[code]: code for code in errno.errorcode}
    return names[check_name("error of the operating system", name, names)]
