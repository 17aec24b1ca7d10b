"""A broker in this process and the client commands that ask it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from kbroker.testing import Broker
from tests.unit.cli.shell import Shell

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def shell(broker: Broker) -> Shell:
    return Shell(broker.bootstrap_servers)


@pytest.fixture
def topic(shell: Shell) -> str:
    name = f"t{next(_numbers)}"
    shell("topic", "create", name, "--partitions", "2")
    return name
