"""Text to typed value and back, and what a value may be: Kafka's ``ConfigDef`` (parsing, validators, messages).

A value is ``bool``, ``int``, ``float``, ``str``, ``list[str]`` or None. Messages are Kafka's to the letter, because
clients show them and tests of applications match them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from kbroker.config.registry import ConfigType, Key

Value: TypeAlias = "bool | int | float | str | list[str] | None"

NUMBER_LIMITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}
_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(NaN|Infinity|((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?)[fFdD]?)", re.ASCII)
_RANGE = re.compile(r"\[(?P<low>-?[\d.]*\d)?(?:,?\.\.\.)(?:,?(?P<high>-?[\d.]*\d))?\]( or (?P<extra>-?\d+))?")
_THROTTLED_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")
# Java's String.trim takes everything up to the space.
_TRIMMED = "".join(map(chr, range(33)))
_WHITE = " \t\n\v\f\r"
_DIGITS_MAX = 4300
"""Python turns no longer text into a number."""


class ConfigError(ValueError):
    """A value that a key cannot have. ``str()`` of it is Kafka's message."""

    def __init__(self, name: str, value: object, reason: str, *, message: str | None = None) -> None:
        self.name = name
        self.value = value
        self.reason = reason
        super().__init__(message or f"Invalid value {shown(value)} for configuration {name}: {reason}")


def shown(value: object) -> str:
    """A value as Java prints it inside a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, list):
        return "[" + ", ".join(value) + "]"
    return str(value)


def to_text(value: Value) -> str | None:
    """A typed value as DescribeConfigs shows it (``ConfigDef.convertToString``)."""
    if value is None:
        return None
    return ",".join(value) if isinstance(value, list) else shown(value)


def java_double(number: float) -> str:
    """Java's ``Double.toString``."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(float(number))
    from decimal import Decimal

    _, digits, _ = Decimal(repr(number)).normalize().as_tuple()
    exponent = Decimal(repr(number)).adjusted()
    whole, *rest = map(str, digits)
    return f"{'-' if number < 0 else ''}{whole}.{''.join(rest) or '0'}E{exponent}"


def java_split(text: str) -> list[str]:
    """Java's ``text.split(",")``: no text is one empty part, and empty parts at the end fall away."""
    parts = text.split(",")
    while text and parts and not parts[-1]:
        parts.pop()
    return parts


def java_int(text: str) -> int:
    """Java's ``Integer.parseInt``: no spaces, 32 bits. Raises ``ValueError``."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    if number is None or not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"{text!r} is no number of 32 bits")
    return number


def _parts(text: str) -> list[str]:
    return [each.strip(_WHITE) for each in text.split(",")]


def has_duplicates(key: Key, text: str) -> bool:
    """Whether something stands twice in a list of different things; ``convert`` keeps the first, as Kafka does."""
    parts = _parts(text.strip(_TRIMMED))
    return "list" in key.flags and len(dict.fromkeys(parts)) < len(parts)


def parse(key: Key, text: str | None) -> Value:
    """Parse and validate. Raises ``ConfigError``."""
    value = convert(key, text)
    validate(key, value)
    return value


def convert(key: Key, text: str | None) -> Value:
    """Text to the key's type, without a look at what is allowed. Raises ``ConfigError``."""
    if text is None:
        return None
    return _CONVERTERS.get(key.type, _string)(key, text)


def _boolean(key: Key, text: str) -> bool:
    word = text.strip(_TRIMMED).lower()
    if word not in {"true", "false"}:
        raise ConfigError(key.name, text, "Expected value to be either true or false")
    return word == "true"


def _integer(key: Key, text: str) -> int:
    trimmed = text.strip(_TRIMMED)
    if len(trimmed) <= _DIGITS_MAX and _INTEGER.fullmatch(trimmed):
        number = int(trimmed)
        limit = 1 << NUMBER_LIMITS[key.type]
        if -limit <= number < limit:
            return number
    raise ConfigError(key.name, text, f"Not a number of type {key.type.name}")


