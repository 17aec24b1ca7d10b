"""kafka-python leaves the sockets that it lost unclosed, and these tests have it lose many: that is no news here."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

UNCLOSED = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(UNCLOSED))


@pytest.fixture(autouse=True)
def found_here_and_not_in_the_next_test() -> Iterator[None]:
    yield
    gc.collect()
