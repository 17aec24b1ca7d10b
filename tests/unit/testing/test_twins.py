"""The async face is the sync one, method by method."""

from __future__ import annotations

import inspect

import pytest

from kbroker.testing import AsyncBroker, Broker
from kbroker.testing.aio import AsyncClock
from kbroker.testing.clients import Clients
from kbroker.testing.time_travel import Clock

ONLY_SYNC = {"start", "stop", "aio", "start_over", "submit", "forget_after_fork", "note_requests"}
ONLY_ASYNC = {"call", "run", "wait_fired", "sync"}


def methods(owner: type) -> set[str]:
    return {name for name, value in vars(owner).items() if not name.startswith("_") and callable(value)}


def test_every_method_has_its_twin() -> None:
    missing = methods(Broker) - methods(AsyncBroker) - ONLY_SYNC - methods(Clients)
    surplus = methods(AsyncBroker) - methods(Broker) - ONLY_ASYNC - methods(Clients)
    assert (missing, surplus) == (set(), set())
    assert methods(AsyncClock) == methods(Clock)


@pytest.mark.parametrize("name", sorted(methods(Broker) & methods(AsyncBroker)))
def test_twins_take_the_same_arguments(name: str) -> None:
    sync, twin = getattr(Broker, name), getattr(AsyncBroker, name)
    assert inspect.signature(sync) == inspect.signature(twin)
    assert inspect.iscoroutinefunction(twin)
