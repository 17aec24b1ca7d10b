"""The levels of this process's loggers as a configuration resource (KIP-412), for DescribeConfigs and its sisters.

``root`` is kbroker's own topmost logger: an in-process broker leaves its host's loggers alone. Levels are not written
to the metadata log and end with the process. Rules and texts are those of Kafka's ``RuntimeLoggerManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kbroker.kraft.controller.configs import Alteration, Operation
from kbroker.protocol.errors import ApiError, ErrorCode

ROOT: Final = "root"
_OWN: Final = "kbroker"
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_VALID: Final = ", ".join(sorted(LEVELS))


def levels() -> dict[str, str]:
    """Every logger with its effective level."""
    return {name: _shown(_logger(name).getEffectiveLevel()) for name in (ROOT, *_names())}


def apply(alterations: Sequence[Alteration], *, validate_only: bool) -> None:
    """Set or unset levels, all or none. Raises ``ApiError``: INVALID_CONFIG or INVALID_REQUEST."""
    for each in alterations:
        _check(each)
    if validate_only:
        return
    for each in alterations:
        level = LEVELS[each.value] if each.operation == Operation.SET and each.value else logging.NOTSET
        _logger(each.name).setLevel(level)


def _check(alteration: Alteration) -> None:
    name, operation = alteration.name, alteration.operation
    if operation in (Operation.APPEND, Operation.SUBTRACT):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{Operation(operation).name} operation is not allowed for the BROKER_LOGGER resource",
        )
    if operation not in (Operation.SET, Operation.DELETE):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource",
        )
    if name != ROOT and name not in _names():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == Operation.SET and alteration.value not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {alteration.value} as it is not a supported log level. "
            f"Valid log levels are {_VALID}",
        )
    if operation == Operation.DELETE and name == ROOT:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")


def _names() -> list[str]:
    known = logging.root.manager.loggerDict
    return sorted(name for name, logger in known.items() if name.startswith(f"{_OWN}.") and not _is_gap(logger))


def _is_gap(logger: object) -> bool:
    return not isinstance(logger, logging.Logger)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(_OWN if name == ROOT else name)


def _shown(level: int) -> str:
    """The name of the level; of one between two, the finer."""
    return next((name for name, number in reversed(LEVELS.items()) if number <= level), "TRACE")
