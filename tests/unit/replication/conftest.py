"""Fixtures of the data path's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.replication.one_node import OneNode


@pytest.fixture
def node() -> Iterator[OneNode]:
    node = OneNode()
    yield node
    node.close()