def _double(key: Key, text: str) -> float:
    trimmed = text.strip(_TRIMMED)
    if not _FLOAT.fullmatch(trimmed):
        raise ConfigError(key.name, text, "Not a number of type DOUBLE")
    return float(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" and "N" not in trimmed else trimmed)


def _list(key: Key, text: str) -> list[str]:
    trimmed = text.strip(_TRIMMED)
    if not trimmed:
        return []
    values = _parts(trimmed)
    # Kafka keeps the first of what stands twice.
    return list(dict.fromkeys(values)) if "list" in key.flags else values


def _string(_key: Key, text: str) -> str:
    return text.strip(_TRIMMED)


def _password(_key: Key, text: str) -> str:
    return text


_CONVERTERS: dict[ConfigType, Callable[[Key, str], Value]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.SHORT: _integer,
    ConfigType.INT: _integer,
    ConfigType.LONG: _integer,
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.PASSWORD: _password,
}


def validate(key: Key, value: Value) -> None:
    """Hold a typed value against what the key allows. Raises ``ConfigError`` with Kafka's message."""
    if isinstance(value, list):
        _validate_list(key, value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _validate_number(key, value)
    elif value is None:
        if key.default is not None and not key.required:
            raise ConfigError(key.name, None, "Value must be non-null")
    elif isinstance(value, str):
        _validate_string(key, value)


def _validate_number(key: Key, value: float) -> None:
    limits = _RANGE.fullmatch(key.valid)
    if limits is None:
        return
    low, high, extra = limits["low"], limits["high"], limits["extra"]
    if extra is not None:
        if value != float(extra) and not float(low) <= value <= float(high):
            reason = f"Value must be between {low} and {high} or equal to {extra}"
            raise ConfigError(key.name, value, reason)
        return
    if low is not None and value < _number(low):
        raise ConfigError(key.name, value, f"Value must be at least {low}")
    if high is not None and value > _number(high):
        raise ConfigError(key.name, value, f"Value must be no more than {high}")


def _number(text: str) -> float:
    # A long has more digits than a double can hold.
    return float(text) if "." in text else int(text)


def allowed_words(key: Key) -> tuple[str, ...]:
    """The words a string or list may hold; none when it may hold any."""
    words = key.valid.removeprefix("(case insensitive) ")
    if words.startswith("[") and words.endswith("]") and "partitionId" not in words and "..." not in words:
        return tuple(words[1:-1].split(", "))
    return ()


def _validate_string(key: Key, value: str) -> None:
    if key.valid == "non-empty string":
        if not value:
            raise ConfigError(key.name, value, "String must be non-empty")
        return
    words = allowed_words(key)
    if not words:
        return
    if key.valid.startswith("(case insensitive)"):
        if value.upper() not in words:
            raise ConfigError(key.name, value, f"String must be one of (case insensitive): {', '.join(words)}")
    elif words[-1].startswith("by_duration:"):
        _validate_offset_reset(key, value)
    elif value not in words:
        raise ConfigError(key.name, value, f"String must be one of: {', '.join(words)}")


def _validate_list(key: Key, values: list[str]) -> None:
    if "partitionId" in key.valid:
        replicas = all(_THROTTLED_REPLICA.fullmatch(value.strip(_TRIMMED)) for value in values)
        if not replicas and "".join(values).strip(_TRIMMED) != "*":
            reason = f"{key.name} must be the literal '*' or a list of replicas in the following format: {key.valid}"
            raise ConfigError(key.name, values, reason)
        return
    words = allowed_words(key)
    if not values and "nonempty" in key.flags:
        valid = f"[{', '.join(words)}]" if words else "any non-empty value"
        reason = f"must not be empty. Valid values include: {valid}"
        raise ConfigError(key.name, "", reason, message=f"Configuration '{key.name}' {reason}")
    for value in values:
        if not value and "list" in key.flags:
            reason = "values must not be empty."
            raise ConfigError(key.name, ",".join(values), reason, message=f"Configuration '{key.name}' {reason}")
        if words and value not in words:
            raise ConfigError(key.name, value, f"String must be one of: {', '.join(words)}")


# The word is taken as it stands, Java's Duration in any case.
_DURATION = re.compile(r"by_duration:(?i:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?)")


def _validate_offset_reset(key: Key, value: str) -> None:
    if value not in {"earliest", "latest"} and not _DURATION.fullmatch(value):
        raise ConfigError(
            key.name,
            value,
            f"Invalid value `{value}` for configuration {key.name}. The value must be either 'earliest', 'latest' or "
            "of the format 'by_duration:<PnDTnHnMn.nS>'.",
        )
