"""One broker for all compatibility tests of a session: kbroker in a process, or the address that is given.

``KBROKER_TEST_BOOTSTRAP=host:port`` runs the same tests against any Kafka, which is how they were proved.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.broker_process import BrokerProcess

KEPT = ("--override", "log.retention.ms=-1")
"""Records of long ago do not go while a test reads them."""
_names = itertools.count()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("KBROKER_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("compat") / "data", *KEPT) as broker:
        yield broker.bootstrap


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of the test's own (not made)."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    return f"{name[:150]}-{os.getpid()}-{next(_names)}"
