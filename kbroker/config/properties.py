"""Java's ``.properties`` files: reading and writing (``java.util.Properties``, whose rules every Kafka file follows).

A logical line may go on after a backslash at its end; ``=``, ``:`` or white space parts key from value; ``\\uXXXX`` and
the usual escapes stand for characters; a line that begins with ``#`` or ``!`` is a comment; the last of a repeated key
wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

BLANKS = " \t\f"
SEPARATORS = "=:"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A key and its value, and the number of the line on which it begins."""

    key: str
    value: str
    line: int


class PropertiesError(ValueError):
    """A file that ``java.util.Properties`` refuses; ``line`` is where."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


def parse_properties(text: str) -> list[Property]:
    """All entries in order, repeated keys too. Raises ``PropertiesError`` for a malformed ``\\uXXXX``."""
    found = []
    for number, line in _logical_lines(text):
        key_end = _end_of_key(line)
        value_start = key_end
        while value_start < len(line) and line[value_start] in BLANKS:
            value_start += 1
        if value_start < len(line) and line[value_start] in SEPARATORS:
            value_start += 1
            while value_start < len(line) and line[value_start] in BLANKS:
                value_start += 1
        found.append(Property(_unescape(line[:key_end], number), _unescape(line[value_start:], number), number))
    return found


def load_properties(text: str) -> dict[str, str]:
    """The entries as a dictionary: the last of a repeated key wins."""
    return {key: value for key, value, _ in parse_properties(text)}


def format_properties(values: Mapping[str, str], comment: str | None = None) -> str:
    """Text that reads back as ``values``, in their order."""
    lines = [f"#{line}" for line in (comment or "").splitlines()]
    lines += [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}" for key, value in values.items()]
    return "".join(f"{line}\n" for line in lines)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    joined = ""
    start = 0
    # str.splitlines would also split at form feeds and at Unicode's separators.
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1):
        line = natural.lstrip(BLANKS)
        if not start:
            if not line or line[0] in "#!":
                continue
            start = number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            continue
        yield start, joined + line
        joined, start = "", 0
    if start:
        yield start, joined


def _end_of_key(line: str) -> int:
    position = 0
    while position < len(line):
        character = line[position]
        if character == "\\":
            position += 2
        elif character in SEPARATORS or character in BLANKS:
            return position
        else:
            position += 1
    return len(line)


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
        elif position < len(text):
            escaped = text[position]
            position += 1
            if escaped == "u":
                digits = text[position : position + 4]
                if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                    raise PropertiesError(line, f"malformed \\uXXXX: \\u{digits}")
                parts.append(chr(int(digits, 16)))
                position += 4
            else:
                parts.append(ESCAPES.get(escaped, escaped))
    # Characters beyond the first 65,536 are written as two surrogates.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, *, is_key: bool) -> str:
    parts = []
    for position, character in enumerate(text):
        if character == " " and (is_key or position == 0):
            parts.append("\\ ")
        elif character in "\\=:#!":
            parts.append(f"\\{character}")
        elif character in "\t\n\r\f":
            parts.append("\\" + {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}[character])
        elif " " <= character <= "~":
            parts.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            parts += [f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2)]
    return "".join(parts)
