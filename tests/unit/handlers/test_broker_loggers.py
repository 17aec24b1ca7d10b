"""The broker's loggers as a configuration resource: levels set, inherited, refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kbroker.handlers import broker_loggers
from kbroker.kraft.controller.configs import Alteration, Operation
from kbroker.protocol.errors import ApiError, ErrorCode

NAME = "kbroker.tests.some"


@pytest.fixture(autouse=True)
def _levels_as_before() -> Iterator[None]:
    own, some = logging.getLogger("kbroker"), logging.getLogger(NAME)
    before = own.level
    yield
    own.setLevel(before)
    some.setLevel(logging.NOTSET)


def change(name: str, operation: int, value: str | None, *, validate_only: bool = False) -> None:
    broker_loggers.apply([Alteration(name, operation, value)], validate_only=validate_only)


def test_a_level_is_set_inherited_and_unset() -> None:
    change("root", Operation.SET, "DEBUG")
    assert broker_loggers.levels()[NAME] == "DEBUG"
    change(NAME, Operation.SET, "FATAL")
    assert broker_loggers.levels()[NAME] == "FATAL"
    assert broker_loggers.levels()["root"] == "DEBUG"
    change(NAME, Operation.DELETE, None)
    assert broker_loggers.levels()[NAME] == "DEBUG"


def test_the_loggers_of_the_host_process_are_neither_shown_nor_touched() -> None:
    level = logging.getLogger().level
    logging.getLogger("hosts.own")
    change("root", Operation.SET, "TRACE")
    assert logging.getLogger().level == level
    assert "hosts.own" not in broker_loggers.levels()
    with pytest.raises(ApiError, match="does not exist"):
        change("hosts.own", Operation.SET, "INFO")


def test_validation_alone_changes_nothing() -> None:
    change(NAME, Operation.SET, "ERROR", validate_only=True)
    assert logging.getLogger(NAME).level == logging.NOTSET


@pytest.mark.parametrize(
    ("alteration", "code"),
    [
        (Alteration(NAME, Operation.SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        (Alteration("root", Operation.DELETE, None), ErrorCode.INVALID_REQUEST),
        (Alteration("root", Operation.APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (Alteration("root", 9, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_of_the_rest_is_done(alteration: Alteration, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as caught:
        broker_loggers.apply([Alteration(NAME, Operation.SET, "ERROR"), alteration], validate_only=False)
    assert caught.value.code == code
    assert logging.getLogger(NAME).level == logging.NOTSET
