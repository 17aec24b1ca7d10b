"""The table of error codes."""

from __future__ import annotations

from kbroker.protocol.error_descriptions import DESCRIPTIONS
from kbroker.protocol.errors import ErrorCode


def test_every_code_says_what_it_means() -> None:
    assert list(DESCRIPTIONS) == [code.name for code in ErrorCode]
    assert ErrorCode.NOT_CONTROLLER.description == "This node is not the active controller."
