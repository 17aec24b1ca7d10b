"""Brokers that are killed, stopped and started again within a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.broker_process import BrokerProcess

Start = Callable[[BrokerProcess], BrokerProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a broker that is ended with the test, should it run then: the next test must not meet it."""
    started: list[BrokerProcess] = []

    def start(broker: BrokerProcess) -> BrokerProcess:
        started.append(broker)
        return broker.start()

    yield start
    for broker in started:
        broker.kill()
