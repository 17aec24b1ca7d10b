"""Fixtures of every test. What only one folder needs stands in that folder."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests import toolchains
from tools.reference_kafka import ReferenceKafka

# How long an example takes says more about the machine than about the code.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


# A shell starts what runs in its background with Ctrl-C ignored, and so would be the programs that tests send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def reference() -> Iterator[ReferenceKafka]:
    """A running Apache Kafka of one node, for tests marked ``all``; one for the whole session."""
    toolchains.require("java")
    with ReferenceKafka() as kafka:
        yield kafka
